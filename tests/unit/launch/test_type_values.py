"""Instance types that bring the values that minValues require."""

from __future__ import annotations

import pytest

from core import labels
from core.launch.type_values import first_of_each
from tests.builders import ZONES, a_type

FAMILY = f"{labels.AWS_GROUP}/instance-family"
TYPES = (
    a_type("a.1", zones=ZONES[:1], **{FAMILY: "a"}),
    a_type("a.2", zones=ZONES[:2], **{FAMILY: "a"}),
    a_type("b.1", zones=ZONES[:1], **{FAMILY: "b"}),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, []),
        ({FAMILY: 1}, ["a.1"]),
        ({FAMILY: 2}, ["a.1", "b.1"]),
        ({FAMILY: 9}, ["a.1", "b.1"]),
        ({labels.INSTANCE_TYPE: 2}, ["a.1", "a.2"]),
        ({labels.ZONE: 2}, ["a.1", "a.2"]),
        ({labels.CAPACITY_TYPE: 2}, ["a.1"]),
        ({FAMILY: 2, labels.INSTANCE_TYPE: 3}, ["a.1", "b.1", "a.2"]),
        ({"example.com/nothing": 2}, []),
    ],
)
def test_the_first_types_that_bring_a_value_are_chosen(wanted: dict[str, int], expected: list[str]) -> None:
    """A type without a new value uses one of the sixty; without a needed one, the requirement is broken."""
    assert [found.name for found in first_of_each(TYPES, wanted)] == expected
