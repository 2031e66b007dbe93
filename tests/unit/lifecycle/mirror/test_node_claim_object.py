"""Claims as NodeClaim objects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.api.translation import node_claim
from core.api.validation import problems
from core.lifecycle.mirror.node_claim_object import is_mirror, mirrored, new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.node_claim import INITIALIZED, READY, Condition
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record


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
