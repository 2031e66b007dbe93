"""A filter below a price equals a filter over the cheaper offerings alone, whatever was asked before."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.instance_types.type_index import TypeIndex
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis
from tests.builders import ZONES, a_type

KEYS = frozenset({labels.ARCH, labels.OS, "family"})
TYPES = (
    a_type("a.large", cpu="2", price=0.1, zones=ZONES[:1], family="a"),
    a_type("a.xlarge", cpu="4", price=0.2, zones=ZONES[:2], family="a"),
    a_type("b.large", cpu="2", price=0.3, zones=ZONES[1:], family="b"),
    a_type("b.xlarge", cpu="4", price=0.6, family="b"),
)
ASKED = (
    (),
    (Requirement.one_of(labels.ZONE, ZONES[1]),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),),
    (Requirement.one_of("family", "b"), Requirement.one_of(labels.ZONE, ZONES[0], ZONES[2])),
)


def a_filter(types: tuple[InstanceType, ...], table: RequirementTable) -> TypeFilter:
    return TypeFilter.of(TypeIndex(types), KEYS, table, ResourceAxis(["cpu"]))


def cheaper(types: tuple[InstanceType, ...], price: int) -> tuple[InstanceType, ...]:
    return tuple(
        msgspec.structs.replace(one, offerings=tuple(o for o in one.offerings if o.price < price)) for one in types
    )


def answers(types: TypeFilter, table: RequirementTable) -> Iterator[object]:
    """Every query of a filter, for some requirements and sets of types."""
    for reqs in map(table.conjunction, ASKED):
        mask = types.mask(reqs)
        yield mask
        for among in (mask, types.full, TypeMask(0b0110)):
            yield types.offerings.cheapest(among, reqs)
            yield types.offerings.in_price_order(among, reqs)
            yield types.offerings.zones_and_capacity_types(among, reqs)
            yield types.names_in_price_order(among, reqs)
            yield [types.values(among, reqs, key) for key in (labels.ZONE, labels.CAPACITY_TYPE, "family")]
            yield [types.distinct(among, key) for key in (labels.ZONE, labels.INSTANCE_TYPE, "family")]
            yield types.room.fits(among, (1500,)), types.room.fitting(among, (1500,)), types.room.front(among)
        yield list(types.offerings.by_labels(reqs))


@pytest.mark.parametrize("price", [0.05, 0.11, 0.25, 1.0])
def test_a_filter_below_a_price_is_that_of_the_cheaper_offerings(price: float) -> None:
    """Otherwise, a consolidation launches a node as expensive as those it replaces, or misses a cheaper one."""
    table = RequirementTable(labels.WELL_KNOWN | KEYS)
    types = a_filter(TYPES, table)
    list(answers(types, table))
    found = list(answers(types.below(nanodollars(price)), table))
    assert found == list(answers(a_filter(cheaper(TYPES, nanodollars(price)), table), table))


def test_daemonsets_use_room_and_ports_and_do_not_change_prices() -> None:
    """Otherwise, a node is opened that its DaemonSets' pods alone fill."""
    table = RequirementTable(labels.WELL_KNOWN | KEYS)
    types = a_filter(TYPES, table)
    everything = table.conjunction(())
    assert types.room.fitting(types.full, (2000,)) == types.full
    less = types.with_overhead([(500,), (0,), (500,), (0,)], [()] * len(TYPES))
    assert less.names(less.room.fitting(less.full, (2000,))) == ("a.xlarge", "b.xlarge")
    assert less.room.least_overhead(TypeMask(0b0101)) == (500,)
    assert types.room.fitting(types.full, (2000,)) == types.full
    assert less.names_in_price_order(less.full, everything) == types.names_in_price_order(types.full, everything)
