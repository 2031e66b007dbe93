"""Requirements on labels: the values of each operator, and whether a node's labels satisfy a pod's."""

from __future__ import annotations

import pytest

from core import labels
from core.errors import InvalidInputError
from core.model.values.requirements import (
    Requirement,
    Requirements,
    is_integer,
    is_label_key,
    is_label_value,
    labels_fault,
    requirement_fault,
    requirements_of_labels,
)

# Labels of one object are turned into requirements once.


def test_the_labels_of_an_object_are_its_requirements_and_read_once() -> None:
    labels = {"topology.kubernetes.io/zone": "a", "team": "shop"}
    requirements = requirements_of_labels(labels)
    assert requirements == Requirements.from_labels(labels)
    assert requirements_of_labels(labels) is requirements
    assert requirements_of_labels(dict(labels)) == requirements


# Valid keys and values of labels in Kubernetes.


@pytest.mark.parametrize("key", ["team", "a", "example.com/team", "A_b.c-9", f"{'d' * 63}.x/{'n' * 63}"])
def test_a_key_is_a_name_with_or_without_a_domain(key: str) -> None:
    """Otherwise, a NodePool's own label is refused."""
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key", ["", "/team", "a/b/c", "-a", "a-", "team\n", "Example.com/a", "n" * 64, f"{'d' * 254}/n"]
)
def test_other_text_is_no_key(key: str) -> None:
    """The kubelet would not start with it; a trailing line break would be a line of its own in a script."""
    assert not is_label_key(key)


def test_a_value_is_empty_or_a_name_of_63_characters() -> None:
    """An empty value is common; with a longer one, the kubelet does not start."""
    assert all(is_label_value(value) for value in ("", "a", "v" * 63, "1.2-3_x"))
    assert not any(is_label_value(value) for value in ("v" * 64, "a b", "a\n", 'a"', ".a", "\u0661"))


def test_a_fault_quotes_the_text_without_control_characters() -> None:
    """The message is written to logs and events, which control characters could forge."""
    assert labels_fault({"team": "a\nb"}) == r"'a\nb' cannot be the value of a label"
    assert requirement_fault(Requirement.one_of("t e", "a")) == "'t e' cannot be the key of a label"
    assert len(labels_fault({"team": "x" * 5000})) < 200


of = Requirement.of


@pytest.mark.parametrize(
    ("requirement", "inside", "outside"),
    [
        (of("k", "In", ["a", "b"]), ["a", "b"], ["c", ""]),
        (of("k", "NotIn", ["a"]), ["b", ""], ["a"]),
        (of("k", "Exists"), ["a", "1"], []),
        (of("k", "DoesNotExist"), [], ["a", ""]),
        (of("k", "Gt", ["4"]), ["5", "100"], ["4", "-1", "x", "1_0"]),
        (of("k", "Gt", ["-2"]), ["-1", "+3"], ["-2"]),
        (of("k", "Gte", ["4"]), ["4"], ["3"]),
        (of("k", "Lt", ["4"]), ["3", "-7"], ["4", "x"]),
        (of("k", "Lte", ["4"]), ["4"], ["5"]),
        (of("k", "Lt", [str(-(2**63))]), [], [str(-(2**63)), str(2**63 - 1), "x"]),
        (of("k", "Gt", [str(2**63 - 1)]), [], [str(-(2**63)), str(2**63 - 1), "x"]),
    ],
)
def test_each_operator_allows_its_values(requirement: Requirement, inside: list[str], outside: list[str]) -> None:
    assert all(requirement.has(value) for value in inside)
    assert not any(requirement.has(value) for value in outside)


@pytest.mark.parametrize("values", [[], ["1", "2"], ["1_0"], ["1.5"], ["x"]])
def test_a_bound_takes_one_whole_number(values: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="one whole number"):
        of("k", "Gt", values)


def test_an_unknown_operator_names_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="In, NotIn"):
        of("k", "Near", ["a"])


def test_deprecated_keys_mean_their_successors() -> None:
    assert of("failure-domain.beta.kubernetes.io/zone", "In", ["z"]).key == labels.ZONE


def test_contradicting_bounds_allow_no_value_but_keep_min_values() -> None:
    crossed = of("k", "Gt", ["5"], 3).intersection(of("k", "Lt", ["5"]))
    assert crossed.operator == "DoesNotExist"
    assert crossed.min_values == 3


def test_bounds_restrict_finite_sets_and_are_dropped_then() -> None:
    single = of("k", "Gte", ["5"]).intersection(of("k", "Lte", ["5"]))
    assert (single.has("5"), single.has("4"), single.has("6")) == (True, False, False)
    cut = of("k", "In", ["1", "5", "x"]).intersection(of("k", "Gte", ["2"]))
    assert cut == of("k", "In", ["5"])


def test_only_equal_keys_intersect() -> None:
    with pytest.raises(InvalidInputError, match="cannot intersect"):
        of("a", "Exists").intersection(of("b", "Exists"))


