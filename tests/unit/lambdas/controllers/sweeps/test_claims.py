"""Claims and commands that stand still get another message."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.aws.dynamodb.commands import DynamoMoves
from adapters.messages import LAUNCHES_A_MESSAGE, work_on_claim, work_on_command
from adapters.observation.cluster_reader import ABSENT_ASKED_EVERY
from adapters.run_report import RunReport
from core import labels
from core.disruption.move_history import CHANGE_SETTLES_AFTER, LONGEST_SETTLING, MoveHistory, Rollout
from core.lifecycle.commands import DUE_BEFORE
from core.lifecycle.deletion import REPLACED_WITHIN, leaving
from core.lifecycle.draining import EscalationLevel
from core.lifecycle.records import ClaimPhase, Deletion
from core.manifests.wire import resources
from core.reasons.code import ClaimReason, TerminationReason
from core.reasons.nodes import NodeReason
from installation.metric_names import DRAINS_BLOCKED, DRAINS_BLOCKED_FOR_A_DAY
from lambdas.controllers.reconciliation import WITHOUT_PODS_EVERY
from lambdas.controllers.sweeps.claims import COMMAND_CHECKED_FOR, FORCED_WITHIN, WAKE_UP, WARM
from lambdas.controllers.sweeps.due_work import STALLED_AFTER
from lambdas.controllers.sweeps.sweep import ReconcileRound
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, a_working_node, amend, sweep
from tests.unit.lifecycle.records_for_tests import a_command, a_leaving, a_record

# Nodes go with their NodePool, once it is certainly gone.


NAME = "deletedPools"


def reason(lab: Lab) -> str:
    deletion = lab.claim.deletion
    return deletion.reason if deletion is not None else ""


@pytest.fixture
def deleted_pools_lab() -> Lab:
    return a_working_node()


def test_a_pool_that_is_gone_takes_its_claims_along(deleted_pools_lab: Lab) -> None:
    deleted_pools_lab.kubernetes.drop(resources.NODE_POOLS, "default")
    sweep(deleted_pools_lab, NAME)
    assert reason(deleted_pools_lab) == TerminationReason.NODE_POOL_DELETED
    assert deleted_pools_lab.claim.deletion is not None
    assert deleted_pools_lab.claim.deletion.message == "NodePool default is gone"


def test_a_pool_that_is_being_deleted_counts_as_gone(deleted_pools_lab: Lab) -> None:
    """A finalizer of others may keep the object for ever."""
    deleted_pools_lab.kubernetes.amend(
        resources.NODE_POOLS, "default", {"metadata": {"deletionTimestamp": "2026-11-20T00:00:00Z"}}
    )
    sweep(deleted_pools_lab, NAME)
    assert reason(deleted_pools_lab) == TerminationReason.NODE_POOL_DELETED


def test_a_pool_that_a_stale_list_lacks_keeps_its_claims(deleted_pools_lab: Lab) -> None:
    deleted_pools_lab.kubernetes.drop(resources.NODE_POOLS, "default")
    round_ = a_round(deleted_pools_lab)
    deleted_pools_lab.kubernetes.put(a_node_pool())
    sweep(deleted_pools_lab, NAME, round_)
    assert reason(deleted_pools_lab) == ""


def test_a_node_claim_made_by_hand_stays(deleted_pools_lab: Lab) -> None:
    """It belongs to whoever made it, and may name a NodePool that never was."""
    annotations = {**deleted_pools_lab.claim.plan.annotations, labels.MADE_BY_HAND: "true"}
    amend(deleted_pools_lab, plan=msgspec.structs.replace(deleted_pools_lab.claim.plan, annotations=annotations))
    assert deleted_pools_lab.claim.plan.made_by_hand
    deleted_pools_lab.kubernetes.drop(resources.NODE_POOLS, "default")
    sweep(deleted_pools_lab, NAME)
    assert reason(deleted_pools_lab) == ""


def test_a_claim_that_is_leaving_keeps_its_reason(deleted_pools_lab: Lab) -> None:
    deleted_pools_lab.interrupt()
    deleted_pools_lab.kubernetes.drop(resources.NODE_POOLS, "default")
    sweep(deleted_pools_lab, NAME)
    assert reason(deleted_pools_lab) == TerminationReason.SPOT_INTERRUPTED


def test_claims_of_other_pools_stay(deleted_pools_lab: Lab) -> None:
    deleted_pools_lab.kubernetes.put(a_node_pool("other"))
    deleted_pools_lab.kubernetes.drop(resources.NODE_POOLS, "other")
    sweep(deleted_pools_lab, NAME)
    assert reason(deleted_pools_lab) == ""


def test_nodes_go_with_their_node_pool_but_not_because_of_a_stale_list(
    deleted_pools_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, one stale list costs a whole pool."""
    listed = deleted_pools_lab.kubernetes.raw(resources.NODE_POOLS, "default")
    deleted_pools_lab.kubernetes.drop(resources.NODE_POOLS, "default")
    with monkeypatch.context() as stale:
        stale.setattr(deleted_pools_lab.kubernetes, "get", lambda *_: listed)
        deleted_pools_lab.reconcile()
    assert deleted_pools_lab.claim.deletion is None
    deleted_pools_lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    deleted_pools_lab.reconcile()
    assert deleted_pools_lab.claim.deletion is not None
    assert deleted_pools_lab.claim.deletion.reason == "NodePoolDeleted"


