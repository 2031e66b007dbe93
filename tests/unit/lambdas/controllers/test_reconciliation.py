"""When claims and instances are in order, so that `reconcile` may skip observations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.stores import OwnRows
from adapters.ports import Instance, TransientError
from adapters.run_report import RunReport
from adapters.store import SweepState
from core import labels
from core.brakes import Brake, BrakeKind
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from core.model.node_pool import NodePool
from core.model.values.taints import DISRUPTED
from core.reasons.runs import RunReason
from installation.metric_names import FAILED_SWEEPS, SKIPPED_SWEEPS, STALE_SWEEPS
from installation.wiring import BY_NAME
from lambdas.controllers.reconciliation import (
    PUNCTUALITY,
    ROUND,
    STALE_AFTER,
    WHOLE_EVERY,
    WITHOUT_PODS_EVERY,
    WRITES_EVERY,
    ObservationScope,
    ObservedPoolBrakes,
    ReconciliationResync,
    in_order,
    is_in_order,
    versions,
)
from lambdas.controllers.status import ObjectStatus
from lambdas.controllers.sweeps.sweep import MARGIN, ReconcileRound, Sweep
from tests.builders import NOW, a_pool, a_snapshot
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock
from tests.unit.lifecycle.records_for_tests import a_command

# NodePools that are only observed have a brake, for as long as their annotation says so.


def observed(name: str) -> NodePool:
    return a_pool(name, own_annotations={labels.MODE: labels.OBSERVE})


class ObservedPoolsWorld:
    """The brakes, and what one round changes."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.brakes = Rows(self.clock).brakes
        self.forgotten = 0
        self.brakes.forget_reading = self._forget  # type: ignore[method-assign]

    def _forget(self) -> None:
        self.forgotten += 1

    def follow(self, *pools: NodePool) -> list[tuple[str, str, str]]:
        report = RunReport()
        ObservedPoolBrakes(self.brakes, self.brakes, self.clock).follow(a_snapshot(node_pools=pools), report)
        return [(decision.kind, decision.subject, decision.reason) for decision in report.decisions]

    def held(self) -> list[str]:
        return [brake.node_pool for brake in self.brakes.held() if brake.kind is BrakeKind.OBSERVED]


def test_a_brake_comes_and_goes_with_the_annotation() -> None:
    world = ObservedPoolsWorld()
    assert world.follow(observed("b"), observed("a"), a_pool("acts")) == [
        ("brake", "a", BrakeKind.OBSERVED),
        ("brake", "b", BrakeKind.OBSERVED),
    ]
    assert world.held() == ["a", "b"]
    assert world.brakes.held()[0].message == f"NodePool a is only observed: its annotation {labels.MODE} says so"
    assert world.follow(observed("a"), observed("b")) == []
    assert world.follow(observed("b")) == [("release", "a", BrakeKind.OBSERVED)]
    assert (world.held(), world.forgotten) == (["b"], 2)


def test_brakes_of_other_kinds_are_left_alone() -> None:
    world = ObservedPoolsWorld()
    world.brakes.hold(Brake(BrakeKind.PAUSE, "a person", node_pool="a"), NOW)
    assert (world.follow(a_pool("a")), world.forgotten) == ([], 0)
    assert len(world.brakes.held()) == 1


# A round of sweeps, of which one fails.


def test_a_round_without_an_observation_counts_unreadable_rows(lab: Lab) -> None:
    """The alarm waits for two periods of five minutes, and a cluster at rest is observed less often."""
    rounds = []
    lab.rows.spoil("moves", "workload#x")
    for _ in range(6):
        lab.clock.advance(minutes=2)
        rounds.append(lab.reconcile().counts)
    assert any("skippedRuns" in counts for counts in rounds)
    assert [counts["unreadableRows"] for counts in rounds] == [1] * 6


def test_a_failing_part_does_not_stop_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(node_class: object, node_pools: object) -> object:
        raise TransientError("ec2:DescribeSubnets", "throttled")

    monkeypatch.setattr(lab.cloud, "resolve", fail)
    lab.clock.advance(minutes=2)
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    report = lab.reconcile()
    assert lab.claim.deletion is not None
    assert report.counts["portErrors"] == 1


