"""First fit onto nodes that exist: initialized ones first, then by name."""

from __future__ import annotations

from core.scheduling.capacity.existing_node import NodeRoom, can_attach, ports_free
from core.scheduling.context import Ground
from core.scheduling.instance_types.type_index import bits
from core.scheduling.pods.pod_group import Batch, PodClass, Shape, Stage
from core.scheduling.primitives.resource_vector import minus, within
from core.scheduling.topology.domain_counts import Tally
from core.scheduling.topology.topology_group import AFFINITY


class NodeSearch:
    """The existing nodes as one plan fills them."""

    def __init__(self, ground: Ground, tally: Tally, leaving: frozenset[int]) -> None:
        self._ground = ground
        self._tally = tally
        self._staying = ~bits(leaving)
        self._rooms: dict[int, NodeRoom] = {}
        self._open: dict[tuple[int, int, bool], int] = {}

    def find(self, batch: Batch, stage: Stage) -> int | None:
        """The first node that takes one more pod of the batch.

        A node that is too full for the class stays so, and is not looked at again for it; nor is one that breaks a rule,
        where that cannot change as pods are added.
        """
        if not self._ground.views:
            return None
        key = (batch.pod_class.index, stage.number, batch.avoids_resting)
        still_open = self._open.get(key)
        if still_open is None:
            still_open = self._suitable(batch, stage)
        found, left = None, still_open & self._near(stage)
        while left and found is None:
            bit = left & -left
            position = bit.bit_length() - 1
            if not self._has_room(position, batch.pod_class):
                still_open ^= bit
                left ^= bit
                continue
            refused = self._refused(position, batch.pod_class.shape, stage)
            if not refused:
                found = position
            elif stage.is_monotone:
                still_open &= ~refused
            left &= ~refused
        self._open[key] = still_open
        return found

    def put(self, position: int, pod_class: PodClass) -> None:
        """Take the room for one pod and count it."""
        room = self._rooms.setdefault(position, NodeRoom(self._ground.views[position].free))
        room.free = minus(room.free, pod_class.requests)
        room.ports.extend(pod_class.ports)
        room.attached.update(pod_class.volumes.attachments)
        self._tally.record_on_node(pod_class.shape, position)

    def _suitable(self, batch: Batch, stage: Stage) -> int:
        """Nodes whose labels, taints and room before this plan suit the pods, as a bit set of positions."""
        sets = self._ground.nodes
        found = sets.suitable(stage.asks, stage.wishes.tolerations) & sets.with_room(batch.pod_class.requests)
        return found & self._staying & (~sets.resting if batch.avoids_resting else -1)

    def _near(self, stage: Stage) -> int:
        """Nodes that have a pod which the pods must be on one node with; all where there is no such rule."""
        near = -1
        for rule in stage.host_rules:
            if rule.kind == AFFINITY and not self._tally.is_first(rule):
                hosts = self._ground.nodes.domains(rule.key)
                occupied = 0
                for host, count in self._tally.of(rule.group).items():
                    occupied |= hosts.get(host, 0) if count > 0 else 0
                near &= occupied
        return near

    def _has_room(self, position: int, pod_class: PodClass) -> bool:
        view = self._ground.views[position]
        room = self._rooms.get(position)
        if room is not None and not within(pod_class.requests, room.free):
            return False
        if pod_class.ports and not ports_free(view, room.ports if room else (), pod_class.ports):
            return False
        wanted = pod_class.volumes.attachments
        return not wanted or can_attach(view, room.attached if room else (), wanted)

    def _refused(self, position: int, shape: Shape, stage: Stage) -> int:
        """The nodes that the first broken rule keeps the pod from, as it does from this one; none where it obeys all."""
        for rule in (*stage.host_rules, *stage.zone_rules):
            domain = self._ground.nodes.values(rule.key)[position]
            if not self._tally.admits(rule, domain, shape):
                return self._ground.nodes.domains(rule.key)[domain]
        return 0
