"""Finds the NodePools that could launch nodes for pods without a place."""

from __future__ import annotations

from collections.abc import Iterable

from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pod_group import PendingGroup, PodGroup, RelaxationStep
from core.scheduling.primitives.requirement_table import IMPOSSIBLE


def templates_in_demand(context: SchedulingContext, unplaced: Iterable[PendingGroup]) -> frozenset[int]:
    """Return the indexes of templates that could launch a node for one of the pods if their limits and other pods let them.

    Taints, requirements and size decide. A pod that no change of claims could help demands no template.
    """
    found = set[int]()
    for pod_group in (pending.pod_group for pending in unplaced if not pending.pod_group.reason):
        for step in pod_group.steps:
            for template, is_tolerated in zip(context.templates, context.open_templates(step), strict=True):
                if template.index not in found and is_tolerated and _suits(context, template, pod_group, step):
                    found.add(template.index)
    return frozenset(found)


def _suits(context: SchedulingContext, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep) -> bool:
    """Whether a type of the template meets the pods' requirements at this step, and has room for one of them."""
    types = template.types
    narrowed = (context.table.narrowed(template.offered, asked=alternative) for alternative in step.alternatives)
    return any(
        number != IMPOSSIBLE and types.room.fits(types.mask(number) & template.mask, pod_group.requests)
        for number in narrowed
    )
