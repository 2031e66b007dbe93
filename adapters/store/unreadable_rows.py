"""Rows of the table that cannot be read."""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

import msgspec

from adapters.ports import DeniedError
from core.reasons.run import FailureReason

CLAIMS: Final = "claims"
"""Type of the claims' rows, in the names of their partitions."""

COMMANDS: Final = "commands"
"""Type of the commands' rows, in the name of their partition."""


class UnreadableRow(msgspec.Struct, frozen=True, order=True):
    """A row that was left out of a list: it exists, so nobody may treat its object as gone.

    Attributes:
        partition: The partition key: cluster, type, and the number of the partition where a type has several.
        name: The sort key, which is a claim's name or a command's id.
        problem: The row, what is wrong with it and what to do.
    """

    partition: str
    name: str
    problem: str

    @property
    def is_claim(self) -> bool:
        """Whether it is the row of a claim."""
        return self.partition.split("#")[1:2] == [CLAIMS]

    @property
    def is_command(self) -> bool:
        """Whether it is the row of a command."""
        return self.partition.split("#")[1:2] == [COMMANDS]


class UnreadableRowError(DeniedError):
    """A row that is needed cannot be read."""

    reason: ClassVar[FailureReason] = FailureReason.UNREADABLE_ROW

    def __init__(self, call: str, row: UnreadableRow) -> None:
        super().__init__(call, row.problem)
        self.row = row


class UnreadableRows(Protocol):
    """The unreadable rows that the lists of one sandbox have left out."""

    def all(self) -> tuple[UnreadableRow, ...]:
        """Return the rows that were left out when their types were last listed, in order. Reads nothing."""
        ...
