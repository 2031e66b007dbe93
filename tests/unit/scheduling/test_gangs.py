"""Groups that start together: all or nothing, in one domain, in fair turns."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.gangs import gangs_of
from core.model.catalogue import Catalogue
from core.model.plan import Plan, PlannedGroup
from core.model.pod import GroupObject, GroupSource, MemberTemplate, NodeSelectorTerm, Pod
from core.model.snapshot import Options, Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.scheduling.gangs import with_gangs
from core.scheduling.planner import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type

BIG = a_type("big", cpu="8", memory="32Gi", price=1.0, capacity_types=(labels.ON_DEMAND,))


def members(
    name: str, count: int, *, minimum: int | None = None, topology: str = "", **changes: Any
) -> tuple[Pod, ...]:
    notes = {labels.GROUP: name, labels.GROUP_MINIMUM: str(minimum or count)}
    notes |= {labels.GROUP_TOPOLOGY: topology} if topology else {}
    return tuple(a_pod(f"{name}-{i}", cpu="8", annotations=notes, **changes) for i in range(count))


def a_cluster(*pods: Pod, cpu: str = "", types: tuple[Any, ...] = (BIG,), **changes: Any) -> Snapshot:
    limits = quantity.parse_resources({"cpu": cpu}) if cpu else {}
    return a_snapshot(pods=pods, types=types, **{"node_pools": (a_pool(limits=limits),), **changes})


def group_of(plan: Plan, name: str) -> PlannedGroup:
    return next(group for group in plan.groups if group.name == f"default/{name}")


def bought(plan: Plan) -> set[str]:
    return {pod for claim in plan.claims for pod in claim.pods}


def reasons(plan: Plan) -> dict[str, str]:
    return {unplaced.pod: unplaced.reason for unplaced in plan.unschedulable}


def test_a_group_that_has_room_is_bought_whole() -> None:
    plan = schedule(a_cluster(*members("g", 4)))
    assert bought(plan) == {f"default/g-{i}" for i in range(4)}
    group = group_of(plan, "g")
    assert (group.members, group.minimum, group.placed, group.reason) == (4, 4, 4, "")
    assert group.hourly == plan.cost.hourly


def test_of_a_group_that_exceeds_a_limit_nothing_is_bought() -> None:
    """Half a group costs the same and does nothing."""
    plan = schedule(a_cluster(*members("g", 4), cpu="24"))
    assert not plan.claims
    assert set(reasons(plan).values()) == {PodReason.GROUP_INCOMPLETE}
    (message,) = {unplaced.message for unplaced in plan.unschedulable}
    assert message.startswith("3 of 4 members of group default/g have a place; default/g-3 has none [LimitReached]")
    assert group_of(plan, "g").placed == 3


def test_what_a_group_lacks_in_several_pools_is_one_line() -> None:
    r"""Between the NodePools stood the text `\u000a`."""
    pools = (a_pool("a"), a_pool("b"))
    terms = (NodeSelectorTerm((Requirement.one_of("team", "x"),)),)
    plan = schedule(a_cluster(*members("g", 2, required_terms=terms), node_pools=pools))
    (message,) = {unplaced.message for unplaced in plan.unschedulable}
    assert "u000a" not in message
    assert "; NodePool a: " in message


def test_running_members_count() -> None:
    """The fourth was evicted: one node is enough."""
    claim, node = a_node_of(BIG)
    running = members("g", 4, node_name="node-1")[:3]
    again = members("g", 4)[3]
    plan = schedule(a_cluster(*running, again, nodes=(node,), node_claims=(claim,), cpu="16"))
    assert bought(plan) == {"default/g-3"}
    assert group_of(plan, "g").placed == 4


def test_members_beyond_the_minimum_follow_as_far_as_there_is_room() -> None:
    plan = schedule(a_cluster(*members("g", 4, minimum=2), cpu="24"))
    assert len(bought(plan)) == 3
    assert list(reasons(plan).values()) == [PodReason.LIMIT_REACHED]
    assert group_of(plan, "g").placed == 3


def test_a_group_that_cannot_be_complete_leaves_its_room_to_the_next() -> None:
    """The older one would take three of the four nodes and start nothing."""
    large = members("large", 6, created_at=NOW - timedelta(hours=1))
    plan = schedule(a_cluster(*large, *members("small", 4), cpu="32"))
    assert bought(plan) == {f"default/small-{i}" for i in range(4)}
    assert group_of(plan, "large").reason == PodReason.GROUP_INCOMPLETE


def test_of_two_groups_the_older_gets_the_room_for_one() -> None:
    old, young = members("a-young", 3, created_at=NOW), members("b-old", 3, created_at=NOW - timedelta(hours=1))
    plan = schedule(a_cluster(*old, *young, cpu="24"))
    assert bought(plan) == {f"default/b-old-{i}" for i in range(3)}


def test_a_group_of_higher_priority_comes_before_an_older_one() -> None:
    old = members("old", 3, created_at=NOW - timedelta(hours=1))
    plan = schedule(a_cluster(*old, *members("urgent", 3, priority=10, created_at=NOW), cpu="24"))
    assert bought(plan) == {f"default/urgent-{i}" for i in range(3)}


@pytest.mark.parametrize(("age", "wins"), [(timedelta(hours=2), "single"), (timedelta(minutes=1), "group")])
def test_at_a_limit_the_older_of_a_group_and_a_single_pod_is_served(age: timedelta, wins: str) -> None:
    """Neither starves: whoever waits grows old."""
    single = a_pod("single", cpu="8", created_at=NOW - age)
    group = members("g", 3, created_at=NOW - timedelta(hours=1))
    plan = schedule(a_cluster(*group, single, cpu="24"))
    assert bought(plan) == ({"default/single"} if wins == "single" else {f"default/g-{i}" for i in range(3)})


def test_a_single_pod_that_fits_nowhere_takes_nothing_from_a_group() -> None:
    huge = a_pod("huge", cpu="99", created_at=NOW - timedelta(hours=9))
    plan = schedule(a_cluster(*members("g", 3), huge, cpu="24"))
    assert len(bought(plan)) == 3
    assert reasons(plan) == {"default/huge": PodReason.NO_OFFERING_FITS}


def priced(*zones: tuple[str, float]) -> Catalogue:
    """One type with a price of its own in each zone."""
    kinds = [
        a_type("big", cpu="8", memory="32Gi", price=price, zones=(zone,), capacity_types=(labels.ON_DEMAND,))
        for zone, price in zones
    ]
    offerings = tuple(offering for kind in kinds for offering in kind.offerings)
    return Catalogue(default=(msgspec.structs.replace(kinds[0], offerings=offerings),))


def test_the_zone_is_chosen_for_the_whole_group() -> None:
    pods = members("g", 3, topology=labels.ZONE)
    catalogue = priced((ZONES[0], 1.0), (ZONES[1], 0.8), (ZONES[2], 0.9))
    plan = schedule(a_cluster(*pods, catalogue=catalogue))
    assert {claim.zones for claim in plan.claims} == {(ZONES[1],)}
    assert group_of(plan, "g").domain == {labels.ZONE: ZONES[1]}


@pytest.mark.parametrize(("groups", "used"), [(2, 1), (40, 3)])
def test_groups_are_divided_between_zones_of_equal_price_where_whole_nodes_allow_it(groups: int, used: int) -> None:
    """Each zone rounds up to whole nodes, so few groups stay together; many fill every zone alike."""
    pods = [pod for n in range(groups) for pod in members(f"g{n:02d}", 2, topology=labels.ZONE)]
    plan = schedule(a_cluster(*pods, types=(a_type("big", cpu="10", memory="32Gi", price=1.0),)))
    zones = Counter(group.domain[labels.ZONE] for group in plan.groups)
    assert len(zones) == used
    assert max(zones.values()) - min(zones.values()) <= 1


def test_room_that_is_there_decides_the_zone() -> None:
    """Two of three members run on nodes that exist: the dearer zone costs less."""
    pods = members("g", 3, topology=labels.ZONE)
    catalogue = priced((ZONES[0], 1.0), (ZONES[1], 0.8))
    nodes = [a_node_of(BIG, f"n{i}", zone=ZONES[0]) for i in range(2)]
    plan = schedule(
        a_cluster(*pods, catalogue=catalogue, nodes=tuple(n for _, n in nodes), node_claims=tuple(c for c, _ in nodes))
    )
    assert {binding.node for binding in plan.bindings} == {"n0", "n1"}
    assert [claim.zones for claim in plan.claims] == [(ZONES[0],)]


def test_running_members_decide_the_zone() -> None:
    claim, node = a_node_of(BIG, zone=ZONES[2])
    running = members("g", 2, topology=labels.ZONE, node_name="node-1")[:1]
    rest = members("g", 2, topology=labels.ZONE)[1:]
    catalogue = priced((ZONES[0], 0.5), (ZONES[2], 1.0))
    plan = schedule(a_cluster(*running, *rest, catalogue=catalogue, nodes=(node,), node_claims=(claim,)))
    assert [claim.zones for claim in plan.claims] == [(ZONES[2],)]


def test_a_group_that_runs_in_two_zones_is_held() -> None:
    nodes = [a_node_of(BIG, f"n{i}", zone=ZONES[i]) for i in range(2)]
    running = [
        msgspec.structs.replace(pod, node_name=f"n{i}")
        for i, pod in enumerate(members("g", 3, topology=labels.ZONE)[:2])
    ]
    rest = members("g", 3, topology=labels.ZONE)[2:]
    plan = schedule(
        a_cluster(*running, *rest, nodes=tuple(n for _, n in nodes), node_claims=tuple(c for c, _ in nodes))
    )
    assert reasons(plan) == {"default/g-2": PodReason.GROUP_DOMAINS_DIFFER}


def test_a_zone_that_is_full_leads_the_group_to_another() -> None:
    """A first group takes the two nodes there are room for in the cheap zone's pool."""
    cheap = a_pool("cheap", limits=quantity.parse_resources({"cpu": "16"}), weight=10)
    cheap = msgspec.structs.replace(cheap, requirements=(msgspec.structs.replace(zone_is(ZONES[0])),))
    other = a_pool("other", zone_is(ZONES[1]))
    first = members("a", 2, topology=labels.ZONE, created_at=NOW - timedelta(hours=1))
    second = members("b", 2, topology=labels.ZONE)
    catalogue = priced((ZONES[0], 0.5), (ZONES[1], 1.0))
    plan = schedule(a_cluster(*first, *second, catalogue=catalogue, node_pools=(cheap, other)))
    assert group_of(plan, "a").domain == {labels.ZONE: ZONES[0]}
    assert group_of(plan, "b").domain == {labels.ZONE: ZONES[1]}
    assert not plan.unschedulable


