"""A round of sweeps, of which one fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from adapters.store import SweepState, UnreadableRow
from core.manifests.wire import api_resources as kinds
from core.reasons.run import RunReason
from lambdas.controllers.maintenance.reconciliation import STALE_AFTER, WRITES_EVERY
from lambdas.controllers.sweeps.sweep import MARGIN, ReconcileRound, Sweep
from tests.fakes.lab import Lab, a_node_pool


def test_a_round_without_an_observation_counts_unreadable_rows(lab: Lab) -> None:
    """The alarm waits for two periods of five minutes, and a cluster at rest is observed less often."""
    rounds = []
    lab.rows.unreadable["workload#x"] = UnreadableRow("cluster#moves", "workload#x", "row workload#x cannot be read")
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
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    report = lab.reconcile()
    assert lab.claim.deletion is not None
    assert report.counts["portErrors"] == 1


def test_each_round_in_which_a_sweep_fails_is_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fleetwright status` said "1 rounds", however long it had failed."""
    (sweep,) = (one for one in lab.app.reconciliation.sweeps if one.name == "demotedInstances")

    def fail(self: object, round_: object) -> None:
        raise TransientError("ec2:DescribeInstances", "throttled")

    monkeypatch.setattr(type(sweep), "run", fail)
    found = []
    for _ in range(3):
        lab.clock.advance(minutes=1)
        lab.reconcile()
        found.append(lab.rows.sweeps[sweep.name])
    assert [state.failures for state in found] == [1, 2, 3]
    assert len({state.clean_at for state in found}) == 1
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
        (told,) = (one for one in decisions if "broken" in one.subject and one.reason == RunReason.CANNOT_BE_READ)
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
    (found,) = (one for one in lab.app.reconciliation.sweeps if one.name == name)
    return found


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
    told = {one.subject: one.message for one in report.decisions if one.reason == RunReason.TIME_SHORT}
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
