"""Pods of nodes that a plan removes count where they are until they are placed elsewhere."""

from __future__ import annotations

from core.model.pod import Pod
from core.scheduling.pods.pod_group import PodSignature
from core.scheduling.topology.departures import Departures
from tests.builders import NOW, a_pod
from tests.unit.scheduling.reading import context_of, group_of


def departures_of(*pods: Pod) -> tuple[Departures, PodSignature]:
    signature = group_of(context_of(pods=(a_pod("w"),)), "w").signature
    return Departures.of((2, 0), [(signature, pod, 0) for pod in pods]), signature


def test_departures_are_counted_by_node_and_terminating_ones_apart() -> None:
    pods = [a_pod("a"), a_pod("b"), a_pod("c", deleted_at=NOW)]
    found, signature = departures_of(*pods)
    assert found.positions == (0, 2)
    assert list(found.counted(signature, with_ending=False)) == [(0, 2)]
    assert list(found.counted(signature, with_ending=True)) == [(0, 2), (0, 1)]


def test_departures_of_no_pods_count_nothing() -> None:
    found, signature = departures_of()
    assert list(found.counted(signature, with_ending=True)) == []
