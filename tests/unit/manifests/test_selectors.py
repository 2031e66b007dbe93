"""Label selectors and node selectors."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.manifests.selectors import equality_selector, label_selector, node_term, node_terms, selector_fault
from core.manifests.wire.object_metadata import (
    NodeSelector,
    SelectorExpression,
    WireLabelSelector,
    WireNodeSelectorTerm,
)


def test_a_missing_selector_differs_from_an_empty_one() -> None:
    """A missing selector selects nothing, an empty one everything."""
    assert label_selector(None, field="f") is None
    everything = label_selector(WireLabelSelector(), field="f")
    assert everything is not None
    assert everything.matches({})


def test_labels_and_expressions_are_combined() -> None:
    expression = SelectorExpression(key="tier", operator="NotIn", values=("db",))
    found = label_selector(WireLabelSelector(match_labels={"app": "web"}, match_expressions=(expression,)), field="f")
    assert found is not None
    assert found.matches({"app": "web"})
    assert not found.matches({"app": "web", "tier": "db"})
    assert equality_selector({"app": "web"}).matches({"app": "web", "tier": "db"})


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        (SelectorExpression(key="a", operator="Gt", values=("1",)), "f.matchExpressions[0].operator"),
        (SelectorExpression(key="a", operator="In"), "f.matchExpressions[0].values"),
    ],
)
def test_a_fault_names_its_place(expression: SelectorExpression, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        label_selector(WireLabelSelector(match_expressions=(expression,)), field="f")
    assert caught.value.field == field


def test_a_bound_that_is_not_a_number_matches_no_node() -> None:
    """The API server accepts it."""
    term = WireNodeSelectorTerm(match_expressions=(SelectorExpression(key="cpu", operator="Gt", values=("many",)),))
    assert node_term(term, field="f").requirements == ()


def test_a_node_selector_needs_a_term() -> None:
    with pytest.raises(InvalidInputError, match="at least one term"):
        node_terms(NodeSelector(), field="f")


def test_a_value_that_no_label_can_have_is_named() -> None:
    assert selector_fault({"app": "a b"}, field="spec.nodeSelector").startswith("spec.nodeSelector['app']: ")
    assert selector_fault({"app": "web"}, field="spec.nodeSelector") == ""


@pytest.mark.parametrize("values", [(), ("1", "2"), ("many", "2")])
def test_a_bound_with_no_or_several_values_is_a_fault(values: tuple[str, ...]) -> None:
    """The API server refuses it; only a single value that is no number is accepted, and met by no node."""
    term = WireNodeSelectorTerm(match_expressions=(SelectorExpression(key="cpu", operator="Gt", values=values),))
    with pytest.raises(InvalidInputError):
        node_term(term, field="f")
