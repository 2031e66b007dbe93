"""Collects the remains of a world at its end: the table, the queues, the messages to pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from installation import wiring
from installation.wiring import TABLE
from simulator.checkers.remains import Remains
from simulator.outcome.table_rows import kind_of, record_of
from simulator.world import World

_COUNTS: Final = "disrupting"
_RESERVED: Final = "r:"

Item = dict[str, Any]


def read_remains(world: World) -> Remains:
    """Return the present remains. No function runs meanwhile."""
    table = _Table(world.account.table.all())
    queues = [world.account.queues.get(queue.name) for queue in wiring.QUEUES]
    return Remains(
        claims=tuple(table.records("claims")),
        commands=tuple(table.records("commands")),
        usage={item[TABLE.sort_key]["S"]: _counters(item) for item in table.items("usage")},
        dead_letters={queue.name: len(queue.dead) for queue in queues},
        explained=frozenset(d["subject"] for d in world.decisions.entries if d["kind"] == "unschedulable"),
        failures=tuple(world.sandboxes.failures),
    )


class _Table:
    def __init__(self, items: Iterable[Item]) -> None:
        self._by_kind: dict[str, list[Item]] = {}
        for item in items:
            self._by_kind.setdefault(kind_of(item), []).append(item)

    def items(self, kind: str) -> list[Item]:
        return self._by_kind.get(kind, [])

    def records(self, kind: str) -> Iterator[Item]:
        return map(record_of, self.items(kind))


def _counters(item: Item) -> dict[str, int]:
    return {name: int(value["N"]) for name, value in item.items() if name.startswith(_RESERVED) or name == _COUNTS}
