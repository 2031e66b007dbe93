"""NodePools' instance types as the machine types of a packing problem."""

from __future__ import annotations

from core import labels
from core.model.snapshot import Snapshot
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.item_groups import ItemGroup, LaunchOption
from core.scheduling.optimization.subproblems.packing_columns import problem_and_types, problem_of
from tests.builders import ZONES, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND

A, B = ZONES[:2]
SMALL, LARGE = a_type("a-small", cpu="2", price=0.1), a_type("b-large", cpu="8", price=0.4)


def a_cluster(**changes: object) -> Snapshot:
    fields = {"types": (SMALL, LARGE), "node_pools": (a_pool("default", ON_DEMAND),), "pods": (a_pod("p"),)}
    return a_snapshot(**{**fields, **changes})


def test_a_type_costs_its_lowest_price_in_any_offering_that_the_pods_may_use() -> None:
    snapshot = a_cluster(node_pools=(a_pool("default"),))  # spot at 40 % is allowed, too
    context = SchedulingContext(snapshot)
    template = context.templates[0]
    requests = context.pod_groups.of(snapshot.pods[0]).requests
    group = ItemGroup(requests, (LaunchOption(0, template.offered, template.mask),))
    problem, types = problem_and_types(context.templates, counts={group: 3}, hostname_capacity={})
    assert problem.prices.tolist() == [40_000_000, 160_000_000]
    assert [template.types.types[index].name for index in types] == ["a-small", "b-large"]
    assert problem.counts.tolist() == [3]


def test_items_without_a_common_offering_share_no_machine() -> None:
    """Otherwise, pods of two zones are packed onto one node."""
    snapshot = a_cluster()
    context = SchedulingContext(snapshot)
    template = context.templates[0]
    requests = context.pod_groups.of(snapshot.pods[0]).requests
    groups = {
        ItemGroup(
            requests, (LaunchOption(0, context.table.with_value(template.offered, labels.ZONE, zone), template.mask),)
        ): 1
        for zone in (A, B)
    }
    problem = problem_of(context.templates, counts=groups, hostname_capacity={})
    assert problem.allowed.sum(axis=0).tolist() == [1] * len(problem.prices)
    assert problem.allowed.sum(axis=1).tolist() == [2, 2]


def test_fixed_items_and_hostname_groups_are_resources() -> None:
    snapshot = a_cluster()
    context = SchedulingContext(snapshot)
    template = context.templates[0]
    requests = context.pod_groups.of(snapshot.pods[0]).requests
    option = LaunchOption(0, template.offered, template.mask)
    fixed = ItemGroup(requests, (option,), is_fixed=True)
    ruled = ItemGroup(requests, (option,), hostname_requests=((7, 1),))
    capped = ItemGroup(requests, (option,), per_machine_max=2)
    problem = problem_of(context.templates, counts={fixed: 1, ruled: 1, capped: 1}, hostname_capacity={7: 3})
    assert problem.capacity[:, -2:].tolist() == [[1, 3]] * 2
    assert problem.requests[:, -2:].tolist() == [[1, 0], [0, 1], [0, 0]]
    assert problem.fit[0].tolist() == [1, 1]
    assert problem.fit[2].max() == 2
