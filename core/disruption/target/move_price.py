"""Prices the moves of pods: a saving must exceed the price of the pods that it disrupts.

A move costs a share of the average cost of a movable pod, for as long as the saving lasts. Pods of high priority or deletion
cost count more (`eviction_cost`), and a pod that disruption has just moved counts many times as much, by a factor that halves
again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from core import labels
from core.disruption.deletion_costs import UNIT, eviction_cost
from core.model.node_pool import NodePool
from core.model.pod import Pod
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES, FeatureGates, Options, Snapshot

if TYPE_CHECKING:
    from core.disruption.candidate import Candidate  # a start of `reconcile` needs none

SHARES: Final = {THOROUGH_MOVES: 0, BALANCED_MOVES: 200, GENTLE_MOVES: 230}
"""Value of the setting → price of a move, in thousandths of the candidates' average price per movable pod."""

KEEP_DISCOUNTS: Final = {"thorough": 2, "balanced": 40, "gentle": 40}
"""Discounts on running nodes compared to new ones, in thousandths: prices vary by about two percent either way."""

DWELL_FACTOR: Final = 20
"""How many times more a move costs for a pod that has just been moved."""

DWELL_HALF_LIFE: Final = timedelta(minutes=10)
"""Half-life of that factor."""

STARTED_WITHIN: Final = timedelta(minutes=10)
"""A pod that starts within this time after disruption moved its workload counts as the successor of a moved one."""

_DWELL_HALVINGS_MAX: Final = 12
_PER_MILLE: Final = 1000


def moves_setting(pool: NodePool, options: Options) -> str:
    """Return the setting for moves in a NodePool: its annotation, else the option."""
    setting = pool.own_annotations.get(labels.MOVES, "")
    return setting if setting in SHARES else options.moves


def settings_digest(snapshot: Snapshot) -> str:
    """Return a digest of the settings that decide about a target, besides the cluster and its prices."""
    options = snapshot.options
    moves = sorted((pool.name, moves_setting(pool, options)) for pool in snapshot.node_pools)
    gate = options.feature_gates.spot_to_spot_consolidation
    text = repr((KEEP_DISCOUNTS, options.moves, options.move_price, gate, moves))
    return blake2b(text.encode(), digest_size=8).hexdigest()


class MovePrices:
    """Prices of moves for some candidates.

    Attributes:
        mean: Nano-dollars per hour that a movable pod costs on average.
    """

    def __init__(
        self, candidates: Sequence[Candidate], snapshot: Snapshot, expiring: Collection[str] = frozenset()
    ) -> None:
        """Prepare prices. Pods of `expiring` nodes move soon in any case, so a move now costs nothing extra."""
        pods = sum(_units(candidate.pods, snapshot.options.feature_gates) for candidate in candidates)
        self.mean = sum(candidate.price for candidate in candidates) * UNIT // pods if pods else 0
        self._options = snapshot.options
        self._expiring = expiring
        self._now: datetime = snapshot.now
        self._moved = snapshot.moved_workloads

    def of(self, candidate: Candidate) -> int:
        """Return the price of moving all pods of the candidate, in nano-dollars per hour."""
        share = SHARES[moves_setting(candidate.pool, self._options)]
        per_pod = self.mean * share // _PER_MILLE
        if self._options.move_price is not None:
            per_pod = self._options.move_price
        if candidate.name in self._expiring:
            per_pod = 0
        # Moving a pod again soon after a move is expensive regardless of the setting.
        recent = max(per_pod, self.mean * SHARES[BALANCED_MOVES] // _PER_MILLE)
        gates = self._options.feature_gates
        units = ((max(0, eviction_cost(pod, gates)), self._dwell(pod)) for pod in candidate.pods)
        return sum((per_pod + recent * dwell // _PER_MILLE) * unit // UNIT for unit, dwell in units)

    def _dwell(self, pod: Pod) -> int:
        """Return the surcharge on the move of a recently moved pod, in thousandths."""
        moved = self._moved.get(pod.workload) if self._moved else None
        if moved is None or pod.started_at is None or not moved.moving_since <= pod.started_at <= self._now:
            return 0
        if pod.started_at > moved.moved_at + STARTED_WITHIN:
            return 0
        halvings, rest = divmod(self._now - pod.started_at, DWELL_HALF_LIFE)
        if halvings >= _DWELL_HALVINGS_MAX:
            return 0
        surcharge = DWELL_FACTOR * _PER_MILLE >> halvings
        return surcharge - surcharge // 2 * (rest // timedelta(seconds=1)) // (DWELL_HALF_LIFE // timedelta(seconds=1))


def _units(pods: Iterable[Pod], gates: FeatureGates) -> int:
    return sum(max(0, eviction_cost(pod, gates)) for pod in pods)
