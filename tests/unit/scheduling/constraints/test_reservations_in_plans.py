"""Reservations in whole plans: who gets their places, and what minValues and zones change about it."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.catalogue import Offering
from core.model.pod import PodAffinityTerm
from core.model.snapshot import FeatureGates, Options
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.greedy.types_for_tests import SMALL, some_claims
from tests.unit.scheduling.reading import plan_of


def test_a_reservation_is_used_by_as_many_claims_as_it_has_places() -> None:
    """If two claims rely on one reserved instance, one of them fails to launch."""
    reserved = (
        Offering(SMALL.name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1),
        *(Offering(SMALL.name, zone, labels.ON_DEMAND, 100_000_000) for zone in ZONES),
    )
    claims = some_claims("a", "b", types=(msgspec.structs.replace(SMALL, offerings=reserved),))
    assert sorted((claim.capacity_types, claim.price) for claim in claims) == [
        (("on-demand",), 100_000_000),
        (("reserved",), 0),
    ]
    held = next(claim for claim in claims if claim.capacity_types == ("reserved",))
    assert Requirement.one_of(labels.RESERVATION_ID, "cr-1") in held.requirements


def test_pods_in_one_zone_do_without_a_full_reservation() -> None:
    """The full reservation's capacity type was the cheapest, so it was chosen, and the pod had no place."""
    offerings = (
        Offering(SMALL.name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1),
        Offering(SMALL.name, ZONES[0], labels.SPOT, 40_000_000),
    )
    kind = (PodAffinityTerm(labels.CAPACITY_TYPE, a_selector(app="b")),)
    pods = (a_pod("big", cpu="1500m"), a_pod("p", cpu="1", labels={"app": "b"}, affinity=kind))
    plan = plan_of(types=(msgspec.structs.replace(SMALL, offerings=offerings),), pods=pods)
    assert {claim.pods: claim.capacity_types for claim in plan.claims} == {
        ("default/big",): ("reserved",),
        ("default/p",): ("spot",),
    }


def test_a_reservation_with_too_few_types_for_min_values_is_not_used() -> None:
    """A claim uses one reservation, and that has one type: the pod had no place although spot has both."""
    types = tuple(a_type(name, price=0.1, capacity_types=(labels.SPOT,), zones=ZONES[:1]) for name in ("one", "two"))
    reserved = Offering(types[0].name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
    types = (msgspec.structs.replace(types[0], offerings=(*types[0].offerings, reserved)), types[1])
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2))
    (claim,) = plan_of(types=types, node_pools=(pool,), pods=(a_pod("p", cpu="100m"),)).claims
    assert (claim.instance_types, claim.capacity_types) == (("one", "two"), ("spot",))


def test_reservations_meet_min_values_together_and_each_gives_a_place() -> None:
    """On-demand was launched, or the pod left over, although the reservations have enough types."""
    plain = {
        name: a_type(name, cpu="1", capacity_types=(labels.ON_DEMAND,)) for name in ("one", "two", "three", "four")
    }
    places = {"one": 1, "two": 2, "three": 2}
    types = tuple(
        msgspec.structs.replace(
            plain[name],
            offerings=(
                *plain[name].offerings,
                Offering(name, ZONES[0], labels.RESERVED, 0, reservation_id=f"cr-{name}", reservation_capacity=count),
            ),
        )
        for name, count in places.items()
    )
    pool = a_pool(
        "default",
        Requirement.of(labels.INSTANCE_TYPE, "Exists", (), 2),
        Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED),
    )
    pods = tuple(a_pod(name, cpu="1") for name in ("a", "b", "c"))
    plan = plan_of(types=(*types, plain["four"]), node_pools=(pool,), pods=pods)
    held = [{r.key: r.values for r in claim.requirements}[labels.RESERVATION_ID] for claim in plan.claims]
    assert held == [("cr-one", "cr-three"), ("cr-three", "cr-two")]
    assert [unplaced.reason for unplaced in plan.unschedulable] == [PodReason.MIN_VALUES_NOT_MET]


def test_a_pod_that_waits_for_a_full_reservation_says_so() -> None:
    """The message said that the NodePool was suitable."""
    offering = Offering(SMALL.name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=0)
    plan = plan_of(types=(msgspec.structs.replace(SMALL, offerings=(offering,)),), pods=(a_pod("p"),))
    (unplaced,) = plan.unschedulable
    assert unplaced.reason == PodReason.NO_OFFERING_AVAILABLE
    assert "all suitable capacity reservations are full" in unplaced.message


def test_reserved_capacity_is_left_alone_without_its_gate() -> None:
    """Otherwise, the gate has no effect."""
    offering = Offering(SMALL.name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
    off = Options(feature_gates=FeatureGates(reserved_capacity=False))
    world = {"types": (msgspec.structs.replace(SMALL, offerings=(offering,)),), "pods": (a_pod("p"),)}
    assert len(plan_of(**world).claims) == 1
    assert len(plan_of(**world, options=off).claims) == 0
