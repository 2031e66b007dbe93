"""Quantities are read exactly, and rounded up as in Kubernetes."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.model.values import quantity, resources


@pytest.mark.parametrize(
    ("text", "resource", "amount"),
    [
        ("100m", "cpu", 100),
        ("1", "cpu", 1000),
        ("0.1", "cpu", 100),
        ("1.0001", "cpu", 1001),
        (2, "cpu", 2000),
        ("1u", "cpu", 1),
        ("1Gi", "memory", 2**30),
        ("1.5Gi", "memory", 3 * 2**29),
        ("128974848", "memory", 128974848),
        ("129e6", "memory", 129_000_000),
        ("129M", "memory", 129_000_000),
        ("123Mi", "memory", 123 * 2**20),
        ("1k", "pods", 1000),
        ("100m", "memory", 1),
        (".5", "cpu", 500),
        ("5.", "cpu", 5000),
        ("1E", "memory", 10**18),
        ("1Ei", "memory", 2**60),
        ("+3", "pods", 3),
        ("1e99", "memory", quantity.AMOUNT_MAX),
        ("9223372036854775807", "memory", quantity.AMOUNT_MAX),
        ("9223372036854775807", "cpu", quantity.AMOUNT_MAX),
        ("-1e99", "cpu", -quantity.AMOUNT_MAX),
    ],
)
def test_every_notation_is_read_exactly(text: str | int, resource: str, amount: int) -> None:
    assert quantity.parse(text, resource) == amount


@pytest.mark.parametrize("text", ["", "1 Gi", "1gi", "Gi", "1.2.3", "0x10", "1ee3", "one", "1mi", "--1"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        (1500, "cpu", "1500m"),
        (2000, "cpu", "2"),
        (3 * 2**29, "memory", "1536Mi"),
        (2**30, "memory", "1Gi"),
        (1001, "memory", "1001"),
        (0, "memory", "0"),
        (8, "nvidia.com/gpu", "8"),
        (2**21, "hugepages-2Mi", "2Mi"),
    ],
)
def test_amounts_are_written_in_the_usual_notation(amount: int, resource: str, text: str) -> None:
    assert quantity.render(amount, resource) == text
    assert quantity.parse(text, resource) == amount


def test_money_is_exact_to_the_nano_dollar() -> None:
    assert quantity.nanodollars("0.82949673") == 829_496_730
    assert quantity.nanodollars(0.1) + quantity.nanodollars(0.2) == quantity.nanodollars(0.3)
    with pytest.raises(InvalidInputError, match="dollars"):
        quantity.nanodollars("free")


def test_a_negative_amount_names_its_field() -> None:
    with pytest.raises(InvalidInputError) as caught:
        resources.parse({"cpu": "-1"}, field="spec.limits")
    assert str(caught.value) == "spec.limits.cpu: '-1' is negative"


def test_a_value_that_is_neither_text_nor_number_names_its_field() -> None:
    with pytest.raises(InvalidInputError) as caught:
        resources.parse({"memory": ["1Gi"]}, field="requests")
    assert caught.value.field == "requests.memory"


def test_a_negative_remainder_refuses_every_request() -> None:
    """An overcommitted node takes no more pods, not even a pod that requests another resource."""
    assert not resources.fits({"memory": 1}, {"cpu": -1, "memory": 10})
    assert resources.fits({"example.com/unknown": 0}, {"cpu": 1})
    assert not resources.fits({"example.com/unknown": 1}, {"cpu": 1})


def test_vectors_add_subtract_and_peak_name_by_name() -> None:
    left, right = {"cpu": 2, "memory": 5}, {"cpu": 3, "pods": 1}
    assert resources.add(left, right) == {"cpu": 5, "memory": 5, "pods": 1}
    assert resources.subtract(left, right) == {"cpu": -1, "memory": 5, "pods": -1}
    assert resources.maximum([left, right]) == {"cpu": 3, "memory": 5, "pods": 1}
    assert resources.render({"memory": 2**20, "cpu": 1500}) == {"cpu": "1500m", "memory": "1Mi"}


def test_dollars_are_shown_as_people_write_them() -> None:
    assert (quantity.dollars(42_500_000), quantity.dollars(0), quantity.dollars(2 * 10**9)) == (0.0425, 0.0, 2.0)
