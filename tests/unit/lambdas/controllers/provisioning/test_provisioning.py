"""The rows of a plan's claims: their names, and what is known of their pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import HOPS_MAX, WokenBy, wake_up, woken_by
from adapters.observation.observer import ClusterState
from adapters.observation.stores import OwnRows
from adapters.ports import TransientError
from adapters.run_report import RunReport
from adapters.store import Lease
from core import labels
from core.disruption.move_history import CommandOutcome, MoveHistory
from core.lifecycle.records import ClaimRecord
from core.model.node_pool import NodeClass
from core.model.plan import Plan
from core.model.pod import Owner, Pod
from core.reasons.code import DecisionKind
from core.reasons.pods import PodReason
from core.scheduling import schedule
from installation.metric_names import CHAINS_CUT
from lambdas.controllers.launching import Launcher, LaunchRequests
from lambdas.controllers.provisioning import ClaimRecords, NextRun, note_launches
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeCloud, FakeQueue
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

LEASE = Lease("planner", 7)
MINUTE = timedelta(minutes=1)


class ClaimRecordsWorld:
    """A plan for these pods, one claim each, and who makes its rows."""

    def __init__(self, *pods: Pod, at_most: int = 10) -> None:
        clock = FakeClock(NOW)
        stores = Rows(clock).stores()
        launcher = Launcher(LaunchRequests(FakeCloud(clock), stores, cluster="c"), stores.claims, cluster="c")
        self.records = ClaimRecords(launcher, clock, at_most=at_most)
        self.snapshot = a_snapshot(
            types=(a_type(),),
            node_pools=(a_pool(),),
            pods=pods,
            node_classes=(NodeClass(name="default", spec_hash="h-1", is_ready=True),),
        )
        self.plan = schedule(self.snapshot)

    def rows(self, *, decision: str = "d-1", used: int = 0) -> tuple[list[ClaimRecord], Plan]:
        view = ClusterState(snapshot=self.snapshot, claims={}, commands=(), node_pools={}, node_classes={})
        return self.records.of_plan(self.plan, decision, view, LEASE, used=used, heard_at=NOW - MINUTE)

    def change(self, **changes: Any) -> None:
        """Change the first planned claim."""
        first, *others = self.plan.claims
        claims = (msgspec.structs.replace(first, **changes), *others)
        self.plan = msgspec.structs.replace(self.plan, claims=claims)


def waiting(name: str, **changes: Any) -> Pod:
    return a_pod(name, cpu="1500m", is_marked_unschedulable=True, **changes)


def test_names_are_unique_in_a_run_and_for_ever() -> None:
    """The lease's stamp never comes again, and a run may plan several times under one lease."""
    world = ClaimRecordsWorld(waiting("a"), waiting("b"))
    assert [record.name for record in world.rows()[0]] == [f"default-{LEASE.stamp}-{n}" for n in (0, 1)]
    assert [record.name for record in world.rows(used=2)[0]] == [f"default-{LEASE.stamp}-{n}" for n in (2, 3)]


def test_a_row_has_the_hash_of_its_class_and_the_id_of_its_decision() -> None:
    ((record,), plan) = ClaimRecordsWorld(waiting("a")).rows()
    assert (record.plan.annotations[labels.NODECLASS_HASH], record.plan.annotations[labels.DECISION]) == ("h-1", "d-1")
    assert plan.unschedulable == ()


def test_claims_that_are_alike_share_a_launch_within_what_a_run_launches() -> None:
    pods = [waiting(name) for name in "abc"]
    assert [record.shares for record in ClaimRecordsWorld(*pods).rows()[0]] == [3, 3, 3]
    assert [record.shares for record in ClaimRecordsWorld(*pods, at_most=2).rows()[0]] == [2, 2, 1]
    assert [record.shares for record in ClaimRecordsWorld(*pods, at_most=0).rows()[0]] == [1, 1, 1]


class TestMoments:
    """How long pods waited is measured from these."""

    def test_of_the_first_pod_count(self) -> None:
        early, late = NOW - 3 * MINUTE, NOW - 2 * MINUTE
        first = a_pod("a", cpu="100m", created_at=late, unschedulable_since=late, is_marked_unschedulable=True)
        other = a_pod("b", cpu="100m", created_at=early, unschedulable_since=early, is_marked_unschedulable=True)
        ((record,), _) = ClaimRecordsWorld(first, other).rows()
        moments = record.moments
        assert (moments.pods_created_at, moments.pods_marked_at, moments.heard_at) == (early, early, NOW - MINUTE)

    def test_that_are_unknown_are_left_out(self) -> None:
        ((record,), _) = ClaimRecordsWorld(waiting("a", created_at=None)).rows()
        assert (record.moments.pods_created_at, record.moments.pods_marked_at) == (None, None)


