"""Clusters whose greedy plan can be made much cheaper."""

from __future__ import annotations

from typing import Any

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from core.scheduling import schedule
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.pods import Avoids
from core.scheduling.replanning import RequeuingScheduler
from core.scheduling.scheduler import queue_of
from tests.builders import a_pod, a_pool, a_snapshot, a_type
from tests.unit.packing.problems import SIZES

ON_DEMAND = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)


def instance_types() -> tuple[InstanceType, ...]:
    """Every size, in forty families that differ by a little in price."""
    return tuple(
        a_type(
            f"f{family:02}-{cpu}-{gib}",
            cpu=str(cpu),
            memory=f"{gib}Gi",
            pods="110",
            price=price / 1000 * (1 + family / 200),
        )
        for family in range(40)
        for cpu, gib, price in SIZES
    )


def plain_pods(number: int, **changes: Any) -> tuple[Pod, ...]:
    """Half of them request much memory, half much CPU."""
    sizes = [("500m", "7Gi"), ("1500m", "1Gi")]
    return tuple(a_pod(f"p{i:03}", cpu=sizes[i % 2][0], memory=sizes[i % 2][1], **changes) for i in range(number))


def a_cluster(*, steps: int | None = 60, **changes: Any) -> Snapshot:
    """A NodePool of on-demand nodes, sixty pods by default, and this many steps of search."""
    fields = {"types": instance_types(), "node_pools": (a_pool("default", ON_DEMAND),), "pods": plain_pods(60)}
    return a_snapshot(**{**fields, "options": Options(improve_iterations=steps), **changes})


def greedy(snapshot: Snapshot) -> Plan:
    """The plan without a search."""
    return schedule(msgspec.structs.replace(snapshot, options=Options()))


def greedily_solved(snapshot: Snapshot) -> tuple[SchedulingContext, Solution]:
    """The snapshot's context and its greedy plan, as the optimizer gets them."""
    context = SchedulingContext(snapshot)
    return context, RequeuingScheduler(
        context, lambda: queue_of(context, [(context.pending, Avoids.NO_NODE)])
    ).solution()
