"""Requirements as numbers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types import TypeFilter, TypeIndex
from core.scheduling.primitives import (
    IMPOSSIBLE,
    RequirementTable,
    ResourceAxis,
    ThresholdIndex,
    TypeMask,
    bits,
    flags_of,
    memo,
    minus,
    pareto,
    plus,
    positions,
    within,
)
from tests.builders import a_type
from tests.unit.scheduling.reading import context_of

# Sets of positions as integers.


@given(st.sets(st.integers(0, 300)))
def test_positions_are_returned_in_order(members: set[int]) -> None:
    """Otherwise, ties between types are broken by chance."""
    assert list(positions(bits(members))) == sorted(members)


@given(st.sets(st.integers(0, 40)), st.integers(41, 60))
def test_flags_select_the_members(members: set[int], length: int) -> None:
    """Otherwise, a claim names the wrong types."""
    assert list(compress(range(length), flags_of(bits(members), length))) == sorted(members)


# Answers are computed once, and their owners are freed when no longer needed.


def test_each_answer_is_computed_once() -> None:
    """Otherwise, a plan computes the same mask for every pod."""
    asked: list[tuple[int, str]] = []

    def answer(number: int, text: str) -> str:
        asked.append((number, text))
        return text * number

    ask = memo(answer)
    assert [ask(2, "a"), ask(2, "a"), ask(3, "a")] == ["aa", "aa", "aaa"]
    assert asked == [(2, "a"), (3, "a")]


def a_filter() -> object:
    table = RequirementTable(frozenset())
    types = TypeFilter.of(TypeIndex((a_type(),)), frozenset(), table, ResourceAxis(["cpu"]))
    reqs = table.conjunction(())
    types.offerings.cheapest(types.mask(reqs), reqs)
    return types


def a_context() -> object:
    return context_of(types=(a_type(),))


@pytest.mark.parametrize("make", [a_filter, a_context])
def test_an_owner_of_memos_is_freed_without_the_collector(make: Callable[[], object]) -> None:
    """Otherwise, every what-if stays in memory while the collector is off (`core.interpreter`)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        made = make()
        gone = weakref.ref(made)
        del made
        assert gone() is None
    finally:
        if was_on:
            gc.enable()


LINUX = Requirement.one_of(labels.OS, "linux")
WINDOWS = Requirement.one_of(labels.OS, "windows")


def test_equal_requirements_have_one_number() -> None:
    """Otherwise, results for them cannot be cached."""
    table = RequirementTable(labels.WELL_KNOWN)
    assert table.conjunction((LINUX,)) == table.conjunction((LINUX, LINUX))
    assert table.conjunction((LINUX,)) != table.conjunction((WINDOWS,))


def test_contradicting_requirements_are_impossible() -> None:
    """Otherwise, a node is launched that no pod can use."""
    table = RequirementTable(labels.WELL_KNOWN)
    linux, windows = table.conjunction((LINUX,)), table.conjunction((WINDOWS,))
    assert table.conjunction((LINUX, WINDOWS)) == IMPOSSIBLE
    assert table.narrowed(linux, required=windows) == IMPOSSIBLE
    assert table.with_value(linux, labels.OS, "windows") == IMPOSSIBLE


def test_a_users_label_must_be_offered_and_a_well_known_one_need_not() -> None:
    """Otherwise, pods wait for labels that every cloud node has, or get nodes without their labels (Karpenter)."""
    table = RequirementTable(labels.WELL_KNOWN)
    nothing = table.conjunction(())
    assert table.narrowed(nothing, required=table.conjunction((Requirement.one_of("team", "a"),))) == IMPOSSIBLE
    zone = table.narrowed(nothing, required=table.conjunction((Requirement.one_of(labels.ZONE, "z"),)))
    assert table.single(zone, labels.ZONE) == "z"
    assert table.single(nothing, labels.ZONE) is None