# Static NodePools have as many nodes as their replicas say.


def static(replicas: int, *, gate: bool = True) -> Lab:
    """A static NodePool with two working nodes."""
    lab = Lab(feature_gates="StaticCapacity=true")
    lab.kubernetes.put(a_node_pool(replicas=2))
    lab.provision({"wakeUp": WAKE_UP})
    lab.boot()
    lab.tick(4)
    assert len(lab.claims) == 2
    lab.kubernetes.put(a_node_pool(replicas=replicas))
    if not gate:
        lab.settings = msgspec.structs.replace(lab.settings, feature_gates="StaticCapacity=false")
        lab.restart()
    lab.wake_ups.take()
    lab.work.take()
    return lab


def going(lab: Lab, round_: ReconcileRound | None = None) -> list[str]:
    """The claims that leave after the sweep."""
    sweep(lab, "staticCapacity", round_)
    return [claim.name for claim in lab.claims if claim.deletion is not None]


def test_missing_nodes_are_requested_from_provision() -> None:
    lab = static(3)
    assert going(lab) == []
    assert lab.wake_ups.take() == [{"wakeUp": WAKE_UP}]


def test_the_right_number_needs_nothing() -> None:
    lab = static(2)
    assert (going(lab), lab.wake_ups.take()) == ([], [])


def test_surplus_nodes_go_and_say_why() -> None:
    lab = static(1)
    first = min(claim.name for claim in lab.claims)
    assert going(lab) == [first]
    (deletion,) = [claim.deletion for claim in lab.claims if claim.deletion is not None]
    assert (deletion.reason, deletion.message) == (TerminationReason.SCALED_DOWN, "NodePool default wants 1 nodes")
    assert lab.wake_ups.take() == [{"wakeUp": TerminationReason.SCALED_DOWN}]


def test_of_a_surplus_that_has_gone_since_the_observation_nothing_more_goes() -> None:
    """A node that was interrupted in the meantime makes up the number."""
    lab = static(1)
    round_ = a_round(lab)
    other = max(lab.claims, key=lambda claim: claim.name)
    gone = leaving(other, TerminationReason.SPOT_INTERRUPTED, "", lab.clock.now())
    lab.app.adapters.stores.claims.change(other, gone)
    assert going(lab, round_) == [other.name]


def test_without_the_gate_nothing_is_kept_at_a_number() -> None:
    lab = static(1, gate=False)
    assert (going(lab), lab.wake_ups.take()) == ([], [])