def zone_is(zone: str) -> Any:
    from core.model.values.requirements import Requirement

    return Requirement.one_of(labels.ZONE, zone)


def test_a_leader_gets_a_zone_that_has_room_for_its_workers() -> None:
    """A pool of the cheap zone has room for the leader alone: its workers would wait for ever."""
    marks = {labels.LEADER_WORKER_SET: "llm", labels.LEADER_WORKER_GROUP: "0", labels.LEADER_WORKER_INDEX: "0"}
    notes = {labels.LEADER_WORKER_SIZE: "3", labels.LEADER_WORKER_TOPOLOGY: labels.ZONE}
    leader = a_pod("llm-0", cpu="8", labels=marks, annotations=notes)
    owner = GroupObject(
        source=GroupSource.LEADER_WORKER_SET,
        namespace="default",
        name="llm",
        minimum=3,
        topology_keys=(labels.ZONE,),
        templates=(
            MemberTemplate(part="leader", spec=leader.spec, pods=1),
            MemberTemplate(part="worker", spec=leader.spec, pods=2),
        ),
    )
    tight = a_pool("tight", zone_is(ZONES[0]), limits=quantity.parse_resources({"cpu": "8"}), weight=10)
    wide = a_pool("wide", zone_is(ZONES[1]))
    catalogue = priced((ZONES[0], 0.5), (ZONES[1], 1.0))
    snapshot = a_cluster(leader, catalogue=catalogue, node_pools=(tight, wide), group_objects=(owner,))
    plan = schedule(snapshot)
    assert {claim.node_pool for claim in plan.claims} == {"wide"}
    assert bought(plan) == {"default/llm-0"}
    assert sum(len(claim.buffer_pods) for claim in plan.claims) == 2
    assert (group_of(plan, "llm-0").members, group_of(plan, "llm-0").placed) == (3, 3)
    held = schedule(msgspec.structs.replace(snapshot, node_pools=(tight,)))
    assert reasons(held) == {"default/llm-0": PodReason.GROUP_INCOMPLETE}
    assert not held.claims


