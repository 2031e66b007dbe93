"""Runs of `disrupt` follow each other as closely as what they wait for can come."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from adapters.observation.observer import ClusterState
from adapters.ports import ConflictError, DeniedError, NotFoundError, PortError
from adapters.run_report import RunReport
from core import labels
from core.calendars import WARM_NAMESPACE
from core.disruption import disrupt
from core.disruption.command import carried_out
from core.disruption.deletion_costs import LEAVES_FIRST
from core.disruption.move_history import CHANGE_SETTLES_AFTER, MoveHistory, Rollout
from core.lifecycle import steps
from core.lifecycle.records import CommandPhase
from core.lifecycle.steps import CommandFacts
from core.manifests.wire import resources
from core.model.node_pool import Calendar, CalendarRule, CalendarSettings, WarmRoom
from core.model.plan import Command, DisruptionPlan, Hold, PlannedClaim, StoredNewNode, StoredTarget
from core.model.snapshot import Snapshot
from core.reasons.code import TerminationReason
from core.reasons.nodes import NodeReason
from core.reasons.runs import CommandReason
from installation.metric_names import ROLLOUTS_STOPPED
from lambdas.controllers.disruption_state import (
    FAILURES,
    FOLLOWED_AFTER,
    POD_EVENTS_PER_RUN,
    RENEWED_AFTER,
    DeletionCostWriter,
    RunCoordination,
    TargetProgress,
    failed_rollouts,
    remaining_target,
    with_rollouts,
    write_pod_events,
)
from lambdas.controllers.events import ObjectWarnings
from lambdas.controllers.run_requests import GATHERED, SPACING
from tests.builders import CLASS_REF, NOW, a_node_of, a_snapshot, a_stored_target
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeKubernetes, FakeQueue
from tests.unit.disruption.nodes_for_tests import SMALL, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import half_full
from tests.unit.lifecycle.records_for_tests import a_command, a_leaving, a_plan, a_record

# Pods of nodes that go next are marked in the cluster, as far as it takes the marks.


PODS = tuple(f"p{number}" for number in range(5))
TARGET = a_stored_target("a")
SILENT = ObjectWarnings(FakeKubernetes(FakeClock(NOW)), FakeClock(NOW))


def steered(server: FakeKubernetes, *, is_on: bool = True, target: StoredTarget | None = TARGET) -> dict[str, int]:
    """Steer with five pods on a node that goes and one on another; the counts of the run."""
    report = RunReport()
    pods = (*(pod_on("a", name) for name in PODS), pod_on("b", "stays"))
    DeletionCostWriter(server, is_on=is_on).write(a_snapshot(pods=pods), target, report)
    return report.counts


def costs(server: FakeKubernetes) -> list[str]:
    annotated = (
        server.raw(resources.PODS, name, "default")["metadata"].get("annotations", {})
        for name in server.names(resources.PODS)
    )
    return [annotations.get(labels.POD_DELETION_COST, "") for annotations in annotated]


@pytest.fixture
def server() -> FakeKubernetes:
    server = FakeKubernetes(FakeClock(NOW))
    server.put(*(a_pending_pod(name) for name in (*PODS, "stays")))
    return server


def failing(server: FakeKubernetes, errors: list[PortError | None]) -> None:
    remaining = iter(errors)

    def fail(call: str) -> None:
        error = next(remaining, None) if call.startswith("patch") else None
        if error is not None:
            raise error

    server.before_call = fail


def test_pods_of_nodes_that_go_next_are_marked(server: FakeKubernetes) -> None:
    assert steered(server) == {"steeredPods": 5, "failedSteering": 0}
    assert costs(server) == [LEAVES_FIRST] * 5 + [""]


def test_where_it_is_off_nothing_is_written(server: FakeKubernetes) -> None:
    assert steered(server, is_on=False) == {}
    assert costs(server) == [""] * 6


def test_without_a_target_nothing_is_marked(server: FakeKubernetes) -> None:
    assert steered(server, target=None) == {"steeredPods": 0, "failedSteering": 0}


def test_pods_that_are_gone_or_have_changed_are_no_failure(server: FakeKubernetes) -> None:
    failing(server, [NotFoundError("kube:patch pods", "gone"), ConflictError("kube:patch pods", "another uid")])
    assert steered(server) == {"steeredPods": 3, "failedSteering": 0}


def test_a_server_that_refuses_is_asked_three_times(server: FakeKubernetes) -> None:
    """A cost is a hint: it does not hold up the run."""
    failing(server, [None, *(DeniedError("kube:patch pods", "forbidden") for _ in range(9))])
    assert steered(server) == {"steeredPods": 1, "failedSteering": FAILURES}
    assert costs(server).count(LEAVES_FIRST) == 1


# Pods that come and go on thousands of nodes.


def test_the_writes_of_one_run_are_bounded_and_no_node_starves() -> None:
    """Otherwise, a CronJob on every node causes 5,000 writes, each minute."""
    lab = Lab()
    rows = lab.rows
    for number in range(POD_EVENTS_PER_RUN + 100):
        record = msgspec.structs.replace(a_record(version=1), name=f"c{number:04}", last_pod_event_at=NOW)
        rows.claims[record.name] = record
    for look in range(1, 3):
        now = NOW + timedelta(minutes=look)
        events = [
            (record, msgspec.structs.replace(record, last_pod_event_at=now, pods_digest=str(look)))
            for record in rows.claims.values()
        ]
        write_pod_events(
            lab.app.adapters.stores, cast(ClusterState, cast(Any, SimpleNamespace(pod_events=tuple(events))))
        )
        written = [record for record in rows.claims.values() if record.last_pod_event_at == now]
        assert len(written) == POD_EVENTS_PER_RUN
    assert all(record.last_pod_event_at != NOW for record in rows.claims.values())


# A rollout that fails is stored, reported and stopped.


GOING = Rollout(node_pool="default", target="t", started_at=NOW - timedelta(hours=1))


def view_of(snapshot: Snapshot) -> ClusterState:
    return ClusterState(snapshot=snapshot, claims={}, commands=(), node_pools={}, node_classes={})


def after(
    reason: CommandReason, *, command_reason: str = TerminationReason.DRIFTED, rollout: Rollout = GOING
) -> Rollout | None:
    """The stored rollout of the pool after a command was given up for the reason."""
    rows = Rows()
    rows.moves = MoveHistory(rollouts={rollout.node_pool: rollout})
    command = Command(reason=command_reason, method="drift", nodes=("n", "gone"), claims=("c", "gone"))
    facts = CommandFacts(claims={"c": a_record()})
    step = steps.Abandon(reason, "no replacement came")
    failed_rollouts(rows.stores().moves, a_command(command=command), facts, step, NOW)
    return rows.moves.rollouts.get("default")


@pytest.mark.parametrize("reason", [CommandReason.TIMEOUT, CommandReason.REPLACEMENT_LOST])
def test_replacements_that_do_not_come_stop_the_rollout(reason: CommandReason) -> None:
    rollout = after(reason)
    assert rollout is not None
    assert (rollout.failures, rollout.is_stopped(NOW)) == (1, True)
    assert rollout.message == "command x: no replacement came"


def test_other_commands_and_other_ends_do_not() -> None:
    assert after(CommandReason.BUDGET_SPENT) == GOING
    assert after(CommandReason.TIMEOUT, command_reason=TerminationReason.UNDERUTILIZED) == GOING


def test_a_pool_without_a_rollout_gets_none() -> None:
    other = Rollout(node_pool="other", target="t", started_at=NOW)
    assert after(CommandReason.TIMEOUT, rollout=other) is None


def test_a_new_rollout_is_stored_once_and_lets_one_node_go() -> None:
    rows, report = Rows(), RunReport()
    writes: list[str] = []
    rows.before_call = lambda call: writes.append(call) if call == "write" else None
    pair = drifted(a_node_of(SMALL))
    view = view_of(world(pair, pods=(pod_on("node-1"),)))
    observed = with_rollouts(rows.stores().moves, view, SILENT, report)
    gate = observed.snapshot.rollouts["default"]
    assert (gate.allowed, gate.is_settling) == (0, True), "it may be taken back"
    assert rows.moves.rollouts["default"].started_at == NOW
    assert [told.reason for told in report.decisions] == ["RolloutSettling"]
    report = RunReport()
    later = msgspec.structs.replace(view.snapshot, now=NOW + CHANGE_SETTLES_AFTER)
    observed = with_rollouts(rows.stores().moves, msgspec.structs.replace(view, snapshot=later), SILENT, report)
    gate = observed.snapshot.rollouts["default"]
    assert (gate.allowed, gate.is_stopped, gate.is_settling) == (1, False, False)
    assert writes == ["write"]
    assert (report.counts, report.decisions) == ({}, [])


def test_a_stopped_rollout_is_reported() -> None:
    rows, report = Rows(), RunReport()
    view = view_of(world(drifted(a_node_of(SMALL)), pods=(pod_on("node-1"),)))
    with_rollouts(rows.stores().moves, view, SILENT, RunReport())
    failed = rows.moves.rollouts["default"].after_failure("command x: late", NOW)
    rows.moves = MoveHistory(rollouts={"default": failed})
    observed = with_rollouts(rows.stores().moves, view, SILENT, report)
    assert observed.snapshot.rollouts["default"].is_stopped
    assert report.counts == {ROLLOUTS_STOPPED: 1}
    (decision,) = report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("skip", "default", "RolloutStopped")
    assert decision.message == observed.snapshot.rollouts["default"].message


def test_without_drift_the_view_is_the_same_object() -> None:
    view = view_of(world(a_node_of(SMALL)))
    assert with_rollouts(Rows().stores().moves, view, SILENT, RunReport()) is view


# Nodes that were bought for room, while what asks for it comes and goes.


ROOM = Calendar(
    name="office",
    rules=(CalendarRule(name="warm", time_zone="UTC", settings=CalendarSettings(warm=WarmRoom(pods=2))),),
)
BOUGHT = (f"{WARM_NAMESPACE}/capacity-buffer-default-1", f"{WARM_NAMESPACE}/capacity-buffer-default-2")


def held(rows: Rows, *calendars: Calendar, minutes: float, pods: tuple[str, ...] = BOUGHT) -> Hold | None:
    """Look at a node that was bought for these virtual pods so many minutes ago, under these Calendars; its hold."""
    snapshot = world(a_node_of(SMALL))
    (claim,), later = snapshot.node_claims, NOW + timedelta(minutes=minutes)
    record = a_record(plan=a_plan(buffer_pods=pods))
    snapshot = msgspec.structs.replace(
        snapshot, now=later, calendars=calendars, node_claims=(msgspec.structs.replace(claim, name=record.name),)
    )
    view = msgspec.structs.replace(view_of(snapshot), claims={record.name: record})
    seen = with_rollouts(rows.stores().moves, view, SILENT, RunReport())
    return seen.snapshot.node_claims[0].hold


def test_nodes_of_room_that_comes_and_goes_stay_longer_with_each_turn() -> None:
    rows = Rows()
    assert held(rows, ROOM, minutes=0) is None, "what is wanted needs no hold"
    first = held(rows, minutes=2)
    assert first is not None
    assert (first.until, first.reason) == (NOW + timedelta(minutes=6), NodeReason.ROLLOUT_SETTLING)
    assert "the room that calendars keep warm in NodePool default changed 2 times" in first.message
    again = held(rows, ROOM, minutes=4)
    assert again is not None
    assert again.until == NOW + timedelta(minutes=12)
    assert held(rows, ROOM, minutes=12) is None


def test_a_claim_proves_a_wish_that_no_pass_has_seen() -> None:
    assert held(Rows(), minutes=2) is not None


def test_the_end_of_a_wish_that_stood_for_an_hour_is_followed_at_once() -> None:
    rows = Rows()
    assert held(rows, ROOM, minutes=0) is None
    assert held(rows, minutes=60) is None
    assert held(Rows(), minutes=60) is None


def test_nodes_for_pods_have_nothing_that_settles() -> None:
    rows = Rows()
    assert held(rows, minutes=2, pods=()) is None
    assert held(rows, minutes=2, pods=("default/web-1",)) is None
    assert not rows.moves.rollouts


def test_a_command_that_is_validated_late_is_asked_for_less_and_less_often() -> None:
    """Its message comes back after minutes where `execute` died; twelve runs a minute would read the whole table in vain."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    command = a_command(verify_at=NOW)
    delays = []
    for _ in range(5):
        turns.ask_after_validation([command])
        (_, delay), queue.sent = queue.sent[0], []
        delays.append(delay)
        clock.advance(seconds=delay.total_seconds())
    assert delays[:2] == [FOLLOWED_AFTER, FOLLOWED_AFTER]
    assert all(later == 2 * earlier for earlier, later in pairwise(delays[1:]))


