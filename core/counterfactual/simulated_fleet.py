"""The fleet of a simulation: its nodes, and where pods run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median_low
from typing import Final

import msgspec

from core.commitments import NodeCoverage, coverage_of
from core.counterfactual.overrides import ProvenMinimum
from core.disruption.command import carried_out, joined
from core.disruption.disruption_pass import fleet_price
from core.disruption.target.stored import after_commands
from core.interpreter import ByIdentity
from core.model import plan
from core.model.plan import Command, NodeClaim, Plan, StoredTarget
from core.model.pod import Pod
from core.model.snapshot import Node, Snapshot
from core.model.state_node import state_nodes
from core.model.values.quantity import HOUR, MICROSECOND, MICROSECONDS_PER_HOUR
from core.pools import PoolTypes, node_price, type_of
from core.scheduling import schedule

# Prices of nodes in one snapshot after another. A price is looked up again only when the market changes.


NODES_KEPT: Final = 10_000
"""Of how many nodes prices are kept; a week of a cluster of 300 has some thousands."""


class MarketPrices:
    """Prices in the market of a snapshot, without commitments. Only those of the last market are kept."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._market = snapshot
        self._types = PoolTypes(snapshot)
        self._known: dict[tuple[str, int], tuple[Mapping[str, str], int]] = {}

    def read(self, snapshot: Snapshot) -> None:
        """Take the market of the snapshot. A catalogue that is not the same object counts as another."""
        last = self._market
        is_same = (
            last.catalogue is snapshot.catalogue
            and last.node_pools == snapshot.node_pools
            and last.overlays == snapshot.overlays
            and last.options == snapshot.options
        )
        if not is_same:
            self._market, self._types, self._known = snapshot, PoolTypes(snapshot), {}

    def of(self, labels: Mapping[str, str], pool: str) -> int:
        """Return the price of a node of the NodePool by its labels, in nano-dollars per hour; 0 if it is unknown."""
        cached = self._known.get((pool, id(labels)))
        if cached is None:
            if len(self._known) >= NODES_KEPT:
                self._known.clear()
            # An entry keeps its labels alive, so no others have their identity.
            cached = labels, node_price(labels, type_of(labels, self._types.by_name(pool)))
            self._known[pool, id(labels)] = cached
        return cached[1]

    def of_fleet(self, snapshot: Snapshot) -> int:
        """Return `fleet_price` of the snapshot."""
        if snapshot.options.commitments:
            return fleet_price(snapshot)
        self.read(snapshot)
        states = state_nodes(msgspec.structs.replace(snapshot, pods=()))
        return sum(self.of(state.labels, state.node_pool) for state in states if state.is_managed)


# Where pods run in a simulated fleet, and which of them are new.
#
# A record has the pods of the real cluster, where moves and failures created successors with other names. In the simulation
# nobody moved the pod, so a successor takes the place of the pod of the same workload that disappeared.


def is_simulated(pod: Pod) -> bool:
    """Whether the pod needs a place in the simulated fleet. DaemonSet pods come with each node and count as its overhead."""
    return pod.is_active and not pod.is_daemon and not pod.is_static and not pod.is_gated