def test_no_domain_holds_a_group_whose_key_nothing_has() -> None:
    plan = schedule(a_cluster(*members("g", 2, topology="example.com/block")))
    assert set(reasons(plan).values()) == {PodReason.GROUP_INCOMPLETE}
    assert "example.com/block" in plan.unschedulable[0].message


def test_unmarked_members_are_planned_for_in_a_live_cluster() -> None:
    """kube-scheduler marks the members of an incomplete group not at all."""
    options = Options(requires_unschedulable_mark=True)
    assert len(bought(schedule(a_cluster(*members("g", 2), options=options)))) == 2
    assert not bought(schedule(a_cluster(a_pod(), options=options)))


def test_an_ec2_quota_breaks_no_group() -> None:
    """Quotas are looked at after a plan is made."""
    plan = schedule(a_cluster(*members("g", 3), vcpu_quotas={"L-1216C47A": 16}, types=(standard(),)))
    assert not plan.claims
    assert set(reasons(plan).values()) == {PodReason.GROUP_INCOMPLETE}


def standard() -> Any:
    return a_type("m5.2xlarge", cpu="8", memory="32Gi", price=1.0, capacity_types=(labels.ON_DEMAND,))


def test_what_ifs_keep_groups_as_they_are() -> None:
    claim, node = a_node_of(BIG)
    held, whole = members("held", 9), members("whole", 2)
    snapshot = a_cluster(*held, *whole, cpu="40", nodes=(node,), node_claims=(claim,))
    results = Planner(snapshot).what_if(["node-1"], consolidation=True)
    assert {unplaced.pod for unplaced in results.plan.unschedulable} == {pod.key for pod in held}


