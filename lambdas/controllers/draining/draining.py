"""Carries out the steps of a leaving claim, from the taint to the deletion of its Node; the record holds the progress."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Final

import msgspec

from adapters.ports import Clock, ConflictError, Kubernetes
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.errors import invariant
from core.lifecycle import steps
from core.lifecycle.draining.deletion import emptied, tainted
from core.lifecycle.draining.escalation import EscalationLevel
from core.lifecycle.draining.evictions import SOONEST, after_tries, identity, needs_surge, next_check
from core.lifecycle.draining.termination import awaited_finalizers
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimRecord, Deletion
from core.pods.disposition import is_drainable
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.drain import DrainReason
from lambdas.controllers.draining.drain_events import DrainEvents
from lambdas.controllers.draining.evictor import Evictor
from lambdas.controllers.draining.surge import Surge
from lambdas.controllers.nodes.node_patches import delete_node, patch_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader


class Draining:
    """Closes a node to new pods, evicts its pods, and finally deletes the Node."""

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, surge: Surge, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._clock = clock
        self._evictor = Evictor(kubernetes, clock)
        self._surge = surge
        self._events = DrainEvents(kubernetes, clock)

    def taint(self, record: ClaimRecord, step: steps.TaintNode, reader: NodeStateReader) -> ClaimRecord:
        """Mark the node.

        The first time is recorded: terminationGracePeriod starts then, and its share of the limits is released.
        """
        deletion, seen = _deletion_of(record), reader.node(step.node)
        if seen is not None:
            patch_node(self._kubernetes, seen, labels=step.labels, annotations=step.annotations, taints=step.taints)
            reader.refresh(step.node)
        if deletion.tainted_at is not None:
            return record
        return self._claims.change(record, tainted(record, self._clock.now()))

    def drain(self, record: ClaimRecord, step: steps.Drain, facts: ClaimFacts, report: RunReport) -> timedelta:
        """Evict and force off the pods of the step, and store the results; return when to check again."""
        deletion, begun = _deletion_of(record), self._clock.now()
        done = self._evictor.carry_out(step, deletion, record.node_name, report)
        waiting = [pod for pod in facts.pods if is_drainable(pod, begun)]
        now = self._clock.now()
        postponed = done.postponed > timedelta(0)
        after = after_tries(deletion, waiting, done.refused, now, moved=done.moved > 0, postponed=postponed)
        if after is not deletion:
            self._changed(record, after)
        for pod in waiting:
            if pod.key in done.refused and needs_surge(after.tries[identity(pod)]):
                self._surge.restart(pod, record.name, report)
        soon = max(SOONEST, done.postponed) if postponed else next_check(after, waiting, now)
        return max(soon, done.wait)

    def note_empty(self, record: ClaimRecord) -> ClaimRecord:
        """Store when only volumes were first seen to keep the node."""
        return self._claims.change(record, emptied(record, self._clock.now()))

    def escalate(self, record: ClaimRecord, step: steps.Escalate, report: RunReport) -> ClaimRecord:
        """Report that the drain makes no progress: once for each level, so the level is stored first."""
        deletion = msgspec.structs.replace(_deletion_of(record), escalation_level=step.escalation_level)
        changed = self._changed(record, deletion)
        report.decide(
            DecisionKind.DRAIN, record.node_name, _REASONS[EscalationLevel(step.escalation_level)], step.message
        )
        self._events.publish(record.node_name, step)
        return changed

    def delete_node(
        self, record: ClaimRecord, step: steps.DeleteNode, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Delete exactly this Node object; report if other finalizers keep it."""
        seen = reader.node(step.node)
        if seen is not None:
            with suppress(ConflictError):
                delete_node(self._kubernetes, seen)
        reader.refresh(step.node)
        left = reader.node(step.node)
        if left is not None and left.node.finalizers:
            report.decide(
                DecisionKind.TERMINATE, record.name, ClaimReason.AWAITING_FINALIZERS, awaited_finalizers(left.node)
            )
        return record

    def _changed(self, record: ClaimRecord, deletion: Deletion) -> ClaimRecord:
        return self._claims.change(record, msgspec.structs.replace(record, deletion=deletion))


_REASONS: Final = {
    EscalationLevel.SLOW: DrainReason.SLOW,
    EscalationLevel.BLOCKED: DrainReason.BLOCKED,
    EscalationLevel.LASTING: DrainReason.LASTING,
    EscalationLevel.ALARMING: DrainReason.ALARMING,
}


def _deletion_of(record: ClaimRecord) -> Deletion:
    invariant(record.deletion is not None, f"claim {record.name} is leaving")
    assert record.deletion is not None  # noqa: S101 - tells the type checker what the line above ensures
    return record.deletion