# Drains without progress are counted in each round, and those that last for a day apart.


@pytest.mark.parametrize(
    ("level", "blocked", "for_a_day"),
    [
        (None, 0, 0),
        (0, 0, 0),
        (EscalationLevel.SLOW, 0, 0),
        (EscalationLevel.BLOCKED, 1, 0),
        (EscalationLevel.LASTING, 1, 0),
        (EscalationLevel.ALARMING, 1, 1),
    ],
)
def test_a_drain_counts_from_the_level_at_which_it_is_blocked(level: int | None, blocked: int, for_a_day: int) -> None:
    lab = a_working_node()
    if level is not None:
        going = Deletion(reason="Empty", asked_at=lab.clock.now())
        amend(lab, deletion=msgspec.structs.replace(going, escalation_level=int(level)))
    assert sweep(lab, "blockedDrains").counts == {DRAINS_BLOCKED: blocked, DRAINS_BLOCKED_FOR_A_DAY: for_a_day}


# Nodes that have reached their age: within budgets, or at any price.


def test_expired_nodes_go_within_the_budget() -> None:
    """Otherwise, a fleet that was launched together goes together."""
    lab = Lab()
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
            ]
        }
    }
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}, disruption={"budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", metadata={"labels": {"a": "b"}}, affinity=anti) for n in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    lab.reconcile()
    assert all(claim.deletion is None for claim in lab.claims)
    lab.clock.advance(hours=1)
    for _ in range(2):
        report = lab.reconcile()
        assert sum(claim.deletion is not None for claim in lab.claims) == 1
    assert report.counts["expiredButBlocked"] == 2
    (leaving,) = (claim for claim in lab.claims if claim.deletion is not None)
    (told,) = (decision for decision in report.decisions if decision.reason == NodeReason.BUDGET)
    assert told.subject == "default"
    assert told.message == (
        "2 nodes wait for their turn: the disruption budgets of NodePool default let 1 of 3 nodes go for Expired now; "
        f"their places are taken by {leaving.node_name}"
    )


