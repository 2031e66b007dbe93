"""What an event about instances says, and what is done about their claims."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from core import labels
from core.brakes import Brake, BrakeKind
from core.lifecycle.commands import DUE_BEFORE
from core.lifecycle.deletion import REPLACED_WITHIN, SPOT_NOTICE, leaving
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Offering, OfferingKey
from core.reasons.code import TerminationReason
from installation.wiring import ENDING_STATES
from lambdas.controllers.interruption import Interruption, read_event
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod

# Events of instances: which of them end a claim, and once.


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


def test_a_notice_says_which_group_loses_a_member(lab: Lab) -> None:
    """The whole of it starts again, mostly: whoever runs it should hear of the cause."""
    before = lab.claim
    group = {**before.plan.annotations, labels.GROUP_OF_CLAIM: "ml/train"}
    plan = msgspec.structs.replace(before.plan, annotations=group)
    lab.app.adapters.claims.change(before, msgspec.structs.replace(before, plan=plan))
    report = lab.interrupt()
    assert report.decisions[0].message.endswith("; group ml/train loses the members that run there")


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


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped", "shutting-down", "terminated"])
def test_the_event_rule_matches_the_handled_events(state: str) -> None:
    """Otherwise, each launch wakes a function twice for nothing, or a stopping instance goes unnoticed."""
    acted_on = read_event(an_event(*STATE, **{"instance-id": "i", "state": state})) is not None
    assert acted_on == (state in ENDING_STATES)


SPOT = "EC2 Spot Instance Interruption Warning"
RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"


def interruption_an_event(kind: str, time: Any) -> dict[str, Any]:
    return {"source": "aws.ec2", "detail-type": kind, "time": time, "detail": {"instance-id": "i-1"}}


@pytest.mark.parametrize(
    ("kind", "reason", "remaining"),
    [
        (SPOT, TerminationReason.SPOT_INTERRUPTED, SPOT_NOTICE),
        (RESERVATION, TerminationReason.RESERVATION_INTERRUPTED, SPOT_NOTICE),
        (REBALANCE, TerminationReason.REBALANCE_RECOMMENDED, REPLACED_WITHIN),
    ],
)
def test_the_end_counts_from_the_notice_and_not_from_its_delivery(
    kind: str, reason: TerminationReason, remaining: timedelta
) -> None:
    """A late event leaves less time for the drain; one without a readable time leaves none that is known."""
    for time, ends_at in ((NOW.isoformat(), NOW + remaining), ("soon", None), (None, None)):
        interruption = read_event(interruption_an_event(kind, time))
        assert interruption is not None
        assert (interruption.reason, interruption.instance_ids, interruption.ends_at) == (reason, ("i-1",), ends_at)


@pytest.mark.parametrize(
    ("time", "written", "ends_at"),
    [
        (NOW, NOW + timedelta(minutes=10), NOW + timedelta(minutes=10)),
        (NOW, NOW, NOW + SPOT_NOTICE),
        (None, NOW, NOW),
    ],
)
def test_a_reservation_s_warning_says_when_its_instance_ends(
    time: datetime | None, written: datetime, ends_at: datetime
) -> None:
    """Drains were cut to two minutes where more was said. An example of AWS has the present time, which says nothing."""
    event = interruption_an_event(RESERVATION, time and time.isoformat())
    event["detail"]["instance-termination-time"] = written.isoformat()
    interruption = read_event(event)
    assert interruption is not None
    assert interruption.ends_at == ends_at


INTERRUPTION_STATE = "EC2 Instance State-change Notification"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("stopping", TerminationReason.INSTANCE_STOPPED),
        ("Stopped", TerminationReason.INSTANCE_STOPPED),
        ("shutting-down", TerminationReason.INSTANCE_TERMINATED),
        ("TERMINATED", TerminationReason.INSTANCE_TERMINATED),
    ],
)
def test_an_instance_that_ends_has_no_time_left(state: str, reason: TerminationReason) -> None:
    event = {"source": "aws.ec2", "detail-type": INTERRUPTION_STATE, "detail": {"instance-id": "i-1", "state": state}}
    assert read_event(event) == Interruption(reason, ("i-1",), None)


def a_health_event(**detail: Any) -> dict[str, Any]:
    usual = {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}]}
    return {"source": "aws.health", "detail-type": "AWS Health Event", "detail": {**usual, **detail}}


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("Fri, 20 Nov 2026 00:00:00 GMT", NOW),
        ("2026-11-20T01:00:00+01:00", NOW),
        ("2026-11-20T00:00:00", NOW),
        ("at night", None),
        (20, None),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("Wed, 31 Dec 9999 23:59:59 -2359", None),
    ],
)
def test_the_date_of_a_retirement_is_read_in_either_format(written: Any, moment: object) -> None:
    """Health writes RFC 1123, EventBridge RFC 3339; without a zone both mean UTC."""
    expected = Interruption(TerminationReason.SCHEDULED_CHANGE, ("i-1",), moment)  # type: ignore[arg-type]
    assert read_event(a_health_event(startTime=written)) == expected


@pytest.mark.parametrize(
    "event",
    [
        a_health_event(service="RDS"),
        a_health_event(eventTypeCategory="accountNotification"),
        a_health_event(statusCode="closed"),
        {**a_health_event(), "source": "aws.ec2"},
        {**interruption_an_event(SPOT, None), "source": "my.own"},
        {**interruption_an_event(SPOT, None), "detail": None},
        {**interruption_an_event(INTERRUPTION_STATE, None), "detail": {"instance-id": "i-1"}},
        [],
    ],
)
def test_other_events_are_not_about_ends_of_instances(event: Any) -> None:
    """A cancelled retirement, or one of a database, would end a healthy node."""
    assert read_event(event) is None


@pytest.mark.parametrize(
    ("status", "concerns"),
    [
        ("IMPAIRED", True),
        ("PENDING", True),
        ("UNKNOWN", True),
        (None, True),
        ("RESOLVED", False),
        ("UNIMPAIRED", False),
    ],
)
def test_an_instance_that_a_health_event_calls_well_stays(status: str | None, *, concerns: bool) -> None:
    """Health sends an open event again when one of its instances is well; that node was retired."""
    ill = {"entityValue": "i-ill", "status": "IMPAIRED"}
    other = {"entityValue": "i-other", **({} if status is None else {"status": status})}
    both = read_event(a_health_event(affectedEntities=[other, ill]))
    assert both is not None
    assert both.instance_ids == (("i-other", "i-ill") if concerns else ("i-ill",))
    assert (read_event(a_health_event(affectedEntities=[other])) is not None) == concerns


@pytest.mark.parametrize("odd", [None, True, 7, "i-odd", [], ["i-odd"]])
def test_an_odd_entity_hides_no_other(odd: object) -> None:
    ill = {"entityValue": "i-ill", "status": "IMPAIRED"}
    both = read_event(a_health_event(affectedEntities=[odd, ill]))
    assert both is not None
    assert both.instance_ids == ("i-ill",)
    assert read_event(a_health_event(affectedEntities=odd)) is not None


def test_a_notice_with_a_time_that_is_none_counts(lab: Lab) -> None:
    event = {**interruption_an_event(SPOT, "9999-12-31T23:59:59Z"), "detail": {"instance-id": lab.claim.instance_id}}
    lab.app.interruptions.run(event, RunReport())
    assert lab.claim.deletion is not None


def test_a_health_event_without_instances_concerns_none() -> None:
    interruption = read_event(a_health_event(affectedEntities=None, statusCode="upcoming"))
    assert interruption == Interruption(TerminationReason.SCHEDULED_CHANGE, (), None)


def act(lab: Lab, reason: TerminationReason, *, within: timedelta | None = None) -> RunReport:
    report = RunReport()
    ends_at = None if within is None else lab.clock.now() + within
    lab.app.interruptions.act(lab.claim, Interruption(reason, (lab.claim.instance_id,), ends_at), report)
    return report


def amend(lab: Lab, **changes: Any) -> None:
    record = lab.claim
    lab.app.adapters.stores.claims.change(record, msgspec.structs.replace(record, **changes))


def sent(lab: Lab) -> list[dict[str, Any]]:
    return [message for message, _ in lab.wake_ups.sent]


def test_an_event_about_nothing_of_ours_is_counted() -> None:
    report = RunReport()
    Lab().app.interruptions.run({}, report)
    assert report.counts == {"ignoredEvents": 1}


def test_one_instance_that_fails_does_not_keep_the_others(lab: Lab) -> None:
    """An event of Health names a whole rack, and is delivered again only where the run fails."""
    report = RunReport()
    of_instance = lab.app.adapters.stores.claims.of_instance

    def failing_once(instance_id: str) -> ClaimRecord | None:
        if instance_id == "i-broken":
            raise TransientError("dynamodb:Query", "throttled")
        return of_instance(instance_id)

    lab.app.adapters.stores.claims.of_instance = failing_once  # type: ignore[method-assign]
    both = [{"entityValue": "i-broken"}, {"entityValue": lab.claim.instance_id}]
    with pytest.raises(TransientError, match="i-broken"):
        lab.app.interruptions.run(a_health_event(affectedEntities=both, startTime=NOW.isoformat()), report)
    assert lab.claim.deletion is not None


class TestTheOffering:
    """What EC2 takes back is not launched again at once."""

    def refused(self, lab: Lab, reason: TerminationReason) -> set[OfferingKey]:
        act(lab, reason)
        return set(lab.rows.refused)

    def test_of_spot_is_avoided(self, lab: Lab) -> None:
        key = lab.claim.machine.offering.key  # type: ignore[union-attr] - it is launched
        assert self.refused(lab, TerminationReason.SPOT_INTERRUPTED) == {
            OfferingKey(key.instance_type, key.zone, labels.SPOT)
        }

    def test_of_a_reservation_is_avoided_and_its_type_is_not(self, lab: Lab) -> None:
        reserved = Offering("m5.large", "us-east-1a", labels.RESERVED, 0, reservation_id="cr-1")
        amend(lab, machine=msgspec.structs.replace(lab.claim.machine, offering=reserved))
        assert self.refused(lab, TerminationReason.RESERVATION_INTERRUPTED) == {reserved.key}

    @pytest.mark.parametrize("reason", [TerminationReason.INSTANCE_STOPPED, TerminationReason.REBALANCE_RECOMMENDED])
    def test_of_any_other_end_is_as_good_as_before(self, lab: Lab, reason: TerminationReason) -> None:
        assert self.refused(lab, reason) == set()

    def test_that_cannot_be_stored_does_not_delay_the_drain(self, lab: Lab) -> None:
        def broken(*_: object) -> None:
            raise TransientError("dynamodb:PutItem", "throttled")

        lab.app.adapters.stores.unavailable.mark = broken  # type: ignore[method-assign]
        report = act(lab, TerminationReason.SPOT_INTERRUPTED, within=SPOT_NOTICE)
        assert report.counts["portErrors"] == 1
        assert lab.claim.deletion is not None


class Stopped:
    """A kill switch that says stop."""

    name = "the kill switch"

    def read(self) -> tuple[Brake, ...]:
        return (Brake(BrakeKind.STOP, "stopped by a test"),)


def test_the_kill_switch_keeps_nodes_that_could_be_evacuated(lab: Lab) -> None:
    lab.app.adapters.kill_switch = (Stopped(),)
    lab.work.take()
    report = act(lab, TerminationReason.SPOT_INTERRUPTED)
    assert lab.claim.deletion is None
    assert [(decision.kind, decision.reason) for decision in report.decisions][-1] == ("skip", BrakeKind.STOP)
    assert lab.work.sent == []


class TestAClaimThatLeavesAlready:
    """A notice may hurry it; and its messages are sent again, as the first may be lost."""

    def leave(self, lab: Lab, **changes: Any) -> None:
        gone = leaving(lab.claim, TerminationReason.EMPTY, "", lab.clock.now(), None)
        amend(lab, deletion=msgspec.structs.replace(gone.deletion, **changes))
        lab.work.take()
        lab.wake_ups.take()

    def test_by_our_own_choice_must_go_now(self, lab: Lab) -> None:
        self.leave(lab)
        act(lab, TerminationReason.SPOT_INTERRUPTED, within=SPOT_NOTICE)
        assert lab.claim.deletion is not None
        assert lab.claim.deletion.reason == TerminationReason.SPOT_INTERRUPTED
        assert sent(lab) == [{"wakeUp": "SpotInterrupted"}]
        assert [message["claim"] for message, _ in lab.work.sent] == [lab.claim.name]

    @pytest.mark.parametrize(("tainted", "woken"), [(False, [{"wakeUp": "InstanceStopped"}]), (True, [])])
    def test_for_the_same_end_gets_its_messages_again(self, lab: Lab, *, tainted: bool, woken: list[object]) -> None:
        """The planner is woken as long as the node has no taint: pods may still go there."""
        since = lab.clock.now() if tainted else None
        self.leave(lab, reason=TerminationReason.INSTANCE_TERMINATED, tainted_at=since)
        before = lab.claim
        report = act(lab, TerminationReason.INSTANCE_STOPPED)
        assert (lab.claim, report.decisions) == (before, [])
        assert sent(lab) == woken
        assert [message["claim"] for message, _ in lab.work.sent] == [lab.claim.name]


class TestARetirement:
    """Announced days ahead: the earliest date is stored, and acted on once it is near."""

    def test_in_two_weeks_is_only_stored(self, lab: Lab) -> None:
        report = act(lab, TerminationReason.SCHEDULED_CHANGE, within=timedelta(days=14))
        at = lab.clock.now() + timedelta(days=14)
        assert (lab.claim.retires_at, lab.claim.deletion) == (at, None)
        (decision,) = report.decisions
        assert decision.message == f"instance {lab.claim.instance_id} at {at:%Y-%m-%dT%H:%M:%SZ}"

    def test_on_a_later_date_than_the_stored_one_changes_nothing(self, lab: Lab) -> None:
        act(lab, TerminationReason.SCHEDULED_CHANGE, within=timedelta(days=14))
        before = lab.claim
        for days in (14, 15):
            assert act(lab, TerminationReason.SCHEDULED_CHANGE, within=timedelta(days=days)).decisions == []
        assert lab.claim == before
        act(lab, TerminationReason.SCHEDULED_CHANGE, within=timedelta(days=13))
        assert lab.claim.retires_at == lab.clock.now() + timedelta(days=13)

    @pytest.mark.parametrize(
        ("within", "remaining"),
        [
            (DUE_BEFORE, REPLACED_WITHIN),
            (timedelta(minutes=1), timedelta(minutes=1)),
            (None, timedelta(0)),
        ],
    )
    def test_that_is_near_ends_the_claim(self, lab: Lab, within: timedelta | None, remaining: timedelta) -> None:
        """Its pods wait for replacements no longer than the date allows; one without a date may be at any moment."""
        act(lab, TerminationReason.SCHEDULED_CHANGE, within=within)
        deletion = lab.claim.deletion
        assert deletion is not None
        assert deletion.reason == TerminationReason.SCHEDULED_CHANGE_DUE
        assert deletion.ends_at == lab.clock.now() + remaining

    def test_of_a_claim_that_must_go_already_is_stored_without_more(self, lab: Lab) -> None:
        act(lab, TerminationReason.INSTANCE_STOPPED)
        act(lab, TerminationReason.SCHEDULED_CHANGE, within=timedelta(hours=1))
        assert lab.claim.deletion is not None
        assert lab.claim.deletion.reason == TerminationReason.INSTANCE_STOPPED


def test_a_recommendation_that_is_ignored_still_reports_it() -> None:
    lab = Lab(rebalance_policy="ignore")
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.work.take()
    report = act(lab, TerminationReason.REBALANCE_RECOMMENDED)
    assert [decision.kind for decision in report.decisions] == ["interrupt"]
    assert lab.work.sent == []
