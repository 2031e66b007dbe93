"""Publishes a plan: reasons on pods without a node, status of capacity buffers, and nominated nodes for `disrupt`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.observation.expected_pods import awaits_pods
from adapters.ports import Clock
from adapters.run_report import RunReport
from adapters.store import Nominations
from core.ledger.summary import DecisionSummary
from core.lifecycle.records import ClaimRecord
from core.model.plan import Plan, Unschedulable
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.pod import PodReason
from lambdas.controllers.decision_events import DecisionEvents
from lambdas.controllers.launching.launch_answer_writer import refused as refused_claim
from lambdas.controllers.provisioning.unschedulable_events import UnschedulableEvents
from lambdas.controllers.status.buffer_status import BufferStatus

NOMINATED_FOR: Final = timedelta(seconds=20)
"""How long a node on which pods are expected is not a candidate for disruption (Karpenter)."""


class PlanPublisher:
    """Publishes the results of a plan."""

    def __init__(
        self,
        events: UnschedulableEvents,
        decisions: DecisionEvents,
        buffers: BufferStatus,
        nominations: Nominations,
        clock: Clock,
    ) -> None:
        self._events = events
        self._decisions = decisions
        self._published: DecisionSummary | None = None
        self._buffers = buffers
        self._nominations = nominations
        self._clock = clock

    def nominate(self, plan: Plan, view: ClusterState, report: RunReport) -> None:
        """Protect the nodes that the plan relies on from disruption until its pods are there."""
        for binding in plan.bindings:
            report.decide(DecisionKind.BIND, binding.pod, ClaimReason.FITS_EXISTING, f"expected on {binding.node}")
        self.expect_pods_on([binding.node for binding in plan.bindings], view.claims.values())
        self._buffers.write(view, plan, report)

    def decided(self, decision: str, summary: DecisionSummary) -> None:
        """Write events on pods and claims about the decision, except those already written for the last plan."""
        if summary.parts or summary != self._published:
            self._published = summary
            self._decisions.launches(decision, summary)

    def expect_pods_on(self, nodes: Iterable[str], records: Iterable[ClaimRecord]) -> None:
        """Protect these nodes, and launching ones, from disruption until their pods are there."""
        now = self._clock.now()
        names = {*nodes, *(record.name for record in records if awaits_pods(record, now))}
        if names:
            self._nominations.nominate(names, now=now, until=now + NOMINATED_FOR)

    def report(self, plan: Plan, over_limit: Iterable[ClaimRecord], report: RunReport) -> None:
        """Report which pods get no node, and why: in the report and as events.

        Args:
            plan: The plan.
            over_limit: Claims that were refused for the limits of their NodePool.
            report: Receives the decisions.
        """
        # The text is equal at each attempt, so that an event is written only once.
        over_limit = tuple(over_limit)
        now = self._clock.now()
        report.outcomes += [refused_claim(r, ClaimReason.LIMIT_REACHED, "", now) for r in over_limit]
        refused = (
            Unschedulable(pod, PodReason.LIMIT_REACHED, f"the limits of NodePool {record.plan.node_pool} are used up")
            for record in over_limit
            for pod in record.plan.pods
        )
        unschedulable = (*plan.unschedulable, *refused)
        for found in unschedulable:
            report.decide(DecisionKind.UNSCHEDULABLE, found.pod, PodReason.of(found.reason), found.message)
        report.count("unschedulablePods", len(unschedulable))
        self._events.publish(unschedulable, report.decision_id)