def test_one_expired_node_that_a_pod_keeps_holds_up_no_other() -> None:
    """Each goes by itself, so what keeps one says nothing about the rest."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}, disruption={"budgets": [{"nodes": "100%"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(3)))
    lab.settle()
    nodes = lab.kubernetes.names(resources.NODES)
    assert len(nodes) == 3
    veto = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    running = {"spec": {"nodeName": nodes[0]}, "metadata": veto, "status": {"phase": "Running", "conditions": []}}
    lab.kubernetes.amend(resources.PODS, "p0", running, namespace="default")
    lab.clock.advance(hours=1)
    report = lab.reconcile()
    assert sorted(claim.node_name for claim in lab.claims if claim.deletion is not None) == nodes[1:]
    assert report.counts["expiredButBlocked"] == 1


def test_forceful_expiry_asks_neither_budgets_nor_pods() -> None:
    """A hard date is set on the NodePool; replacements still come first."""
    lab = Lab()
    annotations = {"fleetwright.dev/expiry": "Forceful"}
    budgets = {"budgets": [{"nodes": "0"}]}
    lab.kubernetes.put(
        a_node_pool(template={"expireAfter": "1h"}, disruption=budgets, metadata={"annotations": annotations})
    )
    lab.kubernetes.put(a_pending_pod("p", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(hours=1)
    lab.reconcile()
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == "ExpiredForcefully"
    assert deletion.ends_at is not None


REQUEUE_NAME = "stalled"
JUST_BEFORE = STALLED_AFTER - timedelta(seconds=1)


def resumed(lab: Lab) -> int:
    report = sweep(lab, REQUEUE_NAME)
    return report.counts.get("resumed", -1)


@pytest.mark.parametrize(("age", "number"), [(JUST_BEFORE, 0), (STALLED_AFTER, 1)])
def test_a_claim_in_the_midst_of_something_is_resumed_after_a_minute(age: timedelta, number: int) -> None:
    lab = Lab()
    lab.rows.claims["c"] = a_record(ClaimPhase.LAUNCHED, age=age)
    assert resumed(lab) == number
    assert [message for message, _ in lab.work.sent] == [work_on_claim("c", lab.clock.now())] * number


@pytest.mark.parametrize(("ahead", "number"), [(JUST_BEFORE, 0), (timedelta(hours=9), 1)])
def test_what_a_wrong_clock_wrote_is_resumed_too(ahead: timedelta, number: int) -> None:
    """If this failed, a claim whose message was lost would stand still until that moment."""
    lab = Lab()
    lab.rows.claims["c"] = a_record(ClaimPhase.LAUNCHED, age=-ahead)
    assert resumed(lab) == number


def test_claims_that_stand_still_together_share_a_message() -> None:
    """A burst takes longer than a minute on a slow control plane: one message for each claim would keep it slow."""
    lab, names = Lab(), [f"c{number:02}" for number in range(LAUNCHES_A_MESSAGE + 2)]
    for name in names:
        lab.rows.claims[name] = msgspec.structs.replace(a_record(ClaimPhase.LAUNCHED, age=STALLED_AFTER), name=name)
    assert resumed(lab) == len(names)
    assert [len(message["claims"]) for message, _ in lab.work.sent] == [LAUNCHES_A_MESSAGE, 2]


def test_a_claim_that_works_is_left_alone() -> None:
    lab = Lab()
    lab.rows.claims["c"] = a_record(age=timedelta(days=1))
    assert (resumed(lab), lab.work.sent) == (0, [])


@pytest.mark.parametrize(("ago", "number"), [(JUST_BEFORE, 0), (STALLED_AFTER, 1)])
def test_of_a_leaving_claim_its_removal_counts(ago: timedelta, number: int) -> None:
    """Its phase may be days old; its message was sent when the removal began."""
    lab = Lab()
    leaving = a_leaving(asked_at=lab.clock.now() - ago)
    lab.rows.claims["c"] = msgspec.structs.replace(leaving, phase_since=lab.clock.now() - timedelta(days=1))
    assert resumed(lab) == number


@pytest.mark.parametrize(("age", "number"), [(JUST_BEFORE, 0), (STALLED_AFTER, 1)])
def test_a_command_is_resumed_for_as_long_as_a_round_lasts(age: timedelta, number: int) -> None:
    lab = Lab()
    lab.rows.commands["x"] = a_command(age=age)
    assert resumed(lab) == number
    message = work_on_command("x", lab.clock.now(), checked_for=COMMAND_CHECKED_FOR)
    assert [message for message, _ in lab.work.sent] == [message] * number


def test_without_rows_none_are_read() -> None:
    """An idle cluster reads its table once a round."""
    lab = Lab()
    round_, calls = a_round(lab), list[str]()
    lab.rows.before_call = calls.append
    assert sweep(lab, REQUEUE_NAME, round_).counts == {}
    assert calls == []


def test_a_claim_that_makes_no_progress_gets_another_message(lab: Lab) -> None:
    """Messages get lost."""
    lab.kubernetes.put(a_pending_pod("q", cpu="3500m"))
    lab.clock.advance(seconds=5)
    lab.provision()
    lab.work.take()
    lab.clock.advance(minutes=1)
    lab.reconcile()
    (standing,) = [claim for claim in lab.claims if claim.phase is ClaimPhase.LAUNCHED]
    assert [message["claim"] for message, _ in lab.work.sent] == [standing.name]


# Claims whose instance AWS retires go within budgets days before the date, and without budgets in its last hours.


DAYS = timedelta(days=1)


def retiring(within: timedelta, *, budget: str = "1") -> Lab:
    """One node whose instance is retired within this time."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": budget}]}))
    amend(lab, retires_at=lab.clock.now() + within)
    return lab


