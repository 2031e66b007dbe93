"""Pods that we cannot read still belong to their owners."""

from __future__ import annotations

import pytest

from adapters.ports import JsonObject
from core.manifests.wire import resources
from tests.fakes.lab import Lab, a_pending_pod

ODD: tuple[JsonObject, ...] = (
    {"spec": {"containers": "none"}},
    {"spec": {"tolerations": [{"operator": "Like"}]}},
    {"metadata": {"labels": {"app": 5}}},
)
"""The API server rejects this today; a later version may accept it."""


def a_lab(odd: JsonObject) -> Lab:
    """One node with one unreadable pod."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.amend(resources.PODS, "p", odd, "default")
    return lab


@pytest.mark.parametrize("odd", ODD)
def test_its_node_does_not_count_as_empty(odd: JsonObject) -> None:
    """The node was deleted within minutes, and the pod with it."""
    lab = a_lab(odd)
    lab.clock.advance(minutes=30)
    report = lab.disrupt()
    lab.tick(5)
    assert (len(lab.claims), lab.claim.deletion) == (1, None)
    assert lab.kubernetes.evicted == []
    assert report.counts.get("commands", 0) == 0


@pytest.mark.parametrize("odd", ODD)
def test_a_drain_evicts_it_by_its_name_and_waits_for_it(odd: JsonObject) -> None:
    """The instance was ended while it ran."""
    lab = a_lab(odd)
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    lab.tick(10, seconds=10)
    assert lab.kubernetes.evicted == ["default/p"]
    assert lab.claims == ()
