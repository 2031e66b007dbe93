"""Classes that hold arrays are told apart by identity: `==` of two arrays is an array, and neither true nor false."""

from __future__ import annotations

import core
from core.packing.problem import Packing
from tests.classes import classes_of, holds_arrays, is_compared_by_fields


def test_no_class_that_holds_arrays_is_compared_field_by_field() -> None:
    """Otherwise, `==` raises as soon as an array has two elements, and the object cannot be a key."""
    found = {name: class_ for name, class_ in classes_of(core) if holds_arrays(class_)}
    assert found["packing.problem:Packing"] is Packing
    assert [name for name, class_ in found.items() if is_compared_by_fields(class_)] == []
