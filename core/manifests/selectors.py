"""Translates selectors of pods and nodes from wire to model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.wire import object_metadata as wire_common
from core.model.pod import LabelSelector, NodeSelectorTerm
from core.model.values.label_syntax import is_label_key, is_label_value, key_fault, shown, value_fault
from core.model.values.requirements import INTEGER_OPERATORS, Requirement, is_integer

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, *INTEGER_OPERATORS)


def label_selector(written: wire_common.WireLabelSelector | None, *, field: str) -> LabelSelector | None:
    """Translate a label selector; None, which selects nothing, stays None.

    Raises:
        InvalidInputError: If an expression has an unknown operator or lacks its values.
    """
    if written is None:
        return None
    equal = [Requirement(key, False, (value,)) for key, value in written.match_labels.items()]
    read = _requirements(written.match_expressions, _LABEL_OPERATORS, f"{field}.matchExpressions")
    listed = (
        msgspec.structs.replace(requirement, key=expression.key)
        for requirement, expression in zip(read, written.match_expressions, strict=True)
    )
    return LabelSelector(ordered((*equal, *listed)))


def equality_selector(labels: dict[str, str]) -> LabelSelector:
    """Translate a selector in the form of a plain mapping, as in a Service."""
    return LabelSelector(tuple(Requirement(key, False, (value,)) for key, value in sorted(labels.items())))


def node_terms(written: wire_common.NodeSelector | None, *, field: str) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of a node selector, in order.

    Raises:
        InvalidInputError: If it has no alternative, or an expression cannot be read.
    """
    if written is None:
        return ()
    terms = written.node_selector_terms
    if not terms:
        raise InvalidInputError("needs at least one term", field=f"{field}.nodeSelectorTerms")
    return tuple(node_term(term, field=f"{field}.nodeSelectorTerms[{i}]") for i, term in enumerate(terms))


def node_term(written: wire_common.WireNodeSelectorTerm, *, field: str) -> NodeSelectorTerm:
    """Translate one alternative. If Gt or Lt names no number, which the API server allows, it is empty: no node meets it.

    Raises:
        InvalidInputError: If an expression has an unknown operator or lacks its values.
    """
    expressions = written.match_expressions
    if any(e.operator in INTEGER_OPERATORS and len(e.values) == 1 and not is_integer(e.values[0]) for e in expressions):
        return NodeSelectorTerm(uses_fields=bool(written.match_fields))
    requirements = ordered(_requirements(expressions, _NODE_OPERATORS, f"{field}.matchExpressions"))
    return NodeSelectorTerm(requirements, uses_fields=bool(written.match_fields))


def selector_fault(selector: Mapping[str, str], *, field: str) -> str:
    """Return path and problem of the first key or value of a node selector that no label can have, empty if there is none."""
    for key in sorted(selector):
        fault = key_fault(key) or value_fault(selector[key])
        if fault:
            return f"{field}[{shown(key)}]: {fault}"
    return ""


def term_fault(term: wire_common.WireNodeSelectorTerm, *, field: str) -> str:
    """Return the same for one alternative of a node affinity. Bounds are numbers, which are checked elsewhere."""
    for i, expression in enumerate(term.match_expressions):
        where = f"{field}.matchExpressions[{i}]"
        if not is_label_key(expression.key):
            return f"{where}.key: {key_fault(expression.key)}"
        values = () if expression.operator in INTEGER_OPERATORS else expression.values
        for j, value in enumerate(values):
            if not is_label_value(value):
                return f"{where}.values[{j}]: {value_fault(value)}"
    return ""


def ordered(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements in an order that is independent of the manifest's."""
    return tuple(sorted(requirements, key=lambda r: (r.key, r.complement, r.values, r.gte or -1, r.lte or -1)))


def _requirements(
    expressions: Iterable[wire_common.SelectorExpression], operators: tuple[str, ...], field: str
) -> list[Requirement]:
    found = []
    for i, expression in enumerate(expressions):
        where, operator = f"{field}[{i}]", expression.operator
        if operator not in operators:
            known = ", ".join(operators)
            raise InvalidInputError(f"unknown operator {operator!r}, use one of {known}", field=f"{where}.operator")
        if operator in ("In", "NotIn") and not expression.values:
            raise InvalidInputError(f"{operator} needs at least one value", field=f"{where}.values")
        try:
            found.append(Requirement.of(expression.key, operator, expression.values))
        except InvalidInputError as error:
            raise error.within(field=where) from error
    return found
