"""Rules of `spec.kubelet`: thresholds, reservations, and what an AMI family can pass on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from core.ami_families.registry import FAMILIES
from core.api.objects import JsonObject
from core.api.schemas import kubelet
from core.api.schemas.fields import ApiModel, examined
from core.api.schemas.kubelet import (
    Authentication,
    Authorization,
    CountOrExpression,
    FlushFrequency,
    GoDuration,
    Int32,
    KubeletConfiguration,
    KubeletFields,
    Logging,
    ReservedMemory,
    unsupported,
)
from core.api.status import Location

# All fields of the kubelet's configuration, in its own spelling.


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


# Objects within the kubelet's configuration: a field that the kubelet does not know is an error.


EVERY = [
    found for found in vars(kubelet).values() if isinstance(found, type) and issubclass(found, kubelet.KubeletPart)
]


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
def test_rules_faults_are_named_by_field(kubelet: JsonObject, faults: list[Location]) -> None:
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


# Values that only the kubelet's configuration has.


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (GoDuration, "90s"),
        (GoDuration, "1h30m"),
        (GoDuration, "1.5s"),
        (FlushFrequency, "5s"),
        (FlushFrequency, 5_000_000_000),
        (CountOrExpression, 110),
        (CountOrExpression, "cpus * 10"),
        (Int32, -(2**31)),
    ],
)
def test_a_value_is_kept_as_it_is_written(kind: Any, value: object) -> None:
    assert TypeAdapter(kind).validate_python(value, strict=True) == value


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (GoDuration, "90", "'90' is not a duration such as 90s or 1h30m"),
        (GoDuration, 90, "90 is not a duration"),
        (FlushFrequency, True, "True is not a duration"),
        (FlushFrequency, 2**63, "is not a duration"),
        (CountOrExpression, True, "must be a whole number or an expression"),
        (CountOrExpression, 1.5, "must be a whole number or an expression"),
        (CountOrExpression, 2**31, "must be at most 2147483647"),
        (Int32, 2**31, "less than or equal to 2147483647"),
    ],
)
def test_another_value_is_refused(kind: Any, value: object, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        TypeAdapter(kind).validate_python(value, strict=True)
