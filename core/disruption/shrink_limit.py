"""The brake on shrinking: what commands may take from a NodePool's vCPUs within an hour.

See docs/engineering/handbook/brakes.md#the-brake-on-shrinking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from core.brakes import Brake, BrakeKind
from core.disruption.candidate import Candidate
from core.disruption.move_history import PERIOD, recently
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import CPU
from core.pods import reschedulable
from core.reasons.code import Refusal, Stated, TerminationReason
from core.reasons.nodes import NodeReason

ALWAYS_ALLOWED: Final = 32_000
"""What any NodePool may lose within the hour, in millicores: a share says nothing about a few small nodes."""

ALL: Final = 100
"""The share that means no limit."""


class _PoolRoom(msgspec.Struct, frozen=True):
    """What a NodePool had at the start of the hour and what it may lose now, in millicores.

    `is_touched`: whether commands took nodes within the hour. If not, one node may go, however large it is.
    """

    before: int
    spare: int
    is_touched: bool


class ShrinkLimit:
    """How much capacity each NodePool may still lose. Without budgets there is no limit: the times of waves are unknown.

    Nodes without pods to move do not count: nothing runs on them, and NodePools must be able to scale to zero.
    """

    def __init__(self, percent: int, rooms: Mapping[str, _PoolRoom], taken: Mapping[str, int]) -> None:
        self._percent = percent
        self._rooms = rooms
        self._taken = Counter(taken)

    @classmethod
    def of(cls, snapshot: Snapshot, states: Iterable[StateNode], percent: int | None = None) -> ShrinkLimit:
        """Return the limit after what commands took recently; `percent` overrides the snapshot's option."""
        limit = snapshot.options.shrink_percent if percent is None else percent
        if limit is None or limit >= ALL or snapshot.options.ignore_budgets:
            return cls(ALL, {}, {})
        since = snapshot.now - PERIOD
        present, before, touched = Counter[str](), Counter[str](), set[str]()
        for node in recently(snapshot.evicted_nodes, snapshot.now).values():
            touched.add(node.node_pool)
            if node.created_at is None or node.created_at <= since:
                before[node.node_pool] += node.cpu
        for state in states:
            if state.claim is None or (state.is_marked_for_deletion(snapshot) and not _is_taken(state, snapshot)):
                continue
            created_at = state.claim.created_at
            if created_at is None or created_at <= since:
                before[state.node_pool] += cpu_of(state)
            if _is_taken(state, snapshot):
                touched.add(state.node_pool)
            else:
                present[state.node_pool] += cpu_of(state)
        pools = [pool.name for pool in snapshot.node_pools if not pool.is_static]
        rooms = {name: _room(before[name], present[name], limit, is_touched=name in touched) for name in pools}
        return cls(limit, rooms, {})

    def copy(self) -> ShrinkLimit:
        """Return an independent counter with the same remainders."""
        return ShrinkLimit(self._percent, self._rooms, self._taken)

    def allows(self, candidates: Iterable[Candidate]) -> bool:
        """Whether the capacity of all these nodes may go now."""
        return not self.objection(candidates)

    def objection(self, candidates: Iterable[Candidate]) -> Refusal | None:
        """Return which NodePool would shrink too fast, and by how much; None if none would."""
        return self._objection((c.pool.name, cpu_of(c.state)) for c in candidates if c.pods) if self._rooms else None

    def take(self, candidate: Candidate) -> None:
        """Count a node that goes."""
        if candidate.pods and candidate.pool.name in self._rooms:
            self._taken[candidate.pool.name] += cpu_of(candidate.state)

    def beyond(self, commands: Iterable[tuple[str, Command]], states: Iterable[StateNode]) -> dict[str, Refusal]:
        """Return id → why, for each of these commands that the limit holds back if those before it are carried out."""
        by_name = {state.name: state for state in states}
        refusals: dict[str, Refusal] = {}
        for name, command in commands:
            if command.reason == TerminationReason.UNHEALTHY:
                continue
            going = [by_name[node] for node in command.nodes if node in by_name and reschedulable(by_name[node].pods)]
            amounts = [(state.node_pool, cpu_of(state)) for state in going if state.node_pool in self._rooms]
            refusal = self._objection(amounts)
            if refusal is not None:
                refusals[name] = refusal
                continue
            for pool, amount in amounts:
                self._taken[pool] += amount
        return refusals

    def brakes(self, states: Iterable[StateNode]) -> tuple[Brake, ...]:
        """Return the brake of each NodePool that has shrunk so far that none of its nodes with pods may follow now."""
        least: dict[str, int] = {}
        for state in states:
            if state.claim is not None and reschedulable(state.pods):
                least[state.node_pool] = min(cpu_of(state), least.get(state.node_pool, cpu_of(state)))
        refusals = {pool: self._objection([(pool, cpu)]) for pool, cpu in sorted(least.items()) if pool in self._rooms}
        return tuple(brake(pool, refusal.message) for pool, refusal in refusals.items() if refusal is not None)

    def _objection(self, amounts: Iterable[tuple[str, int]]) -> Refusal | None:
        wanted, nodes = Counter[str](), Counter[str]()
        for pool, amount in amounts:
            wanted[pool] += amount
            nodes[pool] += 1
        for pool, amount in sorted(wanted.items()):
            room = self._rooms.get(pool)
            if room is None or self._taken[pool] + amount <= room.spare:
                continue
            if nodes[pool] == 1 and not room.is_touched and not self._taken[pool]:
                continue
            message = (
                f"{_vcpus(amount)} vCPUs to remove: NodePool {pool} may lose {self._percent} % of its vCPUs in an "
                f"hour; it had {_vcpus(room.before)}, and may lose "
                f"{_vcpus(max(0, room.spare - self._taken[pool]))} more now"
            )
            return Stated(NodeReason.SHRINKING, message)
        return None


def engaged(snapshot: Snapshot) -> tuple[Brake, ...]:
    """Return the brake of each NodePool that has shrunk so far that none of its nodes with pods may follow now."""
    states = state_nodes(snapshot)
    return ShrinkLimit.of(snapshot, states).brakes(states)


def brake(node_pool: str, message: str) -> Brake:
    """Return the brake that stands for a NodePool which may not shrink further now."""
    return Brake(BrakeKind.SHRINKING, message, node_pool=node_pool)


def cpu_of(state: StateNode) -> int:
    """Return a node's millicores: those of its claim, which EC2's type says, before those that the node reports."""
    claimed = state.claim.capacity.get(CPU, 0) if state.claim is not None else 0
    return claimed or state.capacity.get(CPU, 0)


def shrinking(commands: Sequence[tuple[str, Command]], snapshot: Snapshot, percent: int) -> dict[str, Refusal]:
    """Return id → why, for each of these commands by which a NodePool would shrink too fast."""
    states = state_nodes(snapshot) if commands and percent < ALL else ()
    return ShrinkLimit.of(snapshot, states, percent).beyond(commands, states)


def _is_taken(state: StateNode, snapshot: Snapshot) -> bool:
    """Whether a command is about to drain the node, which has pods; once the drain begins, it is an evicted node."""
    name = state.claim_name
    is_counted = name in snapshot.marked_for_deletion and name not in snapshot.evicted_nodes
    return is_counted and bool(reschedulable(state.pods))


def _room(before: int, present: int, percent: int, *, is_touched: bool) -> _PoolRoom:
    least = before - max(before * percent // ALL, ALWAYS_ALLOWED)
    return _PoolRoom(before=before, spare=max(0, present - max(0, least)), is_touched=is_touched)


def _vcpus(millicores: int) -> str:
    return f"{millicores / 1000:g}"