def swept(lab: Lab) -> tuple[Deletion | None, RunReport]:
    report = sweep(lab, "scheduledChanges")
    return lab.claim.deletion, report


def test_days_before_the_date_a_node_goes_within_budgets() -> None:
    lab = retiring(DAYS)
    deletion, report = swept(lab)
    assert deletion is not None
    assert (deletion.reason, deletion.ends_at) == (
        TerminationReason.SCHEDULED_CHANGE,
        lab.clock.now() + REPLACED_WITHIN,
    )
    date = lab.claim.retires_at
    assert deletion.message == (
        f"AWS announced a change of instance {lab.claim.instance_id} for {date:%Y-%m-%dT%H:%M:%SZ}"
    )
    assert (lab.claim.is_disrupting, report.counts) == (True, {})


def test_weeks_before_it_nothing_goes() -> None:
    deletion, report = swept(retiring(7 * DAYS))
    assert (deletion, report.counts, report.decisions) == (None, {}, [])


def test_without_a_date_nothing_goes() -> None:
    assert swept(a_working_node())[0] is None


def test_a_spent_budget_keeps_it_and_is_counted() -> None:
    deletion, report = swept(retiring(DAYS, budget="0"))
    assert (deletion, report.counts) == (None, {"scheduledChangesBlocked": 1})


def test_a_pod_that_must_not_be_disrupted_keeps_it_and_is_named() -> None:
    lab = retiring(DAYS)
    lab.kubernetes.amend(
        resources.PODS, "p", {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}, "default"
    )
    deletion, report = swept(lab)
    assert (deletion, report.counts) == (None, {"scheduledChangesBlocked": 1})
    (decision,) = report.decisions
    assert (decision.subject, decision.reason) == (lab.claim.name, ClaimReason.SCHEDULED_CHANGE_BLOCKED)
    assert "default/p" in decision.message


@pytest.mark.parametrize(
    ("within", "remaining"),
    [(DUE_BEFORE, REPLACED_WITHIN), (timedelta(minutes=1), timedelta(minutes=1)), (-DAYS, -DAYS)],
    ids=["hours", "a minute", "past"],
)
def test_in_its_last_hours_it_goes_without_budgets(within: timedelta, remaining: timedelta) -> None:
    """Its pods wait for replacements no longer than the date allows."""
    lab = retiring(within, budget="0")
    deletion, report = swept(lab)
    assert deletion is not None
    assert (deletion.reason, deletion.ends_at) == (TerminationReason.SCHEDULED_CHANGE_DUE, lab.clock.now() + remaining)
    assert report.counts == {}


# NodePools that a calendar closes.


HOURS = "hours"


def a_calendar(**settings: Any) -> dict[str, Any]:
    """A Calendar that closes all NodePools for good, or sets something else."""
    rule = {"name": "shut", "settings": {"closed": True, **settings}}
    metadata, spec = {"name": "office"}, {"rules": [rule]}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": metadata, "spec": spec}


def closed(lab: Lab, calendar: dict[str, Any]) -> RunReport:
    """Sweep once the Calendar has stood still for long enough."""
    lab.kubernetes.put(calendar)
    sweep(lab, HOURS)
    lab.clock.advance(seconds=CHANGE_SETTLES_AFTER.total_seconds())
    return sweep(lab, HOURS)


def test_a_closed_pool_empties_on_the_normal_path(deleted_pools_lab: Lab) -> None:
    closed(deleted_pools_lab, a_calendar())
    assert reason(deleted_pools_lab) == TerminationReason.OUTSIDE_HOURS
    deletion = deleted_pools_lab.claim.deletion
    assert deletion is not None
    assert deletion.message == "NodePool default is outside its hours by rule office/shut, which has no end"
    assert deletion.ends_at == deletion.asked_at + REPLACED_WITHIN


