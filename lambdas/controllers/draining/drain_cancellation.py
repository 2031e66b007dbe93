"""Cancels a drain: restores the claim first, then removes the marks on the node."""

from __future__ import annotations

import msgspec

from adapters.ports import Clock, ConflictError, Kubernetes, NotFoundError
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.errors import InvalidInputError
from core.lifecycle import steps
from core.lifecycle.draining.cancellation import hold_for
from core.lifecycle.draining.deletion import drain_cancelled
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import api_resources as kinds
from core.model.node_claim import Hold
from core.reasons.decision import DecisionKind
from core.reasons.drain import DrainReason
from lambdas.controllers.nodes.node_patches import release_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader


class DrainCancellation:
    """Carries out the step `CancelDrain`."""

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._clock = clock

    def carry_out(
        self, record: ClaimRecord, step: steps.CancelDrain, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Revoke the deletion, with its share of the NodePool's limits, and open the node again.

        If the limits have no room any more, since its replacement may have taken it, the node continues to leave. A crash after
        the claim is stored leaves a stray taint, which `reconcile` removes.
        """
        restored = self._restored(record, step)
        if restored is None:
            deletion = record.deletion and msgspec.structs.replace(record.deletion, is_final=True)
            report.decide(
                DecisionKind.DRAIN,
                record.name,
                DrainReason.NO_ROOM_TO_GIVE_BACK,
                f"drain not cancelled although {step.message}",
            )
            return self._claims.change(record, msgspec.structs.replace(record, deletion=deletion))
        report.decide(
            DecisionKind.ABANDON, record.name, step.reason, f"drain of node {step.node} cancelled: {step.message}"
        )
        report.count("cancelledDrains")
        self._open(step.node, reader)
        return restored

    def _restored(self, record: ClaimRecord, step: steps.CancelDrain) -> ClaimRecord | None:
        """Return the restored claim, None if its NodePool is gone, invalid, or has no room in its limits."""
        from core.api.translation import (
            node_pool,
        )  # loads pydantic, which most drains do not need

        limits: dict[str, int] = {}
        try:
            if record.plan.node_pool:
                limits = node_pool(self._kubernetes.get(kinds.NODE_POOLS, record.plan.node_pool)).limits
        except (NotFoundError, InvalidInputError):
            if not record.plan.made_by_hand:
                return None
        now = self._clock.now()
        hold = Hold(now + hold_for(record.cancelled_drains), step.reason, f"its drain was cancelled: {step.message}")
        return self._claims.change_within(record, drain_cancelled(record, hold), limits)

    def _open(self, node: str, reader: NodeStateReader) -> None:
        for _ in range(2):
            seen = reader.node(node)
            if seen is None:
                return
            try:
                release_node(self._kubernetes, seen)
            except ConflictError:
                reader.refresh(node)
            else:
                reader.refresh(node)
                return
