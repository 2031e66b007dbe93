"""Disruption commands: those in progress, those that wait for approval, and the target that they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from core.lifecycle.records import CommandRecord

if TYPE_CHECKING:
    from core.approval.proposal import Proposal
    from core.model.plan import StoredTarget


class CommandChange(msgspec.Struct, frozen=True):
    """A command before and after a change."""

    before: CommandRecord
    after: CommandRecord


class CommandStore(Protocol):
    """The disruption commands in progress in one cluster."""

    def all(self) -> tuple[CommandRecord, ...]:
        """Return every command, by id: for those who decide which nodes may go.

        Raises:
            UnreadableRowError: If one cannot be read.
        """
        ...

    def readable(self) -> tuple[CommandRecord, ...]:
        """Return the commands whose rows can be read, by id: launches and repairs go on without the others."""
        ...

    def get(self, command_id: str) -> CommandRecord | None:
        """Return one command, None if there is none."""
        ...

    def add(self, record: CommandRecord) -> None:
        """Store a new command. Raises ConflictError if the id is taken."""
        ...

    def change(self, before: CommandRecord, after: CommandRecord) -> CommandRecord:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        ...

    def remove(self, record: CommandRecord) -> None:
        """Delete the command; no error if it is gone. Raises ConflictError if it has changed."""
        ...


class ProposalStore(Protocol):
    """The commands of one cluster that wait for approval, and for some days those that no longer wait."""

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal, by id."""
        ...

    def add(self, proposal: Proposal) -> Proposal:
        """Store a new proposal, and return it with its version. Raises ConflictError if the id is taken."""
        ...

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        ...


class Targets(Protocol):
    """The current target of one cluster's fleet."""

    def read(self) -> StoredTarget | None:
        """Return the target, None if there is none."""
        ...

    def write(self, target: StoredTarget | None) -> None:
        """Replace the target. Only `disrupt` writes, one run at a time."""
        ...
