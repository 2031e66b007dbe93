"""Quantities are read exactly, and rounded up as in Kubernetes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.errors import InvalidInputError
from core.model.values import quantity
from core.model.values.quantity import MICROSECOND, MICROSECONDS_PER_HOUR, parse_duration

# Go durations, as Kubernetes objects write them.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("720h", 2_592_000),
        ("10s", 10),
        ("1.5h", 5400),
        ("0", 0),
        ("0s", 0),
        ("-5m", -300),
        ("250ms", 0.25),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "1d", "h", "1h 30m", "1.2.3s", "-", "Never", "1h30"])
def test_other_text_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2ms", timedelta(milliseconds=2)),
        ("3us", timedelta(microseconds=3)),
        ("4\u00b5s", timedelta(microseconds=4)),
        ("5000ns", timedelta(microseconds=5)),
        ("1m1ms", timedelta(minutes=1, milliseconds=1)),
        ("+5m", timedelta(minutes=5)),
        (".5h", timedelta(minutes=30)),
        ("5.h", timedelta(hours=5)),
        ("1h1h", timedelta(hours=2)),
        ("2562047h", timedelta(hours=2562047)),
    ],
)
def test_each_unit_of_go_is_read(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["2562048h", "9999999999h", "+", ".s", "-Never", "+-5m", "5 m", "1hm"])
def test_what_go_cannot_hold_is_no_duration(text: str) -> None:
    """Go counts nanoseconds in 64 bits: 2562047 hours and some minutes."""
    assert parse_duration(text) is None


def test_costs_are_per_hour_of_whole_microseconds() -> None:
    assert (timedelta(microseconds=1), 3_600_000_000) == (MICROSECOND, MICROSECONDS_PER_HOUR)


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
        quantity.parse_resources({"cpu": "-1"}, field="spec.limits")
    assert str(caught.value) == "spec.limits.cpu: '-1' is negative"


def test_a_value_that_is_neither_text_nor_number_names_its_field() -> None:
    with pytest.raises(InvalidInputError) as caught:
        quantity.parse_resources({"memory": ["1Gi"]}, field="requests")
    assert caught.value.field == "requests.memory"


def test_a_negative_remainder_refuses_every_request() -> None:
    """An overcommitted node takes no more pods, not even a pod that requests another resource."""
    assert not quantity.fits({"memory": 1}, {"cpu": -1, "memory": 10})
    assert quantity.fits({"example.com/unknown": 0}, {"cpu": 1})
    assert not quantity.fits({"example.com/unknown": 1}, {"cpu": 1})


def test_vectors_add_subtract_and_peak_name_by_name() -> None:
    left, right = {"cpu": 2, "memory": 5}, {"cpu": 3, "pods": 1}
    assert quantity.add(left, right) == {"cpu": 5, "memory": 5, "pods": 1}
    assert quantity.subtract(left, right) == {"cpu": -1, "memory": 5, "pods": -1}
    assert quantity.maximum([left, right]) == {"cpu": 3, "memory": 5, "pods": 1}
    assert quantity.render_resources({"memory": 2**20, "cpu": 1500}) == {"cpu": "1500m", "memory": "1Mi"}


def test_dollars_are_shown_as_people_write_them() -> None:
    assert (quantity.dollars(42_500_000), quantity.dollars(0), quantity.dollars(2 * 10**9)) == (0.0425, 0.0, 2.0)


# Vectors of resources.


def test_amounts_are_read_and_written_in_whole_units() -> None:
    amounts = quantity.parse_resources({"cpu": "1500m", "memory": "1Gi", "pods": 10})
    assert amounts == {"cpu": 1500, "memory": 2**30, "pods": 10}
    assert quantity.render_resources(amounts) == {"cpu": "1500m", "memory": "1Gi", "pods": "10"}


@pytest.mark.parametrize(("amount", "problem"), [("-1", "negative"), (True, "no.* quantity"), ("lots", "quantity")])
def test_a_malformed_amount_names_its_resource(amount: object, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem) as caught:
        quantity.parse_resources({"cpu": amount}, field="spec.limits")
    assert caught.value.field == "spec.limits.cpu"


def test_arithmetic_is_per_resource() -> None:
    assert quantity.add({"a": 1}, {"a": 2, "b": 3}) == {"a": 3, "b": 3}
    assert quantity.subtract({"a": 1}, {"a": 2, "b": 3}) == {"a": -1, "b": -3}
    assert quantity.maximum([{"a": 1, "b": -1}, {"a": 3}]) == {"a": 3, "b": -1}


def test_an_overcommitted_node_has_room_for_nothing() -> None:
    """Karpenter: not even for a pod that does not request the resource."""
    assert quantity.fits({"a": 1, "unknown": 0}, {"a": 1})
    assert not quantity.fits({"a": 2}, {"a": 1})
    assert not quantity.fits({}, {"a": -1})


def test_the_largest_amount_counts_also_below_zero() -> None:
    assert quantity.maximum([{"a": -3}, {"a": -2}, {"a": -4}]) == {"a": -2}
    assert quantity.maximum([{"a": 0}, {"b": 0}]) == {"a": 0, "b": 0}
    assert quantity.maximum([]) == {}


def test_a_fault_without_a_field_names_the_resource_alone() -> None:
    with pytest.raises(InvalidInputError) as caught:
        quantity.parse_resources({"cpu": "lots"})
    assert caught.value.field == "cpu"
    assert quantity.parse_resources(None) == {}
    assert quantity.parse_resources({"cpu": "0", "memory": 1.0}) == {"cpu": 0, "memory": 1}


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("left", [-1, 0, 1, 2, None])
def test_a_request_fits_up_to_what_is_left(asked: int, left: int | None) -> None:
    """What is missing is zero."""
    available = {"b": 0} if left is None else {"a": left, "b": 0}
    assert quantity.fits({"a": asked}, available) is (left != -1 and asked <= (left or 0))


@pytest.mark.parametrize(
    ("text", "amount"), [("12.5", 12_500_000_000), ("100m", 100_000_000), ("0.0000000001", 1), ("3", 3 * 10**9)]
)
def test_a_limit_in_dollars_is_in_nanodollars(text: str, amount: int) -> None:
    assert quantity.parse(text, quantity.HOURLY) == amount


@pytest.mark.parametrize(
    ("amount", "text"), [(12_500_000_000, "12.5"), (0, "0"), (100 * 10**9, "100"), (5, "0.000000005")]
)
def test_a_limit_in_dollars_is_told_in_dollars(amount: int, text: str) -> None:
    assert quantity.render(amount, quantity.HOURLY) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("9223372036854775807", quantity.AMOUNT_MAX),
        ("9223372036854775808", quantity.AMOUNT_MAX + 1),
        ("1" * 5000, 11111111111111111111),
        ("0" * 5000 + "5", 5),
        ("", None),
        ("-1", None),
        ("٣", None),
    ],
)
def test_digits_are_read_however_many(text: str, number: int | None) -> None:
    """Python reads no more than 4,300."""
    assert quantity.whole_number(text) == number