def test_an_unknown_label_is_refused_unless_its_absence_is_allowed() -> None:
    node = Requirements.from_labels({"team": "a"})
    assert node.incompatibility(Requirements([of("zone", "In", ["z"])])) == "zone"
    assert node.compatible(Requirements([of("zone", "In", ["z"])]), allow_undefined=frozenset({"zone"}))
    assert node.compatible(Requirements([of("zone", "NotIn", ["z"])]))
    assert node.compatible(Requirements([of("zone", "DoesNotExist")]))
    assert not node.compatible(Requirements([of("zone", "Exists")]))
    assert not node.compatible(Requirements([of("team", "In", ["b"])]))
    assert not node.compatible(Requirements([of("team", "DoesNotExist")]))


def test_two_absences_agree() -> None:
    """A pool and a pod that both forbid a label do not contradict each other."""
    pool = Requirements([of("k", "DoesNotExist")])
    assert pool.compatible(Requirements([of("k", "NotIn", ["a"])]))
    assert pool.compatible(Requirements([of("k", "DoesNotExist")]))


def test_manifest_entries_round_trip() -> None:
    for requirement in (
        of("k", "In", ["a", "b"], 2),
        of("k", "NotIn", ["a"]),
        of("k", "Exists"),
        of("k", "DoesNotExist"),
        of("k", "Gt", ["4"]).intersection(of("k", "Lt", ["9"])),
        of("k", "Gt", ["4"]).intersection(of("k", "NotIn", ["6"])),
    ):
        entries = requirement.to_manifest()
        again = Requirements(of(e["key"], e["operator"], e.get("values", ()), e.get("minValues")) for e in entries)  # type: ignore[arg-type]  # manifests are untyped
        assert again["k"] == requirement


def test_requirements_are_a_mapping_in_key_order() -> None:
    both = Requirements([of("b", "Exists"), of("a", "In", ["x", "y"]), of("a", "In", ["y", "z"])])
    assert list(both) == ["a", "b"]
    assert both["a"] == of("a", "In", ["y"])
    assert both.of("c").operator == "Exists"
    assert list(both.without("a")) == ["b"]
    assert hash(both) == hash(Requirements([of("a", "In", ["y"]), of("b", "Exists")]))


VALUES = ("", "a", "b", "-1", "0", "1", "2", "3", "x1", "1_0")
FORMS = tuple(
    of("k", operator, values)
    for operator, values in (
        ("Exists", []), ("DoesNotExist", []), ("In", ["a"]), ("In", ["a", "b"]), ("In", ["1", "2"]), ("In", ["2", "a"]),
        ("NotIn", ["a"]), ("NotIn", ["1"]), ("NotIn", ["2", "b"]), ("Gt", ["0"]), ("Gt", ["1"]), ("Gte", ["2"]),
        ("Lt", ["2"]), ("Lt", ["0"]), ("Lte", ["1"]), ("Lte", ["-1"]),
    )
)  # fmt: skip


@pytest.mark.parametrize("one", FORMS)
def test_an_intersection_has_the_values_that_both_have(one: Requirement) -> None:
    """All pairs of forms against all of some values; a third form meets what two have left."""
    for other in FORMS:
        both = one.intersection(other)
        assert [both.has(value) for value in VALUES] == [one.has(value) and other.has(value) for value in VALUES]
        assert both == other.intersection(one)
        for third in FORMS:
            three = both.intersection(third)
            assert [three.has(value) for value in VALUES] == [both.has(value) and third.has(value) for value in VALUES]


@pytest.mark.parametrize("one", FORMS)
def test_two_forms_intersect_if_they_share_a_value(one: Requirement) -> None:
    """A finite one is asked value by value; two infinite ones share one unless their bounds cross."""
    for other in FORMS:
        if one.complement and other.complement:
            lows = [bound for bound in (one.gte, other.gte) if bound is not None]
            highs = [bound for bound in (one.lte, other.lte) if bound is not None]
            expected = not lows or not highs or max(lows) <= min(highs)
        else:
            expected = any(one.has(value) and other.has(value) for value in VALUES)
        assert one.intersects(other) is expected


def test_min_values_are_the_higher_of_both() -> None:
    for first, other, both in ((None, None, None), (2, None, 2), (None, 3, 3), (2, 3, 3), (3, 2, 3)):
        assert of("k", "Exists", (), first).intersection(of("k", "In", ["a"], other)).min_values == both


def test_requirements_are_equal_to_requirements_alone() -> None:
    some = Requirements([of("k", "In", ["a"])])
    assert some == Requirements([of("k", "In", ["a"])])
    assert some != Requirements([of("k", "In", ["b"])])
    assert some != {"k": of("k", "In", ["a"])}
    assert Requirements() != 0


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("0", True), ("-1", True), ("+1", True), (str(2**63 - 1), True), (str(2**63), False), (str(-(2**63)), True),
        (str(-(2**63) - 1), False), ("", False), ("1_0", False), ("1.0", False), (" 1", False), ("9" * 5000, False),
    ],
)  # fmt: skip
def test_whole_numbers_have_64_bits(text: str, *, whole: bool) -> None:
    assert is_integer(text) is whole