def carried_over(places: Mapping[str, str], workloads: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the place of each pod that has one.

    Args:
        places: Pod → node, before.
        workloads: Pod → its workload, before.
        present: The same now.
    """
    freed: dict[str, list[str]] = {}
    for key in sorted(places.keys() - present.keys()):
        freed.setdefault(workloads[key], []).append(places[key])
    taken_over = {key: place for key, place in places.items() if key in present}
    for key in sorted(present.keys() - places.keys()):
        freed_places = freed.get(present[key])
        if freed_places and key not in workloads:
            taken_over[key] = freed_places.pop(0)
    return taken_over


# Sums up a recorded fleet: its cost, the evicted pods, how long pods waited, how long nodes took to boot.


class RecordedFleetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a recorded period.

    Attributes:
        cost: Nano-dollars; each snapshot's price applies until the next one.
        hours: Of all nodes together.
        launched: NodeClaims that were created in the period.
        evicted: Pods that left a node under voluntary disruption (condition DisruptionReason), counted each time.
        displaced: Pods that left a node that went for another or no recorded reason: interruption, expiry, by hand.
        arrived: Pod that was created in the period → since when it waited, as far as snapshots show.
        waits: Those of these pods that were bound → how long they waited.
        boot: The median time from NodeClaim to initialized node; None if no node of the period shows it.
        series: Moment and nano-dollars per hour from then on.
        minimum: The proven minimum of any fleet for these pods, beside the cost of the recorded one; None if nothing is proven.
    """

    cost: int
    hours: float
    launched: int
    evicted: int
    displaced: int
    nodes: int
    arrived: dict[str, datetime]
    waits: dict[str, timedelta]
    boot: timedelta | None
    series: tuple[tuple[datetime, int], ...]
    minimum: ProvenMinimum | None


class RecordedFleet:
    """`see` the snapshots of a period in order of time, then `finish`. Pods of the first snapshot do not wait."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._hourly = self._cost = 0
        self._floor: int | None = None
        self._node_time = self._minimum_over = timedelta(0)
        self._minimum = self._minimum_cost = 0
        self._nodes: dict[str, NodeClaim] = {}
        self._seen_claims: set[str] = set()
        self._first_claims: frozenset[str] = frozenset()
        self._by_choice: set[str] = set()
        self._going: set[str] = set()
        self._places: dict[str, str] = {}
        self._known: set[str] = set()
        self._arrived: dict[str, datetime] = {}
        self._waits: dict[str, timedelta] = {}
        self._left: Counter[bool] = Counter()
        self._boots: dict[str, timedelta] = {}
        self._series: list[tuple[datetime, int]] = []

    def see(self, snapshot: Snapshot, floor: int | None) -> None:
        """Add the next snapshot. `floor` is the proven minimum of its fleet in nano-dollars per hour, None if unknown."""
        self._charge(snapshot.now)
        claims = {s.name: s.claim for s in state_nodes(snapshot) if s.claim is not None and s.node is not None}
        pods = {pod.key: pod for pod in snapshot.pods}
        if self._last is None:
            self._known = set(pods)
            self._first_claims = frozenset(claim.name for claim in snapshot.node_claims)
        else:
            self._note_departures(claims, pods)
            self._note_waits(pods, snapshot.now)
        self._note_boots(claims)
        self._places = {
            key: pod.node_name for key, pod in pods.items() if is_simulated(pod) and pod.node_name in claims
        }
        self._seen_claims |= {claim.name for claim in snapshot.node_claims}
        self._nodes = claims
        self._hourly, self._floor, self._last = fleet_price(snapshot), floor, snapshot
        if not self._series or self._series[-1][1] != self._hourly:
            self._series.append((snapshot.now, self._hourly))

    def finish(self, until: datetime) -> RecordedFleetResult:
        """Return the totals; the last snapshot's fleet lasts until the end of the period."""
        self._charge(until)
        return RecordedFleetResult(
            cost=self._cost // MICROSECONDS_PER_HOUR,
            hours=self._node_time / HOUR,
            launched=len(self._seen_claims - self._first_claims),
            evicted=self._left[True],
            displaced=self._left[False],
            nodes=len(self._nodes),
            arrived=self._arrived,
            waits=self._waits,
            boot=median_low(self._boots.values()) if self._boots else None,
            series=tuple(self._series),
            minimum=self._proven(),
        )

    def _proven(self) -> ProvenMinimum | None:
        if not self._minimum_over:
            return None
        an_hour = MICROSECONDS_PER_HOUR
        cost, spent = self._minimum // an_hour, self._minimum_cost // an_hour
        return ProvenMinimum(cost=cost, spent=spent, over=self._minimum_over)

    def _charge(self, now: datetime) -> None:
        if self._last is None:
            return
        span = now - self._last.now
        self._cost += self._hourly * (span // MICROSECOND)
        self._node_time += span * len(self._nodes)
        if self._floor is not None:
            self._minimum += self._floor * (span // MICROSECOND)
            self._minimum_cost += self._hourly * (span // MICROSECOND)
            self._minimum_over += span

    def _note_departures(self, claims: dict[str, NodeClaim], pods: dict[str, Pod]) -> None:
        """Count the pods that left a leaving node. A finished pod, or one whose node stays, was not evicted."""
        for name, claim in {**self._nodes, **claims}.items():
            if claim.is_true(plan.DISRUPTION_REASON):
                self._by_choice.add(name)
            if claim.deleted_at is not None or name not in claims:
                self._going.add(name)
        for key, node in self._places.items():
            pod = pods.get(key)
            has_left = pod is None or (is_simulated(pod) and pod.node_name != node)
            if has_left and node in self._going | self._by_choice:
                self._left[node in self._by_choice] += 1

    def _note_waits(self, pods: dict[str, Pod], now: datetime) -> None:
        """Record waits. A pod that is bound when first seen waited less than one snapshot interval, which counts as zero."""
        for key, pod in pods.items():
            if not is_simulated(pod):
                continue
            if key not in self._known:
                self._known.add(key)
                self._arrived[key] = now if pod.node_name else pod.created_at or now
            if pod.node_name and key in self._arrived and key not in self._waits:
                self._waits[key] = now - self._arrived[key]

    def _note_boots(self, claims: dict[str, NodeClaim]) -> None:
        for claim in claims.values():
            condition = claim.conditions.get(plan.INITIALIZED)
            is_new = claim.name not in self._first_claims and claim.name not in self._boots
            if not is_new or condition is None or condition.status != "True" or condition.changed_at is None:
                continue
            if claim.created_at is not None and condition.changed_at >= claim.created_at:
                self._boots[claim.name] = condition.changed_at - claim.created_at


# The pods of recorded snapshots that need a place in a simulated fleet.
#
# Snapshots of a period share most of their pods, as the same objects (`core.ledger.encoding`). Each is examined
# once, since a week has thousands of snapshots with thousands of pods.


class SimulatedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod that needs a place, with what the simulation reads of it in every snapshot."""

    pod: Pod
    key: str
    workload: str


class SimulatedPods:
    """Selects the pods of one snapshot after another. Only those of the last one are kept."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._found: Sequence[SimulatedPod] = ()
        self._known: dict[int, tuple[Pod, SimulatedPod | None]] = {}

    def __call__(self, snapshot: Snapshot) -> Sequence[SimulatedPod]:
        """Return the pods that need a place, in the snapshot's order; of an unchanged pod the same object as before."""
        if snapshot is not self._last:
            # An entry keeps its pod alive, so no other pod has its identity.
            self._known = {id(pod): self._known.get(id(pod)) or _examined(pod) for pod in snapshot.pods}
            self._found = [place for _, place in self._known.values() if place is not None]
            self._last = snapshot
        return self._found


def _examined(pod: Pod) -> tuple[Pod, SimulatedPod | None]:
    return pod, SimulatedPod(pod, pod.key, pod.workload) if is_simulated(pod) else None


IMPROVE_ITERATIONS: Final = 24
"""Search iterations per plan; few, because a week has thousands of snapshots."""


class Placement(msgspec.Struct, frozen=True):
    """When a pod was given a place; on a new node it also waits for the boot."""

    at: datetime
    is_on_new_node: bool


class SimulatedFleet:
    """The fleet of a simulation. It starts as in the first snapshot; then only its own launches and moves change it.

    Attributes:
        claims: The claims of its nodes, by node.
        launched: How many nodes it launched.
        moves: How many pods were moved, each move once.
        waited: Pods that were placed on a new node.
        commands: Reason → how many commands were carried out.
        placements: Pod that waited → when it was first given a place, and whether that is on a new node.
        refused: Pods for which a plan had no place; they may have had one before or later.
    """

    def __init__(self, first: Snapshot) -> None:
        running = [
            (state.claim, state.node)
            for state in state_nodes(first)
            if state.claim is not None and state.node is not None and state.claim.deleted_at is None
        ]
        self.claims: dict[str, NodeClaim] = {node.name: claim for claim, node in running}
        self._nodes: dict[str, Node] = {node.name: node for _, node in running}
        self._simulated = SimulatedPods()
        self._present = {pod.key: pod for pod in self._simulated(first)}
        on_node = {key: pod.pod.node_name for key, pod in self._present.items()}
        self._places = {key: node for key, node in on_node.items() if node in self._nodes}
        self.launched = self.moves = self.waited = 0
        self.commands: Counter[str] = Counter()
        self.placements: dict[str, Placement] = {}
        self.refused: set[str] = set()
        self._target: StoredTarget | None = None
        self._in_place: dict[str, Pod] = {}
        self._prices = MarketPrices(first)
        self._foreign_of = ByIdentity[Snapshot, frozenset[str]](_foreign_nodes, size=1)
        self._foreign: frozenset[str] = frozenset()

    def meet(self, snapshot: Snapshot) -> None:
        """Update the pods: those that are gone leave, and their successors take their places.

        A pod counts as gone since its real node last lost or gained a pod, if that is known.
        """
        before, self._present = self._present, {pod.key: pod for pod in self._simulated(snapshot)}
        for key in [key for key, pod in before.items() if self._present.get(key) is not pod]:
            self._in_place.pop(key, None)
        departed, came = before.keys() - self._present.keys(), self._present.keys() - before.keys()
        freed = {key: self._places.pop(key) for key in sorted(departed & self._places.keys())}
        if not freed:
            return
        gone, new = (
            {key: pods[key].workload for key in keys} for pods, keys in ((before, departed), (self._present, came))
        )
        self._places |= carried_over(freed, gone, new)
        last_events = {claim.node_name: claim.last_pod_event_at for claim in snapshot.node_claims}
        for key, node in freed.items():
            self._touch([node], last_events.get(before[key].pod.node_name) or snapshot.now)

    def in_snapshot(self, recorded: Snapshot, now: datetime, *, karpenter_moves_only: bool) -> Snapshot:
        """Return the snapshot with this fleet, and without what the table recorded of the real one."""
        foreign = self._foreign_of(recorded)
        if foreign != self._foreign:
            self._foreign, self._in_place = foreign, {}
        in_place = self._in_place
        options = msgspec.structs.replace(
            recorded.options,
            requires_unschedulable_mark=False,
            improve_iterations=IMPROVE_ITERATIONS,
            karpenter_moves_only=karpenter_moves_only,
        )
        return msgspec.structs.replace(
            recorded,
            now=now,
            options=options,
            pods=tuple([in_place.get(pod.key) or self._moved_in(pod) for pod in self._simulated(recorded)]),
            nodes=(
                *(node for node in recorded.nodes if node.name in foreign),
                *(node for _, node in sorted(self._nodes.items())),
            ),
            node_claims=tuple(claim for _, claim in sorted(self.claims.items())),
            marked_for_deletion=(),
            paused_pools={},
            nominated_until={},
            moved_workloads={},
            evicted_nodes={},
            rollouts={},
            attachments=(),
            stored_target=self._target,
        )

    def place(self, plan: Plan, snapshot: Snapshot) -> None:
        """Launch the plan's nodes and place its pods."""
        for planned in plan.claims:
            name = f"{planned.node_pool}-simulated-{self.launched}"
            claim, node = joined(msgspec.structs.replace(planned, name=name), snapshot)
            self.claims[name], self._nodes[name] = claim, node
            self.launched += 1
            self.waited += len(planned.pods)
            self._move(dict.fromkeys(planned.pods, name), snapshot.now)
            self._note(planned.pods, Placement(snapshot.now, is_on_new_node=True))
        self._move({binding.pod: binding.node for binding in plan.bindings}, snapshot.now)
        self._note((binding.pod for binding in plan.bindings), Placement(snapshot.now, is_on_new_node=False))

    def carry_out(self, commands: Sequence[Command], target: StoredTarget | None, snapshot: Snapshot) -> None:
        """Remove nodes, move their pods, and keep the rest of the target, as the functions do."""
        names = self._new_names(commands)
        self._target = after_commands(target, commands, snapshot.pods, names) if target is not None else None
        if not commands:
            return
        begun = [_renamed(command, names) for command in commands]
        after = carried_out(snapshot, *begun)
        nodes = {node.name: node for node in after.nodes}
        self.claims = {claim.node_name: claim for claim in after.node_claims}
        self._nodes = {name: nodes[name] for name in self.claims}
        for command in begun:
            self.commands[command.reason] += 1
            self.moves += len(command.moves)
            self._move({move.pod: move.to for move in command.moves}, snapshot.now)
        going = {name for command in begun for name in command.nodes}
        self._unplace([pod for pod, node in self._places.items() if node in going])

    @property
    def has_target(self) -> bool:
        """Whether nodes of the target are left for later waves."""
        return self._target is not None

    def empty_nodes(self) -> frozenset[str]:
        """Nodes without a pod that needs a place."""
        return frozenset(self.claims.keys() - self._places.values())

    def prices(self, recorded: Snapshot, now: datetime) -> dict[str, tuple[str, int]]:
        """Node → its NodePool and nano-dollars per hour, at the prices of the snapshot and less what commitments cover."""
        self._prices.read(recorded)
        covered: dict[str, NodeCoverage] = {}
        if recorded.options.commitments:
            covered = coverage_of(self.in_snapshot(recorded, now, karpenter_moves_only=False)).nodes
        by_node = {}
        for name, claim in self.claims.items():
            listed = self._prices.of(self._nodes[name].labels, claim.node_pool)
            by_node[name] = (claim.node_pool, covered[name].price if name in covered else listed)
        return by_node

    def _moved_in(self, simulated: SimulatedPod) -> Pod:
        """Return the pod in its simulated place; it is the same object until the pod or its place changes."""
        pod = simulated.pod
        place = self._places.get(simulated.key, pod.node_name if pod.node_name in self._foreign else "")
        moved = self._in_place[simulated.key] = msgspec.structs.replace(
            pod,
            node_name=place,
            nominated_node_name="",
            phase="Running" if place else "Pending",
            is_ready=bool(place) or pod.is_ready,
        )
        return moved

    def _note(self, pods: Iterable[str], placement: Placement) -> None:
        for pod in pods:
            self.placements.setdefault(pod, placement)

    def _move(self, places: dict[str, str], now: datetime) -> None:
        self._unplace(places)
        self._places |= places
        self._touch(places.values(), now)

    def _unplace(self, pods: Iterable[str]) -> None:
        for pod in pods:
            self._places.pop(pod, None)
            self._in_place.pop(pod, None)

    def _touch(self, nodes: Iterable[str], now: datetime) -> None:
        """Restart `consolidateAfter` of these nodes, which counts from the last arrival or departure of a pod."""
        for name in sorted(set(nodes) & self.claims.keys()):
            claim = self.claims[name]
            latest = max(claim.last_pod_event_at or now, now)
            self.claims[name] = msgspec.structs.replace(claim, last_pod_event_at=latest)

    def _new_names(self, commands: Iterable[Command]) -> dict[str, str]:
        """Return names for all replacements that no node has had, by their planned names."""
        names = {}
        for planned in (claim for command in commands for claim in command.replacements):
            names[planned.name] = f"{planned.node_pool}-simulated-{self.launched}"
            self.launched += 1
        return names


def _foreign_nodes(snapshot: Snapshot) -> frozenset[str]:
    without_pods = msgspec.structs.replace(snapshot, pods=())
    return frozenset(state.name for state in state_nodes(without_pods) if state.claim is None)


def _renamed(command: Command, names: Mapping[str, str]) -> Command:
    return msgspec.structs.replace(
        command,
        replacements=tuple(msgspec.structs.replace(p, name=names[p.name]) for p in command.replacements),
        moves=tuple(msgspec.structs.replace(m, to=names.get(m.to, m.to)) for m in command.moves),
    )


# A proven lower bound on the cost of any fleet for the running pods of a snapshot, if every node is new.


def fleet_minimum(snapshot: Snapshot) -> int | None:
    """Return nano-dollars per hour, None if nothing is proven.

    Unlike the bound of a disruption plan it holds for any fleet: no node is kept because something protects it. Nodes
    without a NodeClaim stay and count zero. Waiting pods are left out: the recorded fleet, with which the bound is
    compared, does not pay for them.
    """
    foreign = tuple(state.node for state in state_nodes(snapshot) if state.claim is None and state.node is not None)
    running = tuple(pod for pod in snapshot.pods if pod.node_name)
    without = msgspec.structs.replace(snapshot, node_claims=(), nodes=foreign, pods=running)
    simulated = SimulatedFleet(without).in_snapshot(without, snapshot.now, karpenter_moves_only=False)
    return schedule(simulated).cost.lower_bound
