"""Places in reservations."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.pod import EBS_DRIVER, WAIT_FOR_FIRST_CONSUMER, HostPort, Pod, StorageClass, VolumeUse
from core.model.values.requirements import Requirement, Requirements
from core.reasons.pods import LimitsSpent, PodReason
from core.scheduling.constraints.constraint import PlanStart
from core.scheduling.constraints.per_node import AttachLimits, HostPorts, NodePoolLimits, Reservations
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import ClaimDraft, InFlightClaim
from core.scheduling.primitives import NO_TYPES, RequirementId, RequirementTable, TypeMask
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, group_of

# How many volumes a node can attach.


TYPE = msgspec.structs.replace(a_type("m", cpu="8"), attach_limit=2)
STORAGE = StorageClass(name="gp3", provisioner=EBS_DRIVER, binding_mode=WAIT_FOR_FIRST_CONSUMER)


def a_pod_with_volumes(name: str, count: int) -> Pod:
    uses = (VolumeUse("", ephemeral=f"scratch-{number}", storage_class="gp3") for number in range(count))
    return a_pod(name, volumes=tuple(uses))


def test_volumes_of_all_pods_count_together_on_claims_and_nodes() -> None:
    """Otherwise, a pod waits for a volume that its node cannot attach."""
    claim, node = a_node_of(TYPE, attach_limits={EBS_DRIVER: 2})
    pods = (a_pod_with_volumes("two", 2), a_pod_with_volumes("one", 1), a_pod("plain"))
    context = context_of(types=(TYPE,), pods=pods, nodes=(node,), node_claims=(claim,), storage_classes=(STORAGE,))
    (limits,) = (c for c in context.plan_constraints(()).all if isinstance(c, AttachLimits))
    two, one_volume = group_of(context, "two"), group_of(context, "one")
    (template,), (existing,) = context.templates, context.existing_nodes
    new = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert (limits.types(new, two), limits.admits(existing, two)) == (template.types.full, True)
    limits.reserve_on_claim(new, two)
    limits.reserve_on_node(existing, two)
    assert (limits.types(new, one_volume), limits.admits(existing, one_volume)) == (NO_TYPES, False)
    assert limits.types(new, two) == template.types.full, "a volume that is attached already costs nothing"


def test_pods_with_volumes_are_not_moved() -> None:
    """Otherwise, repacking moves a pod out of its volume's zone."""
    context = context_of(types=(TYPE,), pods=(a_pod_with_volumes("one", 1), a_pod("plain")), storage_classes=(STORAGE,))
    assert not AttachLimits.may_move(group_of(context, "one"))
    assert AttachLimits.may_move(group_of(context, "plain"))


# Two pods of a node never use the same host port.


HOST_PORTS_TYPE = a_type("m", cpu="8")
WEB = a_pod("web", host_ports=(HostPort(80),))


def test_claims_and_nodes_give_each_port_once() -> None:
    """Otherwise, the kubelet refuses the second pod."""
    claim, node = a_node_of(HOST_PORTS_TYPE)
    context = context_of(types=(HOST_PORTS_TYPE,), pods=(WEB, a_pod("plain")), nodes=(node,), node_claims=(claim,))
    (ports,) = (c for c in context.plan_constraints(()).all if isinstance(c, HostPorts))
    web, (template,), (existing,) = group_of(context, "web"), context.templates, context.existing_nodes
    new = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert (ports.types(new, web), ports.admits(existing, web)) == (template.types.full, True)
    ports.reserve_on_claim(new, web)
    ports.reserve_on_node(existing, web)
    assert (ports.types(new, web), ports.admits(existing, web)) == (NO_TYPES, False)


def test_it_applies_to_pods_with_ports_and_repacking_does_not_move_those() -> None:
    """Otherwise, pods are checked without need, or moved beside one with the same port."""
    context = context_of(types=(HOST_PORTS_TYPE,), pods=(WEB, a_pod("plain")))
    web, plain = group_of(context, "web"), group_of(context, "plain")
    answers = [(HostPorts.concerns(g.signature, g.volumes), HostPorts.may_move(g), g.is_plain) for g in (web, plain)]
    assert answers == [(True, False, False), (False, True, True)]


# The part of a NodePool's limits that one plan may use.


SMALL, LARGE = a_type("a", cpu="4"), a_type("b", cpu="8")


