"""All fields of the kubelet's configuration, in its own spelling."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.kubelet.fields import KubeletFields

WRITTEN = {field.alias or name for name, field in KubeletFields.model_fields.items()}


@pytest.mark.parametrize(
    "name",
    [
        "clusterDNS",
        "cpuCFSQuota",
        "imageGCHighThresholdPercent",
        "kubeAPIQPS",
        "kubeAPIBurst",
        "oomScoreAdj",
        "podCIDR",
        "providerID",
        "qosReserved",
        "tlsCertFile",
        "failCgroupV1",
        "makeIPTablesUtilChains",
        "eventRecordQPS",
    ],
)
def test_acronyms_are_spelled_as_the_kubelet_spells_them(name: str) -> None:
    """The kubelet refuses a file with a field that it does not know, and its node never joins."""
    assert name in WRITTEN


@pytest.mark.parametrize(
    ("kubelet", "faults"),
    [
        ({}, []),
        ({"maxPods": 110, "clusterDNS": ["10.0.0.10"], "systemReserved": {"cpu": "100m"}}, []),
        ({"maxPod": 110}, [("maxPod",)]),
        ({"clusterDNS": "10.0.0.10"}, [("clusterDNS",)]),
        ({"podsPerCore": "2"}, [("podsPerCore",)]),
        ({"featureGates": {"A": "true"}}, [("featureGates", "A")]),
        ({"shutdownGracePeriod": "soon"}, [("shutdownGracePeriod",)]),
        ({"evictionHard": {"memory.available": 5}}, [("evictionHard", "memory.available")]),
    ],
)
def test_faults_are_named_by_field(kubelet: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(KubeletFields, kubelet)[1]] == faults


def test_a_field_that_is_not_written_is_not_passed_on() -> None:
    read, _ = examined(KubeletFields, {"maxPods": 7})
    assert read is not None
    assert read.model_dump(by_alias=True, exclude_none=True) == {"maxPods": 7}
