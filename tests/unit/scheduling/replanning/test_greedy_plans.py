"""Greedy plans without some nodes."""

from __future__ import annotations

from core import labels
from core.model.pod import TopologySpread
from core.model.snapshot import Options
from core.model.values.commitment import ReservedInstances
from core.packing.search_budget import SearchBudget
from core.scheduling import Planner
from core.scheduling.replanning.greedy_plans import Drains, drained, greedy
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of

LARGE = a_type("large", cpu="8", price=0.4)


def test_a_node_that_takes_no_pods_keeps_its_own() -> None:
    """Its pods do not move, and the pods of a node that goes need a new node."""
    (one, first), (other, second) = a_node_of(LARGE, "n1"), a_node_of(LARGE, "n2")
    pods = (a_pod("a", node_name="n1"), a_pod("b", node_name="n2"))
    context = context_of(types=(LARGE,), nodes=(first, second), node_claims=(one, other), pods=pods)
    gone, closed = (frozenset((context.positions[name],)) for name in ("n1", "n2"))
    solution, displaced = greedy(context, gone, consolidation=False)
    assert ([pod.name for pod in displaced], len(solution.claims)) == (["a"], 0)
    solution, displaced = greedy(context, gone, consolidation=False, closed=closed)
    assert ([pod.name for pod in displaced], len(solution.claims)) == (["a"], 1)


def test_drained_pods_share_no_new_node_with_pods_that_wait_in_any_case() -> None:
    """Equal pods too: otherwise, the node of a waiting pod counts as the price of a move. Waiting pods come first."""
    claim, node = a_node_of(LARGE, "n1")
    pods = tuple(a_pod(name, cpu="1", node_name=at) for name, at in (("a", "n1"), ("b", "n1"), ("c", ""), ("d", "")))
    planner = Planner(a_snapshot(types=(LARGE,), nodes=(node,), node_claims=(claim,), pods=pods))
    for drains in (Drains(leaving=frozenset((0,))), Drains(mandatory=frozenset((0,)))):
        fleet = planner.drained(drains)
        for found in (fleet.results, fleet.packed(SearchBudget(20))):
            assert [one.pods for one in found.plan.claims] == [("default/c", "default/d"), ("default/a", "default/b")]


def test_a_pod_that_may_leave_a_crowded_zone_does_not_return_in_place_of_another() -> None:
    """The other returns to the zone as well: kube-scheduler refuses the first one there if it sees it first."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    pairs = [a_node_of(LARGE, name, zone=ZONES[0]) for name in ("n1", "n2")]
    pods = (
        a_pod("large", cpu="3", node_name="n1", labels={"app": "web"}, spreads=(even,)),
        a_pod("small", cpu="2", node_name="n2", labels={"app": "web"}),
    )
    claims, nodes = zip(*pairs, strict=True)
    only = (ZONES[0], ZONES[1])
    types = (a_type("large", cpu="8", price=0.4, zones=only),)
    planner = Planner(a_snapshot(types=types, nodes=nodes, node_claims=claims, pods=pods)).pinned(["n1", "n2"])
    for drains in (Drains(leaving=frozenset((0, 1))), Drains(mandatory=frozenset((0, 1)))):
        plan = planner.drained(drains).results.plan
        assert {claim.pods: claim.zones for claim in plan.claims} == {
            ("default/large",): (ZONES[1],),
            ("default/small",): (ZONES[0],),
        }


def test_pods_of_drained_nodes_go_to_the_nodes_that_a_target_means_for_them() -> None:
    """The first node with room would take room that the target keeps for other pods."""
    pairs = [a_node_of(LARGE, f"n{number}") for number in range(4)]
    claims, nodes = zip(*pairs, strict=True)
    pods = tuple(a_pod(name, cpu="1", node_name=at) for name, at in (("a", "n0"), ("b", "n0"), ("c", "n1")))
    context = context_of(types=(LARGE,), node_claims=claims, nodes=nodes, pods=pods)
    group = context.pod_groups.of(pods[0]).index
    slots = {group: [(3, 1), (2, 1)]}
    for changes, placed in (
        ({"slots": slots}, [("a", 3), ("b", 2)]),
        ({}, [("a", 1), ("b", 1)]),
        ({"closed": frozenset((1,))}, [("a", 2), ("b", 2)]),
    ):
        for drains in (Drains(leaving=frozenset((0,)), **changes), Drains(mandatory=frozenset((0,)), **changes)):
            solution, displaced = drained(context, drains)
            assert [(pod.name, position) for pod, position in solution.bound] == placed
            assert [pod.name for pod in displaced] == ["a", "b"]
            assert (solution.claims, solution.unplaced) == ([], [])


def test_a_greedy_plan_is_settled_with_its_commitments() -> None:
    """A claim gives up what its commitment would pay for a larger node, and may be launched as any type that this covers."""
    types = tuple(
        a_type(f"m7.{size}", cpu=cpu, price=0.05 * int(cpu)) for size, cpu in (("large", "2"), ("2xlarge", "8"))
    )
    bought = ReservedInstances(name="one", instance_type="m7.2xlarge", count=1)
    pods = tuple(a_pod(f"p{n}", cpu="1500m") for n in range(5))
    context = context_of(types=types, pods=pods, options=Options(commitments=(bought,)))
    solution, _ = greedy(context, frozenset(), consolidation=False)
    (claim,) = solution.claims
    assert (claim.commitment, claim.template.types.names(claim.allowed)) == ("one", ("m7.2xlarge",))
