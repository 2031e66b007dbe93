"""The rows of the table, as the functions' own adapters write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from adapters.composition.functions import Adapters
from adapters.runtime import SystemClock
from adapters.store import PoolUsage
from core.api.objects import JsonObject
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.values import quantity
from installation.settings import Settings


class _WrittenRows:
    """A session whose client is a DynamoDB that keeps the rows that are put."""

    region_name = events = None

    def __init__(self) -> None:
        self.rows: list[JsonObject] = []

    def client(self, service_name: str, **_: Any) -> Any:  # noqa: ARG002 - only the table is written
        """Return itself."""
        return self

    def get_credentials(self) -> None:
        """Return no credentials: nothing is sent."""

    def put_item(self, *, Item: JsonObject, **_: Any) -> None:  # noqa: N803 - DynamoDB's own spelling
        """Keep the row."""
        self.rows.append(Item)


def rows_of(
    cluster: str, claims: Sequence[ClaimRecord], commands: Sequence[CommandRecord]
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the rows of the claims with their NodePools' counters, and those of the commands, as DynamoDB stores them."""
    written = _WrittenRows()
    adapters = Adapters(_settings(cluster), written, SystemClock())
    for claim in claims:
        adapters.claims.change(msgspec.structs.replace(claim, version=claim.version - 1), claim)
    for counter in sorted({name for claim in claims for name in claim.counters}):
        reserved = quantity.add(*(claim.reserved_in(counter) for claim in claims if counter in claim.counters))
        adapters.claims.recount(PoolUsage(node_pool=counter), PoolUsage(node_pool=counter, reserved=reserved))
    after_claims = len(written.rows)
    for command in commands:
        adapters.stores.commands.add(command)
    return written.rows[:after_claims], written.rows[after_claims:]


def _settings(cluster: str) -> Settings:
    return Settings(
        cluster_name=cluster,
        table_name="table",
        bucket_name="",
        wake_up_queue_url="",
        work_queue_url="",
        look_queue_url="",
        schedule_group="",
        schedule_role_arn="",
    )
