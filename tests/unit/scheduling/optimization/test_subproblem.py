"""Packing items in the places of a packing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from core import labels
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.packing.problem import ItemIndex, MachineTypeIndex, Packing, PackingProblem
from core.packing.settings import DEFAULT_SETTINGS
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items import HostnameCaps, ItemExtraction, PackingItem
from core.scheduling.optimization.relaxed_pods import ItemGroup, LaunchOption
from core.scheduling.optimization.subproblem import (
    AssignedMachine,
    ItemAssignment,
    Subproblem,
    problem_and_types,
    problem_of,
)
from tests.builders import ZONES, a_pod, a_pool, a_snapshot, a_type
from tests.unit.packing.problems import a_problem
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, greedily_solved
from tests.unit.scheduling.optimization.clusters import a_cluster as subproblem_a_cluster

SETTINGS = DEFAULT_SETTINGS.repack
PLAIN = PackingItem((1,), 0, 1)
OWN = PackingItem((1,), 0, 1, counted=((7, 1),), caps=((7, 1),))
OTHER = PackingItem((1,), 0, 1, counted=((8, 1),), caps=((8, 1),))
"""Two services, each with anti-affinity to itself; one item group, because the solver does not distinguish them."""

ITEM = ItemIndex(0)
GENERAL = MachineTypeIndex(4)


def names(machines: list[AssignedMachine]) -> list[list[PackingItem]]:
    return [[item for _, item in machine.items] for machine in machines]


def test_items_fill_the_places_of_their_group() -> None:
    problem = a_problem([(1, 4)], [10])
    packing = Packing(np.array([4, 1]), np.array([[8], [2]]))
    machines = ItemAssignment(problem, [{PLAIN: 10}], SETTINGS).machines(packing)
    assert [len(machine.items) for machine in machines] == [8, 2]
    assert [machine.type_index for machine in machines] == [4, 1]


def test_items_of_one_group_with_anti_affinity_are_mixed() -> None:
    """Otherwise, two replicas share a node, or a third machine is opened."""
    problem = a_problem([(1, 4)], [4])
    packing = Packing(np.array([1, 1]), np.array([[2], [2]]))
    machines = ItemAssignment(problem, [{OWN: 2, OTHER: 2}], SETTINGS).machines(packing)
    assert sorted(map(len, names(machines))) == [2, 2]
    assert all({OWN, OTHER} == set(items) for items in names(machines))


def test_an_item_without_place_goes_to_free_capacity_or_a_machine_of_its_own() -> None:
    problem = a_problem([(1, 4)], [3])
    packing = Packing(np.array([4]), np.array([[3]]))
    machines = ItemAssignment(problem, [{OWN: 3}], SETTINGS).machines(packing)
    assert names(machines) == [[OWN]] * 3
    assert sorted(machine.type_index for machine in machines)[:2] == [0, 0]  # the cheapest that holds one alone


def test_an_item_moves_if_another_takes_its_place() -> None:
    """The first machine gets one of each and must refuse the second of a kind, unless an exchange makes room for it."""
    problem = a_problem([(1, 4), (0.1, 0.1)], [4, 1])
    members = [{OWN: 1, OTHER: 1, PLAIN: 2}, {OTHER: 1}]
    packing = Packing(np.array([4, 4]), np.array([[2, 1], [2, 0]]))
    machines = ItemAssignment(problem, members, SETTINGS).machines(packing)
    assert sum(len(machine.items) for machine in machines) == 5
    for items in names(machines):
        assert items.count(OWN) <= 1
        assert items.count(OTHER) <= 1
    assert len(machines) == 2


def test_a_full_machine_is_enlarged_if_that_costs_less() -> None:
    """Otherwise, a node is launched for a pod for which another node's next size would do."""
    problem = a_problem([(1, 7)], [2])
    small = AssignedMachine(MachineTypeIndex(1), np.array([1]))
    assert problem.capacity[1][1] < 2 * problem.requests[0][1]
    packing = Packing(np.array([small.type_index]), np.array([[1]]))
    machines = ItemAssignment(problem, [{PLAIN: 2}], SETTINGS).machines(packing)
    assert [(machine.type_index, len(machine.items)) for machine in machines] == [(2, 2)]
    never = replace(SETTINGS, enlarged_machines_max=0)
    apart = ItemAssignment(problem, [{PLAIN: 2}], never).machines(packing)
    assert [machine.type_index for machine in apart] == [1, 1]


def test_a_swap_respects_the_rules_of_the_others() -> None:
    machine = AssignedMachine(GENERAL, np.zeros(1, dtype=np.int64))
    machine.add(ITEM, OWN)
    machine.add(ITEM, PLAIN)
    assert not machine.would_admit(OWN, instead_of=1)
    assert machine.would_admit(OWN, instead_of=0)
    assert machine.swap(0, OTHER) == OWN
    assert machine.rules.admits(OWN)
    assert not machine.rules.admits(OTHER)


