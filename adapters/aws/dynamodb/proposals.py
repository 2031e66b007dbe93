"""Stores commands that wait for approval in DynamoDB."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from adapters.aws.dynamodb.records import RecordItems, partition_of
from adapters.aws.dynamodb.table import ABSENT, DynamoTable, Item, at_version, number
from core.approval.proposal import Proposal
from installation.wiring import TABLE

KEPT_FOR: Final = timedelta(days=7)
"""How long a row is kept after its proposal ends, so that a late approval gets the outcome as its answer."""


class DynamoProposals:
    """The proposals of one cluster (`adapters.store.ProposalStore`). Nothing is deleted: rows expire."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, "proposals"), Proposal, requires_all=True)

    def all(self) -> tuple[Proposal, ...]:
        """Return every proposal, by id; also those that have ended.

        Raises:
            DeniedError: If one cannot be read: a rejected command would be proposed again.
        """
        return self._items.all()

    def add(self, proposal: Proposal) -> Proposal:
        """Store a new proposal. Raises ConflictError if the id is taken."""
        first = msgspec.structs.replace(proposal, version=1)
        self._table.put(self._item(first), condition=ABSENT)
        return first

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        """Replace `before` by `after`. Raises ConflictError if the stored version is another."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        self._table.put(self._item(stored), condition=at_version(before.version))
        return stored

    def _item(self, proposal: Proposal) -> Item:
        expiry = number(int((proposal.expires_at + KEPT_FOR).timestamp()))
        return {**self._items.item(proposal.id, proposal), TABLE.expiry: expiry}
