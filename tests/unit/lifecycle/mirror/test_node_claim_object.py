"""Claims as NodeClaim objects."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from core import labels
from core.api.translation import node_claim
from core.api.validation import problems
from core.lifecycle.mirror.node_claim_object import Mirrored, is_mirror, mirrored, new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.model.node_claim import INITIALIZED, READY, Condition
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_leaving, a_plan, a_record


def written(record: ClaimRecord) -> dict[str, Any]:
    found = mirrored(record)
    status = {**found.status, "conditions": found.written_conditions()}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **new_object(record), "status": status}


def statuses(record: ClaimRecord) -> dict[str, str]:
    return {kind: found.status for kind, found in mirrored(record).conditions.items()}


def test_the_object_is_valid_and_reads_back_as_planned() -> None:
    """Otherwise, the API server refuses it, or files with our NodeClaims give another plan than the cluster."""
    plan = a_plan(
        requirements=(Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT), Requirement(labels.ARCH, gte=None)),
        taints=(Taint("team", "NoSchedule", "a"),),
        startup_taints=(Taint("boot", "NoExecute"),),
        expire_after=timedelta(hours=720),
        termination_grace_period=timedelta(seconds=90),
    )
    obj = written(a_record(plan=plan))
    assert problems(obj) == ()
    assert obj["spec"]["taints"] == [{"key": "team", "effect": "NoSchedule", "value": "a"}]
    assert obj["spec"]["startupTaints"] == [{"key": "boot", "effect": "NoExecute"}]
    assert (obj["spec"]["expireAfter"], obj["spec"]["terminationGracePeriod"]) == ("720h", "90s")
    read = node_claim(obj)
    for field in ("requirements", "resources", "taints", "startup_taints", "node_class", "termination_grace_period"):
        assert getattr(read, field) == getattr(plan, field), field
    assert (read.expire_after, read.provider_id, read.node_name) == (plan.expire_after, "aws:///us-east-1a/i-1", "n")
    assert read.is_true(READY)
    assert is_mirror(obj)


@pytest.mark.parametrize(
    ("phase", "ready", "reached"),
    [
        (ClaimPhase.REQUESTED, "Unknown", ("Unknown", "Unknown", "Unknown")),
        (ClaimPhase.LAUNCHED, "Unknown", ("True", "Unknown", "Unknown")),
        (ClaimPhase.REGISTERED, "Unknown", ("True", "True", "Unknown")),
        (ClaimPhase.INITIALIZED, "True", ("True", "True", "True")),
    ],
)
def test_conditions_follow_the_phase(phase: ClaimPhase, ready: str, reached: tuple[str, ...]) -> None:
    found = statuses(a_record(phase))
    assert (found["Ready"], (found["Launched"], found["Registered"], found["Initialized"])) == (ready, reached)


def test_ready_names_the_missing_condition() -> None:
    late = {INITIALIZED: Condition("False", "InitializationTimeout", "it does not become ready")}
    ready = mirrored(a_record(ClaimPhase.REGISTERED), late).conditions[READY]
    assert (ready.status, ready.message) == ("False", "Initialized=False: it does not become ready")


@pytest.mark.parametrize(
    ("record", "leaves"),
    [
        (a_record(), False),
        (a_leaving(reason="Empty"), False),
        (a_leaving(reason="Empty", is_final=True), True),
        (a_leaving(reason="Empty", terminated_at=NOW), True),
        (a_leaving(reason="Drifted"), False),
        (a_leaving(reason="Drifted", deadline=NOW), True),
        (a_leaving(reason="SpotInterrupted", tainted=None), True),
        (a_leaving(reason="NodeClaimDeleted", tainted=None), True),
    ],
)
def test_a_node_claim_is_deleted_once_its_drain_cannot_be_cancelled(record: ClaimRecord, leaves: bool) -> None:
    """A deletion in the API server cannot be undone; the drain of a node that may stay can."""
    assert mirrored(record).is_leaving is leaves
    assert mirrored(record).conditions["DisruptionReason"].reason == record.deletion.reason if record.deletion else True


def test_fields_invisible_to_users_cause_no_write() -> None:
    """Otherwise, each pod that comes or goes costs a write."""
    record = a_record()
    busy = msgspec.structs.replace(record, version=9, pods_digest="x", last_pod_event_at=NOW, is_bound=True)
    assert mirrored(busy) == mirrored(record)


EARLIER, LATER = NOW - timedelta(minutes=5), NOW + timedelta(minutes=5)


def test_a_condition_says_since_when_and_what_is_missing() -> None:
    """`kubectl wait` and Karpenter's dashboards read them."""
    requested = a_record(ClaimPhase.REQUESTED, requested_at=EARLIER)
    asked = mirrored(requested).conditions
    assert asked["Launched"] == Condition(
        "Unknown", "AwaitingReconciliation", "its instance is not launched yet", EARLIER
    )
    assert asked["Registered"].message == "its node has not joined the cluster yet"
    assert asked["Initialized"].message == "its node is not ready for pods yet"
    assert asked["Ready"] == Condition(
        "Unknown", "ReconcilingDependents", "Launched=Unknown: its instance is not launched yet", EARLIER
    )
    told = mirrored(a_record(ClaimPhase.REGISTERED, message="a device is missing")).conditions
    assert told["Initialized"].message == "a device is missing"
    moments = Moments(launched_at=EARLIER, seen_at=NOW)
    ready = mirrored(a_record(phase_since=NOW, moments=moments, initialized_at=LATER)).conditions
    assert ready == {
        "Launched": Condition("True", "Launched", "", EARLIER),
        "Registered": Condition("True", "Registered", "", NOW),
        "Initialized": Condition("True", "Initialized", "", LATER),
        "ConsistentStateFound": Condition("True", "ConsistentStateFound", "", LATER),
        "Ready": Condition("True", "Ready", "", LATER),
    }
    bare = mirrored(a_record(phase_since=NOW, moments=Moments())).conditions
    assert {bare[kind].changed_at for kind in ("Launched", "Registered", "Initialized")} == {NOW}


