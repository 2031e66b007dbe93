"""A round of sweeps, of which one fails."""

from __future__ import annotations

import pytest

from adapters.ports import TransientError
from adapters.store import UnreadableRow
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab


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
