"""Ports of the table for controllers. Every method raises PortError subclasses only."""

from adapters.store.claims import ClaimChange, ClaimStore, Disrupted, PoolUsage, Requested
from adapters.store.commands import CommandChange, CommandStore, ProposalStore, Targets
from adapters.store.launch_memory import (
    LaunchDenials,
    Nominations,
    OfferingProbe,
    RefusedOfferings,
    UnavailableOfferings,
)
from adapters.store.leases import BINDER, DECIDER, DISRUPTION, PLANNER, Lease, Leases
from adapters.store.moments import Changes, MoveHistoryStore, PodEnds, SweepLog, SweepState
from adapters.store.unreadable_rows import UnreadableRow, UnreadableRowError, UnreadableRows

__all__ = [
    "BINDER",
    "DECIDER",
    "DISRUPTION",
    "PLANNER",
    "Changes",
    "ClaimChange",
    "ClaimStore",
    "CommandChange",
    "CommandStore",
    "Disrupted",
    "LaunchDenials",
    "Lease",
    "Leases",
    "MoveHistoryStore",
    "Nominations",
    "OfferingProbe",
    "PodEnds",
    "PoolUsage",
    "ProposalStore",
    "RefusedOfferings",
    "Requested",
    "SweepLog",
    "SweepState",
    "Targets",
    "UnavailableOfferings",
    "UnreadableRow",
    "UnreadableRowError",
    "UnreadableRows",
]
