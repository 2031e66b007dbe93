"""Templates and fleets that launch into reservations."""

from __future__ import annotations

import pytest

from core import labels
from core.launch.reservation_target import target_capacity_type
from core.model.catalogue import Offering
from tests.builders import a_type
from tests.unit.launch.orders import rendered, template_data

TYPE = a_type("m5.large", zones=("us-east-1a",))


def reserved(identity: str = "cr-1", kind: str = "default", *, interruptible: bool = False) -> Offering:
    return Offering("m5.large", "us-east-1a", labels.RESERVED, 1, True, identity, 2, kind, interruptible)


@pytest.mark.parametrize(
    ("offering", "market", "target", "options"),
    [
        (reserved(), None, "on-demand", "OnDemandOptions"),
        (reserved(kind="capacity-block"), "capacity-block", "capacity-block", None),
        (
            reserved(interruptible=True),
            "interruptible-capacity-reservation",
            "reserved-capacity",
            "ReservedCapacityOptions",
        ),
    ],
)
def test_a_reservation_is_the_launch_s_target(
    offering: Offering, market: str | None, target: str, options: str | None
) -> None:
    launch = rendered(TYPE, offerings=(offering, *TYPE.offerings))
    data = template_data(launch)
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
    }
    assert data.get("InstanceMarketOptions", {}).get("MarketType") == market
    assert launch.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert [key for key in launch.request if key.endswith("Options")] == ([options] if options else [])


def test_what_is_not_reserved_keeps_out_of_open_reservations() -> None:
    data = template_data(rendered(TYPE))
    assert data["CapacityReservationSpecification"] == {"CapacityReservationPreference": "none"}


def test_without_the_gate_ec2_decides() -> None:
    assert "CapacityReservationSpecification" not in template_data(rendered(TYPE, uses_reservations=False))


def test_each_reservation_has_its_own_template() -> None:
    other = Offering("m5.large", "us-east-1b", labels.RESERVED, 1, True, "cr-2", 2, "default")
    launch = rendered(a_type("m5.large"), offerings=(reserved(), other))
    targets = [t.data["CapacityReservationSpecification"]["CapacityReservationTarget"] for t in launch.templates]
    assert targets == [{"CapacityReservationId": "cr-1"}, {"CapacityReservationId": "cr-2"}]


@pytest.mark.parametrize("capacity_type", [labels.SPOT, labels.ON_DEMAND])
def test_what_is_not_reserved_is_asked_for_as_what_it_is(capacity_type: str) -> None:
    """A fleet without the right target is refused, or pays the price of on-demand for spot."""
    offering = Offering("m5.large", "us-east-1a", capacity_type, 1)
    assert target_capacity_type(offering) == capacity_type
