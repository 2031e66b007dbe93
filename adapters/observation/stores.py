"""The stores that observations and controllers share, as one object."""

from __future__ import annotations

import msgspec

from adapters.brakes.ports import Brakes, Breakers
from adapters.ports import QuotaStore
from adapters.store import (
    Changes,
    ClaimStore,
    CommandStore,
    LaunchDenials,
    MoveHistoryStore,
    Nominations,
    PodEnds,
    UnavailableOfferings,
    UnreadableRows,
)
from core.lifecycle.records import ClaimRecord, CommandRecord


class OwnRows(msgspec.Struct, frozen=True):
    """Commands and claims that were read together."""

    commands: tuple[CommandRecord, ...]
    claims: tuple[ClaimRecord, ...]


class Stores(msgspec.Struct, frozen=True):
    """The inputs of decisions besides the cluster and the market: the stores of our table, and the brakes."""

    claims: ClaimStore
    commands: CommandStore
    unavailable: UnavailableOfferings
    denials: LaunchDenials
    nominations: Nominations
    changes: Changes
    pod_ends: PodEnds
    moves: MoveHistoryStore
    brakes: Brakes
    breakers: Breakers
    quotas: QuotaStore
    unreadable: UnreadableRows

    def own_rows(self) -> OwnRows:
        """Read commands before claims: a claim that a finished command removed is gone from both.

        Commands whose rows cannot be read are left out: pods must get nodes all the same.
        """
        commands = self.commands.readable()
        return OwnRows(commands, self.claims.all())
