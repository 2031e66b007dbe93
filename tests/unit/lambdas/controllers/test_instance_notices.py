"""Notices about instances whose claims the table has lost: the claim is rebuilt, and acted on as if nothing had been lost."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.ports import JsonObject, TransientError
from adapters.run_report import RunReport
from core import labels
from core.lifecycle.deletion import SPOT_NOTICE
from core.manifests.wire import resources
from core.reasons.code import DecisionKind, TerminationReason
from core.reasons.runs import RunReason
from tests.fakes.lab import Lab, a_pending_pod

SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE = "EC2 Instance State-change Notification"


@pytest.fixture
def lab() -> Lab:
    """One node, whose NodePool stays."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("web", cpu="1"))
    lab.settle()
    lab.bind("web")
    lab.work.take()
    return lab


def lose_rows(lab: Lab) -> str:
    """Empty the table of claims; the id of the instance that is left."""
    instance_id = lab.claim.instance_id
    lab.rows.claims.clear()
    return instance_id


def notify(lab: Lab, instance_id: str, kind: str = SPOT, **detail: str) -> RunReport:
    report = RunReport()
    event = {
        "source": "aws.ec2",
        "detail-type": kind,
        "time": lab.clock.now().isoformat(),
        "detail": {"instance-id": instance_id, **detail},
    }
    lab.app.interruptions.run(event, report)
    return report


def test_a_notice_outlives_the_row_of_its_claim(lab: Lab) -> None:
    """If this failed, a spot instance would end with its pods, since `reconcile` rebuilds claims and knows no notice."""
    name, noticed_at = lab.claim.name, lab.clock.now()
    notify(lab, lose_rows(lab))
    lab.execute()
    deletion = lab.claim.deletion
    assert lab.claim.name == name
    assert deletion is not None
    assert (deletion.reason, deletion.ends_at) == (TerminationReason.SPOT_INTERRUPTED, noticed_at + SPOT_NOTICE)
    assert deletion.tainted_at is not None
    assert len(lab.rows.refused) == 1


def spoil_row(lab: Lab) -> tuple[str, str]:
    """Make the row of the only claim unreadable; the claim's name and instance."""
    name, instance_id = lab.claim.name, lab.claim.instance_id
    lab.rows.spoil("claims", name)
    return name, instance_id


def test_a_notice_outlives_a_row_that_cannot_be_read(lab: Lab) -> None:
    """If this failed, the pods would end with their node because a person mistyped a row."""
    noticed_at = lab.clock.now()
    name, instance_id = spoil_row(lab)
    notify(lab, instance_id)
    report = lab.execute()
    deletion = lab.claim.deletion
    assert lab.claim.name == name
    assert deletion is not None
    assert (deletion.reason, deletion.ends_at) == (TerminationReason.SPOT_INTERRUPTED, noticed_at + SPOT_NOTICE)
    assert any(told.subject == name and told.reason == RunReason.CANNOT_BE_READ for told in report.decisions)
    lab.clock.advance(minutes=2)
    lab.reconcile()
    assert (lab.rows.usage["default"].reserved, lab.rows.usage["default"].disrupting) == ({}, 1)


def test_a_notice_of_what_may_come_leaves_a_row_that_cannot_be_read(lab: Lab) -> None:
    """Its drain, its place in the budget and its protection are in the row, and a person has time to correct it."""
    lab.app.interruptions._settings = msgspec.structs.replace(lab.settings, rebalance_policy="drain")
    name, instance_id = spoil_row(lab)
    notify(lab, instance_id, REBALANCE)
    report = lab.execute()
    assert lab.rows.spoiled == [name]
    assert RunReason.CANNOT_BE_READ in {told.reason for told in report.decisions}


def test_a_row_whose_claim_cannot_be_rebuilt_is_left(lab: Lab) -> None:
    name, instance_id = spoil_row(lab)
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    notify(lab, instance_id)
    lab.execute()
    assert lab.rows.spoiled == [name]


def test_other_events_leave_a_row_that_cannot_be_read(lab: Lab) -> None:
    """A person may still correct it, and is told; the instance needs no drain any more."""
    name, instance_id = spoil_row(lab)
    (told,) = notify(lab, instance_id, STATE, state="terminated").decisions
    assert (told.kind, told.subject, told.reason) == (DecisionKind.SKIP, name, RunReason.CANNOT_BE_READ)
    assert f"row {name} of partition" in told.message
    lab.execute()
    assert lab.rows.spoiled == [name]


