"""An object has a name, or a prefix from which the API server makes one."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.metadata import Metadata


@pytest.mark.parametrize(
    ("metadata", "faults"),
    [
        ({"name": "a.b-c"}, []),
        ({"generateName": "a-"}, []),
        ({}, [("name",)]),
        ({"name": ""}, [("name",)]),
        ({"name": "Upper"}, [("name",)]),
        ({"name": "a" * 254}, [("name",)]),
        ({"name": 7}, [("name",)]),
        ({"name": "a", "labels": {"b": 1}}, [("labels", "b")]),
        ({"name": "a", "annotations": []}, [("annotations",)]),
    ],
)
def test_faults_are_named_by_field(metadata: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(Metadata, metadata)[1]] == faults
