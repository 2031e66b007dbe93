"""What subnets have left within a plan."""

from __future__ import annotations

import pytest

from core import labels
from core.model.plan import ObjectRef
from core.scheduling.addresses import RemainingAddresses, fitted, in_one_scarce_zone, zones_of
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim
from tests.builders import a_pool, a_snapshot, a_type
from tests.unit.scheduling.subnets import A, B, C, a_class

TYPES = (a_type(),)
OTHER = ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "other")


def test_a_zone_counts_only_where_every_subnet_has_few_addresses() -> None:
    """EC2 would launch into the other one."""
    two = a_class(("subnet-1", A), ("subnet-2", A), ("subnet-3", B))
    context = SchedulingContext(
        a_snapshot(types=TYPES, node_classes=(two,), subnet_addresses={"subnet-1": 3, "subnet-3": 1})
    )
    (template,) = context.templates
    remaining = RemainingAddresses.of(context.snapshot, context.templates)
    assert list(remaining.scarce_zones(template)) == [B]
    remaining.take(template, A)
    remaining.take(template, B)
    assert (remaining.has_room(template, A), remaining.has_room(template, B), remaining.is_exceeded) == (
        True,
        False,
        False,
    )
    copied = remaining.copy()
    copied.take(template, B)
    assert (copied.is_exceeded, remaining.is_exceeded) == (True, False)


def test_a_node_needs_all_its_addresses_in_one_subnet() -> None:
    """Twice ten are not seventeen."""
    prefixes = a_class(("subnet-1", A), ("subnet-2", A), each=17)
    for amounts, room in (((10, 10), False), ((17, 10), True)):
        free = dict(zip(("subnet-1", "subnet-2"), amounts, strict=True))
        snapshot = a_snapshot(types=TYPES, node_classes=(prefixes,), subnet_addresses=free)
        context = SchedulingContext(snapshot)
        remaining = RemainingAddresses.of(snapshot, context.templates)
        assert remaining.has_room(context.templates[0], A) is room


def test_what_several_classes_take_of_one_subnet_may_use_its_last_address() -> None:
    """Seventeen and one are not more than twenty, though twenty are not twice seventeen."""
    classes = (a_class(("subnet-1", A), each=17), a_class(("subnet-1", A), name="other"))
    pools = (a_pool(), a_pool("other", node_class=OTHER))
    snapshot = a_snapshot(types=TYPES, node_pools=pools, node_classes=classes, subnet_addresses={"subnet-1": 20})
    templates = {template.pool.name: template for template in SchedulingContext(snapshot).templates}
    remaining = RemainingAddresses.of(snapshot, tuple(templates.values()))
    remaining.take(templates["default"], A)
    remaining.take(templates["other"], A)
    assert not remaining.is_exceeded


def test_classes_that_share_a_subnet_share_its_addresses() -> None:
    classes = (a_class(("subnet-1", A)), a_class(("subnet-1", A), ("subnet-2", A), name="other"))
    pools = (a_pool(), a_pool("other", node_class=OTHER))
    snapshot = a_snapshot(
        types=TYPES, node_pools=pools, node_classes=classes, subnet_addresses={"subnet-1": 1, "subnet-2": 1}
    )
    templates = {template.pool.name: template for template in SchedulingContext(snapshot).templates}
    remaining = RemainingAddresses.of(snapshot, tuple(templates.values()))
    remaining.take(templates["default"], A)
    assert not remaining.has_room(templates["default"], A)
    assert remaining.has_room(templates["other"], A)
    remaining.take(templates["other"], A)
    assert not remaining.has_room(templates["other"], A)


def test_nothing_is_short_without_a_reading() -> None:
    remaining = RemainingAddresses()
    (template,) = SchedulingContext(a_snapshot(types=TYPES)).templates
    assert remaining.has_room(template, A)
    assert not remaining.scarce_zones(template)


# Fitting claims into the free addresses of subnets.


ADDRESS_FIT_TYPES = (a_type(zones=(A, B, C)),)


class World:
    """Claims that may be launched anywhere, and what subnets leave them."""

    def __init__(self, *zones: str, number: int, **free: int) -> None:
        subnets = {f"subnet-{zone}": amount for zone, amount in free.items()}
        snapshot = a_snapshot(types=ADDRESS_FIT_TYPES, node_classes=(a_class(),), subnet_addresses=subnets)
        context = SchedulingContext(snapshot)
        (template,) = context.templates
        reqs = context.table.with_value(template.offered, labels.ZONE, zones[0]) if zones else template.offered
        self.addresses = RemainingAddresses.of(snapshot, context.templates)
        self.claims = [InFlightClaim(n, template, reqs, template.mask, context.axis.zero) for n in range(number)]

    def zones(self) -> list[tuple[str, ...]]:
        """The zones of each claim."""
        return [zones_of(claim.draft) for claim in self.claims]

    def fit(self) -> bool:
        """Whether the claims fit."""
        return fitted(self.claims, self.addresses) is not None


def test_claims_keep_all_their_zones_while_every_subnet_could_take_all_of_them() -> None:
    """More zones are more capacity."""
    world = World(number=2, a=2, b=2)
    assert world.fit()
    assert world.zones() == [(A, B, C)] * 2


def test_claims_leave_the_scarce_zones_to_others_where_one_has_plenty() -> None:
    world = World(number=3, a=2, b=2)
    assert world.fit()
    assert world.zones() == [(C,)] * 3


@pytest.mark.parametrize(("free", "fits"), [({"a": 2, "b": 0, "c": 1}, True), ({"a": 1, "b": 0, "c": 1}, False)])
def test_claims_are_spread_over_what_is_left(free: dict[str, int], fits: bool) -> None:
    """Wherever EC2 launches them, there is an address; if there is not, no claim is changed."""
    world = World(number=3, **free)
    assert world.fit() is fits
    assert sorted(world.zones()) == ([(A,), (A,), (C,)] if fits else [(A, B, C)] * 3)


def test_claims_that_are_bound_to_a_zone_come_first() -> None:
    """The other one can go elsewhere."""
    world = World(number=2, a=1, b=1, c=0)
    bound = world.claims[1]
    bound.reqs = bound.template.types.table.with_value(bound.reqs, labels.ZONE, A)
    assert world.fit()
    assert world.zones() == [(B,), (A,)]


def test_more_claims_than_addresses_in_their_only_zone_do_not_fit() -> None:
    assert World(A, number=2, a=2).fit()
    assert not World(A, number=3, a=2).fit()


def test_of_two_scarce_zones_the_one_with_more_left_is_taken() -> None:
    world = World(number=1, a=1, b=3, c=2)
    assert zones_of(in_one_scarce_zone(world.claims[0].draft, world.addresses)) == (B,)
