"""The bound on node sizes, which limits what one failing node takes down, and its exceptions for large pods."""

from __future__ import annotations

import pytest

from core.model.plan import Plan
from core.scheduling import schedule
from core.scheduling.capacity.node_size_steps import sizes_of
from core.scheduling.planner import Planner
from tests.builders import a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of

TYPES = tuple(
    a_type(f"m{size}", cpu=str(size), memory=f"{4 * size}Gi", pods="200", price=0.04 * size * (1 - size / 1000))
    for size in (2, 8, 16, 32, 64, 96)
)
"""The larger, the cheaper by vCPU, so that an unbounded plan takes few large nodes."""


def planned(*cpus: str, **bound: int) -> Plan:
    """The improved plan for pods of this many CPUs under a bound."""
    pods = tuple(a_pod(f"p{number:03}", cpu=cpu) for number, cpu in enumerate(cpus))
    return Planner(a_snapshot(types=TYPES, node_pools=(a_pool(largest_node=bound),), pods=pods)).plan(lambda: False)


@pytest.mark.parametrize("improves", [False, True])
def test_no_node_is_larger_than_the_bound(improves: bool) -> None:
    """In the greedy and the improved plan, every type that a claim may become is within the bound."""
    pods = tuple(a_pod(f"p{number:03}", cpu="3") for number in range(60))
    snapshot = a_snapshot(types=TYPES, node_pools=(a_pool(largest_node={"cpu": 16_000}),), pods=pods)
    plan = schedule(snapshot, (lambda: False) if improves else None)
    assert {name for claim in plan.claims for name in claim.instance_types} <= {"m2", "m8", "m16"}
    assert sum(len(claim.pods) for claim in plan.claims) == 60


def test_without_a_bound_nodes_are_larger() -> None:
    """Otherwise, the test above could not fail."""
    assert {claim.instance_types[0] for claim in planned(*["3"] * 60).claims} & {"m64", "m96"}


def test_a_pod_that_needs_more_gets_the_smallest_node_that_holds_it() -> None:
    """Small pods do not use it: it is only as large as necessary."""
    plan = planned("20", *["3"] * 10, cpu=16_000)
    large = [claim for claim in plan.claims if "default/p000" in claim.pods]
    assert [claim.instance_types for claim in large] == [("m32",)]
    others = {name for claim in plan.claims if claim not in large for name in claim.instance_types}
    assert others <= {"m2", "m8", "m16"}


def test_memory_bounds_as_cpu_does() -> None:
    """A bound of 32 GiB admits types of up to 8 vCPU."""
    plan = planned(*["1"] * 30, memory=32 << 30)
    assert {name for claim in plan.claims for name in claim.instance_types} <= {"m2", "m8"}


def test_larger_sizes_follow_one_cpu_size_at_a_time() -> None:
    """Otherwise, a pod that fits no node within the bound gets a node that is larger than necessary."""
    types = (a_type("a", cpu="2"), a_type("b", cpu="8"), a_type("c", cpu="4"), a_type("d", cpu="8"))
    (template,) = context_of(types=types, node_pools=(a_pool(),)).templates
    assert sizes_of(template.types, template.mask, {"cpu": 2_000}) == (0b0001, 0b0100, 0b1010)
    assert sizes_of(template.types, template.mask, {}) == (0b1111,)
