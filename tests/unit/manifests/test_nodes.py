"""Else nodes seem larger or freer than they are."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.manifests import nodes
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import NO_SCHEDULE, Taint
from tests.unit.manifests.objects_for_tests import a_node, written


def test_a_node_says_what_it_has_and_whether_it_is_ready() -> None:
    """Pods are placed by allocatable; readiness decides about liveness and repair."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T00:00:00Z"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "conditions": [ready]}
    node = a_node(status=status, providerID="aws:///a/i-1")
    assert (node.capacity, node.allocatable, node.provider_id) == ({"cpu": 4000}, {"cpu": 3900}, "aws:///a/i-1")
    assert node.is_ready
    assert node.ready_changed_at is not None
    assert not a_node().is_ready


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    """The API server fills it in so."""
    assert a_node(status={"capacity": {"cpu": "4"}}).allocatable == {"cpu": 4000}


def test_a_cordoned_node_repels_pods_once() -> None:
    """Kubernetes taints it; a manifest may show the field, the taint or both."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}
    expected = (Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE),)
    assert a_node(unschedulable=True).taints == expected
    assert a_node(unschedulable=True, taints=[taint]).taints == expected


def test_an_unknown_effect_names_its_field() -> None:
    """Ignored, it would let pods onto a node that wants none."""
    with pytest.raises(InvalidInputError) as caught:
        a_node(taints=[{"key": "a", "effect": "Never"}])
    assert caught.value.field == "spec.taints[0].effect"


def test_attach_limits_are_those_that_drivers_state() -> None:
    """A driver without a count has no limit; a limit of zero is one."""
    drivers = [{"name": "b", "allocatable": {"count": 0}}, {"name": "a", "allocatable": {"count": 25}}, {"name": "c"}]
    assert nodes.attach_limits(written(kinds.CSI_NODES, spec={"drivers": drivers})) == {"a": 25, "b": 0}