def test_budgets_bound_the_closing(deleted_pools_lab: Lab) -> None:
    report = closed(deleted_pools_lab, a_calendar(budgets=[{"nodes": "0"}]))
    assert reason(deleted_pools_lab) == ""
    assert [decision.reason for decision in report.decisions] == [NodeReason.BUDGET]


def test_an_open_pool_keeps_its_nodes(deleted_pools_lab: Lab) -> None:
    later = {"name": "later", "settings": {"closed": False}}
    calendar = a_calendar()
    calendar["spec"]["rules"].append(later)
    closed(deleted_pools_lab, calendar)
    assert reason(deleted_pools_lab) == ""


@pytest.mark.parametrize(
    ("settings", "until"),
    [
        ({}, "until the pod leaves (podsThatStay: Leave)"),
        (
            {"podsThatStay": "TerminationGracePeriod"},
            "until the pod leaves: its NodeClaim has no terminationGracePeriod",
        ),
        ({"podsThatStay": "Force", "forceAfter": "1h"}, "when it goes regardless of pods (podsThatStay: Force)"),
    ],
)
def test_a_pod_that_may_not_be_evicted_is_told_at_once_with_the_end(settings: dict[str, Any], until: str) -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", metadata={"annotations": {labels.DO_NOT_DISRUPT: "true"}}))
    lab.settle()
    lab.bind("p")
    calendar = a_calendar(**settings)
    start = f"{lab.clock.now() - timedelta(minutes=30):%Y-%m-%dT%H:%M}"
    calendar["spec"]["rules"][0]["windows"] = [{"start": start, "end": "2030-01-01T00:00"}]
    report = closed(lab, calendar)
    assert reason(lab) == ""
    (decision,) = report.decisions
    assert decision.reason == ClaimReason.CLOSED_BUT_OCCUPIED
    assert "pod default/p has karpenter.sh/do-not-disrupt" in decision.message
    assert until in decision.message


def test_after_the_configured_time_a_node_goes_regardless_of_pods_and_budgets(deleted_pools_lab: Lab) -> None:
    lab = deleted_pools_lab
    calendar = a_calendar(podsThatStay="Force", forceAfter="1h", budgets=[{"nodes": "0"}])
    start = f"{lab.clock.now() - timedelta(hours=2):%Y-%m-%dT%H:%M}"
    calendar["spec"]["rules"][0]["windows"] = [{"start": start, "end": "2030-01-01T00:00"}]
    closed(lab, calendar)
    assert reason(lab) == TerminationReason.OUTSIDE_HOURS_FORCED
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.deadline == lab.clock.now() + FORCED_WITHIN


@pytest.mark.parametrize("settings", [{}, {"podsThatStay": "Force", "forceAfter": "1m"}], ids=["budgets", "forced"])
def test_a_calendar_that_closes_and_opens_again_and_again_empties_nothing(
    deleted_pools_lab: Lab, settings: dict[str, Any]
) -> None:
    """Each closing cost the nodes that budgets let go."""
    lab = deleted_pools_lab
    shut, open_ = a_calendar(**settings), a_calendar(closed=False)
    reports = []
    for calendar in (shut, open_) * 5:
        lab.kubernetes.put(calendar)
        reports.append(sweep(lab, HOURS))
        assert reason(lab) == ""
        lab.clock.advance(minutes=1, seconds=30)
    assert [told.reason for told in reports[-2].decisions] == [NodeReason.ROLLOUT_SETTLING]
    assert reports[-2].decisions[0].message.startswith("when NodePool default is closed changed 9 times within an hour")
    assert reports[-1].decisions == [], "the NodePool is open: nothing would go"
    last = events(lab)[-1]
    assert "changed 9 times within an hour" in last, "the event is not a change behind"
    assert last.endswith("The managedFields of the Calendars that close it name the writers: office")
    lab.kubernetes.put(shut)
    sweep(lab, HOURS)
    lab.clock.advance(seconds=LONGEST_SETTLING.total_seconds())
    sweep(lab, HOURS)
    assert reason(lab) != "", "what stands still is followed"


