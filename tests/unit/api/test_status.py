"""What metadata and status of our objects say."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.api.older_versions import as_v1
from core.api.status import (
    Location,
    Problem,
    annotations_of,
    conditions,
    identified,
    identity,
    is_ready,
    is_stale,
    labels_of,
    moment,
    path_of,
    readiness,
    written_defaults,
)
from core.model.plan import Condition

# A problem names its object and the path of its field.


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ((), ""),
        (("spec", "taints", 0, "key"), "spec.taints[0].key"),
        (("labels", "example.com/team"), "labels[example.com/team]"),
        (("labels", ""), "labels[]"),
        ((2, "key"), "[2].key"),
    ],
)
def test_a_path_is_written_as_kubectl_writes_it(location: Location, path: str) -> None:
    assert path_of(location) == path


def test_a_problem_is_one_line_and_problems_are_ordered_by_object() -> None:
    first, second = (
        Problem("NodePool", "a", "spec.weight", "is no number"),
        Problem("NodePool", "b", "spec", "is required"),
    )
    assert str(first) == "NodePool a: spec.weight: is no number"
    assert sorted([second, first]) == [first, second]


@pytest.mark.parametrize(
    ("status", "usable", "known"),
    [("True", True, True), ("False", False, False), ("Unknown", False, None), (None, False, False)],
)
def test_ready_is_true_false_or_not_known(status: str | None, usable: bool, known: bool | None) -> None:
    """A class whose status is not known yet is waited for; one that is not ready launches nothing."""
    obj = {"status": {"conditions": [{"type": "Other", "status": "True"}, {"type": "Ready", "status": status}]}}
    assert (is_ready(obj), readiness(obj)) == (usable, known)


@pytest.mark.parametrize("obj", [{}, {"status": None}, {"status": {"conditions": [{"type": "Other"}]}}])
def test_an_object_without_the_condition_is_not_known_to_be_ready(obj: dict[str, Any]) -> None:
    """The command line treats it as ready, a status says that it is waited for."""
    assert (is_ready(obj), readiness(obj)) == (None, None)


@pytest.mark.parametrize(
    ("generation", "observed", "stale"), [(2, 1, True), (2, 2, False), (None, 1, False), (2, None, False)]
)
def test_a_status_of_an_older_generation_is_stale(generation: int | None, observed: int | None, stale: bool) -> None:
    """A class that was edited is launched from only once its new status is there."""
    ready = {"type": "Ready", "status": "True", "observedGeneration": observed}
    assert is_stale({"metadata": {"generation": generation}, "status": {"conditions": [ready]}}) == stale


AT = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-20T01:02:03Z", AT),
        ("2026-11-20T01:02:03", AT),
        ("2026-11-20T03:02:03+02:00", AT),
        ("2026-11-19T17:02:03-08:00", AT),
        ("", None),
        ("soon", None),
        (None, None),
        (5, None),
        (["2026-11-20T01:02:03Z"], None),
        (AT, None),
    ],
)
def test_a_moment_is_in_utc_and_anything_else_is_none(written: object, read: datetime | None) -> None:
    found = moment(written)
    assert (found, found and found.utcoffset()) == (read, read and timedelta(0))


def test_an_object_is_read_whole() -> None:
    metadata = {
        "name": "a",
        "uid": "u",
        "creationTimestamp": "2026-11-20T01:02:03Z",
        "deletionTimestamp": "2026-11-20T01:02:04Z",
        "labels": {"l": 1},
        "annotations": {"karpenter.sh/n": True, "example.com/n": "no decision reads it"},
    }
    obj = {"metadata": metadata}
    later = AT + timedelta(seconds=1)
    assert identity(obj) == {"name": "a", "uid": "u", "created_at": AT, "deleted_at": later}
    assert (labels_of(obj), annotations_of(obj)) == ({"l": "1"}, {"karpenter.sh/n": "True"})


@pytest.mark.parametrize("metadata", [None, {}, {"name": None, "uid": None, "labels": None, "annotations": []}, "x"])
def test_an_object_without_metadata_has_no_name_and_no_age(metadata: object) -> None:
    """Others may write it, too."""
    obj = {"metadata": metadata}
    assert identity(obj) == {"name": "", "uid": "", "created_at": None, "deleted_at": None}
    assert (labels_of(obj), annotations_of(obj)) == ({}, {})


STRAY = [7, "type", None, ["type"], {"status": "True"}, {"observedGeneration": 1}]


def test_conditions_are_read_whole_and_what_is_none_is_left_out() -> None:
    full = {
        "type": "Ready",
        "status": "False",
        "reason": "R",
        "message": "why",
        "lastTransitionTime": "2026-11-20T01:02:03Z",
    }
    obj = {"status": {"conditions": [*STRAY, full, {"type": "Other"}]}}
    assert conditions(obj) == {"Ready": Condition("False", "R", "why", AT), "Other": Condition("Unknown", "", "", None)}


def test_entries_that_are_no_conditions_leave_a_status_current() -> None:
    ready = {"type": "Ready", "observedGeneration": 1}
    other = {"type": "Other", "observedGeneration": 0}

    def stale(*entries: object) -> bool:
        return is_stale({"metadata": {"generation": 2}, "status": {"conditions": list(entries)}})

    assert stale(*STRAY, ready)
    assert stale(other, ready)
    assert not stale(*STRAY, other)


def test_only_resolved_objects_with_an_id_count() -> None:
    assert identified([{"id": "a"}, {"id": ""}, {}, "id", None, {"id": "b", "zone": "z"}]) == [
        {"id": "a"},
        {"id": "b", "zone": "z"},
    ]
    assert identified({"id": "a"}) == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-22T05:31:00Z", datetime(2026, 11, 22, 5, 31, tzinfo=UTC)),
        ("2026-11-22T05:31:00", datetime(2026, 11, 22, 5, 31, tzinfo=UTC)),
        ("2026-11-22T05:31:00+02:00", datetime(2026, 11, 22, 3, 31, tzinfo=UTC)),
        ("", None),
        ("yesterday", None),
        (5, None),
    ],
)
def test_a_moment_without_a_zone_is_in_utc(written: object, read: datetime | None) -> None:
    """Whatever the zone of the machine that reads it."""
    found = moment(written)
    assert found == read
    assert found is None or found.tzinfo is UTC


def test_the_zone_of_the_machine_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment("2026-11-22T05:31:00") == datetime(2026, 11, 22, 5, 31, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


# What conversion writes that the older object did not say.


def older(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def defaults_of(old: dict[str, Any]) -> list[str]:
    return written_defaults(old, as_v1(old))


TEMPLATE = {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}}


def test_a_node_pool_states_expiry_and_consolidation() -> None:
    """All three were applied by the API server, and are in no file."""
    assert defaults_of(older("karpenter.sh/v1beta1", "NodePool", template=TEMPLATE)) == [
        "spec.template.spec.expireAfter: 720h",
        "spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized",
        "spec.disruption.consolidateAfter: 0s",
    ]


def test_a_provisioner_states_what_its_webhook_added() -> None:
    own = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    assert defaults_of(
        older("karpenter.sh/v1alpha5", "Provisioner", requirements=[own, None], ttlSecondsAfterEmpty=30)
    ) == [
        "spec.template.spec.expireAfter: Never",
        "spec.template.spec.requirements: kubernetes.io/os In [linux]",
        "spec.template.spec.requirements: karpenter.sh/capacity-type In [on-demand]",
        "spec.template.spec.requirements: karpenter.k8s.aws/instance-category In [c, m, r]",
        "spec.template.spec.requirements: karpenter.k8s.aws/instance-generation Gt [2]",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["spec.amiSelectorTerms: [alias al2@latest]"]),
        ({"amiSelectorTerms": [{"id": "ami-1"}]}, ["spec.amiFamily: Custom"]),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]}, []),
    ],
)
def test_a_node_class_states_images_and_metadata_options(spec: dict[str, Any], expected: list[str]) -> None:
    options = {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1}
    old = older("karpenter.k8s.aws/v1beta1", "EC2NodeClass", metadataOptions=options, **spec)
    assert defaults_of(old) == [*expected, "spec.metadataOptions.httpTokens: required"]


def test_an_object_that_says_everything_has_none() -> None:
    spec = {"expireAfter": "24h", "consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"}
    assert defaults_of(older("karpenter.sh/v1beta1", "NodePool", template=TEMPLATE, disruption=spec)) == []
