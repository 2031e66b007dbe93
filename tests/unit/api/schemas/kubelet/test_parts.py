"""Objects within the kubelet's configuration: a field that the kubelet does not know is an error."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import ApiModel, examined
from core.api.schemas.kubelet import parts
from core.api.schemas.kubelet.parts import Authentication, Authorization, Logging, ReservedMemory

EVERY = [found for found in vars(parts).values() if isinstance(found, type) and issubclass(found, parts.KubeletPart)]


@pytest.mark.parametrize("model", EVERY, ids=lambda model: model.__name__)
def test_every_field_may_be_left_out_and_an_unknown_one_is_named(model: type[ApiModel]) -> None:
    assert examined(model, {})[1] == []
    assert examined(model, {"typo": 1})[1] == [(("typo",), "there is no such field")]


@pytest.mark.parametrize(
    ("model", "written", "faults"),
    [
        (Authentication, {"webhook": {"cacheTTL": "2m"}, "x509": {"clientCAFile": "/ca"}}, []),
        (Authentication, {"webhook": {"cacheTTL": "2"}}, [("webhook", "cacheTTL")]),
        (Authorization, {"webhook": {"cacheAuthorizedTTL": "5m"}}, []),
        (Logging, {"options": {"json": {"infoBufferSize": "64Ki"}}, "vmodule": [{"verbosity": 3}]}, []),
        (Logging, {"options": {"json": {"splitStream": "yes"}}}, [("options", "json", "splitStream")]),
        (ReservedMemory, {"limits": {"memory": "1Gi"}, "numaNode": 0}, []),
        (ReservedMemory, {"limits": {"memory": "much"}}, [("limits", "memory")]),
    ],
)
def test_parts_have_the_kubelets_names(model: type[ApiModel], written: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(model, written)[1]] == faults