TEAM = {name: Requirement.of("team", *expression) for name, expression in {
    "a": ("In", ["a"]), "any": ("Exists",), "none": ("DoesNotExist",), "not a": ("NotIn", ["a"]), "above": ("Gt", ["3"]),
}.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        (("a",), False),
        (("not a",), False),
        (("any", "not a"), True),
        (("not a", "any"), True),
        (("above",), False),
        (("none",), False),
    ],
)
def test_a_label_that_must_exist_is_remembered(parts: tuple[str, ...], needed: bool) -> None:
    """`Exists` and `NotIn` make `NotIn`, which a node without the label would meet."""
    table = RequirementTable(frozenset())
    number = table.conjunction(TEAM[part] for part in parts)
    assert table.needed(number) == ({"team"} if needed else frozenset())


@pytest.mark.parametrize(
    ("asked", "nothing", "own_a", "own_b", "well_known"),
    [
        ("a", False, True, False, True),
        ("any", False, True, True, True),
        ("none", True, False, False, True),
        ("not a", True, False, True, True),
    ],
)
def test_what_a_new_node_meets(asked: str, nothing: bool, own_a: bool, own_b: bool, well_known: bool) -> None:
    """Of a user's label, only the pool's own values count; one that clouds set may be asked for freely."""
    table = RequirementTable(frozenset())
    number = table.conjunction([TEAM[asked]])
    offers = [table.conjunction(requirements) for requirements in ((), [TEAM["a"]], [Requirement.one_of("team", "b")])]
    found = [table.narrowed(offer, required=number) != IMPOSSIBLE for offer in offers]
    assert found == [nothing, own_a, own_b]
    known = RequirementTable(frozenset({"team"}))
    assert (
        known.narrowed(known.conjunction(()), required=known.conjunction([TEAM[asked]])) != IMPOSSIBLE
    ) == well_known


def test_a_label_that_is_needed_stays_needed() -> None:
    """Otherwise, a second demand on a node takes the label of the first away."""
    table = RequirementTable(frozenset({"team"}))
    needs = table.conjunction([TEAM["any"], TEAM["not a"]])
    node = table.narrowed(table.conjunction(()), required=needs)
    assert table.needed(node) == {"team"}
    assert table.narrowed(node, required=table.conjunction([TEAM["none"]])) == IMPOSSIBLE
    held = table.with_value(node, "team", "b")
    assert (table.single(held, "team"), table.needed(held)) == ("b", frozenset())
    assert table.with_value(node, "team", "a") == IMPOSSIBLE


def test_a_label_that_one_pod_needs_is_not_given_up_for_the_next() -> None:
    """The NodePool's NotIn would let the label be absent: a pod that needs it shared a new node with one that forbids it."""
    table = RequirementTable(frozenset())
    pool = table.conjunction([TEAM["not a"]])
    node = table.narrowed(pool, required=table.conjunction([TEAM["any"]]))
    assert table.needed(node) == {"team"}
    assert table.narrowed(node, required=table.conjunction([TEAM["none"]])) == IMPOSSIBLE
    assert table.narrowed(pool, required=table.conjunction([TEAM["none"]])) != IMPOSSIBLE


@pytest.mark.parametrize(
    ("first", "then", "needed"),
    [("any", "not a", True), ("not a", "any", True), ("not a", "not a", False), ("any", "a", False)],
)
def test_further_requirements_do_not_give_up_a_label(first: str, then: str, needed: bool) -> None:
    """A pod that needs a label, kept out of one of its values, was put on a node without the label."""
    table = RequirementTable(frozenset())
    restricted = table.restricted(table.conjunction([TEAM[first]]), [TEAM[then]])
    assert table.needed(restricted) == ({"team"} if needed else frozenset())
    assert restricted == table.conjunction([TEAM[first], TEAM[then]])


