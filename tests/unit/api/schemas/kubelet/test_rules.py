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


@pytest.mark.parametrize(
    ("text", "is_threshold"),
    [
        ("0%", True), ("5%", True), ("1.5%", True), ("100%", True), ("100.1%", False), ("101%", False), ("%", False),
        ("x%", False), ("-5%", False), ("0", True), ("0Mi", True), ("100Mi", True), ("-0", False), ("-1Mi", False),
        (" 5", False), ("5 ", False), ("", False), ("x", False),
    ],
)  # fmt: skip
def test_a_threshold_is_a_quantity_or_at_most_a_hundred_percent(text: str, *, is_threshold: bool) -> None:
    found = [location for location, _ in examined(KubeletConfiguration, {"evictionHard": {MEMORY: text}})[1]]
    assert (found == []) is is_threshold


@pytest.mark.parametrize(
    ("high", "low", "is_right"),
    [
        (None, None, True), (0, None, True), (100, None, True), (-1, None, False), (101, None, False), (None, 0, True),
        (None, 100, True), (None, -1, False), (None, 101, False), (80, 79, True), (80, 80, False), (80, 81, False),
    ],
)  # fmt: skip
def test_thresholds_of_images_are_percentages_the_high_one_above_the_low_one(
    high: int | None, low: int | None, *, is_right: bool
) -> None:
    given = {"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low}
    kubelet = {name: value for name, value in given.items() if value is not None}
    assert (not examined(KubeletConfiguration, kubelet)[1]) is is_right


@pytest.mark.parametrize("name", ["maxPods", "podsPerCore"])
def test_a_count_may_be_none_and_no_less(name: str) -> None:
    assert not examined(KubeletConfiguration, {name: 0})[1]
    assert not examined(KubeletConfiguration, {name: 2**31 - 1})[1]
    assert [location for location, _ in examined(KubeletConfiguration, {name: -1})[1]] == [(name,)]
    assert [location for location, _ in examined(KubeletConfiguration, {name: 2**31})[1]] == [(name,)]


@pytest.mark.parametrize(("span", "is_right"), [("0s", True), ("1m30s", True), ("-1s", False), ("soon", False)])
def test_a_grace_period_is_a_duration_of_zero_or_more(span: str, *, is_right: bool) -> None:
    kubelet = {"evictionSoft": {MEMORY: "5%"}, "evictionSoftGracePeriod": {MEMORY: span}}
    assert (not examined(KubeletConfiguration, kubelet)[1]) is is_right
