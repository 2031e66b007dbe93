"""Existing and launching nodes, and their free room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from core import labels
from core.model.node_claim import INITIALIZED
from core.model.node_pool import NodePool
from core.model.pod import HostPort
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.model.values.label_requirements import requirements_of_labels
from core.model.values.requirements import Requirements
from core.model.values.taints import Taint
from core.scheduling.capacity.daemon_overhead import DaemonPod
from core.scheduling.pods.pod_signatures import PodSignatures
from core.scheduling.pods.volumes import VolumeIndex
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector, minus

Attachments = frozenset[tuple[str, str]]


class ExistingNode(msgspec.Struct, frozen=True, eq=False):
    """The initial state of one node for all plans of a snapshot.

    Attributes:
        index: Its position in the order in which nodes are tried: initialized ones first, then by name.
        offered: Its labels as requirements, hostname included.
        free: The room after its pods and the DaemonSet pods that it has yet to get.
        is_leaving: Whether it is marked for deletion and offers no room.
        is_recently_changed: Whether pods arrived or left within `consolidateAfter`: consolidation moves no pods to it.
        is_drained_later: Whether the stored target has yet to drain it: other nodes are tried first (docs/adr/0244).
    """

    index: int
    state: StateNode
    offered: Requirements
    taints: tuple[Taint, ...]
    free: Vector
    ports: tuple[HostPort, ...]
    attached: Attachments
    attach_limits: Mapping[str, int]
    is_leaving: bool
    is_recently_changed: bool
    is_drained_later: bool = False

    @property
    def name(self) -> str:
        """The node's name, or the claim's before it joins."""
        return self.state.name

    def domain(self, key: str) -> str | None:
        """Return the node's domain along a topology key."""
        found = self.offered.get(key)
        return found.values[0] if found is not None and found.values else None


class NodeRoom(msgspec.Struct, frozen=True, eq=False):
    """The part of an `ExistingNode` that depends only on the node, its claim and its pods."""

    state: StateNode
    node_pool: str
    offered: Requirements
    taints: tuple[Taint, ...]
    free: Vector
    ports: tuple[HostPort, ...]
    attached: Attachments


class KnownRooms:
    """The rooms of one snapshot's nodes, for those that the next snapshot has unchanged, as the same objects."""

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._rooms: dict[int, NodeRoom] = {}

    def of(
        self, states: Iterable[StateNode], basis: tuple[object, ...], room: Callable[[StateNode], NodeRoom]
    ) -> list[NodeRoom]:
        """Return the rooms of the next snapshot's nodes.

        Args:
            states: The nodes; one that is unchanged is the same object.
            basis: What rooms depend on besides the nodes.
            room: Returns the room of a node that is not known.
        """
        before, self._rooms = self._rooms if self._basis == basis else {}, {}
        self._basis = basis
        for state in states:
            # A room keeps its state node alive, so no other has its identity.
            self._rooms[id(state)] = before.get(id(state)) or room(state)
        return list(self._rooms.values())


