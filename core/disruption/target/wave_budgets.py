"""Limits one wave by budgets, PodDisruptionBudgets, evictions per hour, and the NodePool limits for new nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from core.disruption.budgets.node_pool_budgets import allowed
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import PlannedClaim
from core.model.values import quantity
from core.pools.pool_types import pool_types
from core.reasons.node import NodeReason


class WaveBudgets:
    """Counters over the waves of one target.

    The first wave may use what remains of the budgets now, a later wave what they allow for the fleet of that time.

    With budgets ignored, they still divide the target into realistic waves, except budgets that let no node go.
    """

    def __init__(self, disruption_pass: DisruptionPass) -> None:
        self._pass = disruption_pass
        self._present = dict(disruption_pass.budgets.node_counts)
        self._pools = {pool.name: pool for pool in disruption_pass.snapshot.node_pools}
        self._capacity = self._used_capacity()
        self._wave = 0
        self._taken: Counter[str] = Counter()
        self._going: list[Candidate] = []
        self._evictions = disruption_pass.budgets.evictions_left()
        self._rate = disruption_pass.budgets.rate_left()

    def begin(self) -> None:
        """Begin a wave: the pods of the previous one run again."""
        self._wave += 1
        self.begin_again()

    def begin_again(self) -> None:
        """Begin the same wave once more, after all its nodes were released."""
        self._taken.clear()
        self._rate = self._pass.budgets.rate_left()
        self._evictions = self._pass.budgets.evictions_left(is_first=self._wave == 1)

    def admits(self, candidate: Candidate, reason: str, *, counts_nodes: bool = True) -> bool:
        """Whether one more node may go in this wave; records a refusal if a ceiling on evictions keeps it.

        `counts_nodes`: whether the NodePool's budgets limit the wave.
        """
        pool = candidate.pool.name
        top = self._top(pool, reason) if counts_nodes else None
        if (top is not None and self._taken[pool] >= top) or not self._evictions.allows_together(
            [candidate.state.pods]
        ):
            return False
        objection = self._rate.objection([candidate])
        if objection:
            self._pass.refuse(candidate, NodeReason.EVICTION_RATE, objection)
        return not objection

    def take(self, candidate: Candidate) -> None:
        """Count a node that goes."""
        self._taken[candidate.pool.name] += 1
        self._evictions.take(candidate.state.pods)
        self._rate.take(candidate)
        self._going.append(candidate)

    def release(self, candidate: Candidate) -> None:
        """Take back a node that does not go after all; its pods still count until the wave begins again."""
        self._taken[candidate.pool.name] -= 1
        self._going.remove(candidate)

    def has_room_for(self, claims: Iterable[PlannedClaim], beside: Candidate) -> bool:
        """Whether the NodePools' limits leave room for new nodes, counting the room that the leaving node `beside` frees.

        Room that other nodes of the wave free does not count: their commands may start later, or never.
        """
        wanted: Counter[tuple[str, str]] = Counter()
        for claim in claims:
            for name in self._pools[claim.node_pool].limits:
                wanted[claim.node_pool, name] += self._most(claim, name)
        for (pool, name), amount in sorted(wanted.items()):
            freed = 0
            if beside.pool.name == pool:
                freed = 1 if name == quantity.NODES else beside.state.capacity.get(name, 0)
            if self._capacity[pool, name] - freed + amount > self._pools[pool].limits[name]:
                return False
        return True

    def launch(self, claim: PlannedClaim) -> None:
        """Count a new node."""
        for name in self._pools[claim.node_pool].limits:
            self._capacity[claim.node_pool, name] += self._most(claim, name)
        self._present[claim.node_pool] = self._present.get(claim.node_pool, 0) + 1

    def cancel(self, claim: PlannedClaim) -> None:
        """Take back a new node."""
        for name in self._pools[claim.node_pool].limits:
            self._capacity[claim.node_pool, name] -= self._most(claim, name)
        self._present[claim.node_pool] -= 1

    def end(self) -> None:
        """End the wave: its nodes are gone."""
        for pool, count in self._taken.items():
            self._present[pool] -= count
        for candidate in self._going:
            for name, amount in candidate.state.capacity.items():
                self._capacity[candidate.pool.name, name] -= amount
            self._capacity[candidate.pool.name, quantity.NODES] -= 1
        self._going.clear()

    def _top(self, pool: str, reason: str) -> int | None:
        snapshot = self._pass.snapshot
        if self._wave == 1 and not snapshot.options.ignore_budgets:
            return self._pass.budgets.left(pool, reason)
        top = allowed(self._pools[pool], self._present.get(pool, 0), reason, snapshot.now)
        return None if top == 0 and snapshot.options.ignore_budgets else top

    def _most(self, claim: PlannedClaim, name: str) -> int:
        if name == quantity.NODES:
            return 1
        types = pool_types(self._pass.snapshot).of(claim.node_pool, claim.node_class.name)
        return max((t.capacity.get(name, 0) for t in types if t.name in claim.instance_types), default=0)

    def _used_capacity(self) -> Counter[tuple[str, str]]:
        used: Counter[tuple[str, str]] = Counter()
        for state in self._pass.states:
            if state.claim is None or state.is_marked_for_deletion(self._pass.snapshot):
                continue
            for name, amount in state.capacity.items():
                used[state.node_pool, name] += amount
            used[state.node_pool, quantity.NODES] += 1
        launched = {state.claim_name for state in self._pass.states}
        for claim in self._pass.snapshot.node_claims:
            if claim.name not in launched and claim.deleted_at is None:
                for name, amount in claim.resources.items():
                    used[claim.node_pool, name] += amount
                used[claim.node_pool, quantity.NODES] += 1
        return used
