"""Claims are restricted to small types if limits keep pods out."""

from __future__ import annotations

from core.scheduling.greedy.limit_narrowing import narrow_to_cheapest
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of

SMALL, LARGE = a_type("a", cpu="4", price=0.1), a_type("b", cpu="16", price=0.4)


def test_a_claim_releases_what_only_its_larger_types_would_use() -> None:
    """Otherwise, one pod's claim, charged sixteen cores, keeps a second pod waiting."""
    context = context_of(
        types=(SMALL, LARGE), pods=(a_pod("p", cpu="3"),), node_pools=(a_pool(limits={"cpu": 16_000}),)
    )
    run = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset())
    run.run()
    assert run.state.limits[0].left == {"cpu": 0}
    assert not narrow_to_cheapest(run.state, run.claims, ())
    assert narrow_to_cheapest(run.state, run.claims, {0})
    assert run.state.limits[0].left == {"cpu": 12_000}
    assert context.templates[0].types.names(run.claims.claims[0].allowed) == ("a",)
    assert not narrow_to_cheapest(run.state, run.claims, {0}), "what is held to the least gives nothing more"


def test_room_in_one_limit_is_room() -> None:
    """Both types have as much memory, and one node is one node."""
    limits = {"cpu": 16_000, "memory": 9 * 2**30, "nodes": 2}
    context = context_of(types=(SMALL, LARGE), pods=(a_pod("p", cpu="3"),), node_pools=(a_pool(limits=limits),))
    run = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset())
    run.run()
    assert narrow_to_cheapest(run.state, run.claims, {0})
    assert run.state.limits[0].left == {"cpu": 12_000, "memory": 2**30, "nodes": 1}