def events(lab: Lab) -> list[str]:
    """The messages about NodePools whose changes settle, in their order."""
    every = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    told = [event for event in every if event["reason"] == NodeReason.ROLLOUT_SETTLING]
    return [event["message"] for event in sorted(told, key=lambda event: str(event["lastTimestamp"]))]


def closing_later(lab: Lab, *, hours: int, **settings: Any) -> dict[str, Any]:
    """A Calendar that closes all NodePools after some hours."""
    calendar = a_calendar(**settings)
    start = f"{lab.clock.now() + timedelta(hours=hours):%Y-%m-%dT%H:%M}"
    calendar["spec"]["rules"][0]["windows"] = [{"start": start, "end": "2030-01-01T00:00"}]
    return calendar


def test_a_rule_that_stands_for_days_closes_without_delay(deleted_pools_lab: Lab) -> None:
    """Its row expired after four days, and the rule was said to have changed on the fifth."""
    lab, written = deleted_pools_lab, set[object]()
    lab.kubernetes.put(closing_later(lab, hours=6 * 24 - 1))
    for _ in range(6 * 24 - 1):
        assert reason(lab) == ""
        assert sweep(lab, HOURS).decisions == []
        written.add(lab.rows.moves.rollouts["hours/default"].confirmed_at)
        lab.clock.advance(hours=1)
    assert len(written) == 6, "it is written once a day"
    sweep(lab, HOURS)
    assert reason(lab) == TerminationReason.OUTSIDE_HOURS


def test_edits_of_a_calendar_while_the_pool_is_open_are_told_to_nobody(deleted_pools_lab: Lab) -> None:
    lab = deleted_pools_lab
    for hours in (5, 6, 7, 8):
        lab.kubernetes.put(closing_later(lab, hours=hours))
        assert sweep(lab, HOURS).decisions == []
        lab.clock.advance(minutes=2)
    assert events(lab) == []


def test_what_a_rule_sets_besides_its_closing_is_no_change(deleted_pools_lab: Lab) -> None:
    lab = deleted_pools_lab
    lab.kubernetes.put(closing_later(lab, hours=1))
    sweep(lab, HOURS)
    later = closing_later(lab, hours=1, weight=7)
    lab.clock.advance(hours=1)
    lab.kubernetes.put(later)
    sweep(lab, HOURS)
    assert reason(lab) == TerminationReason.OUTSIDE_HOURS


def test_a_row_of_another_release_is_no_change_of_the_rules(deleted_pools_lab: Lab) -> None:
    lab, key = deleted_pools_lab, "hours/default"
    row = Rollout(node_pool=key, target="2:of-an-encoding", started_at=lab.clock.now() - timedelta(minutes=9))
    lab.rows.moves = MoveHistory(rollouts={key: row})
    lab.kubernetes.put(a_calendar())
    sweep(lab, HOURS)
    assert reason(lab) == TerminationReason.OUTSIDE_HOURS


def test_rules_in_the_pool_s_annotation_are_told_with_its_own_writers(deleted_pools_lab: Lab) -> None:
    lab = deleted_pools_lab
    for closed_ in (True, False, True):
        rules = {"rules": [{"name": "shut", "settings": {"closed": closed_}}]}
        annotations = {labels.CALENDAR: msgspec.json.encode(rules).decode()}
        pool = a_node_pool(metadata={"annotations": annotations, "managedFields": [{"manager": "a-tool"}]})
        lab.kubernetes.put(pool)
        sweep(lab, HOURS)
        lab.clock.advance(minutes=1)
    assert events(lab)[-1].endswith("The NodePool, with rules in its annotation, was last written by a-tool")