def test_groups_are_planned_the_same_whatever_the_order_of_the_input() -> None:
    pods = (*members("a", 3, topology=labels.ZONE), *members("b", 3), *members("c", 2, topology=labels.ZONE))
    forward, backward = (schedule(a_cluster(*order, cpu="48")) for order in (pods, pods[::-1]))
    assert forward == backward
    assert len(gangs_of(a_cluster(*pods))) == 3


def test_a_decision_about_groups_is_made_once() -> None:
    """Hundreds of what-ifs share it."""
    planner = Planner(a_cluster(*members("g", 2), *members("held", 3), cpu="16"))
    planner.results()
    context = planner.context
    assert [held.gang.name for held in context.gang_plan.held] == ["default/held"]
    assert [pod.key for pod in context.pending] == ["default/g-0", "default/g-1"]
    assert with_gangs(context) is context


def test_claims_for_members_alone_say_so() -> None:
    """They are launched with one request, whole or not at all."""
    plan = schedule(a_cluster(*members("g", 2), a_pod("single", cpu="7")))
    named = {claim.pods[0]: claim.annotations.get(labels.GROUP_OF_CLAIM, "") for claim in plan.claims}
    assert named == {"default/g-0": "Annotation/default/g", "default/g-1": "Annotation/default/g", "default/single": ""}


def test_groups_of_one_name_and_different_kinds_are_apart() -> None:
    """A name is unique among objects of one kind only."""
    kueue = {labels.KUEUE_GROUP_COUNT: "3"}
    others = tuple(a_pod(f"k-{i}", cpu="8", labels={labels.KUEUE_GROUP: "g"}, annotations=kueue) for i in range(3))
    plan = schedule(a_cluster(*members("g", 2, topology=labels.ZONE), *others, cpu="24"))
    assert bought(plan) == {"default/g-0", "default/g-1"}
    assert {(group.source, group.placed, bool(group.domain), group.reason) for group in plan.groups} == {
        ("Annotation", 2, True, ""),
        ("Kueue", 1, False, PodReason.GROUP_INCOMPLETE),
    }


def test_the_pods_of_a_group_share_its_message() -> None:
    """It is written once for the group: large groups took seconds and gigabytes."""
    group_annotations = {labels.GROUP: "g", labels.GROUP_MINIMUM: "9"}
    plan = schedule(a_cluster(*(a_pod(f"m-{number}", annotations=group_annotations) for number in range(8))))
    assert len(plan.unschedulable) == 8
    assert len({id(pod.message) for pod in plan.unschedulable}) == 1


def test_a_member_that_selects_another_domain_is_told_so() -> None:
    """It has no volume that could be meant."""
    zones = {f"g-{i}": zone for i, zone in enumerate(ZONES[:2])}
    apart = tuple(
        msgspec.structs.replace(
            pod,
            spec=msgspec.structs.replace(pod.spec, node_selector=(Requirement.one_of(labels.ZONE, zones[pod.name]),)),
        )
        for pod in members("g", 2, topology=labels.ZONE)
    )
    (message,) = {unplaced.message for unplaced in schedule(a_cluster(*apart)).unschedulable}
    assert "the domain of the pod's group is where topology.kubernetes.io/zone is another" in message
