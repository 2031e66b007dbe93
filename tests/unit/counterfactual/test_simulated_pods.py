"""The pods of recorded snapshots that need a place."""

from __future__ import annotations

import msgspec

from core.counterfactual.simulated_pods import SimulatedPods
from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_pod


def a_snapshot(*pods: Pod) -> Snapshot:
    return Snapshot(now=NOW, cluster="c", pods=pods)


def test_an_unchanged_pod_is_examined_once_and_a_changed_one_again() -> None:
    kept, changed = a_pod("kept"), a_pod("changed")
    daemon = a_pod("d", owners=(Owner(kind="DaemonSet", name="agent", is_controller=True),))
    pods = SimulatedPods()
    before = pods(a_snapshot(kept, daemon, changed))
    assert [one.key for one in before] == ["default/kept", "default/changed"]
    finished = msgspec.structs.replace(changed, phase="Succeeded")
    moved = msgspec.structs.replace(changed, node_name="n1")
    assert list(pods(a_snapshot(kept, daemon, finished))) == [before[0]]
    again = pods(a_snapshot(moved, kept))
    assert [one.pod for one in again] == [moved, kept]
    assert again[1] is before[0]


def test_a_pod_that_came_back_is_examined_as_it_is_now() -> None:
    pods = SimulatedPods()
    first = a_snapshot(a_pod("a"))
    assert len(pods(first)) == 1
    assert len(pods(a_snapshot())) == 0
    assert [one.pod for one in pods(first)] == list(first.pods)
