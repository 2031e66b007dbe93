"""A pod that consolidation moves stays in its zone where rules count it, unless its own spread has too many pods there."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirements
from core.scheduling.context import SchedulingContext
from core.scheduling.topology.domain_pins import DomainPins
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_type
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


def test_a_pod_with_a_slot_in_another_domain_is_not_held() -> None:
    """Its zone had too many pods when the slot was chosen; a command that came first has moved another one since."""
    pods = a_service((3, 3, 2))
    context = a_world(*pods)
    assert context.pinned([0]) is not context
    slots = {pod.key: 2 for pod in pods if pod.node_name == "n0"}
    assert context.pinned([0], slots) is context
    assert context.pinned([0], dict.fromkeys(slots, 0)) is not context


def test_a_context_holds_the_pods_of_zones_without_too_many() -> None:
    context = a_world(*a_service((4, 2, 2)))
    assert context.pinned([0]) is context
    assert context.pinned([1]) is not context
