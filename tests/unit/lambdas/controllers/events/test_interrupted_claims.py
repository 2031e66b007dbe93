"""Events of instances: which of them end a claim, and once."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from core import labels
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import OfferingKey
from installation.wiring import ENDING_STATES
from lambdas.controllers.events.interruption_events import read_event
from tests.fakes.lab import Lab, a_pending_pod


def test_an_interrupted_instance_is_drained_at_once_and_its_offering_avoided(lab: Lab) -> None:
    """A spot notice leaves two minutes."""
    offering = lab.claim.machine.offering  # type: ignore[union-attr]  # it is launched
    report = lab.interrupt()
    assert [d.kind for d in report.decisions] == ["interrupt", "terminate"]
    assert [message for message, _ in lab.wake_ups.sent][-1] == {"wakeUp": "SpotInterrupted"}
    assert OfferingKey(offering.instance_type, offering.zone, "spot") in lab.rows.refused
    lab.tick()
    assert lab.kubernetes.evicted == ["default/p"]
    assert labels.DISRUPTED_TAINT in lab.taints()


def test_a_notice_is_acted_on_although_the_claim_has_just_changed(lab: Lab) -> None:
    """Otherwise, the two minutes are over before EventBridge delivers it again."""
    claims = lab.app.adapters.claims
    change, meets_another = claims.change, iter([True])

    def changed(before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        if next(meets_another, False):
            change(before, before)
        return change(before, after)

    claims.change = changed  # type: ignore[method-assign] - another writes between our reading and writing
    lab.interrupt()
    assert lab.claim.deletion is not None


def test_a_second_notice_changes_nothing(lab: Lab) -> None:
    lab.interrupt()
    before = lab.claim
    lab.interrupt("EC2 Instance State-change Notification", state="shutting-down")
    assert lab.claim == before


def test_a_repeated_notice_sends_the_message_that_the_first_could_not(lab: Lab) -> None:
    """The claim was stored as terminating, then the queue failed: nothing drained it, and the retry did nothing."""
    lab.work.take()
    sends = lab.work.send
    lab.work.send = failing  # type: ignore[method-assign]
    with pytest.raises(TransientError):
        lab.interrupt()
    assert lab.claim.deletion is not None
    lab.work.send = sends  # type: ignore[method-assign]
    lab.interrupt()
    assert [message.get("claim") for message, _ in lab.work.sent] == [lab.claim.name]


def failing(*_: Any, **__: Any) -> None:
    raise TransientError("sqs:SendMessageBatch", "down")


def test_events_of_foreign_instances_read_no_claims(lab: Lab) -> None:
    """A thousand foreign instances may stop at once."""
    calls: list[str] = []
    lab.rows.before_call = calls.append
    event = an_event("aws.ec2", "EC2 Spot Instance Interruption Warning", **{"instance-id": "i-foreign"})
    lab.app.interruptions.run(event, RunReport())
    assert calls == ["read one"]


@pytest.mark.parametrize("policy", ["ignore", "drain"])
def test_a_rebalance_recommendation_does_what_the_operator_configured(policy: str) -> None:
    lab = Lab(rebalance_policy=policy)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.interrupt("EC2 Instance Rebalance Recommendation")
    assert (lab.claim.deletion is not None) == (policy == "drain")


def an_event(source: str, detail_type: str, **detail: Any) -> dict[str, Any]:
    return {"source": source, "detail-type": detail_type, "detail": detail}


STATE = ("aws.ec2", "EC2 Instance State-change Notification")


HEALTH = ("aws.health", "AWS Health Event")


ENTITY = {"affectedEntities": [{"entityValue": "i"}]}


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (an_event(*STATE, **{"instance-id": "i", "state": "Stopping"}), "InstanceStopped"),
        (an_event(*STATE, **{"instance-id": "i", "state": "running"}), None),
        (an_event(*HEALTH, service="EC2", eventTypeCategory="scheduledChange", **ENTITY), "ScheduledChange"),
        (an_event(*HEALTH, service="EC2", eventTypeCategory="issue"), None),
        (an_event("aws.s3", "Object Created"), None),
        ({}, None),
        ([], None),
    ],
)
def test_event_types_are_distinguished(event: Any, kind: str | None) -> None:
    """Otherwise, a scheduled retirement goes unnoticed, or a start is taken for an end."""
    found = read_event(event)
    assert (found.reason if found else None) == kind
    assert found is None or found.instance_ids == ("i",)


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped", "shutting-down", "terminated"])
def test_the_event_rule_matches_the_handled_events(state: str) -> None:
    """Otherwise, each launch wakes a function twice for nothing, or a stopping instance goes unnoticed."""
    acted_on = read_event(an_event(*STATE, **{"instance-id": "i", "state": state})) is not None
    assert acted_on == (state in ENDING_STATES)
