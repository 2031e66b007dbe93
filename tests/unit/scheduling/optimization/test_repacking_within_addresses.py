"""Whether new nodes got cheaper is known once free addresses have restricted their zones."""

from __future__ import annotations

from core.model.catalogue import InstanceType
from core.model.plan import Plan
from core.scheduling import schedule
from tests.builders import a_pod, a_type
from tests.unit.scheduling.optimization.clusters import a_cluster, greedy
from tests.unit.scheduling.subnets import A, B, a_class

CHEAP = a_type("cheap", cpu="4", price=0.4, zones=(A,))
EXPENSIVE = a_type("expensive", cpu="8", price=0.9, zones=(A, B))


def the_plan(free: int, *, expensive: InstanceType = EXPENSIVE, is_searched: bool = True) -> Plan:
    """Two pods: one expensive node takes both, and so do two cheap ones in a zone with so many free addresses."""
    snapshot = a_cluster(
        types=(CHEAP, expensive),
        pods=tuple(a_pod(f"p{n}", cpu="3") for n in range(2)),
        node_classes=(a_class(("subnet-a", A), ("subnet-b", B)),),
        subnet_addresses={"subnet-a": free, "subnet-b": 100},
    )
    return schedule(snapshot) if is_searched else greedy(snapshot)


def test_two_cheap_nodes_replace_an_expensive_one_if_both_have_an_address() -> None:
    assert the_plan(2).cost.hourly < the_plan(2, is_searched=False).cost.hourly


def test_cheap_nodes_of_which_one_would_get_expensive_do_not() -> None:
    """They cost 0.8 as they were found and 1.3 in the zones that have addresses; the plan before cost 0.9."""
    plan, before = the_plan(1), the_plan(1, is_searched=False)
    assert plan.cost.hourly == before.cost.hourly
    assert plan.claims == before.claims


def test_cheap_nodes_of_which_one_would_have_no_address_do_not() -> None:
    only_there = a_type("expensive", cpu="8", price=0.9, zones=(A,))
    plan = the_plan(1, expensive=only_there)
    assert plan.claims == the_plan(1, expensive=only_there, is_searched=False).claims
    assert not plan.unschedulable
