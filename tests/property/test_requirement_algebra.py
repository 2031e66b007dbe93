"""Laws of the requirement algebra: a lattice of sets of strings, seen through a small universe of values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.model.values.requirements import Requirement, Requirements

UNIVERSE = ("a", "b", "0", "1", "2", "3", "7")
VALUES = st.lists(st.sampled_from(UNIVERSE), max_size=4)
BOUND = st.sampled_from(["0", "1", "2", "3"]).map(lambda value: [value])

requirements = st.one_of(
    st.builds(lambda o, v: Requirement.of("k", o, v), st.sampled_from(["In", "NotIn"]), VALUES),
    st.builds(lambda o: Requirement.of("k", o), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(lambda o, v: Requirement.of("k", o, v), st.sampled_from(["Gt", "Lt", "Gte", "Lte"]), BOUND),
)


def members(requirement: Requirement) -> set[str]:
    return {value for value in UNIVERSE if requirement.has(value)}


@given(requirements, requirements)
def test_intersection_is_the_common_part(first: Requirement, second: Requirement) -> None:
    assert members(first.intersection(second)) == members(first) & members(second)


@given(requirements, requirements)
def test_intersection_commutes(first: Requirement, second: Requirement) -> None:
    assert first.intersection(second) == second.intersection(first)


@given(requirements, requirements, requirements)
def test_intersection_associates(a: Requirement, b: Requirement, c: Requirement) -> None:
    assert members(a.intersection(b).intersection(c)) == members(a.intersection(b.intersection(c)))


@given(requirements)
def test_intersection_is_idempotent_and_exists_is_its_identity(requirement: Requirement) -> None:
    assert members(requirement.intersection(requirement)) == members(requirement)
    assert requirement.intersection(Requirement("k")) == requirement


@given(requirements, requirements)
def test_a_shared_member_means_they_intersect(first: Requirement, second: Requirement) -> None:
    if members(first) & members(second):
        assert first.intersects(second)
    if not first.complement or not second.complement:
        finite = first if not first.complement else second
        if set(finite.values) <= set(UNIVERSE):
            assert first.intersects(second) == bool(members(first) & members(second))


@given(st.lists(requirements, max_size=4))
def test_order_of_a_conjunction_does_not_matter(several: list[Requirement]) -> None:
    forward, backward = Requirements(several), Requirements(reversed(several))
    assert members(forward.of("k")) == members(backward.of("k"))
