"""Carries out single steps of claims; the intent is stored first if its loss could lose an instance."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from adapters.messages import check_command, wake_up
from adapters.observation.stores import Stores
from adapters.ports import Clock, FunctionQueues, Kubernetes
from adapters.run_report import RunReport
from core.errors import invariant
from core.lifecycle import steps
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimRecord
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from installation.settings import Settings
from lambdas.controllers.draining.drain_cancellation import DrainCancellation
from lambdas.controllers.draining.draining import Draining
from lambdas.controllers.draining.surge import Surge
from lambdas.controllers.launching.failed_starts import FailedStarts
from lambdas.controllers.node_lifecycle.claim_deletion import ClaimDeletion
from lambdas.controllers.node_lifecycle.claim_launch import ClaimLaunch
from lambdas.controllers.node_lifecycle.node_registration import NodeRegistration
from lambdas.controllers.nodes.node_events import NodeEvents
from lambdas.controllers.nodes.node_state_reader import NodeStateReader


class ClaimSteps:
    """Carries out each step with the controller that knows how."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        stores: Stores,
        launch: ClaimLaunch,
        failed_starts: FailedStarts,
        deletion: ClaimDeletion,
        settings: Settings,
        queues: FunctionQueues,
        clock: Clock,
    ) -> None:
        self._launch = launch
        self._failed_starts = failed_starts
        self._deletion = deletion
        self._claims = stores.claims
        self._nodes = NodeRegistration(kubernetes, stores, settings, clock)
        self._node_events = NodeEvents(kubernetes, clock)
        surge = Surge(kubernetes, is_on=settings.surge_restarts)
        self._draining = Draining(kubernetes, stores.claims, surge, clock)
        self._cancellation = DrainCancellation(kubernetes, stores.claims, clock)
        self._wake_ups, self._work = queues.wake_ups, queues.work

    def take(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Take one step; return the claim after it, None if its row is deleted."""
        after = self._taken(record, step, reader, report)
        if after is None and record.machine is None and record.deletion is None and record.plan.made_by_hand:
            self._node_events.not_launched(record.name, report.decisions)
        return after

    def drain(self, record: ClaimRecord, step: steps.Drain, facts: ClaimFacts, report: RunReport) -> timedelta:
        """Continue the drain of the claim's node; return when to check it again."""
        return self._draining.drain(record, step, facts, report)

    def _taken(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        match step:
            case steps.Launch():
                return self._launch.launch(record, reader, report)
            case steps.Adopt():
                return self._launch.adopt(record, step, reader, report)
            case steps.Register():
                return self._register(record, step, reader, report)
            case steps.NoteUsable():
                return self._nodes.note_usable(record)
            case steps.MarkInitialized():
                return self._initialize(record, step, reader, report)
            case steps.ReportNode():
                return self._report(record, step, reader, report)
            case steps.BeginTermination():
                return self._begin_termination(record, step, report)
            case steps.Forget():
                self._deletion.forget(record, step, report)
                return None
            case _:
                return self._take_to_its_end(record, step, reader, report)

    def _register(
        self, record: ClaimRecord, step: steps.Register, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Register the node; launches that waited for a node to join continue."""
        registered = self._nodes.register(record, step, reader, report)
        if record.tries:
            self._failed_starts.disprove(record, report)
            self._wake_ups.send([wake_up("a node joined")])
        return registered

    def _begin_termination(self, record: ClaimRecord, step: steps.BeginTermination, report: RunReport) -> ClaimRecord:
        """Begin to remove the claim; if its instance ended before it joined, learn the reason first, for further launches."""
        reason, message = step.reason, step.message
        if reason is TerminationReason.INSTANCE_GONE:
            reason, message = self._failed_starts.explain_loss(record, message, report)
        return self._deletion.begin(record, reason, message, report)

    def _initialize(
        self, record: ClaimRecord, step: steps.MarkInitialized, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Open the node; a command that waits for it continues at once."""
        opened = self._nodes.mark_initialized(record, step, reader, report)
        if opened.command:
            self._work.send([check_command(opened.command)])
        return opened

    def _take_to_its_end(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Take one step of a leaving claim."""
        match step:
            case steps.NoteEmpty():
                return self._draining.note_empty(record)
            case steps.CancelDrain():
                return self._cancellation.carry_out(record, step, reader, report)
            case steps.Escalate():
                return self._draining.escalate(record, step, report)
            case steps.TaintNode():
                return self._draining.taint(record, step, reader)
            case steps.TerminateInstance():
                return self._deletion.terminate_instance(record, report)
            case steps.DeleteNode():
                return self._draining.delete_node(record, step, reader, report)
            case _:
                invariant(False, f"{step} is not a step of a claim")
                return None

    def _report(
        self, record: ClaimRecord, step: steps.ReportNode, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Store the report first, so that it is published only once."""
        reported = msgspec.structs.replace(record, reason=step.reason, message=step.message)
        changed = self._claims.change(record, reported)
        report.decide(DecisionKind.SKIP, step.node, step.reason, step.message)
        self._node_events.publish(step, reader.unbound_pods(step.pods) if step.pods else ())
        return changed