class TestPodsThatAreAwaited:
    """A claim whose pods found another place meanwhile is not launched."""

    def test_all_wait_for_a_node(self) -> None:
        ((record,), _) = ClaimRecordsWorld(waiting("a")).rows()
        assert record.awaits_pods

    @pytest.mark.parametrize("changes", [{"pods": ()}, {"buffer_pods": ("default/room",)}])
    def test_none_wait_where_the_node_is_for_other_reasons_too(self, changes: dict[str, Any]) -> None:
        world = ClaimRecordsWorld(waiting("a"))
        world.change(**changes)
        assert not world.rows()[0][0].awaits_pods

    def test_none_wait_where_one_must_leave_its_node(self) -> None:
        world = ClaimRecordsWorld(waiting("a"))
        bound = waiting("bound", node_name="n")
        world.snapshot = msgspec.structs.replace(world.snapshot, pods=(*world.snapshot.pods, bound))
        world.change(pods=("default/a", "default/bound"))
        assert not world.rows()[0][0].awaits_pods


def test_pods_of_a_claim_that_cannot_be_launched_are_told_why_and_the_others_are_launched() -> None:
    world = ClaimRecordsWorld(waiting("a"), waiting("b"))
    world.change(instance_types=())
    records, plan = world.rows()
    assert [record.name for record in records] == [f"default-{LEASE.stamp}-0"]
    (left_out,) = plan.unschedulable
    assert left_out.pod == "default/a"
    assert left_out.message


def test_a_group_is_not_launched_without_a_claim_whose_members_are_all_still_to_come() -> None:
    """No pod told of such a claim, and the leader of a LeaderWorkerSet got a node without its workers."""
    world = ClaimRecordsWorld(waiting("leader"), waiting("other"))
    of_group = {labels.GROUP_OF_CLAIM: "LeaderWorkerSet/default/llm-0"}
    leader, other = world.plan.claims
    leader = msgspec.structs.replace(leader, annotations=of_group)
    workers = msgspec.structs.replace(leader, pods=(), buffer_pods=("default/worker-1",), instance_types=())
    world.plan = msgspec.structs.replace(world.plan, claims=(workers, leader, other))
    records, plan = world.rows()
    assert [record.plan.pods for record in records] == [other.pods]
    (held,) = plan.unschedulable
    assert (held.pod, held.reason) == (*leader.pods, PodReason.GROUP_INCOMPLETE)


# Launches are charged to the consolidations that moved the pods that they are for.


WEB = "default/ReplicaSet/web"
MOVED = CommandOutcome(command="x", workloads=(WEB,), savings=1000, carried_out_at=NOW)


def of_web(**changes: Any) -> Pod:
    return a_pod("p", owners=(Owner("ReplicaSet", "web", is_controller=True),), **changes)


def of_another() -> Pod:
    return a_pod("p", owners=(Owner("ReplicaSet", "another", is_controller=True),))


class World:
    """One command that moved pods of `web`, saved 1000, and is watched."""

    def __init__(self) -> None:
        self.rows, self.report = Rows(), RunReport()
        self.rows.moves = MoveHistory(outcomes={"x": MOVED})

    def launch(self, pod: Pod, *claims: ClaimRecord, **plan: Any) -> None:
        """Launch a node at a price of 100 for the pod, while these claims exist."""
        view = ClusterState(
            snapshot=a_snapshot(pods=(pod,)),
            claims={claim.name: claim for claim in claims},
            commands=(),
            node_pools={},
            node_classes={},
        )
        record = a_record(plan=a_plan(**{"pods": (pod.key,), "price": 100, **plan}))
        note_launches(self.rows.stores().moves, [record], view, NOW, self.report)

    @property
    def spent(self) -> int:
        return self.rows.moves.outcomes["x"].spent


@pytest.fixture
def world() -> World:
    return World()


def going(reason: str) -> ClaimRecord:
    return a_leaving(reason=reason)


def test_a_waiting_pod_of_a_moved_workload_is_charged(world: World) -> None:
    world.launch(of_web())
    assert world.spent == 100


@pytest.mark.parametrize(
    ("reason", "spent"), [("Underutilized", 100), ("Empty", 100), ("Drifted", 0), ("SpotInterrupted", 0)]
)
def test_a_pod_that_must_leave_is_charged_if_consolidation_makes_it(world: World, reason: str, spent: int) -> None:
    world.launch(of_web(node_name="n"), going(reason))
    assert world.spent == spent


def test_a_pod_on_a_node_that_stays_is_not_charged(world: World) -> None:
    world.launch(of_web(node_name="n"), a_record())
    assert world.spent == 0


def test_pods_of_other_workloads_are_not_charged(world: World) -> None:
    world.launch(of_another())
    assert (world.spent, world.report.counts) == (0, {"workloadsWithUnpaidMoves": 0})