def test_a_command_that_waits_is_followed_soon_after_its_validation() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    turns.ask_after_validation([a_command(verify_at=NOW + 3 * FOLLOWED_AFTER)])
    assert [delay for _, delay in queue.sent] == [4 * FOLLOWED_AFTER]


def is_postponed(turns: RunCoordination, now: datetime, moment: timedelta) -> bool:
    """Whether a run that begins now leaves its decision to a later one, where a node may go that much later."""
    return turns.is_postponed(a_snapshot(now=now, nominated_until={"n": now + moment}), RunReport())


def test_a_decision_waits_for_nodes_that_may_go_seconds_later() -> None:
    """Otherwise, each of them is a target of its own, with a validation of its own."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    assert is_postponed(turns, NOW, GATHERED)
    assert [delay for _, delay in queue.sent] == [GATHERED]


def test_a_decision_waits_once_and_not_for_long() -> None:
    """Where pods come and go all the time, some node is always about to be disruptable."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    turns = RunCoordination(cast("Any", None), queue, clock)
    assert not is_postponed(turns, NOW, GATHERED + timedelta(seconds=1))
    assert queue.sent == [], "the run that decides asks for the next one at its end"
    postponed = [is_postponed(turns, NOW, timedelta(seconds=1)) for _ in range(4)]
    assert postponed == [True, False, True, False]


