"""What subnets have left within a plan."""

from __future__ import annotations

from core.model.node_claim import ObjectRef
from core.scheduling.capacity.addresses.address_accounting import RemainingAddresses
from core.scheduling.context import SchedulingContext
from tests.builders import a_pool, a_snapshot, a_type
from tests.unit.scheduling.subnets import A, B, a_class

TYPES = (a_type(),)
OTHER = ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "other")


def test_a_zone_counts_only_where_every_subnet_has_few_addresses() -> None:
    """EC2 would launch into the other one."""
    two = a_class(("subnet-1", A), ("subnet-2", A), ("subnet-3", B))
    context = SchedulingContext(
        a_snapshot(types=TYPES, node_classes=(two,), subnet_addresses={"subnet-1": 3, "subnet-3": 1})
    )
    (template,) = context.templates
    left = RemainingAddresses.of(context.snapshot, context.templates)
    assert list(left.scarce_zones(template)) == [B]
    left.take(template, A)
    left.take(template, B)
    assert (left.has_room(template, A), left.has_room(template, B), left.is_exceeded) == (True, False, False)
    copied = left.copy()
    copied.take(template, B)
    assert (copied.is_exceeded, left.is_exceeded) == (True, False)


def test_a_node_needs_all_its_addresses_in_one_subnet() -> None:
    """Twice ten are not seventeen."""
    prefixes = a_class(("subnet-1", A), ("subnet-2", A), each=17)
    for amounts, room in (((10, 10), False), ((17, 10), True)):
        free = dict(zip(("subnet-1", "subnet-2"), amounts, strict=True))
        snapshot = a_snapshot(types=TYPES, node_classes=(prefixes,), subnet_addresses=free)
        context = SchedulingContext(snapshot)
        left = RemainingAddresses.of(snapshot, context.templates)
        assert left.has_room(context.templates[0], A) is room


def test_what_several_classes_take_of_one_subnet_may_use_its_last_address() -> None:
    """Seventeen and one are not more than twenty, though twenty are not twice seventeen."""
    classes = (a_class(("subnet-1", A), each=17), a_class(("subnet-1", A), name="other"))
    pools = (a_pool(), a_pool("other", node_class=OTHER))
    snapshot = a_snapshot(types=TYPES, node_pools=pools, node_classes=classes, subnet_addresses={"subnet-1": 20})
    templates = {one.pool.name: one for one in SchedulingContext(snapshot).templates}
    left = RemainingAddresses.of(snapshot, tuple(templates.values()))
    left.take(templates["default"], A)
    left.take(templates["other"], A)
    assert not left.is_exceeded


def test_classes_that_share_a_subnet_share_its_addresses() -> None:
    classes = (a_class(("subnet-1", A)), a_class(("subnet-1", A), ("subnet-2", A), name="other"))
    pools = (a_pool(), a_pool("other", node_class=OTHER))
    snapshot = a_snapshot(
        types=TYPES, node_pools=pools, node_classes=classes, subnet_addresses={"subnet-1": 1, "subnet-2": 1}
    )
    templates = {one.pool.name: one for one in SchedulingContext(snapshot).templates}
    left = RemainingAddresses.of(snapshot, tuple(templates.values()))
    left.take(templates["default"], A)
    assert not left.has_room(templates["default"], A)
    assert left.has_room(templates["other"], A)
    left.take(templates["other"], A)
    assert not left.has_room(templates["other"], A)


def test_nothing_is_short_without_a_reading() -> None:
    left = RemainingAddresses()
    (template,) = SchedulingContext(a_snapshot(types=TYPES)).templates
    assert left.has_room(template, A)
    assert not left.scarce_zones(template)