def test_the_sweeps_of_a_round_share_one_reading_of_the_rows(
    deleted_pools_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closing rule cost a query in each round."""
    lab, read, queries = deleted_pools_lab, DynamoMoves.readable, list[object]()

    def counted(moves: DynamoMoves, now: Any) -> MoveHistory:
        queries.append(moves)
        return read(moves, now)

    monkeypatch.setattr(DynamoMoves, "readable", counted)
    lab.kubernetes.put(closing_later(lab, hours=5))
    lab.reconcile()
    assert len(queries) == 2, "the round whether it observes, and the observation"


def test_clocks_that_close_a_pool_are_no_change_of_its_calendar(deleted_pools_lab: Lab) -> None:
    lab = deleted_pools_lab
    calendar = a_calendar()
    start = f"{lab.clock.now() + timedelta(minutes=30):%Y-%m-%dT%H:%M}"
    calendar["spec"]["rules"][0]["windows"] = [{"start": start, "end": "2030-01-01T00:00"}]
    lab.kubernetes.put(calendar)
    sweep(lab, HOURS)
    assert reason(lab) == ""
    lab.clock.advance(minutes=31)
    sweep(lab, HOURS)
    assert reason(lab) == TerminationReason.OUTSIDE_HOURS


def test_a_pool_that_is_deleted_and_made_again_and_again_takes_its_claims_along_once(deleted_pools_lab: Lab) -> None:
    """The first deletion may be meant; the claim stays here as a budget or a brake may keep it."""
    lab = deleted_pools_lab
    row = lab.claim
    for _ in range(2):
        lab.kubernetes.drop(resources.NODE_POOLS, "default")
        sweep(lab, NAME)
        lab.kubernetes.put(a_node_pool())
        begun = reason(lab)
        amend(lab, deletion=row.deletion)
        lab.clock.advance(minutes=1)
        assert sweep(lab, NAME).decisions == [], "it is there: nothing would go"
        lab.clock.advance(minutes=1)
    assert begun == "", "it comes and goes"
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    sweep(lab, NAME)
    lab.clock.advance(seconds=LONGEST_SETTLING.total_seconds())
    sweep(lab, NAME)
    assert reason(lab) == TerminationReason.NODE_POOL_DELETED


def test_a_number_of_nodes_that_goes_up_and_down_is_followed_down_once() -> None:
    """Each turn launched nodes and ended them again."""
    lab = static(1)
    assert len(going(lab)) == 1
    for replicas, told in ((2, 0), (0, 1)):
        lab.clock.advance(minutes=1)
        lab.kubernetes.put(a_node_pool(replicas=replicas))
        round_ = a_round(lab)
        assert len(going(lab, round_)) == 1
        assert len(round_.report.decisions) == told, "more nodes come at once"
    lab.clock.advance(seconds=LONGEST_SETTLING.total_seconds())
    assert len(going(lab)) == 2, "what stands still is followed"


def test_provision_is_asked_to_look_after_warm_room_while_some_is_missing(deleted_pools_lab: Lab) -> None:
    """Without a pending pod, a scheduled run of it is over after a read."""
    lab = deleted_pools_lab
    lab.wake_ups.take()
    sweep(lab, HOURS)
    assert lab.wake_ups.take() == []
    calendar = a_calendar(closed=False, warm={"pods": 20, "requests": {"cpu": "1"}})
    lab.kubernetes.put(calendar)
    lab.clock.advance(seconds=ABSENT_ASKED_EVERY.total_seconds())
    sweep(lab, HOURS)
    (message,) = lab.wake_ups.take()
    assert message == {"wakeUp": WARM}
    before = len(lab.claims)
    lab.provision(message)
    assert len(lab.claims) > before
    after = len(lab.claims)
    lab.provision(message)
    assert len(lab.claims) == after, "room that is requested already is not requested again"
    sweep(lab, HOURS)
    assert lab.wake_ups.take()[-1] == {"wakeUp": WARM}, "nodes that start have no room yet"
    lab.settle()
    lab.wake_ups.take()
    sweep(lab, HOURS)
    assert lab.wake_ups.take() == [], "the room is there"
