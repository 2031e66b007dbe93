"""Stores disruption commands in DynamoDB."""

from __future__ import annotations

import msgspec

from adapters.aws.dynamodb.records import RecordItems, partition_of
from adapters.aws.dynamodb.table import ABSENT, DynamoTable, at_version
from adapters.ports import ConflictError
from adapters.store.unreadable_rows import COMMANDS
from core.lifecycle.records import CommandRecord


class DynamoCommands:
    """The commands of one cluster (`adapters.store.CommandStore`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, COMMANDS), CommandRecord, requires_all=True)

    def all(self) -> tuple[CommandRecord, ...]:
        """Return every command, by id.

        Raises:
            DeniedError: If one cannot be read: nodes of a command that is left out would look as if they were in none.
        """
        return self._items.all()

    def readable(self) -> tuple[CommandRecord, ...]:
        """Return the commands whose rows can be read, by id."""
        return self._items.readable()

    def get(self, command_id: str) -> CommandRecord | None:
        """Return one command, None if there is none."""
        return self._items.get(command_id)

    def add(self, record: CommandRecord) -> None:
        """Store a new command. Raises ConflictError if the id is taken."""
        first = msgspec.structs.replace(record, version=1)
        self._table.put(self._items.item(record.id, first), condition=ABSENT)

    def change(self, before: CommandRecord, after: CommandRecord) -> CommandRecord:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        self._table.put(self._items.item(before.id, stored), condition=at_version(before.version))
        return stored

    def remove(self, record: CommandRecord) -> None:
        """Delete the command; no error if it is gone. Raises ConflictError if it has changed."""
        try:
            self._table.delete(self._items.partition, record.id, condition=at_version(record.version))
        except ConflictError:
            if self.get(record.id) is not None:
                raise
