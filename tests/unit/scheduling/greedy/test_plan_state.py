"""What one plan has used up."""

from __future__ import annotations

from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of


def test_a_copy_keeps_what_was_left_when_it_was_made() -> None:
    """Otherwise, an explanation of a pod speaks of room that later pods have taken."""
    pool = a_pool(limits={"cpu": 8000})
    context = context_of(types=(a_type("m", cpu="4"),), pods=(a_pod("p", cpu="3"),), node_pools=(pool,))
    run = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset())
    before = run.state.copy()
    run.run()
    assert [limits.left for limits in before.limits] == [{"cpu": 8000}]
    assert [limits.left for limits in run.state.limits] == [{"cpu": 4000}]
