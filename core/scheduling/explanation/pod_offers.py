"""Prices a new node for one pod alone."""

from __future__ import annotations

from typing import NamedTuple

from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pod_group import PodGroup
from core.scheduling.primitives.requirement_table import IMPOSSIBLE


class PodOffer(NamedTuple):
    """An instance type of a NodePool that holds a pod, with its lowest price in nano-dollars per hour."""

    price: int
    node_pool: str
    instance_type: str


def pod_offers(context: SchedulingContext, pod_group: PodGroup) -> list[PodOffer]:
    """Return every type of every NodePool that a pod of the group fits, cheapest first; rules about other pods are ignored."""
    found: dict[tuple[str, str], int] = {}
    for step in pod_group.steps[-1:]:
        tolerated = context.open_templates(step)
        for template in (template for template in context.templates if tolerated[template.index]):
            types = template.types
            for alternative in step.alternatives:
                reqs = context.table.narrowed(template.offered, asked=alternative)
                if reqs != IMPOSSIBLE:
                    fitting = types.room.fitting(types.mask(reqs) & template.mask, pod_group.requests)
                    for price, position in types.offerings.in_price_order(fitting, reqs):
                        key = (template.pool.name, types.types[position].name)
                        found[key] = min(price, found.get(key, price))
    return sorted(PodOffer(price, *key) for key, price in found.items())