def test_a_claim_is_charged_its_largest_type_and_a_copy_is_not() -> None:
    """Otherwise, a plan exceeds the limit, or a discarded plan has used it up."""
    context = context_of(types=(SMALL, LARGE), node_pools=(a_pool(limits={"cpu": 12_000}),))
    constraints, (template,) = context.plan_constraints(()), context.templates
    limits, before = constraints.limits, constraints.copy().limits
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert limits.launchable(template, template.mask) == template.mask
    limits.open(claim)
    assert (limits.remaining[0].left, before.remaining[0].left) == ({"cpu": 4_000}, {"cpu": 12_000})
    assert template.types.names(limits.launchable(template, template.mask)) == ("a",)
    limits.open(claim)
    assert limits.launchable(template, template.mask) == NO_TYPES
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero)
    refusal = limits.shortage(draft)
    assert refusal == LimitsSpent((("cpu", "0", ""),))


def test_with_pods_left_over_a_pool_with_limits_is_not_repacked() -> None:
    """Otherwise, the search for cheaper nodes gives the last of a limit to other pods."""
    pools = (a_pool("free"), a_pool("limited", limits={"cpu": 100_000}))
    context = context_of(types=(SMALL,), node_pools=pools)
    limits = NodePoolLimits(PlanStart(context.templates, context.remaining.limits(()), context.table))
    answers = {
        template.pool.name: limits.may_replace(
            InFlightClaim(0, template, template.offered, template.mask, context.axis.zero), pods_wait=True
        )
        for template in context.templates
    }
    assert answers == {"free": True, "limited": False}


PLAIN = a_type("m")
RESERVED = Offering("m", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
RESERVATIONS_TYPE = msgspec.structs.replace(PLAIN, offerings=(*PLAIN.offerings, RESERVED))


def test_a_place_is_used_once_and_a_copy_still_has_it() -> None:
    """Otherwise, two claims rely on one reserved instance."""
    context = context_of(types=(RESERVATIONS_TYPE,))
    constraints, (template,) = context.plan_constraints(()), context.templates
    reservations = constraints.reservations
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero)
    chosen = reservations.choose(draft)
    assert chosen is not None
    assert chosen[1] == ("cr-1",)
    before = constraints.copy().reservations
    claim = InFlightClaim(0, template, chosen[0], template.mask, context.axis.zero, reservations=chosen[1])
    reservations.open(claim)
    assert (reservations.left, before.left) == ({"cr-1": 0}, {"cr-1": 1})
    assert not reservations.may_replace(claim, pods_wait=False)
    again = reservations.choose(reservations.narrowed(draft))
    assert again is not None
    assert again[1] == ()


def test_a_claim_cannot_use_a_full_reservation() -> None:
    """Otherwise, the full reservation, which costs nothing, determines its zone."""
    context = context_of(types=(msgspec.structs.replace(PLAIN, offerings=(RESERVED,)),))
    reservations = Reservations(PlanStart(context.templates, context.remaining.limits(()), context.table))
    (template,) = context.templates
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero)
    assert reservations.narrowed(draft) is draft
    reservations.left["cr-1"] = 0
    assert not reservations.narrowed(draft).is_possible
    assert reservations.shortage(draft).reason is PodReason.NO_OFFERING_AVAILABLE


def test_a_claim_does_without_a_reservation_that_offers_too_little_choice() -> None:
    """MinValues ask for two types and the reservation has one; with both types elsewhere, it is left to other claims."""
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=2))
    for types, chosen_ones in (((RESERVATIONS_TYPE, a_type("n")), ()), ((RESERVATIONS_TYPE,), ("cr-1",))):
        context = context_of(types=types, node_pools=(pool,))
        (template,) = context.templates
        draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero, template.min_values)
        chosen = context.plan_constraints(()).reservations.choose(draft)
        assert chosen is not None
        assert chosen[1] == chosen_ones
        offered = context.table[chosen[0]].of(labels.CAPACITY_TYPE)
        assert offered.has(labels.RESERVED) is bool(chosen_ones), "without a place, it may not be launched into one"


@pytest.mark.parametrize(("zones", "chosen_ones"), [(1, ()), (2, ("cr-0", "cr-1"))])
def test_zones_that_min_values_demand_are_those_of_reservations(zones: int, chosen_ones: tuple[str, ...]) -> None:
    """Two zones are demanded, and each reservation has one: a claim confined to it has too few, and its pods wait."""
    reserved = tuple(
        Offering("m", ZONES[n], labels.RESERVED, 0, reservation_id=f"cr-{n}", reservation_capacity=1)
        for n in range(zones)
    )
    types = (msgspec.structs.replace(PLAIN, offerings=(*PLAIN.offerings, *reserved)),)
    context = context_of(
        types=types, node_pools=(a_pool("default", Requirement.of(labels.ZONE, "Exists", min_values=2)),)
    )
    (template,) = context.templates
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero, template.min_values)
    chosen = context.plan_constraints(()).reservations.choose(draft)
    assert chosen is not None
    assert chosen[1] == chosen_ones
    assert not draft.narrowed(chosen[0]).missing_values()


