"""minValues: how many kinds of types a claim leaves open."""

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


def test_a_cut_keeps_dear_types_that_bring_a_value() -> None:
    """Otherwise a claim would be refused for the minValues that its own types had."""
    assert TYPES.names(cut(TYPES, TYPES.full, ANY, {}, 2)) == ("a0", "a1")
    assert TYPES.names(cut(TYPES, TYPES.full, ANY, {"family": 3}, 4)) == ("a0", "a1", "b0", "c0")


def test_what_is_missing_is_told_by_key() -> None:
    """Otherwise BestEffort would not know what to lower to."""
    assert unmet(TYPES, TYPES.full, {"family": 4, labels.INSTANCE_TYPE: 7}) == {"family": 3}


def test_values_that_are_not_there_bring_all_there_are() -> None:
    """Otherwise a claim under BestEffort would lose the variety that it can have."""
    assert first_of_each(TYPES, [0, 1, 5, 6], {"family": 9}) == {0, 5, 6}
