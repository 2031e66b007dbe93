"""Greedy plans with or without some nodes, and the pods that these nodes lose."""

from __future__ import annotations

import msgspec

from core.model.pod import Pod
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.greedy.solution import Solution
from core.scheduling.replanning.ec2_limits import best_of, commitment_contexts
from core.scheduling.replanning.requeue import RequeuingScheduler


class Drains(msgspec.Struct, frozen=True, kw_only=True):
    """Many nodes that leave, by position.

    Attributes:
        leaving: Nodes whose pods must avoid nodes that `consolidateAfter` still protects.
        mandatory: Nodes that leave at any cost, whose pods may go anywhere.
        closed: Nodes that stay and take no pods, since they leave later.
        slots: Pod group → nodes and how many of its pods each takes.
    """

    leaving: frozenset[int] = frozenset()
    mandatory: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    slots: dict[int, list[tuple[int, int]]] = {}


def greedy(
    context: SchedulingContext,
    gone: frozenset[int],
    *,
    consolidation: bool,
    closed: frozenset[int] = frozenset(),
) -> tuple[Solution, list[Pod]]:
    """Return the greedy plan and the pods that it displaces; the best of several if commitments may cover claims."""
    found = [
        planned(one, gone, consolidation=consolidation, closed=closed) for one in commitment_contexts(context, gone)
    ]
    for solution, _ in found:
        solution.settle_commitments()
    return best_of(found)


def planned(
    context: SchedulingContext,
    gone: frozenset[int],
    *,
    consolidation: bool,
    closed: frozenset[int] = frozenset(),
) -> tuple[Solution, list[Pod]]:
    """Return the greedy plan of one context, and the pods that it displaces."""
    more = gone - context.leaving
    displaced = [
        pod
        for p in sorted(more)
        for pod in context.budgets.currently_reschedulable(context.existing_nodes[p].state.pods)
    ]
    waiting = [((*context.pending, *context.moving), False), (displaced, consolidation)]
    if more:
        queue, leaving = queue_of(context, waiting), context.leaving | more | closed
        return GreedyScheduler(context, queue, leaving, more, shares_node=True).run(), displaced
    return RequeuingScheduler(context, lambda: queue_of(context, waiting)).solution(), displaced


def drained(context: SchedulingContext, drains: Drains) -> tuple[Solution, list[Pod]]:
    """Return the greedy plan without the drained nodes, and the pods that these lose."""
    gone = drains.leaving | drains.mandatory
    pods = {
        position: context.budgets.currently_reschedulable(context.existing_nodes[position].state.pods)
        for position in sorted(gone - context.leaving)
    }
    mandatory = [pod for position, own in pods.items() if position in drains.mandatory for pod in own]
    voluntary = [pod for position, own in pods.items() if position not in drains.mandatory for pod in own]
    waiting = (*context.pending, *context.moving, *mandatory)
    queue = queue_of(context, [(waiting, False), (voluntary, True)], {pod.key for pod in mandatory + voluntary})
    closed = context.leaving | gone | drains.closed
    solution = GreedyScheduler(context, queue, closed, frozenset(pods), slots=drains.slots).run()
    return solution.settle_commitments(), mandatory + voluntary
