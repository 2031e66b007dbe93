"""Decides whether `disrupt` may skip its pass because no budget allows a disruption; checked before anything else is listed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from adapters.ports import Clock, Kubernetes
from core.disruption.budgets.budget_openings import PoolNodes, may_any_go, wakes_at
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.assemble import assemble
from core.manifests.wire.api_resources import NODE_POOLS
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.reasons.termination import BUDGETED, TerminationReason
from installation.settings import Settings


class BudgetCheck:
    """Evaluates the budgets of NodePools, the only objects that it lists.

    Attributes:
        are_closed: Whether the last check found that no pass was needed.
    """

    def __init__(self, kubernetes: Kubernetes, settings: Settings, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._settings = settings
        self._clock = clock
        self.are_closed = False

    def needs_run(self, records: Iterable[ClaimRecord]) -> bool:
        """Whether some budget lets a node go, or opens so soon that consolidateAfter must be counted from now on.

        The check is repeated at each run, so it detects changed NodePools and removed claims.

        Raises:
            PortError: If the NodePools cannot be listed.
        """
        self.note(self._node_pools(self._clock.now()), records)
        return not self.are_closed

    def note(self, pools: tuple[NodePool, ...], records: Iterable[ClaimRecord]) -> None:
        """Evaluate the NodePools that a pass has listed, so that the next run knows whether to evaluate budgets first."""
        self.are_closed = not self._is_run_needed(pools, records)

    def _is_run_needed(self, pools: tuple[NodePool, ...], records: Iterable[ClaimRecord]) -> bool:
        now, nodes, reasons = self._clock.now(), _counted(records), set[str](BUDGETED)
        if self._settings.options().feature_gates.node_repair:
            reasons.add(TerminationReason.UNHEALTHY)
        if may_any_go(pools, nodes, reasons, now):
            return True
        wakes = wakes_at(pools, nodes, reasons, now)
        return wakes is not None and wakes <= now

    def _node_pools(self, now: datetime) -> tuple[NodePool, ...]:
        snapshot, _ = assemble(
            {NODE_POOLS: self._kubernetes.list(NODE_POOLS).items},
            now=now,
            catalogue=Catalogue(),
            options=self._settings.options(),
            cluster=self._settings.cluster_name,
            is_live=True,
        )
        return snapshot.node_pools


def _counted(records: Iterable[ClaimRecord]) -> dict[str, PoolNodes]:
    """Return pool → its nodes: an upper bound on all and a lower bound on leaving ones, since readiness is unknown here."""
    found: dict[str, PoolNodes] = {}
    for record in records:
        if record.phase is ClaimPhase.INITIALIZED:
            before = found.get(record.plan.node_pool, PoolNodes(0, 0))
            is_going = record.is_disrupting and (record.deletion is None or record.deletion.terminated_at is None)
            found[record.plan.node_pool] = PoolNodes(before.present + 1, before.going + is_going)
    return found
