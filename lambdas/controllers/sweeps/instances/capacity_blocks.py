"""Removes claims in a capacity block before EC2 ends the block's instances."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from core.catalogue.node_class import CAPACITY_BLOCK, CapacityReservation, read_node_class
from core.catalogue.reservations import EXPIRES_WITHIN, ends_at
from core.errors import InvalidInputError
from core.lifecycle.records import ClaimRecord
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep
from lambdas.ports import JsonObject

RECLAIMED_BEFORE: Final = timedelta(minutes=30)
"""How long before the block's end EC2 starts to terminate its instances."""


class CapacityBlocks(Sweep):
    """Removes these claims regardless of budgets, since EC2 ends them anyway; replacements come first while there is time."""

    name = "capacityBlocks"
    is_urgent = True

    def __init__(self, terminator: ClaimTerminator) -> None:
        self._terminator = terminator

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims in a block that ends soon."""
        in_blocks = [record for record in round_.view.claims.values() if _block_of(record)]
        if not in_blocks:
            return
        now, ends = round_.clock.now(), _ends(round_.view.node_classes)
        due = [record for record in in_blocks if _is_near(ends.get(_block_of(record)), now)]

        def terminate(record: ClaimRecord) -> None:
            end = ends[_block_of(record)]
            message = f"capacity block {_block_of(record)} ends at {end:%Y-%m-%dT%H:%M:%SZ}"
            last = max(now, end - RECLAIMED_BEFORE)
            reason = TerminationReason.CAPACITY_BLOCK_ENDS
            self._terminator.begin(record.name, reason, message, round_.report, ends_at=last)

        round_.each(due, terminate, subject=lambda record: record.name)


def _block_of(record: ClaimRecord) -> str:
    """Return the id of the claim's capacity block, empty if it is in none."""
    offering = record.machine.offering if record.machine is not None else None
    return offering.reservation_id if offering is not None and offering.reservation_type == CAPACITY_BLOCK else ""


def _is_near(end: datetime | None, now: datetime) -> bool:
    return end is not None and now >= end - EXPIRES_WITHIN


def _ends(node_classes: Mapping[str, JsonObject]) -> dict[str, datetime]:
    """Return block → its end, according to the status of the classes."""
    found = (one for manifest in node_classes.values() for one in _reservations(manifest))
    return {one.id: end for one in found if (end := ends_at(one)) is not None}


def _reservations(manifest: JsonObject) -> tuple[CapacityReservation, ...]:
    try:
        return read_node_class(manifest).status.capacity_reservations
    except InvalidInputError:
        return ()
