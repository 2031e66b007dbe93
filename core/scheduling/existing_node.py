"""Existing and launching nodes, and their free room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.plan import INITIALIZED
from core.model.pod import HostPort
from core.model.snapshot import DaemonSet, Snapshot
from core.model.state_node import StateNode
from core.model.values.requirements import Requirement, Requirements, requirements_of_labels
from core.model.values.taints import Taint, Toleration, first_untolerated
from core.scheduling.instance_types import DaemonLoad, TypeFilter
from core.scheduling.pods import TOLERATE_PREFERENCES, PodSignatures, required_alternatives
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NodeMask,
    RequirementId,
    RequirementTable,
    ResourceAxis,
    ThresholdIndex,
    TypeMask,
    Vector,
    bits,
    memo,
    minus,
    plus,
    positions,
    within,
)
from core.scheduling.volume_binding import VolumeIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Amounts = NDArray[np.int64]

# Daemon overhead: the DaemonSet pods that every matching node gets, and the room that they leave.


class DaemonPod(msgspec.Struct, frozen=True, eq=False):
    """One DaemonSet's pod.

    Attributes:
        alternatives: Numbers of the node selector with each alternative of the required node affinity.
    """

    source: DaemonSet
    requests: Vector
    alternatives: tuple[RequirementId, ...]

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """Host ports that it takes."""
        return self.source.spec.host_ports

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether it tolerates the taints; PreferNoSchedule never keeps a daemon away."""
        return first_untolerated(taints, (*self.source.spec.tolerations, TOLERATE_PREFERENCES)) is None

    def runs_on(self, offered: Requirements, taints: Iterable[Taint], table: RequirementTable) -> bool:
        """Whether an existing node with these labels and taints gets the pod."""
        return self.tolerates(taints) and any(table.offers(offered, alternative) for alternative in self.alternatives)


def daemon_pods(daemon_sets: Iterable[DaemonSet], axis: ResourceAxis, table: RequirementTable) -> tuple[DaemonPod, ...]:
    """Return every DaemonSet's pod, by name. DaemonSets that need resource claims are left out, like pods that need them."""
    ordered = sorted(daemon_sets, key=lambda d: (d.namespace, d.name))
    return tuple(_daemon_pod(source, axis, table) for source in ordered if not source.spec.resource_claims)


def _daemon_pod(source: DaemonSet, axis: ResourceAxis, table: RequirementTable) -> DaemonPod:
    conjunctions = [table.conjunction(parts) for parts in required_alternatives(source.spec)]
    possible = tuple(dict.fromkeys(number for number in conjunctions if number != IMPOSSIBLE))
    return DaemonPod(source, axis.vector({"pods": 1, **source.spec.requests}), possible)


def without_overhead(
    types: TypeFilter, offered: RequirementId, taints: tuple[Taint, ...], daemons: tuple[DaemonPod, ...]
) -> TypeFilter:
    """Return the types of a NodePool less the requests of the DaemonSets' pods.

    A daemon counts on every type that could run it, even if a claim is later narrowed so that it does not (Karpenter). If it
    alone is too large for each of them, it counts on none: its pod waits, and those of others run (kube-scheduler).
    """
    if not daemons:
        return types
    nothing: Vector = tuple(0 for _ in daemons[0].requests)
    return types.less(tuple(_loads(types, offered, taints, daemons, nothing)))


def _loads(
    types: TypeFilter,
    offered: RequirementId,
    taints: tuple[Taint, ...],
    daemons: tuple[DaemonPod, ...],
    nothing: Vector,
) -> list[DaemonLoad]:
    """Return the types in sets that carry the same daemons, each with their requests and host ports."""
    loads: list[DaemonLoad] = [(types.full, nothing, ())]
    for daemon in daemons:
        carriers = _carriers(daemon, types, offered, taints)
        more = [
            (TypeMask(mask & carriers), plus(requests, daemon.requests), (*ports, *daemon.ports))
            for mask, requests, ports in loads
        ]
        others = [(TypeMask(mask & ~carriers), requests, ports) for mask, requests, ports in loads]
        loads = [load for load in (*more, *others) if load[0]]
    return loads


def _carriers(daemon: DaemonPod, types: TypeFilter, offered: RequirementId, taints: tuple[Taint, ...]) -> TypeMask:
    admitting = _admitting(daemon, types, offered, taints)
    return admitting if types.room.fits(admitting, daemon.requests) else TypeMask(0)


