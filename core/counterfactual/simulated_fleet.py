"""The fleet of a simulation: its nodes, and where pods run on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from core.commitments.coverage import NodeCoverage, coverage_of
from core.counterfactual.market_prices import MarketPrices
from core.counterfactual.simulated_pods import SimulatedPod, SimulatedPods
from core.counterfactual.workload_places import carried_over
from core.disruption.commands.apply_command import carried_out, joined
from core.disruption.stored_targets import after_commands
from core.identity_cache import ByIdentity
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.plan import Command, Plan, StoredTarget
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes

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
        self._present = {one.key: one for one in self._simulated(first)}
        on_node = {key: one.pod.node_name for key, one in self._present.items()}
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
        before, self._present = self._present, {one.key: one for one in self._simulated(snapshot)}
        for key in [key for key, one in before.items() if self._present.get(key) is not one]:
            self._in_place.pop(key, None)
        left, came = before.keys() - self._present.keys(), self._present.keys() - before.keys()
        freed = {key: self._places.pop(key) for key in sorted(left & self._places.keys())}
        if not freed:
            return
        gone, new = (
            {key: pods[key].workload for key in keys} for pods, keys in ((before, left), (self._present, came))
        )
        self._places |= carried_over(freed, gone, new)
        known = {claim.node_name: claim.last_pod_event_at for claim in snapshot.node_claims}
        for key, node in freed.items():
            self._touch([node], known.get(before[key].pod.node_name) or snapshot.now)

    def in_snapshot(self, asked: Snapshot, now: datetime, *, karpenter_moves_only: bool) -> Snapshot:
        """Return the snapshot with this fleet, and without what the table recorded of the real one."""
        foreign = self._foreign_of(asked)
        if foreign != self._foreign:
            self._foreign, self._in_place = foreign, {}
        in_place = self._in_place
        options = msgspec.structs.replace(
            asked.options,
            requires_unschedulable_mark=False,
            improve_iterations=IMPROVE_ITERATIONS,
            karpenter_moves_only=karpenter_moves_only,
        )
        return msgspec.structs.replace(
            asked,
            now=now,
            options=options,
            pods=tuple([in_place.get(one.key) or self._moved_in(one) for one in self._simulated(asked)]),
            nodes=(
                *(node for node in asked.nodes if node.name in foreign),
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

    def prices(self, asked: Snapshot, now: datetime) -> dict[str, tuple[str, int]]:
        """Node → its NodePool and nano-dollars per hour, at the prices of the snapshot and less what commitments cover."""
        self._prices.read(asked)
        covered: dict[str, NodeCoverage] = {}
        if asked.options.commitments:
            covered = coverage_of(self.in_snapshot(asked, now, karpenter_moves_only=False)).nodes
        found = {}
        for name, claim in self.claims.items():
            listed = self._prices.of(self._nodes[name].labels, claim.node_pool)
            found[name] = (claim.node_pool, covered[name].price if name in covered else listed)
        return found

    def _moved_in(self, one: SimulatedPod) -> Pod:
        """Return the pod in its simulated place; it is the same object until the pod or its place changes."""
        pod = one.pod
        place = self._places.get(one.key, pod.node_name if pod.node_name in self._foreign else "")
        found = self._in_place[one.key] = msgspec.structs.replace(
            pod,
            node_name=place,
            nominated_node_name="",
            phase="Running" if place else "Pending",
            is_ready=bool(place) or pod.is_ready,
        )
        return found

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