def test_a_notice_of_an_instance_that_is_gone_tells_of_its_unreadable_row(lab: Lab) -> None:
    """If this failed, a late notice would change nothing, and nobody would know why."""
    name, instance_id = spoil_row(lab)
    lab.cloud.terminate([instance_id])
    (told,) = notify(lab, instance_id).decisions
    assert (told.subject, told.reason) == (name, RunReason.CANNOT_BE_READ)
    assert lab.work.sent == []


def test_a_recommendation_that_is_ignored_is_ignored_for_an_unreadable_row_too(lab: Lab) -> None:
    lab.app.interruptions._settings = msgspec.structs.replace(lab.settings, rebalance_policy="ignore")
    _, instance_id = spoil_row(lab)
    assert notify(lab, instance_id, REBALANCE).decisions == []


def test_a_row_that_the_index_has_lost_is_enough(lab: Lab) -> None:
    lab.rows.unindex(lab.claim.instance_id)
    notify(lab, lab.claim.instance_id)
    lab.execute()
    assert lab.claim.deletion is not None


def test_two_notices_are_one(lab: Lab) -> None:
    instance_id = lose_rows(lab)
    notify(lab, instance_id)
    notify(lab, instance_id)
    lab.execute()
    assert lab.claim.deletion is not None
    assert lab.rows.usage["default"].disrupting == 1


def test_a_notice_is_heeded_beside_a_longer_chain_of_checks(lab: Lab) -> None:
    """Another run may have rebuilt the claim in the same second, and its message may come in the same batch."""
    name, instance_id = lab.claim.name, lose_rows(lab)
    notify(lab, instance_id)
    later = work_on_claim(name, lab.clock.now() + timedelta(minutes=1))
    lab.execute(later, *lab.work.take())
    assert lab.claim.deletion is not None


def test_a_step_that_fails_is_taken_again_with_the_notice(lab: Lab) -> None:
    notify(lab, lose_rows(lab))
    failures = iter([TransientError("kube:list nodes", "away")])

    def fail_once(call: str) -> None:
        error = next(failures, None) if call == "list nodes" else None
        if error is not None:
            raise error

    lab.kubernetes.before_call = fail_once
    lab.execute()
    assert lab.claims == ()
    lab.tick(2)
    assert lab.claim.deletion is not None


def test_an_instance_whose_nodepool_is_gone_is_left_to_reconcile(lab: Lab) -> None:
    instance_id = lose_rows(lab)
    tags = {**lab.cloud.instances()[0].tags, labels.NODEPOOL: "gone"}
    lab.cloud.put(msgspec.structs.replace(lab.cloud.instances()[0], tags=tags))
    notify(lab, instance_id)
    report = lab.execute()
    assert lab.claims == ()
    assert any("NodePool gone does not exist" in told.message for told in report.decisions)


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {labels.CLUSTER_TAG: "test", labels.NODEPOOL: "default"},
        {labels.CLUSTER_TAG: "other", labels.NODEPOOL: "default", labels.CLAIM: "default-0"},
    ],
    ids=["untagged", "Karpenter's", "another cluster's"],
)
def test_foreign_instances_are_left_alone(lab: Lab, tags: dict[str, str]) -> None:
    """EventBridge delivers the notices of the whole account."""
    lab.cloud.put(msgspec.structs.replace(lab.cloud.instances()[0], instance_id="i-foreign", tags=tags))
    assert notify(lab, "i-foreign").decisions == []
    assert lab.work.take() == []


@pytest.mark.parametrize(("kind", "detail"), [(STATE, {"state": "terminated"}), (REBALANCE, {})])
def test_what_needs_no_drain_costs_no_look(lab: Lab, kind: str, detail: JsonObject) -> None:
    """Instances that have ended, and recommendations that are ignored: of a busy account, most events are such."""
    instance_id = lose_rows(lab)
    calls: list[str] = []
    lab.cloud.before_call = calls.append
    lab.app.interruptions._settings = msgspec.structs.replace(lab.settings, rebalance_policy="ignore")
    notify(lab, instance_id, kind, **detail)
    assert (calls, lab.work.take()) == ([], [])
