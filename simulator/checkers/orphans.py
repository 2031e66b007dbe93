"""Judges orphans: objects and instances at the end that nothing needs or refers to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from simulator.checkers.ledger import Ledger

UNREGISTERED_MAX: Final = timedelta(minutes=20)
"""How long an instance may live without a node: Karpenter abandons it after 15 minutes; the rest is a margin to act."""


class OrphanJudge:
    """Counts instances without a node, and claims in the cluster whose instance is gone."""

    name = "orphanedInstances"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def finish(self, now: datetime) -> None:
        """Judge the final state."""
        with_node = {node.instance for node in self._ledger.nodes.values()}
        for name, instance in sorted(self._ledger.instances.items()):
            settled = now - instance.launched_at > UNREGISTERED_MAX
            if instance.ended_at is None and settled and name not in with_node:
                self._report(
                    f"{name} (claim {instance.claim or 'unknown'}) runs since {instance.launched_at} without a node"
                )
        for claim in self._ledger.of_kind("NodeClaim"):
            self._check_claim(claim["metadata"]["name"], str((claim.get("status") or {}).get("providerID", "")), now)

    def _check_claim(self, name: str, provider_id: str, now: datetime) -> None:
        instance = self._ledger.instances.get(provider_id.rpartition("/")[2])
        ended = None if instance is None else instance.ended_at
        if ended is not None and now - ended > UNREGISTERED_MAX:
            self._report(f"claim {name} stands for {provider_id}, which ended at {ended}")
