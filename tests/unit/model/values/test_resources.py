"""Vectors of resources."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.model.values import resources


def test_amounts_are_read_and_written_in_whole_units() -> None:
    found = resources.parse({"cpu": "1500m", "memory": "1Gi", "pods": 10})
    assert found == {"cpu": 1500, "memory": 2**30, "pods": 10}
    assert resources.render(found) == {"cpu": "1500m", "memory": "1Gi", "pods": "10"}


@pytest.mark.parametrize(("amount", "problem"), [("-1", "negative"), (True, "no.* quantity"), ("lots", "quantity")])
def test_a_malformed_amount_names_its_resource(amount: object, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem) as caught:
        resources.parse({"cpu": amount}, field="spec.limits")
    assert caught.value.field == "spec.limits.cpu"


def test_arithmetic_is_per_resource() -> None:
    assert resources.add({"a": 1}, {"a": 2, "b": 3}) == {"a": 3, "b": 3}
    assert resources.subtract({"a": 1}, {"a": 2, "b": 3}) == {"a": -1, "b": -3}
    assert resources.maximum([{"a": 1, "b": -1}, {"a": 3}]) == {"a": 3, "b": -1}


def test_an_overcommitted_node_has_room_for_nothing() -> None:
    """Karpenter: not even for a pod that does not request the resource."""
    assert resources.fits({"a": 1, "unknown": 0}, {"a": 1})
    assert not resources.fits({"a": 2}, {"a": 1})
    assert not resources.fits({}, {"a": -1})


def test_the_largest_amount_counts_also_below_zero() -> None:
    assert resources.maximum([{"a": -3}, {"a": -2}, {"a": -4}]) == {"a": -2}
    assert resources.maximum([{"a": 0}, {"b": 0}]) == {"a": 0, "b": 0}
    assert resources.maximum([]) == {}


def test_a_fault_without_a_field_names_the_resource_alone() -> None:
    with pytest.raises(InvalidInputError) as caught:
        resources.parse({"cpu": "lots"})
    assert caught.value.field == "cpu"
    assert resources.parse(None) == {}
    assert resources.parse({"cpu": "0", "memory": 1.0}) == {"cpu": 0, "memory": 1}


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("left", [-1, 0, 1, 2, None])
def test_a_request_fits_up_to_what_is_left(asked: int, left: int | None) -> None:
    """What is missing is zero."""
    available = {"b": 0} if left is None else {"a": left, "b": 0}
    assert resources.fits({"a": asked}, available) is (left != -1 and asked <= (left or 0))
