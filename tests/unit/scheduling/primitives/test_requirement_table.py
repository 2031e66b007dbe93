"""Requirements as numbers."""

from __future__ import annotations

import pytest

from core import labels
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable

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
    assert table.narrowed(linux, asked=windows) == IMPOSSIBLE
    assert table.with_value(linux, labels.OS, "windows") == IMPOSSIBLE


def test_a_users_label_must_be_offered_and_a_well_known_one_need_not() -> None:
    """Otherwise, pods wait for labels that every cloud node has, or get nodes without their labels (Karpenter)."""
    table = RequirementTable(labels.WELL_KNOWN)
    nothing = table.conjunction(())
    assert table.narrowed(nothing, asked=table.conjunction((Requirement.one_of("team", "a"),))) == IMPOSSIBLE
    zone = table.narrowed(nothing, asked=table.conjunction((Requirement.one_of(labels.ZONE, "z"),)))
    assert table.single(zone, labels.ZONE) == "z"
    assert table.single(nothing, labels.ZONE) is None


TEAM = {name: Requirement.of("team", *asked) for name, asked in {
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
    offers = [table.conjunction(own) for own in ((), [TEAM["a"]], [Requirement.one_of("team", "b")])]
    found = [table.narrowed(offer, asked=number) != IMPOSSIBLE for offer in offers]
    assert found == [nothing, own_a, own_b]
    known = RequirementTable(frozenset({"team"}))
    assert (known.narrowed(known.conjunction(()), asked=known.conjunction([TEAM[asked]])) != IMPOSSIBLE) == well_known


def test_a_label_that_is_needed_stays_needed() -> None:
    """Otherwise, a second demand on a node takes the label of the first away."""
    table = RequirementTable(frozenset({"team"}))
    needs = table.conjunction([TEAM["any"], TEAM["not a"]])
    node = table.narrowed(table.conjunction(()), asked=needs)
    assert table.needed(node) == {"team"}
    assert table.narrowed(node, asked=table.conjunction([TEAM["none"]])) == IMPOSSIBLE
    held = table.with_value(node, "team", "b")
    assert (table.single(held, "team"), table.needed(held)) == ("b", frozenset())
    assert table.with_value(node, "team", "a") == IMPOSSIBLE


def test_a_label_that_one_pod_needs_is_not_given_up_for_the_next() -> None:
    """The NodePool's NotIn would let the label be absent: a pod that needs it shared a new node with one that forbids it."""
    table = RequirementTable(frozenset())
    pool = table.conjunction([TEAM["not a"]])
    node = table.narrowed(pool, asked=table.conjunction([TEAM["any"]]))
    assert table.needed(node) == {"team"}
    assert table.narrowed(node, asked=table.conjunction([TEAM["none"]])) == IMPOSSIBLE
    assert table.narrowed(pool, asked=table.conjunction([TEAM["none"]])) != IMPOSSIBLE


@pytest.mark.parametrize(
    ("first", "then", "needed"),
    [("any", "not a", True), ("not a", "any", True), ("not a", "not a", False), ("any", "a", False)],
)
def test_further_requirements_do_not_give_up_a_label(first: str, then: str, needed: bool) -> None:
    """A pod that needs a label, kept out of one of its values, was put on a node without the label."""
    table = RequirementTable(frozenset())
    found = table.restricted(table.conjunction([TEAM[first]]), [TEAM[then]])
    assert table.needed(found) == ({"team"} if needed else frozenset())
    assert found == table.conjunction([TEAM[first], TEAM[then]])


@pytest.mark.parametrize("then", ["none", "not a"])
def test_further_requirements_may_contradict(then: str) -> None:
    table = RequirementTable(frozenset())
    assert table.restricted(table.conjunction([TEAM["a"]]), [TEAM[then]]) == IMPOSSIBLE


def test_a_node_that_exists_needs_the_label_itself() -> None:
    table = RequirementTable(frozenset({"team"}))
    needs = table.conjunction([TEAM["any"], TEAM["not a"]])
    own = {value: Requirements.from_labels({"team": value}) for value in ("a", "b")}
    assert [table.offers(own[value], needs) for value in ("a", "b")] == [False, True]
    assert not table.offers(Requirements(), needs)
    assert table.offers(Requirements(), table.conjunction([TEAM["not a"]]))


def test_only_one_value_is_single() -> None:
    table = RequirementTable(frozenset())
    several = table.conjunction([Requirement.one_of("team", "a", "b")])
    assert table.single(several, "team") is None
    assert table.single(table.conjunction([TEAM["not a"]]), "team") is None
    assert table.single(table.conjunction([TEAM["a"]]), "team") == "a"
    assert table.single(several, "other") is None