def test_a_node_that_is_smaller_than_planned_says_so() -> None:
    small = a_record(reason="FailedConsistencyCheck", message="node n has less", initialized_at=NOW)
    assert mirrored(small).conditions["ConsistentStateFound"] == Condition(
        "False", "FailedConsistencyCheck", "node n has less", NOW
    )
    other = a_record(reason="InitializationTimeout", message="late", initialized_at=NOW)
    assert mirrored(other).conditions["ConsistentStateFound"].status == "True"
    assert "ConsistentStateFound" not in mirrored(a_record(ClaimPhase.REGISTERED)).conditions


def test_the_course_of_a_drain_is_shown() -> None:
    """Why the node goes, whether its pods are leaving, and when its instance was terminated."""
    asked = a_record(deletion=Deletion(reason="Empty", message="no pods", asked_at=EARLIER))
    found = mirrored(asked).conditions
    assert found["DisruptionReason"] == Condition("True", "Empty", "no pods", EARLIER)
    assert "Drained" not in found
    draining = msgspec.structs.replace(asked, deletion=msgspec.structs.replace(asked.deletion, tainted_at=NOW))
    found = mirrored(draining).conditions
    assert found["Drained"] == Condition("Unknown", "Draining", "pods are leaving its node", NOW)
    assert "InstanceTerminating" not in found
    ended = msgspec.structs.replace(draining, deletion=msgspec.structs.replace(draining.deletion, terminated_at=LATER))
    found = mirrored(ended).conditions
    assert found["Drained"] == Condition("True", "Drained", "", LATER)
    assert found["InstanceTerminating"] == Condition("True", "InstanceTerminating", "", LATER)


def test_the_worst_condition_decides_whether_it_is_ready() -> None:
    """One that is False comes before one that is only unknown; a found condition before the record's own."""
    found = {"Registered": Condition("False", "X", "the kubelet is gone", NOW)}
    ready = mirrored(a_record(ClaimPhase.REQUESTED), found).conditions["Ready"]
    assert ready == Condition("False", "UnhealthyDependents", "Registered=False: the kubelet is gone", NOW)


def test_the_status_has_what_is_known_and_nothing_empty() -> None:
    assert mirrored(a_record(ClaimPhase.REQUESTED)).status == {}
    record = a_record()
    assert record.machine is not None
    sized = msgspec.structs.replace(
        record.machine, image_id="ami-1", capacity={"cpu": 2000, "pods": 29}, allocatable={"cpu": 1900}
    )
    assert mirrored(msgspec.structs.replace(record, machine=sized)).status == {
        "nodeName": "n",
        "providerID": PROVIDER_ID,
        "imageID": "ami-1",
        "capacity": {"cpu": "2", "pods": "29"},
        "allocatable": {"cpu": "1900m"},
    }


def test_conditions_are_written_in_order_and_in_kubernetes_form() -> None:
    """A moment in UTC and in whole seconds; a reason is never empty, or the API server refuses it."""
    at = datetime(2026, 11, 22, 7, 31, 5, 900, tzinfo=timezone(timedelta(hours=2)))
    kinds = {"B": Condition("True", "", "", at), "A": Condition("False", "Why", "because", None)}
    found = Mirrored(labels={}, status={}, conditions=kinds, is_leaving=False).written_conditions()
    assert found == [
        {
            "type": "A",
            "status": "False",
            "reason": "Why",
            "message": "because",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "observedGeneration": 1,
        },
        {
            "type": "B",
            "status": "True",
            "reason": "B",
            "message": "",
            "lastTransitionTime": "2026-11-22T05:31:05Z",
            "observedGeneration": 1,
        },
    ]


@pytest.mark.parametrize(
    ("span", "written"),
    [(None, "Never"), (timedelta(hours=1), "1h"), (timedelta(days=2), "48h"), (timedelta(minutes=90), "5400s")],
)
def test_an_expiry_is_written_in_hours_or_seconds(span: timedelta | None, written: str) -> None:
    """The schema takes no days and no fractions."""
    obj = new_object(a_record(plan=a_plan(expire_after=span)))
    assert obj["spec"]["expireAfter"] == written
    assert "terminationGracePeriod" not in obj["spec"]
    assert not {"taints", "startupTaints"} & obj["spec"].keys()


def test_an_object_names_its_claim_its_class_and_our_finalizer() -> None:
    obj = new_object(a_record(plan=a_plan(annotations={"b": "2"}, resources={"cpu": 1500})))
    assert obj["metadata"] == {
        "name": "c",
        "labels": mirrored(a_record()).labels,
        "annotations": {"b": "2", labels.CLAIM: "c"},
        "finalizers": [labels.TERMINATION_FINALIZER],
    }
    assert obj["spec"]["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert obj["spec"]["resources"] == {"requests": {"cpu": "1500m"}}


@pytest.mark.parametrize(
    ("metadata", "is_ours"),
    [
        ({"name": "c", "annotations": {labels.CLAIM: "c"}}, True),
        ({"name": "c", "annotations": {labels.CLAIM: "d"}}, False),
        ({"name": "c", "annotations": None}, False),
        ({"name": "c"}, False),
    ],
)
def test_a_mirror_is_known_by_its_annotation(metadata: dict[str, Any], *, is_ours: bool) -> None:
    """A copy of a mirror's manifest under another name is an order of its author."""
    assert is_mirror({"metadata": metadata}) is is_ours