def _admitting(daemon: DaemonPod, types: TypeFilter, offered: RequirementId, taints: tuple[Taint, ...]) -> TypeMask:
    """Return the types whose labels and taints admit the daemon."""
    mask = TypeMask(0)
    for alternative in daemon.alternatives if daemon.tolerates(taints) else ():
        narrowed = types.table.narrowed(offered, required=alternative)
        mask |= types.mask(narrowed) if narrowed != IMPOSSIBLE else 0
    return mask


_OPEN_UNTIL_LAUNCH: Final = frozenset({labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE, labels.RESERVATION_ID})


def carriers_of(
    daemon: DaemonPod, types: TypeFilter, offered: RequirementId, taints: tuple[Taint, ...]
) -> tuple[TypeMask, TypeMask]:
    """Return the types on which a DaemonSet's pod may run, and those on which it runs whatever the claim is narrowed to."""
    may = _carriers(daemon, types, offered, taints)
    needed = {key for alternative in daemon.alternatives for key in types.table[alternative]}
    return may, may if not needed & _OPEN_UNTIL_LAUNCH else TypeMask(0)


def fits_nowhere(
    daemon: DaemonPod,
    pools: Iterable[tuple[TypeFilter, RequirementId, tuple[Taint, ...]]],
    axis: ResourceAxis,
    rooms: Iterable[Vector],
) -> bool:
    """Whether a DaemonSet's pod is too large for every empty node, an existing one or a new one of a NodePool that admits it.

    Args:
        daemon: The pod.
        pools: Types of a NodePool, its labels and taints.
        axis: The relevant resources.
        rooms: What pods may request of each existing node in total.
    """
    if any(within(daemon.requests, room) for room in rooms):
        return False
    for types, offered, taints in pools:
        vectors, admitting = types.empty_rooms(axis), _admitting(daemon, types, offered, taints)
        if any(within(daemon.requests, vectors[position]) for position in positions(admitting)):
            return False
    return True


Attachments = frozenset[tuple[str, str]]


class ExistingNode(msgspec.Struct, frozen=True, eq=False):
    """The initial state of one node for all plans of a snapshot.

    Attributes:
        index: Its position in the order in which nodes are tried: initialized ones first, then by name.
        offered: Its labels as requirements, hostname included.
        free: The room after its pods and the DaemonSet pods that it has yet to get.
        due: DaemonSets whose pod it has yet to get, by position.
        is_leaving: Whether it is marked for deletion and offers no room.
        takes_no_moves: Whether consolidation moves no pods to it: pods arrived or left within `consolidateAfter`, or it is
            nobody's claim and nothing runs on it, so that no kubelet may be behind the Node object.
        is_drained_later: Whether the stored target has yet to drain it: other nodes are tried first
            (docs/engineering/handbook/planning.md).
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
    takes_no_moves: bool
    is_drained_later: bool = False
    due: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The node's name, or the claim's before it joins."""
        return self.state.name

    def domain(self, key: str) -> str | None:
        """Return the node's domain along a topology key."""
        requirement = self.offered.get(key)
        return requirement.values[0] if requirement is not None and requirement.values else None


