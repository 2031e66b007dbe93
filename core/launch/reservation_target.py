"""Renders the settings that launch into a capacity reservation, or avoid all of them."""

from __future__ import annotations

from typing import Any, Final

from core import labels
from core.catalogue.node_class import CAPACITY_BLOCK
from core.model.catalogue import Offering

ONLY_RESERVED: Final = "capacity-reservations-only"
NO_RESERVATION: Final = "none"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
"""EC2's market type, lifecycle and reservation type of capacity whose owner may take it back."""


def reservation_settings(offering: Offering) -> dict[str, Any]:
    """Return the fields of a launch template that control reservations.

    Other launches do not use open reservations either (Karpenter): plans assign their places.
    """
    if not offering.reservation_id:
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": NO_RESERVATION}}
    settings: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": ONLY_RESERVED,
            "CapacityReservationTarget": {"CapacityReservationId": offering.reservation_id},
        }
    }
    market = _market(offering)
    return {**settings, "InstanceMarketOptions": {"MarketType": market}} if market else settings


def target_capacity_type(offering: Offering) -> str:
    """Return the fleet's `DefaultTargetCapacityType` for an offering (Karpenter)."""
    if not offering.reservation_id:
        return offering.capacity_type
    return {CAPACITY_BLOCK: CAPACITY_BLOCK, INTERRUPTIBLE: "reserved-capacity"}.get(_market(offering), labels.ON_DEMAND)


def fleet_options(offering: Offering, *, spot: str, on_demand: str) -> dict[str, Any]:
    """Return the fleet's options for an offering's capacity: the allocation strategy, or the reservations to use."""
    target = target_capacity_type(offering)
    if target == labels.SPOT:
        return {"SpotOptions": {"AllocationStrategy": spot}}
    if target == labels.ON_DEMAND:
        return {"OnDemandOptions": {"AllocationStrategy": on_demand}}
    if target == CAPACITY_BLOCK:
        return {}
    return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE]}}


def _market(offering: Offering) -> str:
    if offering.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return INTERRUPTIBLE if offering.interruptible else ""
