"""Which of several equal domains a new node is held to."""

from __future__ import annotations

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import PlannedClaim
from core.model.pod import PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.planner import Planner
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.scheduling.reading import claim_of, plan_of

HOME, AWAY = ZONES[:2]
SPREAD = {"labels": {"app": "web"}, "spreads": (TopologySpread(labels.ZONE, 2, selector=a_selector(app="web")),)}


def on_demand(name: str, cpu: str, price: float, zone: str) -> InstanceType:
    return a_type(name, cpu=cpu, price=price, zones=(zone,), capacity_types=(labels.ON_DEMAND,))


LITTLE_AT_HOME = on_demand("little-at-home", "1", 0.05, HOME)
MIDDLE_AT_HOME = on_demand("middle-at-home", "4", 0.2, HOME)
MIDDLE_AWAY = on_demand("middle-away", "4", 0.25, AWAY)
MUCH_AT_HOME = on_demand("much-at-home", "16", 2.0, HOME)
MUCH_AWAY = on_demand("much-away", "16", 1.0, AWAY)
RUNNING = on_demand("running", "16", 3.0, HOME)


def launched_instead(*cpus: str, **changes: object) -> tuple[PlannedClaim, ...]:
    """New nodes for pods of a node that leaves: the largest has the spread, `changes` are of the last."""
    last = len(cpus) - 1
    pods = [
        pod_on("node-1", f"pod-{number}", cpu=cpu, **({} if number else SPREAD), **(changes if number == last else {}))
        for number, cpu in enumerate(cpus)
    ]
    claim, node = a_node_of(RUNNING)
    types = (RUNNING, MIDDLE_AT_HOME, MIDDLE_AWAY, MUCH_AT_HOME, MUCH_AWAY)
    world = a_snapshot(types=types, node_claims=(claim,), nodes=(node,), pods=tuple(pods))
    return Planner(world).what_if([node.name], consolidation=True).plan.claims


def test_a_domain_is_as_cheap_as_its_cheapest_type_with_room_for_the_pod() -> None:
    """Otherwise, a type that is too small for the pod decides where it runs."""
    types = (LITTLE_AT_HOME, MUCH_AT_HOME, MUCH_AWAY)
    assert claim_of(plan_of(types=types, pods=(a_pod("web", cpu="8", **SPREAD),)), "web").zones == (AWAY,)


def test_pods_of_a_leaving_node_choose_the_domain_by_the_price_of_one_node_for_all() -> None:
    """Otherwise, the first of them chooses where a node for it alone is cheap and one for all costs twice as much."""
    assert [claim.zones for claim in launched_instead("3", "2", "2")] == [(AWAY,)]
    assert [claim.zones for claim in launched_instead("3")] == [(HOME,)]


def test_pods_of_a_leaving_node_choose_a_domain_that_all_can_share() -> None:
    """Otherwise, they need two nodes, and a node whose pods need two is not replaced."""
    (claim,) = launched_instead("3", "1", node_selector=(Requirement.one_of(labels.ZONE, AWAY),))
    assert (claim.zones, len(claim.pods)) == ((AWAY,), 2)


def test_pods_that_an_existing_node_takes_do_not_count_for_the_price() -> None:
    """Otherwise, the domain is chosen for a node that is larger than what is launched."""
    claim, node = a_node_of(RUNNING)
    other_claim, other = a_node_of(MUCH_AT_HOME, "node-2", zone=HOME)
    pods = (pod_on(node.name, "large", cpu="9"), pod_on(node.name, "web", cpu="3", **SPREAD))
    types = (RUNNING, MIDDLE_AT_HOME, MIDDLE_AWAY, MUCH_AT_HOME, MUCH_AWAY)
    filler = pod_on(other.name, "filler", cpu="7")
    world = a_snapshot(types=types, node_claims=(claim, other_claim), nodes=(node, other), pods=(*pods, filler))
    plan = Planner(world).what_if([node.name], consolidation=True).plan
    assert claim_of(plan, "web").zones == (HOME,)


def test_pods_that_need_several_nodes_choose_the_domain_by_price() -> None:
    """Otherwise, they go where a pod can join them that gets a node of its own anyway, for three times the price."""
    found = launched_instead(*["3"] * 6, node_selector=(Requirement.one_of(labels.ZONE, AWAY),))
    assert {claim.zones for claim in found if "default/pod-0" in claim.pods} == {(HOME,)}


def test_only_pods_that_still_wait_attract_others_to_their_domain() -> None:
    """A pod that has its node needs no other: the pods that its affinity selects go to the cheapest zone."""
    claim, node = a_node_of(RUNNING, "node-2", zone=AWAY)
    full = pod_on(node.name, "db-0", cpu="15", labels={"app": "db"})
    there = (Requirement.one_of(labels.ZONE, AWAY),)
    near = (PodAffinityTerm(labels.ZONE, a_selector(app="db")),)
    client = a_pod("client", cpu="3", node_selector=there, affinity=near)
    alone = (PodAffinityTerm(labels.ZONE, a_selector(app="batch")),)
    database = a_pod("db-1", cpu="2", labels={"app": "db"}, anti_affinity=alone)
    types = (MIDDLE_AT_HOME, MIDDLE_AWAY)
    plan = plan_of(types=types, node_claims=(claim,), nodes=(node,), pods=(full, client, database))
    assert (claim_of(plan, "client").zones, claim_of(plan, "db-1").zones) == ((AWAY,), (HOME,))
