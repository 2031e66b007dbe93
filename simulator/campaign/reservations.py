"""Capacity reservations of a world, drawn by its seed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Final

from core.api.objects import JsonObject
from simulator.campaign.market import ZONES

SHARE: Final = 0.15
"""Share of worlds with a reservation; launches into it are free, which changes the course of a world."""

_ID: Final = "cr-campaign"
_TYPES: Final = ("m6i.large", "m6i.xlarge", "c6i.2xlarge")
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"


def draw_reservations(
    rng: Random, objects: Sequence[JsonObject], fault_time: timedelta
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the reservations of a world and the steps that concern them.

    In `objects`, the EC2NodeClasses get selectors for them, and the first NodePool uses them.
    """
    if rng.random() >= SHARE:
        return [], []
    found: JsonObject = {
        "id": _ID,
        "instanceType": rng.choice(_TYPES),
        "zone": rng.choice(ZONES),
        "total": rng.randint(1, 3),
        "instanceMatchCriteria": rng.choice(("targeted", "open")),
    }
    _use(objects)
    at = rng.randint(round(fault_time.total_seconds()) // 3, round(fault_time.total_seconds()))
    is_cancelled = rng.choice((False, True))
    return [found], [{"at": at, "capacityReservation": {"id": _ID, "cancel": True}}] if is_cancelled else []


def _use(objects: Sequence[JsonObject]) -> None:
    for found in objects:
        if found["kind"] == "EC2NodeClass":
            found["spec"]["capacityReservationSelectorTerms"] = [{"id": _ID}]
    pool = next(found for found in objects if found["kind"] == "NodePool")
    for requirement in pool["spec"]["template"]["spec"]["requirements"]:
        if requirement["key"] == _CAPACITY_TYPE:
            requirement["values"] = ["reserved", *requirement["values"]]
