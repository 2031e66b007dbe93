"""Places in a NodePool's count of leaving nodes, derived from the record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from simulator.checkers.facts import InstanceFacts, NodeFacts

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Writer(msgspec.Struct, frozen=True):
    """The function that writes a claim's row.

    Attributes:
        since: When the function started; everything that it read is from this time or later.
        asked: When it made the writing call, before its retries and delays.
    """

    since: datetime
    asked: datetime


class Place(msgspec.Struct, kw_only=True):
    """A place in a NodePool's count of leaving nodes, taken by a claim (docs/adr/0026).

    Attributes:
        since: When the function that took it started.
        asked: When that function made the call.
        at: When the place was taken.
        number: How many nodes of the NodePool were leaving then, including this one.
        total: How many nodes the NodePool had then.
    """

    pool: str
    since: datetime
    asked: datetime
    at: datetime
    number: int = 0
    total: int = 0


class Places:
    """The places by instance, derived from rows of claims and taints of nodes."""

    def __init__(self, nodes: Mapping[str, NodeFacts], instances: Mapping[str, InstanceFacts]) -> None:
        self._nodes = nodes
        self._instances = instances
        self._holders: dict[str, tuple[str, str]] = {}
        self._taken: dict[str, Place] = {}
        self._latest: list[Place] = []

    def claim_written(self, now: datetime, writer: Writer | None, name: str, row: Mapping[str, Any] | None) -> None:
        """Take a change of a claim's row. `writer` is None if no function wrote it: the row was lost or restored."""
        before = self._holders.pop(name, None)
        holder = None
        if row is not None and row.get("is_disrupting"):
            holder = row["plan"]["node_pool"], (row.get("machine") or {}).get("instance_id", "")
            self._holders[name] = holder
        if before is not None and holder is None:
            self._taken.pop(before[1], None)
        elif before is None and holder is not None and writer is not None:
            self._latest = [place for place in self._latest if place.at == now]
            place = self._taken[holder[1]] = Place(pool=holder[0], since=writer.since, asked=writer.asked, at=now)
            self._latest.append(place)
        # A transaction writes its rows one by one at the same moment: all of its places count the nodes after the last row.
        for place in self._latest:
            if place.at == now:
                place.number, place.total = self.count(place.pool, place.since)

    def of(self, instance: str) -> Place | None:
        """Return the place that the instance's claim holds, None if no function took one."""
        return self._taken.get(instance)

    def count(self, pool: str, since: datetime) -> tuple[int, int]:
        """Return how many initialized nodes of the NodePool are leaving, and how many it has or had at `since`."""
        holding = {instance for of_pool, instance in self._holders.values() if of_pool == pool}
        # An uninitialized node does not count (Karpenter).
        found = [node for node in self._nodes.values() if node.pool == pool and node.is_initialized]
        alive = [node for node in found if self._ended(node.instance) is None]
        ended = [moment for node in found if (moment := self._ended(node.instance)) is not None]
        going = sum(node.instance in holding or bool(node.disrupted_for) for node in alive)
        return going, len(alive) + sum(moment >= since for moment in ended)

    def _ended(self, instance: str) -> datetime | None:
        """Return when the instance ended, None if it runs; long ago for an unknown instance."""
        facts = self._instances.get(instance)
        return facts.ended_at if facts is not None else _LONG_AGO