def test_each_round_in_which_a_sweep_fails_is_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fleetwright status` said "1 rounds", however long it had failed."""
    (sweep,) = (sweep for sweep in lab.app.reconciliation.sweeps if sweep.name == "demotedInstances")

    def fail(self: object, round_: object) -> None:
        raise TransientError("ec2:DescribeInstances", "throttled")

    monkeypatch.setattr(type(sweep), "run", fail)
    states = []
    for _ in range(3):
        lab.clock.advance(minutes=1)
        lab.reconcile()
        states.append(lab.rows.sweeps[sweep.name])
    assert [state.failures for state in states] == [1, 2, 3]
    assert len({state.clean_at for state in states}) == 1
    monkeypatch.undo()
    lab.clock.advance(minutes=1)
    lab.reconcile()
    assert (lab.rows.sweeps[sweep.name].failures, lab.rows.sweeps[sweep.name].clean_at) == (0, lab.clock.now())


def test_a_round_counts_what_it_has_seen(lab: Lab) -> None:
    report = lab.reconcile()
    assert (report.counts["instances"], report.counts["claims"]) == (1, 1)
    machine = lab.claim.machine
    assert machine is not None
    assert report.counts["fleetMillidollarsPerHour"] == machine.offering.price // 10**6 > 0


def test_objects_that_cannot_be_read_are_told_each_round(lab: Lab) -> None:
    broken = a_node_pool("broken", template={"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]})
    lab.kubernetes.put(broken)
    for _ in range(2):
        lab.clock.advance(minutes=2)
        decisions = lab.reconcile().decisions
        (told,) = (
            decision
            for decision in decisions
            if "broken" in decision.subject and decision.reason == RunReason.CANNOT_BE_READ
        )
        assert told.kind == "skip"
        assert "Near" in told.message


def test_without_a_list_of_instances_the_cluster_is_observed_all_the_same(lab: Lab) -> None:
    """Only the sweeps that compare instances with claims have to wait."""
    lab.cloud.before_call = failing_at("instances")
    lab.clock.advance(minutes=2)
    report = lab.reconcile()
    assert "instances" not in report.counts
    assert report.counts["claims"] == 1


def test_without_an_observation_the_instances_are_counted(lab: Lab) -> None:
    lab.kubernetes.before_call = failing_at("list nodes")
    lab.clock.advance(minutes=2)
    report = lab.reconcile()
    assert report.counts["instances"] == 1
    assert "claims" not in report.counts


def failing_at(called: str) -> Callable[[str], None]:
    def fail(call: str) -> None:
        if call == called:
            raise TransientError(call, "500")

    return fail


def a_sweep(lab: Lab, name: str = "demotedInstances") -> Sweep:
    (only,) = (sweep for sweep in lab.app.reconciliation.sweeps if sweep.name == name)
    return only


def state(lab: Lab, name: str = "demotedInstances") -> SweepState:
    return lab.rows.sweeps[name]


def round_of_a_new_sandbox(lab: Lab, *, time: timedelta | None = None) -> RunReport:
    """A round that observes the cluster, since its sandbox has no earlier observation."""
    lab.restart()
    return lab.reconcile(time=time)


def test_a_clean_sweep_is_due_again_after_its_interval_and_a_failed_one_at_once(lab: Lab) -> None:
    sweep = a_sweep(lab, "instanceProfiles")
    lab.reconcile()
    first = state(lab, sweep.name)
    runs: list[str] = []
    lab.cloud.before_call = lambda call: runs.extend([call] if call == "prune_profiles" else [])
    lab.clock.advance(seconds=sweep.every.total_seconds() - 1)
    round_of_a_new_sandbox(lab)
    assert (runs, state(lab, sweep.name)) == ([], first)
    lab.clock.advance(seconds=1)
    round_of_a_new_sandbox(lab)
    assert runs == ["prune_profiles"]
    lab.rows.sweeps[sweep.name] = SweepState(lab.clock.now(), 1, "throttled")
    lab.clock.advance(minutes=2)
    round_of_a_new_sandbox(lab)
    assert len(runs) == 2


def test_a_sweep_without_time_is_left_out_and_told(lab: Lab) -> None:
    """It comes first in a later round, and counts as failed until then."""
    lab.reconcile()
    clean_at = state(lab).clean_at
    lab.clock.advance(minutes=2)
    report = round_of_a_new_sandbox(lab, time=MARGIN - timedelta(seconds=1))
    assert report.counts["skippedSweeps"] > 1
    assert report.counts["failedSweeps"] == report.counts["skippedSweeps"]
    told = {
        decision.subject: decision.message for decision in report.decisions if decision.reason == RunReason.TIME_SHORT
    }
    assert told[f"sweep {a_sweep(lab).name}"] == f"skipped, last clean at {clean_at:%H:%M:%S}"
    assert (state(lab).clean_at, state(lab).failures) == (clean_at, 1)


@pytest.mark.parametrize(("late", "stale"), [(-1, 0), (0, 1)])
def test_a_sweep_that_is_not_clean_for_half_an_hour_is_stale(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, late: float, stale: int
) -> None:
    sweep = a_sweep(lab)
    lab.reconcile()

    def fail(self: object, round_: object) -> None:
        raise TransientError("ec2:DescribeInstances", "throttled")

    monkeypatch.setattr(type(sweep), "run", fail)
    lab.clock.advance(seconds=(STALE_AFTER + sweep.every).total_seconds() + late)
    assert lab.reconcile().counts["staleSweeps"] == stale


@pytest.mark.parametrize(("seconds", "is_written"), [(-1, False), (0, True)])
def test_clean_times_are_written_every_five_minutes(lab: Lab, seconds: float, *, is_written: bool) -> None:
    """Thirty writes an hour would be for nothing: who reads them looks for half an hour."""
    lab.reconcile()
    first = state(lab)
    lab.clock.advance(seconds=WRITES_EVERY.total_seconds() + seconds)
    round_of_a_new_sandbox(lab)
    assert (state(lab) != first) is is_written


def test_a_sweep_that_is_clean_again_is_written_at_once(lab: Lab) -> None:
    lab.reconcile()
    lab.rows.sweeps[a_sweep(lab).name] = SweepState(lab.clock.now(), 2, "throttled")
    lab.clock.advance(seconds=30)
    round_of_a_new_sandbox(lab)
    assert state(lab) == SweepState(lab.clock.now())


def test_the_problem_of_a_failed_sweep_is_kept_short(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, round_: ReconcileRound) -> None:
        for number in range(100):
            round_.leave(f"node-{number:03d}", RunReason.CANNOT_BE_READ, "no")

    monkeypatch.setattr(type(a_sweep(lab)), "run", fail)
    report = lab.reconcile()
    assert report.counts["failedSweeps"] == 1
    assert (len(state(lab).reason), state(lab).reason[:20]) == (300, "node-000, node-001, ")


World = tuple[tuple[ClaimRecord, ...], tuple[Instance, ...]]


@pytest.fixture(scope="module")
def world() -> World:
    """A claim whose node works, and its instance."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    return lab.claims, lab.cloud.instances()


def with_claim(**changes: Any) -> Callable[[World], World]:
    return lambda world: (tuple(msgspec.structs.replace(obj, **changes) for obj in world[0]), world[1])


def with_instance(**changes: Any) -> Callable[[World], World]:
    return lambda world: (world[0], tuple(msgspec.structs.replace(obj, **changes) for obj in world[1]))


def beside(**changes: Any) -> Callable[[World], World]:
    """A second instance, like the first but for these."""
    return lambda world: (world[0], (*world[1], msgspec.structs.replace(world[1][0], **changes)))


@pytest.mark.parametrize(
    ("change", "is_ordered"),
    [
        (lambda world: world, True),
        (beside(instance_id="i-other", tags={"Name": "of somebody else"}), True),
        (beside(instance_id="i-other"), False),
        (beside(instance_id="i-other", state="terminated"), False),
        (with_instance(state="terminated"), False),
        (with_instance(tags={}), False),
        (lambda world: (world[0], ()), False),
        (lambda world: ((), world[1]), False),
        (with_claim(is_disrupting=True), False),
        (with_claim(reserved={}), False),
    ],
)
def test_each_claim_has_its_instance_and_each_instance_its_claim(
    world: World, change: Callable[[World], World], is_ordered: bool
) -> None:
    """Only then may a round pass over the sweeps that look for the others."""
    claims, instances = change(world)
    assert labels.CLAIM in world[1][0].tags
    assert is_in_order(claims, instances) is is_ordered


class Rounds:
    """The resync of a sandbox that has just observed a cluster with one working node, and rounds after it."""

    def __init__(self, lab: Lab | None = None, *, is_whole: bool = True, recorded: timedelta = timedelta(0)) -> None:
        self.lab = lab or Lab()
        if lab is None:
            self.lab.kubernetes.put(a_pending_pod("p"))
            self.lab.settle()
        self.stores, self.now = self.lab.app.adapters.stores, self.lab.clock.now()
        self.resync = ReconciliationResync(self.stores)
        self.view = self.lab.app.shared.observer.observe()
        self.first = self.scope()
        self.resync.seen(self.view, self.now, self.now + recorded, is_whole=is_whole)

    def due(self, after: timedelta = timedelta(0)) -> tuple[ObservationScope, OwnRows | None]:
        return self.resync.due(self.lab.cloud.instances(), self.now + after)

    def scope(self, after: timedelta = timedelta(0)) -> ObservationScope:
        return self.due(after)[0]


SECOND = timedelta(seconds=1)
NONE, WITHOUT_PODS, WHOLE = ObservationScope.NONE, ObservationScope.WITHOUT_PODS, ObservationScope.WHOLE


def test_an_observation_holds_for_its_time() -> None:
    rounds = Rounds()
    early = WITHOUT_PODS_EVERY - PUNCTUALITY
    assert (rounds.first, rounds.due()) == (WHOLE, (NONE, rounds.stores.own_rows()))
    assert [rounds.scope(after) for after in (early - SECOND, early)] == [NONE, WITHOUT_PODS]
    assert rounds.due(WHOLE_EVERY - SECOND) == (WITHOUT_PODS, rounds.stores.own_rows())
    assert rounds.due(WHOLE_EVERY) == (WHOLE, None)
    rounds.resync.end()
    assert rounds.due() == (WHOLE, None)


def test_an_observation_without_pods_replaces_no_whole_one() -> None:
    rounds = Rounds(is_whole=False)
    assert rounds.due() == (WHOLE, None)
    rounds.resync.seen(rounds.view, rounds.now, rounds.now, is_whole=True)
    later = rounds.now + WHOLE_EVERY - SECOND
    rounds.resync.seen(rounds.view, later, later, is_whole=False)
    assert [rounds.scope(WHOLE_EVERY - SECOND), rounds.scope(WHOLE_EVERY)] == [NONE, WHOLE]


def test_what_others_record_since_the_observation_ends_it_and_what_it_recorded_itself_does_not() -> None:
    rounds = Rounds(recorded=SECOND)
    assert (rounds.stores.changes.last(), rounds.scope()) == (rounds.now + SECOND, NONE)
    for moment, expected in ((-SECOND, NONE), (timedelta(0), WHOLE), (2 * SECOND, WHOLE)):
        rounds.stores.changes.record(rounds.now + moment)
        assert rounds.due() == (expected, rounds.stores.own_rows())


def test_a_brake_is_looked_at_once() -> None:
    rounds = Rounds()
    rounds.lab.brakes.hold(Brake(BrakeKind.PAUSE, "paused by a test"), rounds.now)
    assert [rounds.due(), rounds.due()] == [(WHOLE, None), (NONE, rounds.stores.own_rows())]


def test_commands_and_instances_without_claims_have_everything_observed() -> None:
    rounds = Rounds()
    assert rounds.resync.due((), rounds.now) == (WHOLE, rounds.stores.own_rows())
    rounds.lab.rows.commands["c"] = a_command(verify_at=rounds.now)
    assert rounds.due() == (WHOLE, rounds.stores.own_rows())


def test_a_cluster_without_claims_or_with_reservations_is_observed_without_pods_in_each_round() -> None:
    """Its first user waits for the status of a NodePool; reservations change without an event."""
    assert Rounds(Lab()).scope() is WITHOUT_PODS
    rounds = Rounds()
    selecting = {"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}}
    view = msgspec.structs.replace(rounds.view, node_classes={**rounds.view.node_classes, "reserved": selecting})
    rounds.resync.seen(view, rounds.now, rounds.now, is_whole=True)
    assert rounds.scope() is WITHOUT_PODS


def test_an_observation_without_pods_suffices_while_nothing_in_it_is_new_or_due() -> None:
    rounds = Rounds()
    view, snapshot = rounds.view, rounds.view.snapshot
    assert rounds.resync.suffices(view)
    assert not ReconciliationResync(rounds.stores).suffices(view)
    (node,), (claim,) = snapshot.nodes, snapshot.node_claims
    unready = msgspec.structs.replace(snapshot, nodes=(msgspec.structs.replace(node, is_ready=False),))
    assert not rounds.resync.suffices(msgspec.structs.replace(view, snapshot=unready))
    old = msgspec.structs.replace(claim, expire_after=timedelta(hours=1), created_at=snapshot.now - timedelta(hours=1))
    overdue = msgspec.structs.replace(snapshot, node_claims=(old,))
    assert not rounds.resync.suffices(msgspec.structs.replace(view, snapshot=overdue))
    for changed in ({"node_pools": {}}, {"node_classes": {}}):
        assert not rounds.resync.suffices(msgspec.structs.replace(view, **changed))


def test_what_is_new_is_recorded_for_disrupt_even_if_the_table_does_not_take_it() -> None:
    rounds = Rounds()
    rounds.stores.changes.record(rounds.now - SECOND)
    rounds.resync.seen(rounds.view, rounds.now, rounds.now, is_whole=False)
    assert rounds.stores.changes.last() == rounds.now - SECOND, "nothing is new"

    def fail(call: str) -> None:
        if call == "record":
            raise TransientError("dynamodb:PutItem", "throttled")

    rounds.lab.rows.before_call = fail
    rounds.resync.seen(msgspec.structs.replace(rounds.view, node_pools={}), rounds.now, rounds.now, is_whole=False)
    rounds.lab.rows.before_call = lambda _: None
    assert rounds.scope() is NONE


def test_versions_name_each_object_in_order() -> None:
    metadata = {"name": "b", "uid": "u", "resourceVersion": "7", "labels": {}}
    assert versions([{"metadata": metadata}, {"metadata": {"name": "a"}}, {"metadata": None}, {}]) == (
        ("", "", ""),
        ("", "", ""),
        ("a", "", ""),
        ("b", "u", "7"),
    )


def failing(error: Exception) -> object:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def skips(report: RunReport) -> set[tuple[str, str]]:
    return {(d.subject, d.reason) for d in report.decisions if d.kind == "skip"}


def mark(lab: Lab) -> None:
    """A taint without a command: work for one of the sweeps."""
    body = {"spec": {"taints": [{"key": DISRUPTED.key, "effect": DISRUPTED.effect}]}}
    lab.kubernetes.amend(resources.NODES, lab.claim.node_name, body)


def is_marked(lab: Lab) -> bool:
    return bool(lab.kubernetes.raw(resources.NODES, lab.claim.node_name)["spec"]["taints"])


def test_an_unexpected_error_stops_one_sweep_and_no_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a defect in writing a status keeps orphans, expiry and lost messages from being handled."""
    monkeypatch.setattr(ObjectStatus, "write", failing(AttributeError("no such thing")))
    mark(lab)
    report = lab.reconcile()
    assert not is_marked(lab)
    assert ("sweep status", "UnexpectedError") in skips(report)
    assert (report.counts[FAILED_SWEEPS], report.counts["unexpectedErrors"]) == (1, 1)


def test_sweeps_that_need_no_snapshot_run_without_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, lost messages stay lost while an API server is down."""
    lab.kubernetes.put(a_pending_pod("q", cpu="3500m"))
    lab.provision()
    lab.work.take()
    lab.clock.advance(minutes=1)
    monkeypatch.setattr(lab.kubernetes, "list", failing(TransientError("kube:list nodes", "503")))
    report = lab.reconcile()
    assert len(lab.work.sent) == 1
    assert {("observation", "TransientError"), ("sweep expiry", "TransientError")} <= skips(report)
    assert "sweep stalled" not in {subject for subject, _ in skips(report)}


def test_sweeps_that_need_no_instances_run_without_them(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, statuses are out of date while EC2 throttles. A node is opened only once EC2 says that its instance runs."""
    mark(lab)
    monkeypatch.setattr(lab.cloud, "instances", failing(TransientError("ec2:DescribeInstances", "throttled")))
    report = lab.reconcile()
    assert lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["nodes"] == 1
    assert is_marked(lab)
    assert {("sweep lostInstances", "TransientError"), ("sweep strayTaints", "TransientError")} <= skips(report)


def test_a_sweep_that_is_not_clean_for_half_an_hour_is_counted_across_sandboxes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, its alarm never fires if each failure ends the sandbox."""
    assert lab.reconcile().counts[STALE_SWEEPS] == 0
    with monkeypatch.context() as broken:
        broken.setattr(ObjectStatus, "write", failing(ValueError("broken")))
        for _ in range(14):
            lab.clock.advance(minutes=2)
            lab.restart()
            assert lab.reconcile().counts[STALE_SWEEPS] == 0
        lab.clock.advance(minutes=2)
        lab.restart()
        assert lab.reconcile().counts[STALE_SWEEPS] == 1
    assert lab.rows.sweeps["status"].reason == "sweep status"
    lab.clock.advance(minutes=2)
    assert lab.reconcile().counts[STALE_SWEEPS] == 0
    assert lab.rows.sweeps["status"].failures == 0


def test_clean_rounds_write_only_every_few_minutes(lab: Lab) -> None:
    """Otherwise, a quiet cluster pays for a write a round."""
    lab.reconcile()
    first = dict(lab.rows.sweeps)
    lab.clock.advance(minutes=2)
    lab.reconcile()
    assert lab.rows.sweeps == first
    lab.clock.advance(minutes=4)
    lab.reconcile()
    assert lab.rows.sweeps != first


def test_sweeps_without_time_left_are_reported_and_none_starves(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the last sweep of the list never runs on a large cluster."""
    names = {sweep.name for sweep in lab.app.sweeps if not sweep.every}
    for rare in (sweep for sweep in lab.app.sweeps if sweep.every):
        monkeypatch.setattr(rare, "every", timedelta(days=1))
    lab.reconcile()
    lab.app.adapters.stores.changes.record(lab.clock.now())
    swept: set[str] = set()
    for sweep in lab.app.sweeps:

        def take_a_minute(round_: object, name: str = sweep.name) -> None:
            swept.add(name)
            lab.clock.advance(seconds=51)

        monkeypatch.setattr(sweep, "run", take_a_minute)
    begun = lab.clock.now()
    for number in range(1, 8 * len(names)):
        lab.clock.advance(seconds=(begun + number * ROUND - lab.clock.now()).total_seconds())
        report = lab.reconcile()
        assert report.counts[SKIPPED_SWEEPS] == len(names) - 2
    assert swept == names
    assert any(reason == "TimeShort" for _, reason in skips(report))


class Named(Sweep):
    def __init__(self, name: str, *, is_urgent: bool) -> None:
        self.name = name
        self.is_urgent = is_urgent

    def run(self, round_: object) -> None:
        """Does nothing."""


@pytest.mark.parametrize("urgent", range(9))
@pytest.mark.parametrize("others", range(1, 9))
def test_each_sweep_comes_first_in_turn_and_urgent_ones_three_times_as_often(urgent: int, others: int) -> None:
    """Otherwise, a sweep that takes all the time of its round starves another."""
    sweeps = [Named(f"{n}", is_urgent=n < urgent) for n in range(urgent + others)]
    orders = [in_order(sweeps, NOW + ROUND * n) for n in range(4 * 9)]
    assert all(sorted(order, key=lambda s: int(s.name)) == sweeps for order in orders)
    assert {order[0] for order in orders} == set(sweeps)
    assert sum(order[0].is_urgent for order in orders) == (27 if urgent else 0)


def test_the_turn_follows_the_interval_of_rounds() -> None:
    """Otherwise, the order does not change from one round to the next."""
    assert [schedule.every for schedule in BY_NAME["reconcile"].schedules] == [ROUND]