def test_items_with_rules_stay_apart_in_a_group_with_items_without() -> None:
    """Otherwise, two replicas share a node because the solver does not distinguish them from pods without rules."""
    problem = a_problem([(1, 4)], [4])
    packing = Packing(np.array([1, 1]), np.array([[2], [2]]))
    machines = ItemAssignment(problem, [{OWN: 2, PLAIN: 2}], SETTINGS).machines(packing)
    assert sorted(items.count(OWN) for items in names(machines)) == [1, 1]
    assert sum(map(len, names(machines))) == 4


def test_an_item_is_not_exchanged_within_its_machine() -> None:
    """The item that it keeps away from would come back to the same node."""
    present = PackingItem((1,), 0, 1, counted=((9, 1),))
    avoiding = PackingItem((1,), 0, 1, caps=((9, 0),))
    problem = a_problem([(1, 4)], [2])
    packing = Packing(np.array([4]), np.array([[2]]))
    machines = ItemAssignment(problem, [{present: 1, avoiding: 1}], SETTINGS).machines(packing)
    assert sorted(names(machines), key=len) == [[present], [avoiding]] or names(machines) == [[avoiding], [present]]


class TestAnExchange:
    """An item whose free place refuses it takes that of another of its group, which moves there."""

    PRESENT = PackingItem((1,), 0, 1, counted=((9, 1),))
    ALSO_PRESENT = PackingItem((1,), 0, 1, counted=((8, 1),))
    AVOIDING = PackingItem((1,), 0, 1, caps=((9, 0), (8, 0)))
    AVOIDING_ONE = PackingItem((1,), 0, 1, caps=((9, 0),))
    OTHERS = PackingItem((1,), 0, 1, counted=((5, 1),))

    @pytest.mark.parametrize(
        ("members", "wanted"),
        [
            # The first of two is moved; the second, since the item does not agree with it; since the first may not move.
            ([PLAIN, PLAIN, PRESENT, AVOIDING], [[AVOIDING, PLAIN], [PRESENT, PLAIN]]),
            ([PLAIN, ALSO_PRESENT, PRESENT, AVOIDING], [[PLAIN, AVOIDING], [PRESENT, ALSO_PRESENT]]),
            ([AVOIDING_ONE, ALSO_PRESENT, PRESENT, AVOIDING], [[AVOIDING_ONE, AVOIDING], [PRESENT, ALSO_PRESENT]]),
        ],
    )
    def test_is_one_that_the_rules_of_both_machines_admit(
        self, members: list[PackingItem], wanted: list[list[PackingItem]]
    ) -> None:
        """The first machine has items of another group alone: those stay."""
        problem = a_problem([(1, 1), (0.5, 0.5)], [4, 1])
        counts = {item: members.count(item) for item in members}
        packing = Packing(np.array([4, 4, 4]), np.array([[0, 1], [2, 0], [2, 0]]))
        machines = ItemAssignment(problem, [counts, {self.OTHERS: 1}], SETTINGS).machines(packing)
        assert names(machines) == [[self.OTHERS], *wanted]
        assert [machine.load.tolist() for machine in machines] == [[0, 1], [2, 0], [2, 0]]

    def test_is_not_tried_for_more_items_than_the_settings_allow(self) -> None:
        problem = a_problem([(1, 1)], [4])
        members = {PLAIN: 2, self.PRESENT: 1, self.AVOIDING: 1}
        packing = Packing(np.array([1, 1]), np.array([[2], [2]]))
        found = {}
        for most in (0, 1):
            settings = replace(SETTINGS, exchanged_items_max=most, enlarged_machines_max=0)
            found[most] = len(ItemAssignment(problem, [members], settings).machines(packing))
        assert found == {0: 3, 1: 2}


@pytest.mark.parametrize("exchanged_max", [0, 9])
@pytest.mark.parametrize("enlarged_max", [0, 3])
@pytest.mark.parametrize("members", [(3, 3, 2), (1, 4, 1), (0, 5, 5), (4, 0, 0), (2, 1, 6)])
def test_every_item_is_placed_once_within_rules_and_room(
    members: tuple[int, int, int], exchanged_max: int, enlarged_max: int
) -> None:
    """Otherwise, a pod gets no node, or one that it does not fit; whatever the packing planned."""
    counts = {item: number for item, number in zip((PLAIN, OWN, OTHER), members, strict=True) if number}
    second = PackingItem((2,), 0, 1, caps=((7, 1),))
    total = sum(members)
    problem = a_problem([(1, 4), (0.5, 1)], [total, 2])
    settings = replace(SETTINGS, exchanged_items_max=exchanged_max, enlarged_machines_max=enlarged_max)
    half = total // 2
    for loads in ([[half, 2], [total - half, 0]], [[total, 2]], [[half, 1], [total - half, 1]]):
        packing = Packing(np.array([4] * len(loads)), np.array(loads))
        machines = ItemAssignment(problem, [counts, {second: 2}], settings).machines(packing)
        placed = Counter(item for items in names(machines) for item in items)
        assert placed == {**counts, second: 2}
        for machine in machines:
            items = [item for _, item in machine.items]
            assert machine.load.tolist() == [sum(item != second for item in items), items.count(second)]
            assert (machine.load @ problem.requests <= problem.capacity[machine.type_index]).all()
            for group in (7, 8):
                caps = [cap for item in items for known, cap in item.caps if known == group]
                there = sum(amount for item in items for known, amount in item.counted if known == group)
                assert not caps or there <= min(caps)


