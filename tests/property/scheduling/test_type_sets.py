"""Sets of types as bit masks agree with checking the types one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types import TypeFilter, TypeIndex, index_of
from core.scheduling.primitives import (
    IMPOSSIBLE,
    RequirementTable,
    ResourceAxis,
    ThresholdIndex,
    positions,
)
from tests.builders import ZONES, a_type

AMOUNTS = st.lists(st.integers(-5, 20), min_size=1, max_size=12)
VALUES = ("a", "b", "3", "7")
REQUIREMENTS = st.builds(
    lambda operator, values, bound: Requirement.of(
        "size", operator, [str(bound)] if operator in ("Gt", "Lt") else values if operator in ("In", "NotIn") else ()
    ),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
    st.integers(0, 9),
)


@given(AMOUNTS, st.integers(-6, 21))
def test_thresholds_agree_with_comparing_each(amounts: list[int], bound: int) -> None:
    """Otherwise, a type too small is listed, or one within a limit is refused."""
    table = ThresholdIndex(amounts)
    assert list(positions(table.at_least(bound))) == [i for i, amount in enumerate(amounts) if amount >= bound]
    assert list(positions(table.at_most(bound))) == [i for i, amount in enumerate(amounts) if amount <= bound]
    assert table.largest((1 << len(amounts)) - 1) == max(amounts)


@given(st.lists(REQUIREMENTS, max_size=3), st.lists(st.sampled_from((None, *VALUES)), min_size=1, max_size=6))
def test_masks_agree_with_asking_each_type(requirements: list[Requirement], sizes: list[str | None]) -> None:
    """Otherwise, a type whose label contradicts the pod is launched for it."""
    types = [
        a_type(f"t{number}", zones=ZONES[:1], **({"size": size} if size else {})) for number, size in enumerate(sizes)
    ]
    keys = frozenset({labels.ARCH, labels.OS, "size"} if any(sizes) else {labels.ARCH, labels.OS})
    table = RequirementTable(labels.WELL_KNOWN | keys)
    number = table.conjunction(requirements)
    expected = [
        i for i, size in enumerate(sizes) if all(r.has(size) if size else r.tolerates_absence for r in requirements)
    ]
    if number == IMPOSSIBLE:
        assert expected == []
    elif "size" in keys:
        mask = TypeFilter.of(TypeIndex(types), keys, table, ResourceAxis(["cpu"])).mask(number)
        assert list(positions(mask)) == expected


def test_a_node_without_a_label_fails_a_requirement_hidden_by_merging() -> None:
    """Exists and NotIn merge to NotIn, which alone would admit the node."""
    table = RequirementTable(labels.WELL_KNOWN)
    conjunction = table.conjunction([Requirement.of("team", "Exists"), Requirement.of("team", "NotIn", ["a"])])
    assert not table.offers(Requirements(), conjunction)
    assert table.offers(Requirements([Requirement.one_of("team", "b")]), conjunction)
    assert table.narrowed(table.intern(Requirements()), required=conjunction) == IMPOSSIBLE


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 31))
def test_an_index_below_a_price_is_that_of_the_cheaper_offerings(prices: list[int], bound: int) -> None:
    """Otherwise, repacked nodes cost as much as those they replace."""
    types = tuple(a_type(f"t{number}", price=price, zones=ZONES[:1]) for number, price in enumerate(prices))
    cheap = index_of(types).below(nanodollars(bound))
    offered = {(market, position) for market, entries in cheap.prices.items() for _, position in entries}
    assert offered == {
        ((o.zone, o.capacity_type, "", "", ""), position)
        for position, instance_type in enumerate(types)
        for o in instance_type.offerings
        if o.price < nanodollars(bound)
    }
    assert index_of(types) is index_of(types)
