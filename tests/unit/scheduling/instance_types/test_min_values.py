"""minValues: how many different values a claim's types must keep."""

from __future__ import annotations

from core import labels
from core.scheduling.instance_types.min_values import cut, first_of_each, unmet
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.instance_types.type_index import TypeIndex
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis
from tests.builders import a_type

TABLE = RequirementTable(labels.WELL_KNOWN)
CHEAP = tuple(a_type(f"a{n}", price=0.1 + n / 100, family="a") for n in range(5))
DEAR = (a_type("b0", price=5.0, family="b"), a_type("c0", price=6.0, family="c"))
TYPES = TypeFilter.of(TypeIndex((*CHEAP, *DEAR)), frozenset({"family"}), TABLE, ResourceAxis(["cpu"]))
ANY = TABLE.conjunction(())


def test_a_cut_keeps_expensive_types_that_bring_a_value() -> None:
    """Otherwise, a claim is refused because of minValues that its types met."""
    assert TYPES.names(cut(TYPES, TYPES.full, ANY, {}, 2)) == ("a0", "a1")
    assert TYPES.names(cut(TYPES, TYPES.full, ANY, {"family": 3}, 4)) == ("a0", "a1", "b0", "c0")


def test_missing_values_are_reported_by_key() -> None:
    """Otherwise, BestEffort does not know how far to lower minValues."""
    assert unmet(TYPES, TYPES.full, {"family": 4, labels.INSTANCE_TYPE: 7}) == {"family": 3}


def test_unreachable_min_values_keep_all_values_that_exist() -> None:
    """Otherwise, a claim under BestEffort loses the variety that it can have."""
    assert first_of_each(TYPES, [0, 1, 5, 6], {"family": 9}) == {0, 5, 6}


def test_as_many_values_as_required_are_enough() -> None:
    """Otherwise, a claim names an expensive type that nothing asks for."""
    assert first_of_each(TYPES, [0, 1, 5, 6], {"family": 2}) == {0, 5}
