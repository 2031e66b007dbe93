"""A snapshot, prepared for planning."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.model.pod import Owner, PodAffinityTerm
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