class NodeRoom(msgspec.Struct, frozen=True, eq=False):
    """The part of an `ExistingNode` that depends only on the node, its claim and its pods."""

    state: StateNode
    node_pool: str
    offered: Requirements
    taints: tuple[Taint, ...]
    free: Vector
    ports: tuple[HostPort, ...]
    attached: Attachments
    due: tuple[int, ...]


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
        # Any pod's affinity or anti-affinity may concern a DaemonSet's pod.
        self._has_rules = signatures.have_pod_affinity or any(d.source.spec.anti_affinity for d in daemons)
        self._pools = {pool.name: pool for pool in snapshot.node_pools}
        self._attached = _attached_volumes(snapshot, volumes)
        self._signatures = signatures
        self._drained_later = snapshot.drained_later
        self._reads_names = signatures.read_node_names or volumes.reads_node_names
        self._basis = (
            axis.names,
            self._reads_names,
            self._has_rules,
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
            takes_no_moves=_takes_no_moves(state, self._pools.get(room.node_pool), self._snapshot.now),
            is_drained_later=state.name in self._drained_later,
            due=room.due,
        )

    def _room(self, state: StateNode) -> NodeRoom:
        offered = _offered(state)
        if self._reads_names and state.node is not None:
            offered = offered.merged((Requirement.one_of(labels.NODE_NAME, state.node.name),))
        due = self._due(state, offered) if self._daemons else ()
        attached = {a for pod in state.pods if pod.spec.volumes for a in self._volumes.attachments(pod)}
        return NodeRoom(
            state=state,
            node_pool=state.node_pool,
            offered=offered,
            taints=state.taints,
            free=self._free(state, offered),
            ports=self._ports(state, due),
            attached=frozenset(attached) | self._attached.get(state.name, frozenset()),
            due=due,
        )

    def _due(self, state: StateNode, offered: Requirements) -> tuple[int, ...]:
        """Return the DaemonSets whose pod a node has yet to get; a node is only asked for rules and ports of theirs."""
        matter = [number for number, daemon in enumerate(self._daemons) if daemon.ports or self._has_rules]
        if not matter:
            return ()
        here = {(pod.namespace, owner.name) for pod in state.pods for owner in pod.owners if owner.kind == "DaemonSet"}
        room = self._axis.vector(state.allocatable)
        missing = ((n, self._daemons[n]) for n in matter if _name_of(self._daemons[n]) not in here)
        return tuple(
            number
            for number, daemon in missing
            if within(daemon.requests, room) and daemon.runs_on(offered, state.taints, self._table)
        )

    def _ports(self, state: StateNode, due: Iterable[int]) -> tuple[HostPort, ...]:
        """Return host ports of its pods and of the DaemonSet pods that it has yet to get."""
        used_ports = (port for pod in state.pods for port in pod.spec.host_ports)
        return (*used_ports, *(port for number in due for port in self._daemons[number].ports))

    def _free(self, state: StateNode, offered: Requirements) -> Vector:
        """Return the allocatable resources less its pods and the DaemonSet pods that it has yet to get."""
        requests, axis, taints = self._signatures.requests, self._axis, state.taints
        used = axis.total(requests(pod) for pod in state.pods)
        room = axis.vector(state.allocatable)
        free = minus(room, used)
        due = axis.total(
            d.requests for d in self._daemons if within(d.requests, room) and d.runs_on(offered, taints, self._table)
        )
        if due == axis.zero:
            return free
        running = axis.total(requests(pod) for pod in state.pods if pod.owners and pod.is_daemon)
        return minus(free, tuple(max(0, amount) for amount in minus(due, running)))


def _name_of(daemon: DaemonPod) -> tuple[str, str]:
    return daemon.source.namespace, daemon.source.name


def _offered(state: StateNode) -> Requirements:
    node_labels, hostname = state.labels, state.hostname
    if node_labels.get(labels.HOSTNAME) == hostname:
        return requirements_of_labels(node_labels)
    return Requirements.from_labels({**node_labels, labels.HOSTNAME: hostname})


def _takes_no_moves(state: StateNode, pool: NodePool | None, now: datetime) -> bool:
    after = pool.disruption.consolidate_after if pool is not None else None
    if not state.is_proven:
        return True
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
    return {node: frozenset(volume_ids) for node, volume_ids in sorted(found_on.items())}


# Indexes the nodes of a snapshot as bit sets of their positions: one operation covers all of them.


Tolerations = tuple[Toleration, ...]
Domains = Mapping[str | None, NodeMask]
"""Value of a label → the nodes that have it; None stands for nodes without the label."""


class NodeIndex:
    """Queries over the initial state of the nodes; the same for all plans of a snapshot.

    Attributes:
        nodes: The nodes, by position.
        leaving: Nodes that are leaving and offer no room.
        avoided: [`Avoids`], the nodes that are no room for a pod.
        drained_later: Nodes that the stored target has yet to drain.
        values: Label key → its value on each node, None if the node has none.
        domains: Label key → its values, each with its nodes.
        suitable: Requirement alternatives and tolerations → staying nodes whose taints are tolerated and whose labels meet any
            of the alternatives.
        free_columns: [resource, node], the room.
    """

    def __init__(self, nodes: Sequence[ExistingNode], table: RequirementTable) -> None:
        self.nodes = nodes
        self._all = _every(nodes)
        self.leaving = NodeMask(bits(node.index for node in nodes if node.is_leaving))
        unproven = bits(node.index for node in nodes if not node.state.is_proven)
        self.avoided = (NodeMask(0), NodeMask(unproven), NodeMask(bits(n.index for n in nodes if n.takes_no_moves)))
        self.drained_later = NodeMask(bits(node.index for node in nodes if node.is_drained_later))
        self._by_resource = [ThresholdIndex(column) for column in zip(*(node.free for node in nodes), strict=True)]
        for column in self._by_resource:
            column.prepare()
        self.values: Callable[[str], Sequence[str | None]] = memo(partial(_values, nodes))
        self.domains: Callable[[str], Domains] = memo(partial(_domains, self.values))
        self.suitable: Callable[[tuple[RequirementId, ...], Tolerations], NodeMask] = memo(
            partial(_suitable, nodes, self.domains, table)
        )
        self.free_columns: Callable[[], Amounts] = memo(partial(_free_columns, nodes))

    def with_room(self, requests: Vector) -> NodeMask:
        """Return the nodes with room for the requests."""
        nodes = self._all
        for column, amount in zip(self._by_resource, requests, strict=True):
            if amount:  # a node with too little of a resource takes pods that request none of it (noderesources/fit.go)
                nodes &= column.at_least(amount)
        return nodes


