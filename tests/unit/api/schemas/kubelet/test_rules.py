"""Rules of `spec.kubelet`: thresholds, reservations, and what an AMI family can pass on."""

from __future__ import annotations

import pytest

from core.ami_families.registry import FAMILIES
from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import examined
from core.api.schemas.kubelet.rules import KubeletConfiguration, unsupported

MEMORY = "memory.available"


@pytest.mark.parametrize(
    ("kubelet", "faults"),
    [
        ({"evictionHard": {MEMORY: "5%"}}, []),
        ({"evictionHard": {MEMORY: "100Mi"}}, []),
        ({"evictionHard": {MEMORY: "101%"}}, [("evictionHard", MEMORY)]),
        ({"evictionHard": {MEMORY: "-1Mi"}}, [("evictionHard", MEMORY)]),
        ({"evictionHard": {"cpu.available": "5%"}}, [("evictionHard", "cpu.available")]),
        ({"evictionSoft": {MEMORY: "5%"}, "evictionSoftGracePeriod": {MEMORY: "1m"}}, []),
        ({"evictionSoft": {MEMORY: "5%"}}, [("evictionSoft", MEMORY)]),
        ({"evictionSoftGracePeriod": {MEMORY: "1m"}}, [("evictionSoftGracePeriod", MEMORY)]),
        ({"kubeReserved": {"cpu": "100m", "pid": "10"}}, []),
        ({"kubeReserved": {"pods": "1"}}, [("kubeReserved", "pods")]),
        ({"systemReserved": {"cpu": "-1"}}, [("systemReserved", "cpu")]),
        ({"maxPods": -1}, [("maxPods",)]),
        ({"maxPods": "cpus * 10"}, []),
        ({"imageGCHighThresholdPercent": 101}, [("imageGCHighThresholdPercent",)]),
        (
            {"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80},
            [("imageGCHighThresholdPercent",)],
        ),
        ({"registerWithTaints": []}, [("registerWithTaints",)]),
    ],
)
def test_faults_are_named_by_field(kubelet: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(KubeletConfiguration, kubelet)[1]] == faults


@pytest.mark.parametrize(
    ("family", "kubelet", "fields"),
    [
        ("AL2023", {"maxPods": 1, "cpuManagerPolicy": "static"}, []),
        ("AL2", {"maxPods": 1, "cpuManagerPolicy": "static"}, [("cpuManagerPolicy",)]),
        ("AL2", {"clusterDNS": ["10.0.0.10"]}, []),
        ("AL2", {"clusterDNS": ["10.0.0.10", "10.0.0.11"]}, [("clusterDNS",)]),
    ],
)
def test_a_family_says_what_it_cannot_pass_on(family: str, kubelet: JsonObject, fields: list[Location]) -> None:
    """A field that is lost on the way leaves a node with other limits than the plan assumed."""
    assert list(unsupported(kubelet, FAMILIES[family])) == fields