class Sandbox:
    """One sandbox, its clock and its queue."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.queue, self.clock, self.report = FakeQueue(), FakeClock(NOW), RunReport()
        self.turns = RunCoordination((rows or Rows()).leasing, self.queue, self.clock)

    def ended(self, *, is_new: bool = True, has_commands: bool = False, **state: Any) -> None:
        fields = {"claims": {}, "commands": (), "node_pools": {}, "node_classes": {}, "snapshot": a_snapshot()}
        view = ClusterState(**{**fields, **state})
        self.turns.ended(view, is_new=is_new, has_commands=has_commands)

    def asked(self) -> list[tuple[str, timedelta]]:
        messages = [(message["wakeUp"], delay) for message, delay in self.queue.sent]
        self.queue.take()
        return messages

    def early(self, seconds: float) -> bool:
        """Whether a run is too early so long after now."""
        self.clock.advance(seconds=seconds)
        return self.turns.is_too_early(self.report)


def test_the_first_run_is_never_too_early() -> None:
    sandbox = Sandbox()
    assert not sandbox.early(0)
    assert (sandbox.asked(), sandbox.report.counts) == ([], {})


def test_a_run_soon_after_a_pass_is_put_off_and_asked_for() -> None:
    sandbox = Sandbox()
    sandbox.ended(has_commands=True)
    assert sandbox.early(4)
    assert sandbox.asked() == [("spaced", SPACING - timedelta(seconds=4))]
    assert sandbox.report.counts == {"spacedRuns": 1}
    assert not sandbox.early(6)


def test_passes_without_commands_are_spaced_wider_and_wider_unless_something_moves() -> None:
    """A cluster whose pods come and go all day must not cost much more than the schedule; one in a drain must not wait."""
    for state, widened in (
        ({}, True),
        ({"claims": {"c": a_record()}}, True),
        ({"claims": {"c": a_leaving()}}, False),
        ({"commands": (a_command(),)}, False),
        ({"has_commands": True}, False),
        ({"is_new": False}, False),
    ):
        sandbox = Sandbox()
        for _ in range(2):
            sandbox.ended(**state)
            sandbox.clock.advance(seconds=SPACING.total_seconds())
        sandbox.ended(**state)
        assert sandbox.early(SPACING.total_seconds()) is widened, state


def test_one_run_decides_at_a_time_and_the_other_is_followed() -> None:
    rows = Rows()
    first, other = Sandbox(rows), Sandbox(rows)
    lease = first.turns.take("one", first.report)
    assert lease is not None
    assert other.turns.take("other", other.report) is None
    assert (other.asked(), other.report.counts) == ([("another run decides", FOLLOWED_AFTER)], {"busyRuns": 1})
    first.turns.give_up(lease)
    assert other.turns.take("other", other.report) is not None
    assert first.report.counts == {}


def test_the_next_known_moment_is_asked_for_but_not_at_once() -> None:
    for later, delay in ((timedelta(seconds=30), timedelta(seconds=30)), (timedelta(seconds=3), GATHERED)):
        sandbox = Sandbox()
        sandbox.ended(snapshot=a_snapshot(nominated_until={"n": NOW + later}), has_commands=True)
        assert sandbox.asked() == [("known moment", delay)]
    sandbox = Sandbox()
    sandbox.ended()
    assert sandbox.asked() == []


def test_only_commands_that_wait_for_their_validation_are_awaited() -> None:
    sandbox = Sandbox()
    sandbox.turns.ask_after_validation([a_command(CommandPhase.STARTING, verify_at=NOW + timedelta(hours=1))])
    assert sandbox.asked() == []


# The parts of a target that `disrupt` keeps between two runs.


def progress(rows: Rows) -> TargetProgress:
    return TargetProgress(rows.targets, DeletionCostWriter(FakeKubernetes(FakeClock(NOW)), is_on=False))


def a_look(snapshot: Snapshot, keeper: TargetProgress) -> tuple[Snapshot, DisruptionPlan, RunReport]:
    """Decide and store, as `disrupt` does; returns the world after the commands."""
    report, seen = RunReport(), keeper.with_target(snapshot)
    plan = disrupt(seen)
    keeper.keep(seen, plan, [(f"id-{number}", command) for number, command in enumerate(plan.commands)], report)
    return carried_out(snapshot, *plan.commands), plan, report


def test_the_next_run_continues_the_target_until_nothing_is_left_of_it() -> None:
    """Otherwise, each wave is the first of another target, and pods move twice."""
    rows = Rows()
    keeper, snapshot = progress(rows), half_full(8, at_once=2)
    snapshot, first, report = a_look(snapshot, keeper)
    assert report.counts["targetMade"] == 1
    assert first.target is not None
    gone = [node for command in first.commands for node in command.nodes]
    while rows.targets.read() is not None:
        snapshot, plan, report = a_look(snapshot, keeper)
        assert report.counts["targetContinued"] == 1
        assert plan.commands
        gone += [node for command in plan.commands for node in command.nodes]
    assert set(gone) == {drain.node for drain in first.target.drains}


def test_an_unchanged_target_is_not_written() -> None:
    rows, writes = Rows(), list[str]()
    keeper, snapshot = progress(rows), half_full(8, at_once=2)
    seen = keeper.with_target(snapshot)
    keeper.keep(seen, disrupt(seen), (), RunReport())
    rows.before_call = writes.append
    seen = keeper.with_target(snapshot)
    keeper.keep(seen, disrupt(seen), (), RunReport())
    assert writes == ["read"]


@pytest.mark.parametrize(
    ("later", "is_written"), [(timedelta(minutes=1), False), (RENEWED_AFTER, True), (-timedelta(minutes=1), True)]
)
def test_a_target_that_is_only_decided_again_is_seldom_written(later: timedelta, *, is_written: bool) -> None:
    """Each pass wrote it while the ledger could not be written, since its commands could not begin."""
    rows, writes = Rows(), list[str]()
    keeper, snapshot = progress(rows), half_full(8, at_once=2)
    plan = disrupt(snapshot)
    assert plan.target is not None
    keeper.keep(snapshot, plan, (), RunReport())
    rows.before_call = writes.append
    again = msgspec.structs.replace(plan.target, made_at=plan.target.made_at + later)
    keeper.keep(keeper.with_target(snapshot), msgspec.structs.replace(plan, target=again), (), RunReport())
    assert writes == ["read"] + ["write"] * is_written


def test_a_target_that_cannot_be_stored_stops_nothing() -> None:
    def refuse(call: str) -> None:
        if call == "write":
            raise DeniedError("dynamodb:PutItem", "too large")

    rows = Rows()
    keeper, snapshot, report = progress(rows), half_full(8, at_once=2), RunReport()
    rows.before_call = refuse
    keeper.keep(snapshot, disrupt(snapshot), (), report)
    assert [decision.reason for decision in report.decisions] == ["TargetNotKept"]


def test_a_launched_node_continues_with_its_claims_name() -> None:
    """Later waves move pods to the NodeClaim that the command requests, which differs from the planned name."""
    claim = PlannedClaim(name="default-new-1", node_pool="default", node_class=CLASS_REF)
    target = a_stored_target(
        *disrupt(half_full(8, at_once=2)).target.drains,  # type: ignore[union-attr]  # there is one
        new_price=1,
        new_nodes=(StoredNewNode(name=claim.name, pods={"kind": 3}),),
    )
    command = Command(reason="Underutilized", method="repack", nodes=("x",), claims=("x",), replacements=(claim,))
    plan = DisruptionPlan(now=NOW, commands=(command,), target=target)
    kept_target = remaining_target(msgspec.structs.replace(half_full(2, at_once=1)), plan, [("abc", command)])
    assert kept_target is not None
    assert [(slot.node, slot.pods) for slot in kept_target.slots] == [("default-abc-new-1", 3)]
    assert kept_target.new_nodes == ()


# The row of a command cannot be read: no node is chosen, and pods get nodes, notices are heeded, rounds have their sweeps.


SPOT = "EC2 Spot Instance Interruption Warning"


@pytest.fixture
def spoiled(lab: Lab) -> Lab:
    """The lab with a command in its table that nobody can read."""
    lab.rows.spoil("commands", "x")
    lab.clock.advance(minutes=2)
    return lab


def test_pending_pods_get_nodes(spoiled: Lab) -> None:
    """Otherwise, one mistyped row keeps every pod of the cluster waiting. The node's type has 2 CPUs: it takes none of them."""
    spoiled.kubernetes.put(*(a_pending_pod(f"waiting-{n}", cpu="1500m") for n in range(3)))
    spoiled.settle()
    assert len(spoiled.claims) == 3


def test_a_spot_instance_is_drained_although_its_claim_is_lost(spoiled: Lab) -> None:
    instance_id = spoiled.claim.instance_id
    spoiled.rows.claims.clear()
    notice = {"source": "aws.ec2", "detail-type": SPOT, "detail": {"instance-id": instance_id}}
    spoiled.app.interruptions.run(notice, RunReport())
    spoiled.execute()
    deletion = spoiled.claim.deletion
    assert deletion is not None
    assert deletion.reason == TerminationReason.SPOT_INTERRUPTED


def test_a_round_rebuilds_lost_claims_and_counts_the_row(spoiled: Lab) -> None:
    name = spoiled.claim.name
    spoiled.rows.claims.clear()
    assert spoiled.reconcile().counts["unreadableRows"] == 1
    assert spoiled.claim.name == name


def test_no_node_is_chosen(spoiled: Lab) -> None:
    """The nodes of the command look as if they were in none."""
    with pytest.raises(DeniedError, match="row x of partition test#commands cannot be read"):
        spoiled.disrupt()
    view = spoiled.app.shared.observer.observe()
    with pytest.raises(DeniedError, match="row x of partition test#commands cannot be read"):
        view.require_commands()
