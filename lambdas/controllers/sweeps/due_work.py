"""What is due according to the table alone, whoever was to be told: claims and commands whose next step is late.

A message is a hint. It may be lost or hours late, and with a dead queue none comes; the rows say what has to happen.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from adapters.messages import WorkItem
from adapters.observation.stores import Stores
from core.lifecycle.records import ClaimRecord

STALLED_AFTER: Final = timedelta(minutes=1)
"""How late a step is before others than its message see to it."""

CLAIMS_A_RUN: Final = 50
COMMANDS_A_RUN: Final = 10
"""How many of each one run takes from the table, the oldest first; the next run follows within a minute."""

FROM_TABLE: Final = "table"
"""Begins the ids of the work that a scheduled run takes from the table; no message of a queue has such an id."""


class DueWork(msgspec.Struct, frozen=True):
    """Names of claims and ids of commands, each with the longest wait first."""

    claims: tuple[str, ...]
    commands: tuple[str, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the work in the form of a queue's messages, as much as one run can take.

        Nothing is asked for later: a step that needs another look is found by the next run.
        """
        items = [WorkItem(claim=name) for name in self.claims[:CLAIMS_A_RUN]]
        items += [WorkItem(command=name) for name in self.commands[:COMMANDS_A_RUN]]
        return [
            {"messageId": f"{FROM_TABLE}-{number}", "body": msgspec.json.encode(item.to_message()).decode()}
            for number, item in enumerate(items)
        ]


def due_work(stores: Stores, now: datetime) -> DueWork:
    """Return what is due. Raises PortError."""
    claims = [(_last_moved(record), record.name) for record in stores.claims.all() if not record.is_settled]
    commands = [(record.phase_since, record.id) for record in stores.commands.all()]
    return DueWork(_late(claims, now), _late(commands, now))


def _late(found: Iterable[tuple[datetime, str]], now: datetime) -> tuple[str, ...]:
    """Return what has waited for a minute; a moment that is more than a minute ahead is of a wrong clock, and says nothing."""
    return tuple(name for since, name in sorted(found) if abs(now - since) >= STALLED_AFTER)


def _last_moved(record: ClaimRecord) -> datetime:
    return max(record.phase_since, record.deletion.asked_at) if record.deletion else record.phase_since