USED_MIN: Final = 32
"""With fewer nodes in use, nothing is gained by comparing requests with the room of all at once."""


class RoomLeft:
    """The free room of the nodes, as one plan uses it up.

    Attributes:
        used: Position of a node with planned pods → its room after them.
    """

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self.used: dict[int, Vector] = {}
        self._behind: dict[int, None] = {}
        self._columns: Amounts | None = None

    def take(self, position: int, requests: Vector) -> None:
        """Use room of a node."""
        self.used[position] = minus(self.used.get(position, self._index.nodes[position].free), requests)
        self._behind[position] = None

    def take_like(self, other: RoomLeft) -> None:
        """Use the room that another plan uses."""
        self.used, self._behind, self._columns = dict(other.used), dict.fromkeys(other.used), None

    def lacking(self, requests: Vector) -> NodeMask:
        """Return nodes in use with too little room for the requests by now.

        None are returned while few are in use, nor without numpy, which functions that plan no fleet lack: then the caller
        compares each node by itself.
        """
        if len(self.used) < USED_MIN:
            return NodeMask(0)
        try:
            import numpy as np
        except ImportError:
            return NodeMask(0)

        if self._columns is None:
            self._columns = self._index.free_columns().copy()
        behind, self._behind = list(self._behind), {}
        if behind:
            self._columns[:, behind] = np.array([_usable(self.used[position]) for position in behind]).T
        is_short = np.zeros(self._columns.shape[1], dtype=bool)
        for column, amount in zip(self._columns, requests, strict=True):
            if amount:
                is_short |= column < amount
        return NodeMask(int.from_bytes(np.packbits(is_short, bitorder="little").tobytes(), "little"))


def _free_columns(nodes: Sequence[ExistingNode]) -> Amounts:
    """Return [resource, node], the room at first."""
    import numpy as np  # a run without work needs none of it

    return np.ascontiguousarray(np.array([_usable(node.free) for node in nodes], dtype=np.int64).T)


def _usable(free: Vector) -> list[int]:
    """Return the room with zero for what is overcommitted: it is short of any request, and sums of requests may be huge."""
    return [max(amount, 0) for amount in free]


def _every(nodes: Sequence[ExistingNode]) -> NodeMask:
    return NodeMask((1 << len(nodes)) - 1)


def _values(nodes: Sequence[ExistingNode], key: str) -> Sequence[str | None]:
    return [node.domain(key) for node in nodes]


def _domains(values: Callable[[str], Sequence[str | None]], key: str) -> Domains:
    members: dict[str | None, list[int]] = {}
    for position, value in enumerate(values(key)):
        members.setdefault(value, []).append(position)
    return {value: NodeMask(bits(node_positions)) for value, node_positions in members.items()}


def _suitable(
    nodes: Sequence[ExistingNode],
    domains: Callable[[str], Domains],
    table: RequirementTable,
    alternatives: tuple[RequirementId, ...],
    tolerations: Tolerations,
) -> NodeMask:
    offering = NodeMask(0)
    for alternative in alternatives:
        offering |= _offering(nodes, domains, table, alternative)
    repelling = (
        n.index for n in nodes if n.is_leaving or (n.taints and first_untolerated(n.taints, tolerations) is not None)
    )
    return offering & ~NodeMask(bits(repelling))


def _offering(
    nodes: Sequence[ExistingNode],
    domains: Callable[[str], Domains],
    table: RequirementTable,
    alternative: RequirementId,
) -> NodeMask:
    """Return the nodes with the required labels."""
    offering_nodes = _every(nodes)
    for key in table.needed(alternative):
        offering_nodes &= ~domains(key).get(None, NodeMask(0))
    for key, requirement in table[alternative].items():
        offering_nodes &= _meeting(domains(key), requirement)
    return offering_nodes


def _meeting(domains: Domains, requirement: Requirement) -> NodeMask:
    mask = NodeMask(0)
    for value, nodes in domains.items():
        if requirement.tolerates_absence if value is None else requirement.has(value):
            mask |= nodes
    return mask
