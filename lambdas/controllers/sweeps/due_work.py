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
from core.lifecycle.deletion import CLOSED_WITHIN, reclaimed_at
from core.lifecycle.records import ClaimRecord

STALLED_AFTER: Final = timedelta(minutes=1)
"""How late a step is before others than its message see to it."""

CLAIMS_A_RUN: Final = 50
COMMANDS_A_RUN: Final = 10
"""How many of each one run takes from the table, the oldest first; the next run follows within a minute.

If more are due, runs take them in turn: some may wait for days, such as nodes whose pods nobody may evict.
"""

NEXT_CHECK_WITHIN: Final = STALLED_AFTER + timedelta(seconds=15)
"""How long it takes from one look that the table brings to the next, with a start that is late."""

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
    """Return what is due. Claims whose instance EC2 soon takes come first; messages have a few seconds for them.

    Raises:
        PortError: If the table cannot be read.
    """
    records = [record for record in stores.claims.all() if not record.is_settled]
    ends = {record.name: reclaimed_at(record) for record in records if not _is_news(record, now)}
    ending = sorted((end, name) for name, end in ends.items() if end is not None and now <= end)
    urgent = _in_turn(tuple(name for _, name in ending), CLAIMS_A_RUN, now)
    late = _late(((_last_moved(record), record.name) for record in records), now)
    others = _in_turn(tuple(name for name in late if name not in urgent), CLAIMS_A_RUN, now)
    commands = _late(((record.phase_since, record.id) for record in stores.commands.all()), now)
    return DueWork((*urgent, *others), _in_turn(commands, COMMANDS_A_RUN, now))


def _is_news(record: ClaimRecord, now: datetime) -> bool:
    """Whether the claim was asked to go so lately that a message is to close its node."""
    deletion = record.deletion
    return deletion is not None and deletion.tainted_at is None and now - deletion.asked_at < CLOSED_WITHIN


def _late(since: Iterable[tuple[datetime, str]], now: datetime) -> tuple[str, ...]:
    """Return what has waited for a minute; a moment that is more than a minute ahead is of a wrong clock, and says nothing."""
    return tuple(name for moment, name in sorted(since) if abs(now - moment) >= STALLED_AFTER)


def _in_turn(names: tuple[str, ...], at_most: int, now: datetime) -> tuple[str, ...]:
    """Return the names, so that the first ones of each minute follow those of the minute before."""
    if len(names) <= at_most:
        return names
    first = int(now.timestamp()) // 60 * at_most % len(names)
    return names[first:] + names[:first]


def _last_moved(record: ClaimRecord) -> datetime:
    return max(record.phase_since, record.deletion.asked_at) if record.deletion else record.phase_since
