"""Ports of times in a cluster: changes, ends of pods, moves, clean sweeps. Runs use them to skip, wait or pause."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from core.disruption.move_history import MoveHistory  # imports the planner, which most functions do not need


class Changes(Protocol):
    """When the cluster was last seen to have changed, so that no sandbox relies on an older observation."""

    def last(self) -> datetime | None:
        """Return that time, None if there is none."""
        ...

    def record(self, now: datetime) -> None:
        """Set that time to now."""
        ...


class PodEnds(Protocol):
    """When a pod last ended on each node of one cluster, as the audit log reports."""

    def latest(self, now: datetime) -> dict[str, datetime]:
        """Return node, or `ANY_NODE`, → that time, for nodes on which pods ended in the last hours."""
        ...

    def record(self, ended: Mapping[str, datetime], now: datetime) -> None:
        """Record these ends; the latest time of a node counts."""
        ...


class MoveHistoryStore(Protocol):
    """The move history of one cluster."""

    def read(self, now: datetime) -> MoveHistory:
        """Return the complete history.

        Raises:
            UnreadableRowError: If a stopped rollout or a failed command cannot be read.
        """
        ...

    def readable(self, now: datetime) -> MoveHistory:
        """Return what can be read of the history: for those who disrupt nothing."""
        ...

    def write(self, changed: MoveHistory, now: datetime) -> None:
        """Replace the entries in `changed`. The last writer wins: a lost write costs only a pause."""
        ...


class SweepState(msgspec.Struct, frozen=True):
    """The state of one sweep of `reconcile`.

    Attributes:
        clean_at: When it last repaired everything that it found; before its first run, when it was first due.
        failures: Rounds in a row since then in which it was not clean.
        reason: The last failure, for people.
    """

    clean_at: datetime
    failures: int = 0
    reason: str = ""


class SweepLog(Protocol):
    """The states of one cluster's sweeps, across sandboxes. Only `reconcile` writes, one run at a time."""

    def read(self) -> dict[str, SweepState]:
        """Return the state by sweep name; a sweep that was never stored is missing."""
        ...

    def write(self, states: Mapping[str, SweepState]) -> None:
        """Replace all states."""
        ...