def test_room_of_a_buffer_is_charged_whoever_took_it(world: World) -> None:
    world.launch(of_another(), buffer_pods=("default/room",))
    assert world.spent == 100


def test_a_workload_is_held_once_its_move_does_not_pay(world: World) -> None:
    for _ in range(5):
        world.launch(of_web())
    assert world.report.counts == {"workloadsWithUnpaidMoves": 1}
    held = world.rows.moves.workloads[WEB].held_until
    assert held is not None


def test_without_a_command_that_moved_anything_nothing_is_written(world: World) -> None:
    calls: list[str] = []
    world.rows.moves = MoveHistory()
    world.rows.before_call = calls.append
    world.launch(of_web())
    assert (calls, world.report.counts) == (["read"], {})


def test_a_launch_that_costs_no_command_anything_writes_nothing(world: World) -> None:
    calls: list[str] = []
    world.rows.before_call = calls.append
    world.launch(of_another())
    assert calls == ["read"]


def test_without_launches_nothing_is_read(world: World) -> None:
    calls: list[str] = []
    world.rows.before_call = calls.append
    view = ClusterState(snapshot=a_snapshot(), claims={}, commands=(), node_pools={}, node_classes={})
    note_launches(world.rows.stores().moves, [], view, NOW, world.report)
    assert calls == []


def test_a_table_that_does_not_answer_delays_no_pod(world: World) -> None:
    def fail(_: str) -> None:
        raise TransientError("dynamodb:Query", "throttled")

    world.rows.before_call = fail
    world.launch(of_web())
    assert world.report.counts == {"portErrors": 1}
    assert [(decision.kind, decision.subject, decision.reason) for decision in world.report.decisions] == [
        ("skip", "move history", "TransientError")
    ]


def test_claims_are_charged_at_their_planned_price(world: World) -> None:
    world.launch(of_web(), price=7)
    assert world.spent == 7
    assert msgspec.structs.replace(world.rows.moves.outcomes["x"], spent=0) == MOVED


# An observation for a plan: rows that were just read serve it, and claims whose rows are lost are rebuilt first.


NONE = OwnRows((), ())


@pytest.fixture
def fleet(lab: Lab) -> Lab:
    """One node with its claim."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    return lab


def observed(lab: Lab, rows: OwnRows | None) -> tuple[list[str], list[str]]:
    """Return the observed claims, and the kinds of the decisions."""
    report = RunReport()
    view = lab.app.provisioning.lost_rows.observe(report, rows)
    return sorted(view.claims), [decision.kind for decision in report.decisions]


def test_rows_that_were_just_read_are_not_read_again(fleet: Lab) -> None:
    rows = fleet.app.adapters.stores.own_rows()
    reads: list[str] = []
    fleet.rows.before_call = reads.append
    observed(fleet, rows)
    with_rows = len(reads)
    observed(fleet, None)
    assert with_rows + 2 == len(reads) - with_rows


def test_a_claim_that_was_stored_after_the_rows_were_read_is_not_rebuilt(fleet: Lab) -> None:
    """Its instance is listed and its row is there: a second claim for it would be paid and removed for nothing."""
    (claim,) = fleet.claims
    assert observed(fleet, NONE) == ([claim.name], [])
    assert fleet.claims == (claim,)


def test_a_lost_claim_is_rebuilt_before_the_plan(fleet: Lab) -> None:
    (claim,) = fleet.claims
    fleet.rows.claims.clear()
    assert observed(fleet, NONE) == ([claim.name], [DecisionKind.ADOPT, DecisionKind.REPAIR])


# When `provision` runs next: once for all that ask, and never right after a plan because EC2 refused it.


SECOND = timedelta(seconds=1)
FIVE = timedelta(seconds=5)


def test_runs_that_meet_a_planning_one_request_one_more_run_together() -> None:
    """Each of sixteen messages would come again five seconds later, and in each of them every claim is read."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    for _ in range(16):
        next_run.ask("planner was busy", clock.now() + timedelta(seconds=15), FIVE)
        clock.advance(milliseconds=100)
    assert [delay for _, delay in queue.sent] == [FIVE]


def test_runs_that_request_each_other_end_after_a_bound() -> None:
    """If this failed, a chain whose end moves on would never end: Lambda's own bound is off."""
    queue, clock, report = FakeQueue(), FakeClock(NOW), RunReport()
    next_run = NextRun(queue, clock)

    def requests_all() -> None:
        next_run.ask("planner was busy", clock.now() + 2 * FIVE, FIVE)
        next_run.run_between_schedules(clock.now() + 2 * FIVE, FIVE)
        next_run.planned()
        assert next_run.is_too_early(WokenBy.NEWS)

    next_run.began(HOPS_MAX, report)
    requests_all()
    assert [message["hops"] for message, _ in queue.sent] == 3 * [HOPS_MAX]
    assert CHAINS_CUT not in report.counts
    clock.advance(minutes=1)
    next_run.began(HOPS_MAX + 1, report)
    requests_all()
    assert len(queue.sent) == 3
    assert report.counts[CHAINS_CUT] == 1