def test_items_are_mixed_by_what_is_left_of_each() -> None:
    """Of two kinds without rules, each machine gets those of which most remain; the last kind fills the rest at once."""
    other = PackingItem((1,), 0, 2)
    problem = a_problem([(1, 4)], [7])
    for counts, loads, wanted in (
        ({PLAIN: 3, other: 4}, [4, 3], [[other, PLAIN, other, PLAIN], [other, PLAIN, other]]),
        ({PLAIN: 6, other: 1}, [2, 5], [[PLAIN, PLAIN], [PLAIN, PLAIN, PLAIN, PLAIN, other]]),
        ({PLAIN: 7}, [3, 4], [[PLAIN] * 3, [PLAIN] * 4]),
        ({PLAIN: 2}, [1, 4], [[PLAIN], [PLAIN]]),
    ):
        packing = Packing(np.array([4, 4]), np.array([[load] for load in loads]))
        assert names(ItemAssignment(problem, [counts], SETTINGS).machines(packing)) == wanted


# NodePools' instance types as the machine types of a packing problem.


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


# From claims to a packing problem and back.


def a_subproblem(zone: str = "", **changes: object) -> tuple[Subproblem, Solution]:
    context, solution = greedily_solved(subproblem_a_cluster(**changes))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    scope = extraction.scope(solution.claims[0])
    nodes = [extraction.items_of(claim, scope) for claim in solution.claims]
    return Subproblem(context, scope, nodes, settings=DEFAULT_SETTINGS.repack, zone=zone), solution


def test_the_greedy_nodes_are_the_incumbent() -> None:
    """Otherwise, the search may end with a more expensive plan than it began with."""
    subproblem, solution = a_subproblem()
    problem = subproblem.problem()
    incumbent = subproblem.incumbent(problem)
    incumbent.check(problem)
    assert incumbent.cost(problem) == sum(claim.price for claim in solution.claims)


def test_a_packing_becomes_claims_with_all_pods() -> None:
    subproblem, solution = a_subproblem()
    problem = subproblem.problem()
    single = np.eye(len(problem.counts), dtype=np.int64)
    types = np.array([problem.cheapest_type(load) for load in single])
    apart = Packing(np.repeat(types, problem.counts), np.repeat(single, problem.counts, axis=0))
    claims = subproblem.claims_of(problem, apart)
    assert len(claims) == 60
    pod_keys = sorted(pod.key for claim in claims for pod in claim.pods)
    assert pod_keys == sorted(pod.key for claim in solution.claims for pod in claim.pods)
    assert sum(claim.price for claim in claims) == apart.cost(problem)


def test_with_a_zone_only_its_offerings_are_launched() -> None:
    """Otherwise, a zone's pods are packed onto types that it does not have."""
    types = (
        a_type("only-a", cpu="8", memory="64Gi", price=0.1, zones=(ZONES[0],)),
        a_type("everywhere", cpu="8", memory="64Gi", price=0.2),
    )
    anywhere, _ = a_subproblem(types=types)
    in_second, _ = a_subproblem(ZONES[1], types=types)
    assert sorted(anywhere.problem().prices.tolist()) == [100_000_000, 200_000_000]
    assert in_second.problem().prices.tolist() == [200_000_000]


def test_min_values_limit_a_type_to_capacity_that_others_have_too() -> None:
    choice = Requirement(labels.INSTANCE_TYPE, True, (), None, None, 50)
    strict, _ = a_subproblem(node_pools=(a_pool("default", ON_DEMAND, choice),))
    plain, _ = a_subproblem()
    assert strict.problem().capacity.sum() < plain.problem().capacity.sum()


def test_where_the_present_nodes_hold_too_much_no_two_kinds_of_pods_share_a_machine() -> None:
    """Each kind is on the type that costs least for its pods, as many on each machine as it holds."""
    for counts, types, loads in (
        ((7, 3), [1, 1, 1, 1], [[5, 0], [2, 0], [0, 2], [0, 1]]),
        ((7, 1), [1, 1, 0], [[5, 0], [2, 0], [0, 1]]),
        ((2, 4), [0, 1, 1], [[2, 0], [0, 2], [0, 2]]),
        ((10, 2), [1, 1, 1], [[5, 0], [5, 0], [0, 2]]),
    ):
        pods = tuple(
            a_pod(f"{cpu}-{n}", cpu=cpu, memory="1Gi")
            for cpu, count in zip("21", counts, strict=True)
            for n in range(count)
        )
        subproblem, _ = a_subproblem(pods=pods)
        assert [*subproblem.counts.values()] == [*counts]
        problem = PackingProblem.of(
            requests=np.array([[2], [5]]),
            counts=np.array(counts),
            capacity=np.array([[5], [10]]),
            prices=np.array([6, 10]),
            allowed=np.ones((2, 2), dtype=bool),
        )
        packing = subproblem.incumbent(problem)
        packing.check(problem)
        assert (packing.types.tolist(), packing.loads.tolist()) == (types, loads)