@pytest.mark.parametrize("then", ["none", "not a"])
def test_further_requirements_may_contradict(then: str) -> None:
    table = RequirementTable(frozenset())
    assert table.restricted(table.conjunction([TEAM["a"]]), [TEAM[then]]) == IMPOSSIBLE


def test_a_node_that_exists_needs_the_label_itself() -> None:
    table = RequirementTable(frozenset({"team"}))
    needs = table.conjunction([TEAM["any"], TEAM["not a"]])
    labels_of_node = {value: Requirements.from_labels({"team": value}) for value in ("a", "b")}
    assert [table.offers(labels_of_node[value], needs) for value in ("a", "b")] == [False, True]
    assert not table.offers(Requirements(), needs)
    assert table.offers(Requirements(), table.conjunction([TEAM["not a"]]))


def test_only_one_value_is_single() -> None:
    table = RequirementTable(frozenset())
    several = table.conjunction([Requirement.one_of("team", "a", "b")])
    assert table.single(several, "team") is None
    assert table.single(table.conjunction([TEAM["not a"]]), "team") is None
    assert table.single(table.conjunction([TEAM["a"]]), "team") == "a"
    assert table.single(several, "other") is None


# Resource vectors over the resources that anything requests.


VECTORS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6)


def test_an_axis_has_each_name_once_in_order() -> None:
    """Otherwise, equal snapshots give vectors of another order, and other plans."""
    axis = ResourceAxis(["memory", "cpu", "memory"])
    assert axis.names == ("cpu", "memory")
    assert axis.vector({"cpu": 2, "example.com/gpu": 1}) == (2, 0)
    assert axis.amounts((2, 0)) == {"cpu": 2}
    assert axis.total([]) == axis.zero == (0, 0)
    assert axis.total([(1, 2), (3, 4)]) == (4, 6)


def test_cpu_and_memory_come_first_whatever_else_is_requested() -> None:
    """A pod with scratch space made the search compare CPU with that, on every node, and memory with nothing."""
    axis = ResourceAxis(["ephemeral-storage", "pods", "memory", "amd.com/gpu", "cpu"])
    assert axis.names == ("cpu", "memory", "amd.com/gpu", "ephemeral-storage", "pods")
    assert ResourceAxis(["pods", "memory", "amd.com/gpu"]).names == ("memory", "amd.com/gpu", "pods")


@given(VECTORS)
def test_a_difference_undoes_a_sum(vectors: list[tuple[int, int]]) -> None:
    """A pod that is taken out again leaves the claim as it was."""
    for vector in vectors:
        for other in vectors:
            assert minus(plus(vector, other), other) == vector


@given(VECTORS, st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_what_fits_any_vector_fits_one_of_the_front(vectors: list[tuple[int, int]], requested: tuple[int, int]) -> None:
    """Otherwise, a pod is refused although a type has room for it."""
    assert any(within(requested, vector) for vector in pareto(vectors)) == any(
        within(requested, vector) for vector in vectors
    )


# Amounts against bounds, for all positions at once.


AMOUNTS = st.lists(st.integers(-3, 9), max_size=12)


@given(AMOUNTS, st.integers(-5, 11))
def test_a_bound_is_met_by_the_positions_that_a_comparison_finds(amounts: list[int], bound: int) -> None:
    """Otherwise, a claim keeps types without room, or loses types that have it."""
    index = ThresholdIndex(amounts)
    assert index.at_least(bound) == bits(i for i, amount in enumerate(amounts) if amount >= bound)
    assert index.at_most(bound) == bits(i for i, amount in enumerate(amounts) if amount <= bound)


@given(st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 15)))
def test_the_largest_amount_is_that_of_the_mask(amounts: list[int], members: set[int]) -> None:
    """A NodePool's limit is charged with it: too little, and the limit is exceeded."""
    expected = max((amount for i, amount in enumerate(amounts) if i in members), default=0)
    assert ThresholdIndex(amounts).largest(TypeMask(bits(members))) == expected