class ExistingNodes:
    """Builds the views of one snapshot's nodes."""

    def __init__(
        self,
        snapshot: Snapshot,
        axis: ResourceAxis,
        table: RequirementTable,
        volumes: VolumeIndex,
        daemons: tuple[DaemonPod, ...],
        signatures: PodSignatures,
    ) -> None:
        self._snapshot = snapshot
        self._axis = axis
        self._table = table
        self._volumes = volumes
        self._daemons = daemons
        self._have_ports = any(daemon.ports for daemon in daemons)
        self._pools = {pool.name: pool for pool in snapshot.node_pools}
        self._attached = _attached_volumes(snapshot, volumes)
        self._signatures = signatures
        self._drained_later = snapshot.drained_later
        self._basis = (
            axis.names,
            snapshot.daemon_sets,
            snapshot.volume_claims,
            snapshot.volumes,
            snapshot.storage_classes,
            snapshot.attachments,
        )

    def of(self, states: Iterable[StateNode], known: KnownRooms | None) -> tuple[ExistingNode, ...]:
        """Return every node in the order in which it is tried; `known` has rooms of an earlier snapshot, if any are kept."""
        ordered = sorted(states, key=lambda s: (not s.is_initialized, s.name, s.claim_name))
        rooms = map(self._room, ordered) if known is None else known.of(ordered, self._basis, self._room)
        return tuple(self._view(index, *pair) for index, pair in enumerate(zip(ordered, rooms, strict=True)))

    def _view(self, index: int, state: StateNode, room: NodeRoom) -> ExistingNode:
        return ExistingNode(
            index=index,
            state=state,
            offered=room.offered,
            taints=room.taints,
            free=room.free,
            ports=room.ports,
            attached=room.attached,
            attach_limits=state.node.attach_limits if state.node is not None else {},
            is_leaving=state.is_marked_for_deletion(self._snapshot),
            is_recently_changed=_is_recently_changed(state, self._pools.get(room.node_pool), self._snapshot.now),
            is_drained_later=state.name in self._drained_later,
        )

    def _room(self, state: StateNode) -> NodeRoom:
        offered = _offered(state)
        attached = {a for pod in state.pods if pod.spec.volumes for a in self._volumes.attachments(pod)}
        return NodeRoom(
            state=state,
            node_pool=state.node_pool,
            offered=offered,
            taints=state.taints,
            free=self._free(state, offered),
            ports=self._ports(state, offered),
            attached=frozenset(attached) | self._attached.get(state.name, frozenset()),
        )

    def _ports(self, state: StateNode, offered: Requirements) -> tuple[HostPort, ...]:
        """Return host ports of its pods and of the DaemonSet pods that it has yet to get."""
        taken = [port for pod in state.pods for port in pod.spec.host_ports]
        if not self._have_ports:
            return tuple(taken)
        here = {(pod.namespace, owner.name) for pod in state.pods for owner in pod.owners if owner.kind == "DaemonSet"}
        for daemon in self._daemons:
            is_due = daemon.ports and (daemon.source.namespace, daemon.source.name) not in here
            if is_due and daemon.runs_on(offered, state.taints, self._table):
                taken += daemon.ports
        return tuple(taken)

    def _free(self, state: StateNode, offered: Requirements) -> Vector:
        """Return the allocatable resources less its pods and the DaemonSet pods that it has yet to get."""
        requests, axis, taints = self._signatures.requests, self._axis, state.taints
        used = axis.total(requests(pod) for pod in state.pods)
        left = minus(axis.vector(state.allocatable), used)
        due = axis.total(d.requests for d in self._daemons if d.runs_on(offered, taints, self._table))
        if due == axis.zero:
            return left
        running = axis.total(requests(pod) for pod in state.pods if pod.owners and pod.is_daemon)
        return minus(left, tuple(max(0, amount) for amount in minus(due, running)))


def _offered(state: StateNode) -> Requirements:
    own, hostname = state.labels, state.hostname
    if own.get(labels.HOSTNAME) == hostname:
        return requirements_of_labels(own)
    return Requirements.from_labels({**own, labels.HOSTNAME: hostname})


def _is_recently_changed(state: StateNode, pool: NodePool | None, now: datetime) -> bool:
    after = pool.disruption.consolidate_after if pool is not None else None
    if state.claim is None or not after:
        return False
    initialized = state.claim.conditions.get(INITIALIZED)
    if initialized is None or initialized.status != "True":
        return False
    since = state.claim.last_pod_event_at or initialized.changed_at
    return since is not None and now - since < after


def _attached_volumes(snapshot: Snapshot, volumes: VolumeIndex) -> dict[str, Attachments]:
    found_on: dict[str, set[tuple[str, str]]] = {}
    for attachment in snapshot.attachments:
        driver = volumes.driver_of(attachment.volume_name)
        if driver:
            found_on.setdefault(attachment.node_name, set()).add((driver, attachment.volume_name))
    return {node: frozenset(found) for node, found in sorted(found_on.items())}
