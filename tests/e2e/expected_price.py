"""The price of one plan of a whole workload, which the nodes of a real control plane are held against."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from adapters.ports import JsonObject
from cli.manifests.inventory import Document, take_inventory
from core.manifests.assemble import assemble
from core.model.catalogue import Catalogue, InstanceType
from core.model.snapshot import Options
from core.scheduling import schedule

STEPS: Final = 60
"""Of the search for cheaper nodes; bounded by steps, so that the answer is the same on every machine."""


def price_of_one_plan(manifests: Iterable[JsonObject], types: Iterable[InstanceType]) -> int:
    """Nano-dollars per hour of the nodes for these workloads in an empty cluster.

    Raises:
        ValueError: If a pod of them can run nowhere: there is no price for all then.
    """
    inventory = take_inventory(Document("scene", number, one) for number, one in enumerate(manifests))
    snapshot, _ = assemble(
        inventory.objects,
        now=datetime(2026, 1, 1, tzinfo=UTC),
        catalogue=Catalogue(default=tuple(types)),
        options=Options(improve_iterations=STEPS),
    )
    plan = schedule(snapshot)
    if plan.unschedulable:
        raise ValueError(f"{len(plan.unschedulable)} pods run nowhere, first {plan.unschedulable[0]}")
    return sum(claim.price for claim in plan.claims)
