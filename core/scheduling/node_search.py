"""First fit onto nodes that exist: initialized ones first, then by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from core.scheduling.existing_node import NodeRoom, can_attach, ports_free
from core.scheduling.ground import Ground
from core.scheduling.pod_class import Batch, PodClass, Stage
from core.scheduling.resource_axis import minus, within
from core.scheduling.tally import Tally


@dataclass(eq=False, slots=True)
class _Cursor:
    """How far one class has looked: `again` are nodes that may still take a pod, from `next` on none was looked at."""

    nodes: tuple[int, ...]
    next: int = 0
    again: list[int] = field(default_factory=list)


class NodeSearch:
    """The existing nodes as one plan fills them."""

    def __init__(self, ground: Ground, tally: Tally, leaving: frozenset[int]) -> None:
        self._ground = ground
        self._tally = tally
        self._leaving = leaving
        self._rooms: dict[int, NodeRoom] = {}
        self._cursors: dict[tuple[int, int, bool], _Cursor] = {}

    def find(self, batch: Batch, stage: Stage) -> int | None:
        """The first node that takes one more pod of the batch.

        A node that is too full for the class stays so, and is not looked at again for it.
        """
        if not self._ground.views:
            return None
        cursor = self._cursor(batch, stage)
        kept: list[int] = []
        seen = 0
        found = None
        for position in self._ahead(cursor, batch):
            seen += 1
            if not self._has_room(position, batch.pod_class):
                continue
            obeys = self._obeys(position, batch.pod_class, stage)
            if obeys or not stage.is_monotone:
                kept.append(position)
            if obeys:
                found = position
                break
        cursor.again = [*kept, *cursor.again[seen:]]
        return found

    def put(self, position: int, pod_class: PodClass) -> None:
        """Take the room for one pod and count it."""
        room = self._rooms.setdefault(position, NodeRoom(self._ground.views[position].free))
        room.free = minus(room.free, pod_class.requests)
        room.ports.extend(pod_class.ports)
        room.attached.update(pod_class.volumes.attachments)
        self._tally.record_on_node(pod_class.shape, position)

    def _cursor(self, batch: Batch, stage: Stage) -> _Cursor:
        key = (batch.pod_class.index, stage.number, batch.avoids_resting)
        cursor = self._cursors.get(key)
        if cursor is None:
            cursor = self._cursors[key] = _Cursor(self._ground.nodes_for(stage))
        return cursor

    def _ahead(self, cursor: _Cursor, batch: Batch) -> Iterator[int]:
        """Nodes worth a look: those kept from before, then those not seen yet."""
        yield from cursor.again
        views = self._ground.views
        while cursor.next < len(cursor.nodes):
            position = cursor.nodes[cursor.next]
            cursor.next += 1
            if position not in self._leaving and not (batch.avoids_resting and views[position].rests):
                yield position

    def _has_room(self, position: int, pod_class: PodClass) -> bool:
        view = self._ground.views[position]
        room = self._rooms.get(position)
        if not within(pod_class.requests, view.free if room is None else room.free):
            return False
        if pod_class.ports and not ports_free(view, room.ports if room else (), pod_class.ports):
            return False
        wanted = pod_class.volumes.attachments
        return not wanted or can_attach(view, room.attached if room else (), wanted)

    def _obeys(self, position: int, pod_class: PodClass, stage: Stage) -> bool:
        topology = self._ground.topology
        view = self._ground.views[position]
        for rule in (*stage.host_rules, *stage.zone_rules):
            domain = view.domain(topology.groups[rule.group].key)
            if not self._tally.admits(rule, domain, pod_class.shape):
                return False
        return True
