"""A pod that consolidation moves stays in its zone where rules count it, unless its own spread has too many pods there."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.context import SchedulingContext
from core.scheduling.topology.pins import DomainPins, launched_domains
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_type
from tests.unit.lifecycle.records_for_tests import a_plan
from tests.unit.scheduling.reading import context_of

LARGE = a_type("large", cpu="16")
HERE = ZONES[0]
OWN = a_selector(app="web")
EVEN = TopologySpread(labels.ZONE, 1, selector=OWN)


def a_service(by_zone: tuple[int, ...], **changes: Any) -> tuple[Pod, ...]:
    """So many pods in each zone, with a spread over zones."""
    fields = {"labels": {"app": "web"}, "spreads": (EVEN,), **changes}
    return tuple(
        a_pod(f"web-{zone}-{number}", node_name=f"n{zone}", **fields)
        for zone, count in enumerate(by_zone)
        for number in range(count)
    )


def a_world(*pods: Pod) -> SchedulingContext:
    """A node in each of three zones, with these pods."""
    pairs = [a_node_of(LARGE, f"n{number}", zone=zone) for number, zone in enumerate(ZONES[:3])]
    claims, nodes = zip(*pairs, strict=True)
    return context_of(types=(LARGE,), node_claims=claims, nodes=nodes, pods=pods)


def pin(context: SchedulingContext, pod: Pod) -> Requirements | None:
    """What holds a pod of the first zone."""
    return DomainPins(context.topology).of(context.pod_groups.of(pod), {labels.ZONE: HERE})


@pytest.mark.parametrize(
    ("by_zone", "is_held"), [((2, 2, 2), True), ((3, 2, 2), True), ((4, 2, 2), False), ((2, 4, 2), True)]
)
def test_a_pod_that_could_not_return_is_not_held(by_zone: tuple[int, ...], is_held: bool) -> None:
    """Its place counts while it is there: kube-scheduler counts it again in whichever zone it takes next."""
    pods = a_service(by_zone)
    assert (pin(a_world(*pods), pods[0]) is not None) is is_held


def test_a_wider_spread_holds_it() -> None:
    pods = a_service((4, 2, 2), spreads=(TopologySpread(labels.ZONE, 2, selector=OWN),))
    assert pin(a_world(*pods), pods[0]) is not None


def test_a_preferred_spread_does_not_hold_and_does_not_release() -> None:
    """No hard rule counts the pod, so the context asks for no pin; asked anyway, nothing is too full."""
    preferred = TopologySpread(labels.ZONE, 1, selector=OWN, when_unsatisfiable="ScheduleAnyway")
    pods = a_service((4, 2, 2), spreads=(preferred,))
    context = a_world(*pods)
    assert context.pinned([0]) is context
    assert pin(context, pods[0]) is not None


def test_another_rule_that_counts_the_pod_holds_it() -> None:
    """A cache that must be where the service is would lose it."""
    near = a_pod("cache", node_name="n0", affinity=(PodAffinityTerm(labels.ZONE, OWN),))
    pods = a_service((4, 2, 2))
    assert pin(a_world(*pods, near), pods[0]) is not None


def test_an_own_affinity_holds_it() -> None:
    """Another service may have the same affinity, and the group of both is one."""
    pods = a_service((4, 2, 2), affinity=(PodAffinityTerm(labels.ZONE, OWN),))
    assert pin(a_world(*pods), pods[0]) is not None


def test_a_second_spread_of_its_own_that_is_even_holds_it() -> None:
    wide = TopologySpread(labels.ZONE, 3, selector=a_selector(tier="front"))
    pods = a_service((4, 2, 2), labels={"app": "web", "tier": "front"}, spreads=(EVEN, wide))
    assert pin(a_world(*pods), pods[0]) is not None


def test_a_preference_that_counts_it_and_a_rule_along_another_key_do_not_hold_it() -> None:
    """kube-scheduler may ignore the one, and the other does not ask in which zone it is."""
    front = a_selector(tier="front")
    rather = TopologySpread(labels.ZONE, 3, selector=front, when_unsatisfiable="ScheduleAnyway")
    by_host = TopologySpread(labels.HOSTNAME, 9, selector=front)
    for other in (rather, by_host):
        pods = a_service((4, 2, 2), labels={"app": "web", "tier": "front"}, spreads=(EVEN, other))
        assert pin(a_world(*pods), pods[0]) is None


def test_a_pod_with_a_slot_in_another_domain_is_not_held() -> None:
    """Its zone had too many pods when the slot was chosen; a command that came first has moved another one since."""
    pods = a_service((3, 3, 2))
    context = a_world(*pods)
    assert context.pinned([0]) is not context
    slots = {pod.key: 2 for pod in pods if pod.node_name == "n0"}
    assert context.pinned([0], slots) is context
    assert context.pinned([0], dict.fromkeys(slots, 0)) is not context


def test_a_context_holds_the_pods_of_zones_without_too_many() -> None:
    pods = a_service((4, 2, 2))
    context = a_world(*pods)
    freed, held = context.pinned([0]), context.pinned([1])
    assert zones_of(freed, pods[0]) == set()
    assert freed.released == {pod.key for pod in pods if pod.node_name == "n0"}
    assert zones_of(held, next(pod for pod in pods if pod.node_name == "n1")) == {ZONES[1]}
    assert held.released == frozenset()


def zones_of(context: SchedulingContext, pod: Pod) -> set[str]:
    """The zones to which a context holds a pod; empty if it may go anywhere."""
    zones = [context.table[number].get(labels.ZONE) for number in context.pod_groups.of(pod).steps[0].alternatives]
    return {value for requirement in zones if requirement is not None for value in requirement.values}


def test_a_pod_with_a_place_on_a_new_node_gets_that_nodes_zone() -> None:
    """Any other new node would prove nothing about this one."""
    pods = a_service((4, 2, 2))
    new = a_plan(zones=(ZONES[2],), requirements=(Requirement.one_of(labels.ARCH, "arm64"),))
    pinned = a_world(*pods).pinned([0], {}, {pods[0].key: new})
    assert zones_of(pinned, pods[0]) == {ZONES[2]}
    assert pinned.table[pinned.pod_groups.of(pods[0]).steps[0].alternatives[0]].get(labels.ARCH) is None
    assert pods[0].key not in pinned.released
    assert pods[1].key in pinned.released


def test_a_pod_that_only_avoids_others_gets_its_new_nodes_zone_too() -> None:
    """No rule counts it, so nothing held it to its zone; its own rule decides about the new one."""
    apart = a_pod("apart", node_name="n0", anti_affinity=(PodAffinityTerm(labels.ZONE, OWN),))
    context = a_world(apart, *a_service((0, 1, 1)))
    assert context.pinned([0]) is context
    assert zones_of(context.pinned([0], {}, {apart.key: a_plan(zones=(ZONES[2],))}), apart) == {ZONES[2]}


def test_the_domains_of_a_new_node_are_those_of_its_offerings_labels_and_requirements() -> None:
    rack, family = Requirement.one_of("rack", "r1"), Requirement.one_of("family", "c")
    claim = a_plan(zones=ZONES[:2], capacity_types=(labels.SPOT,), labels={"rack": "r1"}, requirements=(family,))
    keys = (labels.ZONE, labels.CAPACITY_TYPE, "rack", "family", "unknown")
    zones, spot = Requirement.one_of(labels.ZONE, *ZONES[:2]), Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)
    assert launched_domains(claim, keys) == Requirements([zones, spot, rack, family])
    assert launched_domains(claim, ("rack",)) == Requirements([rack])
