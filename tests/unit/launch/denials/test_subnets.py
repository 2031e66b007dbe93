"""Subnets without free addresses."""

from __future__ import annotations

import pytest

from core.launch.denials.subnets import closed_zones, refused_subnets, subnet_by_zone, subnet_key, subnets_of
from core.model.catalogue import OfferingKey

SUBNETS = (("subnet-a1", "a"), ("subnet-a2", "a"), ("subnet-b1", "b"))
OFFERING = OfferingKey("m5.large", "b", "spot")


def test_a_zone_is_closed_by_its_last_subnet_only() -> None:
    """Otherwise, one full subnet keeps launches from all others of its zone."""
    assert closed_zones(SUBNETS, {subnet_key("subnet-a1")}) == frozenset()
    assert closed_zones(SUBNETS, {subnet_key("subnet-a1"), subnet_key("subnet-a2")}) == {"a"}


def test_a_refused_offering_does_not_close_a_subnet() -> None:
    assert refused_subnets({OFFERING, subnet_key("subnet-b1")}) == {"subnet-b1"}
    assert closed_zones(SUBNETS, {OFFERING}) == frozenset()


@pytest.mark.parametrize(
    ("chosen", "avoided", "found"),
    [
        ({}, (), {"a": "subnet-a1", "b": "subnet-b1"}),
        ({"a": "subnet-a2"}, (), {"a": "subnet-a2", "b": "subnet-b1"}),
        ({"a": "subnet-a2"}, ("subnet-a2",), {"a": "subnet-a1", "b": "subnet-b1"}),
        ({"a": "subnet-a1"}, ("subnet-a1", "subnet-b1"), {"a": "subnet-a2"}),
        ({"a": "subnet-gone", "b": "subnet-a2"}, (), {"a": "subnet-a1", "b": "subnet-b1"}),
    ],
)
def test_the_chosen_subnet_of_a_zone_is_used_while_it_may_be(
    chosen: dict[str, str], avoided: tuple[str, ...], found: dict[str, str]
) -> None:
    """Otherwise the first; a zone without a usable one is left out."""
    assert subnet_by_zone(SUBNETS, chosen, avoided) == found


def test_an_unresolved_class_closes_nothing() -> None:
    assert subnets_of({"metadata": {"name": "default"}}) == ()
    assert closed_zones((), {subnet_key("subnet-a1")}) == frozenset()
    assert subnets_of({"status": {"subnets": [{"id": "s", "zone": "a"}]}}) == (("s", "a"),)


@pytest.mark.parametrize("status", ["x", 5, {"subnets": 5}, {"subnets": "x"}, {"subnets": [None, [1], {}]}])
def test_a_status_that_is_no_status_has_no_subnets(status: object) -> None:
    """One such class stopped every plan."""
    assert subnets_of({"status": status}) == ()
