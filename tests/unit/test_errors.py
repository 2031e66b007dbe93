"""Errors of the core."""

from __future__ import annotations

import copy
import pickle

import pytest

from core.errors import InvalidInputError, InvariantError, invariant


@pytest.mark.parametrize(
    ("inner", "outer", "field"),
    [
        ("", "spec", "spec"),
        ("limits", "", "limits"),
        ("limits.cpu", "spec", "spec.limits.cpu"),
        ("[1].key", "spec.taints", "spec.taints[1].key"),
    ],
)
def test_a_caller_completes_the_path_of_a_field(inner: str, outer: str, field: str) -> None:
    error = InvalidInputError("is no number", field=inner).within(field=outer, subject="NodePool a")
    assert (error.field, error.subject, error.problem) == (field, "NodePool a", "is no number")


def test_the_subject_that_is_closest_to_the_fault_stays() -> None:
    error = InvalidInputError("is missing", subject="Pod shop/a").within(subject="List", field="items[0]")
    assert str(error) == "Pod shop/a: items[0]: is missing"


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301 - our own
def test_an_error_crosses_processes_with_its_problem(copied: object) -> None:
    """A pool of processes never ends if it cannot read the error of one of them, and `make fuzz` has such pools."""
    assert callable(copied)
    found = copied(InvalidInputError("is missing", subject="Pod a", field="spec"))
    assert str(found) == "Pod a: spec: is missing"


def test_a_violated_invariant_is_a_bug_and_no_invalid_input() -> None:
    """A function that skips invalid objects must not skip our own faults."""
    invariant(True, "holds")
    with pytest.raises(InvariantError, match="does not hold"):
        invariant(False, "does not hold")
    assert not issubclass(InvariantError, InvalidInputError)