def many_reservations(number: int) -> SchedulingContext:
    """Types of growing size, each in reservations of several prices, zones and free places."""
    types = []
    for k in range(4):
        plain = a_type(f"m{k}", cpu=str(2 + 2 * k))
        reserved = [
            Offering(
                plain.name,
                ZONES[n % 2],
                labels.RESERVED,
                1_000 * (n * 7 % 5),
                reservation_id=f"cr-{n:03}",
                reservation_capacity=n % 3,
            )
            for n in range(number)
            if n % 4 == k or n % 9 == 2 * k
        ]
        types.append(msgspec.structs.replace(plain, offerings=(*plain.offerings, *reserved)))
    return context_of(types=tuple(types), node_pools=(a_pool("default"),))


def drafts_of(context: SchedulingContext) -> list[ClaimDraft]:
    """Drafts with different requirements, types, requests and minValues."""
    (template,) = context.templates
    in_zone, elsewhere = (context.table.with_value(template.offered, labels.ZONE, ZONES[n]) for n in (1, 2))
    in_reservation = context.table.with_value(template.offered, labels.RESERVATION_ID, "cr-005")
    return [
        ClaimDraft(template, reqs, TypeMask(template.mask & allowed), total, min_values)
        for reqs in (template.offered, in_zone, elsewhere, in_reservation)
        for allowed in (-1, 0b0101, 0b1000, 0)
        for total in (context.axis.zero, context.axis.vector({"cpu": 5_000}), context.axis.vector({"cpu": 10**6}))
        for min_values in ({}, {labels.INSTANCE_TYPE: 2}, {labels.INSTANCE_TYPE: 4}, {labels.ZONE: 2})
    ]


def chosen_one_by_one(
    reservations: Reservations, context: SchedulingContext, draft: ClaimDraft
) -> tuple[RequirementId, tuple[str, ...]] | None:
    """Return the choice as defined: the draft is narrowed to each reservation, or several, and asked."""

    def restricted_to(*identities: str) -> ClaimDraft:
        reservation_only = Requirements(
            [
                Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED),
                Requirement.one_of(labels.RESERVATION_ID, *identities),
            ]
        )
        return draft.narrowed(context.table.narrowed(draft.reqs, required=context.table.intern(reservation_only)))

    with_room = [n for n, places in reservations.left.items() if places > 0 and restricted_to(n).is_possible]
    ranked = sorted(with_room, key=lambda n: (restricted_to(n).price, n))
    for identity in ranked:
        if not restricted_to(identity).missing_values():
            return restricted_to(identity).reqs, (identity,)
    if ranked and not restricted_to(*ranked).missing_values():
        needed = list(ranked)
        for identity in reversed(ranked):
            others = [n for n in needed if n != identity]
            if others and not restricted_to(*others).missing_values():
                needed = others
        return restricted_to(*needed).reqs, tuple(needed)
    free = reservations.without_any(draft)
    if free.is_possible and (not ranked or not free.missing_values()):
        return free.reqs, ()
    return (restricted_to(ranked[0]).reqs, (ranked[0],)) if ranked else None


def test_the_choice_among_masks_is_the_choice_among_drafts() -> None:
    """Otherwise, a claim gets a dearer reservation, or one without room for it."""
    context = many_reservations(23)
    reservations = context.plan_constraints(()).reservations
    chosen = [reservations.choose(draft) for draft in drafts_of(context)]
    expected = [chosen_one_by_one(reservations, context, draft) for draft in drafts_of(context)]
    assert chosen == expected
    assert {len(choice[1]) for choice in chosen if choice is not None} >= {0, 1, 3}, "each kind of choice is compared"


def test_a_choice_narrows_as_often_among_many_reservations_as_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each narrowed draft scans all offerings: 1,200 reservations and 5,000 pods took 25 seconds."""
    counts = []
    narrowed = RequirementTable.with_value
    for number in (12, 120):
        context, narrowings = many_reservations(number), list[str]()
        monkeypatch.setattr(
            RequirementTable, "with_value", lambda *given, to=narrowings: (to.append(given[2]), narrowed(*given))[1]
        )
        (template,) = context.templates
        context.plan_constraints(()).reservations.choose(
            ClaimDraft(template, template.offered, template.mask, context.axis.zero)
        )
        counts.append(len(narrowings))
    assert counts[0] == counts[1] <= 3
