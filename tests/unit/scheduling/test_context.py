"""A snapshot, prepared for planning."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from core import labels
from core.model.pod import Owner, PodAffinityTerm
from core.model.policy import PodDisruptionBudget
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of

SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)


def test_pods_of_a_node_that_leaves_move_and_its_room_is_gone() -> None:
    """Otherwise, they wait until the node is gone, or are planned onto it."""
    claim, node = a_node_of(LARGE, "old")
    claim = msgspec.structs.replace(claim, deleted_at=NOW - timedelta(minutes=1))
    pods = (
        a_pod("waits"),
        a_pod("runs", node_name="old"),
        a_pod("daemon", node_name="old", owners=(Owner("DaemonSet", "d"),)),
    )
    context = context_of(types=(LARGE,), nodes=(node,), node_claims=(claim,), pods=pods)
    assert [pod.name for pod in context.pending] == ["waits"]
    assert [pod.name for pod in context.moving] == ["runs"]
    assert context.leaving == {context.positions["old"]} == {context.positions[claim.name]}


@pytest.mark.parametrize(
    ("ends_at", "moving"), [(None, ["free"]), (NOW + timedelta(minutes=2), ["free", "guarded", "held"])]
)
def test_pods_that_may_not_be_evicted_move_only_where_ec2_takes_the_instance(
    ends_at: datetime | None, moving: list[str]
) -> None:
    """Otherwise, they end with the instance, and nodes for their successors are launched only then (ADR 265)."""
    claim, node = a_node_of(LARGE, "old")
    claim = msgspec.structs.replace(claim, deleted_at=NOW - timedelta(minutes=1), ends_at=ends_at)
    budget = PodDisruptionBudget(
        namespace="default", name="none", selector=a_selector(app="guarded"), max_unavailable="0"
    )
    pods = (
        a_pod("free", node_name="old"),
        a_pod("held", node_name="old", annotations={labels.DO_NOT_DISRUPT: "true"}),
        a_pod("guarded", node_name="old", labels={"app": "guarded"}),
        a_pod("daemon", node_name="old", owners=(Owner("DaemonSet", "d"),)),
    )
    context = context_of(types=(LARGE,), nodes=(node,), node_claims=(claim,), pods=pods, budgets=(budget,))
    assert [pod.name for pod in context.moving] == moving


def test_a_price_restricts_a_copy_and_leaves_the_context_as_it_was() -> None:
    context = context_of(types=(SMALL, LARGE), pods=(a_pod(),))
    (cheap,), (whole,) = context.below(160_000_000).templates, context.templates
    assert cheap.types.names(cheap.mask) == ("small",)
    assert whole.types.names(whole.mask) == ("large", "small")


def test_only_pods_with_rules_along_shared_domains_are_pinned() -> None:
    """A pod that nothing holds to its zone may go to a cheaper one."""
    apart = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    claim, node = a_node_of(LARGE, zone=ZONES[1])
    free = a_pod("free", node_name="node-1")
    bound = a_pod("db", node_name="node-1", labels={"app": "db"}, anti_affinity=(apart,))
    world = {"types": (LARGE,), "nodes": (node,), "node_claims": (claim,)}
    alone = context_of(**world, pods=(free,))
    assert alone.pinned([0]) is alone
    both = context_of(**world, pods=(free, bound))
    pinned = both.pinned([0])
    (step, *_) = pinned.pod_groups.of(bound).steps
    zones = [both.table[number].get(labels.ZONE) for number in step.alternatives]
    assert [zone.values for zone in zones if zone is not None] == [(ZONES[1],)]
    assert pinned.pod_groups.of(free).steps == both.pod_groups.of(free).steps