def test_a_run_at_the_end_of_its_chain_does_not_stand_for_a_new_one() -> None:
    """It may request no further run: what is news now would wait for the schedule."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    next_run.ask("planner was busy", NOW + FIVE, FIVE)
    next_run.ask("planner was busy", NOW + 3 * FIVE, FIVE)
    assert len(queue.sent) == 2


def test_no_run_is_requested_after_the_end_of_its_chain() -> None:
    queue = FakeQueue()
    NextRun(queue, FakeClock(NOW)).ask("EC2 had no capacity", NOW + FIVE - SECOND, FIVE)
    assert queue.sent == []


def test_news_right_after_a_plan_is_heard_a_second_later_and_once(lab: Lab) -> None:
    """Where EC2 refuses everything, each refusal wakes the next plan: eighteen followed each other in one minute."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision(wake_up("PodUnschedulable"))
    lab.wake_ups.take()
    lab.kubernetes.put(a_pending_pod("q", cpu="3"))
    assert lab.provision(wake_up("refused launch")).counts == {"spacedRuns": 1}
    assert lab.provision(wake_up("refused launch")).counts == {"spacedRuns": 1}
    ((message, delay),) = lab.wake_ups.sent
    assert (message, delay) == (wake_up("spaced"), SECOND)
    lab.clock.advance(seconds=1)
    lab.provision(message)
    assert len(lab.claims) == 2


def test_the_schedule_and_a_quiet_start_wait_for_nothing() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    assert not next_run.is_too_early(WokenBy.NEWS)
    next_run.planned()
    assert not next_run.is_too_early(WokenBy.SCHEDULE)
    clock.advance(seconds=1)
    assert not next_run.is_too_early(WokenBy.NEWS)
    assert queue.sent == []


def test_a_runs_own_request_right_after_a_plan_is_dropped() -> None:
    """The plan that has just ended requested what comes next; sent again as news it would start a chain of its own."""
    queue = FakeQueue()
    next_run = NextRun(queue, FakeClock(NOW))
    next_run.planned()
    assert next_run.is_too_early(WokenBy.ITSELF)
    assert queue.sent == []


def test_a_requested_run_that_may_request_one_more_stands_for_both() -> None:
    """Its chain ends at the very moment at which the one more would come."""
    queue = FakeQueue()
    next_run = NextRun(queue, FakeClock(NOW))
    next_run.ask("planner was busy", NOW + 2 * FIVE, FIVE)
    next_run.ask("planner was busy", NOW + 9 * FIVE, FIVE)
    assert [delay for _, delay in queue.sent] == [FIVE]
    next_run.ask("planner was busy", NOW + 9 * FIVE, FIVE - SECOND)
    assert [delay for _, delay in queue.sent] == [FIVE, FIVE - SECOND]


def test_a_run_at_the_very_end_of_its_chain_is_requested() -> None:
    queue = FakeQueue()
    NextRun(queue, FakeClock(NOW)).ask("EC2 had no capacity", NOW + FIVE, FIVE)
    assert queue.sent == [(wake_up("EC2 had no capacity", NOW + FIVE), FIVE)]


def test_news_after_the_next_plan_is_requested_again() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    next_run = NextRun(queue, clock)
    for _ in range(2):
        next_run.planned()
        assert next_run.is_too_early(WokenBy.NEWS)
        assert next_run.is_too_early(WokenBy.NEWS)
        clock.advance(seconds=1)
    assert queue.sent == [(wake_up("spaced"), SECOND)] * 2


def test_pods_are_found_without_the_audit_log_between_two_scheduled_runs() -> None:
    """EKS promises that log "within a few minutes": with the schedule alone, a pod waits for half a minute before anything."""
    lab = Lab(look_seconds=15)
    lab.provision()
    ((message, delay),) = lab.wake_ups.sent
    assert delay == timedelta(seconds=15)
    event = {"Records": [{"body": msgspec.json.encode(message)}]}
    assert woken_by(event) is WokenBy.BETWEEN_SCHEDULES
    lab.wake_ups.take()
    lab.clock.advance(seconds=15)
    lab.kubernetes.put(a_pending_pod("a"))
    lab.provision(message)
    assert len(lab.claims) == 1
    lab.clock.advance(seconds=30)
    lab.wake_ups.take()
    lab.provision(message)
    assert [sent for sent, _ in lab.wake_ups.sent if sent.get("look")] == [], "the schedule comes next"


def test_nothing_looks_for_pods_between_scheduled_runs_unless_it_is_set() -> None:
    lab = Lab()
    lab.provision()
    assert lab.wake_ups.sent == []
