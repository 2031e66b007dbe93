"""Removes claims in a capacity block before EC2 ends the block's instances."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from adapters.ports import JsonObject
from core.catalogue.discovered.reservation_end import ends_at, leaves_at, reclaimed_before
from core.catalogue.node_class import CAPACITY_BLOCK, CapacityReservation, read_node_class
from core.catalogue.reservations import reservations_of
from core.errors import InvalidInputError
from core.lifecycle.records import ClaimRecord
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


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
        now = round_.clock.now()
        ending = _ending(round_.view.node_classes.values(), now)
        due = [record for record in in_blocks if _block_of(record) in ending]

        def terminate(record: ClaimRecord) -> None:
            end, lead = ending[_block_of(record)]
            message = f"capacity block {_block_of(record)} ends at {end:%Y-%m-%dT%H:%M:%SZ}"
            reason = TerminationReason.CAPACITY_BLOCK_ENDS
            self._terminator.begin(record.name, reason, message, round_.report, ends_at=max(now, end - lead))

        round_.each(due, terminate, subject=lambda record: record.name)


def _block_of(record: ClaimRecord) -> str:
    """Return the id of the claim's capacity block, empty if it is in none."""
    offering = record.machine.offering if record.machine is not None else None
    return offering.reservation_id if offering is not None and offering.reservation_type == CAPACITY_BLOCK else ""


def _ending(node_classes: Iterable[JsonObject], now: datetime) -> dict[str, tuple[datetime, timedelta]]:
    """Return for each block that its nodes have to leave now: its end, and how long before that EC2 takes the instances."""
    found = (one for manifest in node_classes for one in _reservations(manifest))
    return {
        one.id: (end, reclaimed_before(one))
        for one in found
        if (end := ends_at(one)) is not None and (leaves := leaves_at(one)) is not None and leaves <= now
    }


def _reservations(manifest: JsonObject) -> tuple[CapacityReservation, ...]:
    try:
        return reservations_of(read_node_class(manifest))
    except InvalidInputError:
        return ()
