"""A round of sweeps ends in time, and what it cannot do it says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.observer import ClusterState
from adapters.ports import Impairment, TransientError
from adapters.run_report import RunReport
from core.brakes import Brake, BrakeKind
from core.lifecycle.claims import INITIALIZATION_TIMEOUT
from core.lifecycle.deletion import leaving
from core.lifecycle.draining import EscalationLevel
from core.lifecycle.records import ClaimPhase, Deletion
from core.manifests.wire import resources
from core.model.snapshot import Snapshot
from core.reasons.code import TerminationReason
from core.reasons.runs import CommandReason
from lambdas.controllers.sweeps.sweep import BudgetPlaces, ClaimTerminator, ReconcileRound, Seen
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.world import FakeClock
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend
from tests.unit.lifecycle.records_for_tests import a_command, a_record

# A sweep ends a claim by its current row, within brakes and budgets.


EXPIRED, GONE, EMPTY = TerminationReason.EXPIRED, TerminationReason.INSTANCE_GONE, TerminationReason.EMPTY


@pytest.fixture
def lab() -> Lab:
    lab = a_working_node()
    lab.work.take()
    return lab


def terminator(lab: Lab) -> ClaimTerminator:
    claims = lab.app.adapters.stores.claims
    return ClaimTerminator(claims, lab.app.shared.claim_deletion, lab.brakes, lab.work, lab.clock)


def reason(lab: Lab) -> str:
    deletion = lab.claim.deletion
    return deletion.reason if deletion is not None else ""


def asked(lab: Lab) -> list[str]:
    return [message["claim"] for message, _ in lab.work.sent]


def leave(lab: Lab, why: TerminationReason) -> None:
    amend(lab, deletion=leaving(lab.claim, why, "", lab.clock.now(), None).deletion)


def test_a_claim_is_stored_as_leaving_and_its_step_requested(lab: Lab) -> None:
    ends_at = lab.clock.now() + timedelta(minutes=3)
    terminator(lab).begin(lab.claim.name, GONE, "it is gone", RunReport(), ends_at=ends_at)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert (deletion.reason, deletion.message, deletion.ends_at) == (GONE, "it is gone", ends_at)
    assert asked(lab) == [lab.claim.name]


def test_a_claim_that_is_gone_is_no_error(lab: Lab) -> None:
    terminator(lab).begin("gone", GONE, "", RunReport())
    assert terminator(lab).begin_within("gone", EXPIRED, "", dict, RunReport())
    assert asked(lab) == []


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        (EMPTY, GONE, GONE),
        (EMPTY, EXPIRED, EMPTY),
        (GONE, EXPIRED, GONE),
        (GONE, TerminationReason.NODE_POOL_DELETED, GONE),
    ],
)
def test_a_claim_that_leaves_is_ended_for_another_reason_only_if_it_might_have_stayed(
    lab: Lab, before: TerminationReason, now: TerminationReason, after: TerminationReason
) -> None:
    leave(lab, before)
    terminator(lab).begin(lab.claim.name, now, "", RunReport())
    assert reason(lab) == after
    assert asked(lab) == ([lab.claim.name] if before != after else [])


def going_since(escalation_level: int) -> dict[str, Any]:
    return {"deletion": Deletion(reason="r", asked_at=NOW, escalation_level=escalation_level)}


@pytest.mark.parametrize(
    ("other", "tries"),
    [
        ({}, True),
        ({"phase": ClaimPhase.LAUNCHED}, False),
        (going_since(EscalationLevel.BLOCKED - 1), False),
        (going_since(EscalationLevel.BLOCKED), True),
        ({"phase": ClaimPhase.REGISTERED, "phase_since": NOW - INITIALIZATION_TIMEOUT}, True),
    ],
)
@pytest.mark.parametrize("why", [EXPIRED, TerminationReason.UNHEALTHY])
def test_one_removal_tries_a_half_open_breaker_where_nothing_else_is_under_way(
    lab: Lab, why: TerminationReason, other: dict[str, Any], *, tries: bool
) -> None:
    """Otherwise a NodePool without commands and pending pods never finds out that its nodes join again.

    A drain that is blocked for days, and a node that never becomes ready, are not waited for.
    """
    lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "half open", node_pool="default"), lab.clock.now())
    name = lab.claim.name
    lab.rows.claims["other"] = msgspec.structs.replace(lab.claim, name="other", **other)
    terminator(lab).begin(name, why, "", RunReport())
    assert (lab.rows.claims[name].deletion is not None) == tries


@pytest.mark.parametrize(("kind", "why"), [(BrakeKind.POOL_BREAKER, EXPIRED), (BrakeKind.STOP, GONE)])
@pytest.mark.parametrize(("pool", "goes"), [("default", False), ("other", True)])
def test_a_brake_of_its_pool_keeps_it(
    lab: Lab, kind: BrakeKind, why: TerminationReason, pool: str, *, goes: bool
) -> None:
    lab.brakes.hold(Brake(kind, "a test", node_pool=pool), lab.clock.now())
    report = RunReport()
    terminator(lab).begin(lab.claim.name, why, "", report)
    assert (reason(lab) == why) == goes
    assert ("skip" in {decision.kind for decision in report.decisions}) != goes


@pytest.mark.parametrize(("places", "goes"), [(0, False), (1, True)])
def test_within_budgets_it_goes_where_there_is_a_place(lab: Lab, places: int, *, goes: bool) -> None:
    ends_at = lab.clock.now() + timedelta(minutes=3)
    name, report = lab.claim.name, RunReport()
    goes_now = terminator(lab).begin_within(name, EXPIRED, "old", lambda: {"default": places}, report, ends_at=ends_at)
    assert goes_now == goes
    deletion = lab.claim.deletion
    assert (deletion is not None) == goes
    assert deletion is None or (deletion.message, deletion.ends_at) == ("old", ends_at)
    assert asked(lab) == [name] * goes


ITEMS = ("a", "b", "c")


def a_round(*, seconds: float = 60, seen: Seen = Seen(None, None)) -> ReconcileRound:  # noqa: B008
    """A round that must have ended in so many seconds."""
    return ReconcileRound(seen, RunReport(), NOW + timedelta(seconds=seconds), FakeClock(NOW))


def done_in(round_: ReconcileRound, *, seconds_each: float = 0, failing: str = "") -> list[str]:
    """What was done of three pieces of work that take some seconds each."""
    done: list[str] = []

    def work(item: str) -> None:
        round_.clock.advance(seconds=seconds_each)  # type: ignore[attr-defined]  # the clock of tests
        if item == failing:
            raise TransientError("kube:patch nodes", "no answer")
        done.append(item)

    round_.each(ITEMS, work, subject=lambda item: f"node {item}")
    return done


def test_no_work_begins_within_twenty_seconds_of_the_end() -> None:
    """The next call may take four attempts, and the round must be reported."""
    assert done_in(a_round(seconds=20)) == list(ITEMS)
    assert done_in(a_round(seconds=19.9)) == []
    round_ = a_round(seconds=30)
    assert done_in(round_, seconds_each=10) == ["a", "b"]
    assert round_.failed == ("node c",)
    assert [d.reason for d in round_.report.decisions] == ["TimeShort"]


def test_what_fails_keeps_nothing_else_from_being_done() -> None:
    round_ = a_round()
    assert done_in(round_, failing="b") == ["a", "c"]
    assert round_.failed == ("node b",)


def test_work_says_whether_it_succeeded() -> None:
    round_ = a_round()
    assert round_.attempt("node a", lambda: None)
    assert not round_.attempt("node b", lambda: round_.view)


def test_what_was_not_seen_cannot_be_worked_on() -> None:
    for what, call in (("view", "observer:observe"), ("instances", "ec2:DescribeInstances")):
        with pytest.raises(TransientError, match=call):
            getattr(a_round(), what)
    assert a_round(seen=Seen((), None)).instances == ()


def test_rows_are_missing_only_where_an_observation_found_none() -> None:
    empty = ClusterState(snapshot=Snapshot(now=NOW), claims={}, commands=(), node_pools={}, node_classes={})
    for view, has_none in (
        (None, False),
        (empty, True),
        (msgspec.structs.replace(empty, claims={"c": a_record()}), False),
        (msgspec.structs.replace(empty, commands=(a_command(),)), False),
    ):
        assert a_round(seen=Seen((), view)).saw_no_rows() is has_none
    assert a_round(seen=Seen((), empty)).view is empty


# Budgets hold at the moment at which a node begins to leave, and not only when the cluster was observed.


CLOSES = timedelta(minutes=20)
"""When the window opens in which no node may go."""

BUDGETS = [{"nodes": "100%"}, {"nodes": "0", "schedule": "20 0 * * *", "duration": "1h"}]


def just_before_the_window(**template: Any) -> Lab:
    """A lab with one node without pods, ten seconds before its NodePool's budget forbids that it goes."""
    lab = Lab()
    disruption = {"consolidateAfter": "0s", "budgets": BUDGETS}
    lab.kubernetes.put(a_node_pool(disruption=disruption, template=template), a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(seconds=(NOW + CLOSES - lab.clock.now()).total_seconds() - 10)
    return lab


def swept_late(lab: Lab, sweep: str, *, by: float, reads_take: float = 0) -> None:
    """Observe the cluster, and run one sweep some seconds later; each of its reads of a row takes `reads_take` seconds."""
    seen = Seen((), lab.app.shared.observer.observe())
    lab.clock.advance(seconds=by)
    lab.rows.before_call = lambda made: lab.clock.advance(seconds=reads_take if made == "read" else 0)
    round_ = ReconcileRound(seen, RunReport(), lab.clock.now() + timedelta(minutes=5), lab.clock)
    next(candidate for candidate in lab.app.sweeps if candidate.name == sweep).run(round_)
    assert round_.failed == ()


@pytest.mark.parametrize(("by", "goes"), [(5, True), (20, False)])
def test_a_window_that_opens_within_a_round_keeps_what_has_expired(by: float, *, goes: bool) -> None:
    """A round lasts minutes: nodes began to leave in a time for which the NodePool forbids it."""
    lab = just_before_the_window(expireAfter="15m")
    swept_late(lab, "expiry", by=by)
    assert (lab.claim.deletion is not None) == goes


@pytest.mark.parametrize(("by", "goes"), [(5, True), (20, False)])
def test_a_window_that_opens_within_a_round_keeps_impaired_instances(by: float, *, goes: bool) -> None:
    lab = just_before_the_window()
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", NOW - timedelta(hours=1))]
    swept_late(lab, "impairedInstances", by=by)
    assert (lab.claim.deletion is not None) == goes


@pytest.mark.parametrize("sweep", ["expiry", "impairedInstances"])
def test_a_window_that_opens_while_the_claim_is_read_keeps_its_node(sweep: str) -> None:
    """A read that DynamoDB throttles takes seconds, and budgets were read before it."""
    lab = just_before_the_window(expireAfter="15m")
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", NOW - timedelta(hours=1))]
    swept_late(lab, sweep, by=5, reads_take=10)
    assert lab.claim.deletion is None


def test_a_window_that_opens_after_the_observation_drops_the_command() -> None:
    """The check of one command after another takes up to twenty seconds, and reading a large cluster as long."""
    lab = just_before_the_window()
    lab.clock.advance(seconds=-16)
    lab.disrupt()
    (message,) = lab.work.take()
    lab.clock.advance(seconds=20)

    def pass_time(made: str) -> None:
        if made == "read" and lab.kubernetes.before_call is not observing:
            lab.rows.before_call = lambda _: None
            lab.clock.advance(seconds=10)

    def observing(made: str) -> None:
        if made == "list priorityclasses":
            lab.kubernetes.before_call = lambda _: None

    lab.kubernetes.before_call, lab.rows.before_call = observing, pass_time
    reasons = [decision.reason for decision in lab.execute(message).decisions if decision.kind == "abandon"]
    assert reasons == [CommandReason.BUDGET_SPENT]
    assert not lab.claim.is_disrupting


def test_windows_are_read_again_only_when_one_opens_or_closes() -> None:
    """Each claim that is to leave asks: in a large cluster, counting its nodes for each would take the round's time."""
    lab = just_before_the_window()
    places = BudgetPlaces(lab.app.shared.observer.observe(), TerminationReason.EXPIRED, lab.clock)
    readings = [places.now()]
    for seconds in (5, 5, 3599, 1):
        lab.clock.advance(seconds=seconds)
        readings.append(places.now())
    assert [bounds["default"] for bounds in readings] == [1, 1, 0, 0, 1]
    assert (readings[0] is readings[1], readings[2] is readings[3]) == (True, True)


@pytest.mark.parametrize(("nodes", "expected"), [("0", 0), ("1", 1), ("100%", 1)])
def test_places_are_those_of_the_reason_and_of_the_claims_that_hold_one(nodes: str, expected: int) -> None:
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": nodes, "reasons": ["Drifted"]}]}))
    places = BudgetPlaces(lab.app.shared.observer.observe(), TerminationReason.DRIFTED, lab.clock)
    assert places.now() == {"default": expected}
