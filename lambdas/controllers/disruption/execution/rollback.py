"""Abandons a command: its nodes stay and are usable again; its replacements are removed unless they are needed."""

from __future__ import annotations

from functools import partial

from adapters.messages import work_on_claim
from adapters.observation.stores import Stores
from adapters.ports import Clock, FunctionQueues, Kubernetes, PortError
from adapters.run_report import RunReport
from core.lifecycle import steps
from core.lifecycle.commands import replacement_names
from core.lifecycle.draining.deletion import staying, untainted
from core.lifecycle.draining.disruption_taint import must_leave_for
from core.lifecycle.facts import CommandFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from lambdas.controllers.disruption.execution.outcomes import abandoned
from lambdas.controllers.disruption.rollout_gates import failed_rollouts
from lambdas.controllers.node_lifecycle.claim_deletion import ClaimDeletion
from lambdas.controllers.nodes.node_patches import release_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.controllers.resync.run_requests import request_run


class CommandRollback:
    """Undoes the effects of a command. The command's row is deleted last, so after a crash the next check continues."""

    def __init__(
        self, kubernetes: Kubernetes, stores: Stores, deletion: ClaimDeletion, queues: FunctionQueues, clock: Clock
    ) -> None:
        self._kubernetes = kubernetes
        self._stores = stores
        self._deletion = deletion
        self._work, self._run_requests = queues.work, queues.run_requests
        self._clock = clock

    def run(
        self,
        record: CommandRecord,
        facts: CommandFacts,
        reader: NodeStateReader,
        step: steps.Abandon,
        report: RunReport,
    ) -> None:
        """Undo the command.

        Raises:
            PortError: If a node or a replacement could not be released; all others have been. Another call continues with the
                rest.
        """
        kept = {name: claim for name, claim in facts.claims.items() if claim.deletion is None}
        candidates = zip(record.command.claims, record.command.nodes, strict=True)
        pieces = [
            partial(self._free, kept[name], node if record.has_started else "", reader)
            for name, node in candidates
            if name in kept
        ]
        pieces += [
            partial(self._give_up, kept[name], record, step, reader, report)
            for name in replacement_names(record)
            if name in kept
        ]
        failures: list[PortError] = []
        for undo in pieces:
            try:
                undo()
            except PortError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        failed_rollouts(self._stores.moves, record, facts, step, self._clock.now())
        self._stores.commands.remove(record)
        request_run(self._run_requests, "command abandoned")
        report.decide(DecisionKind.ABANDON, record.id, step.reason, step.message)
        report.outcomes.append(abandoned(record, step.reason, step.message, self._clock.now()))

    def _free(self, claim: ClaimRecord, node: str, reader: NodeStateReader) -> None:
        """Open a node again: first restore its share of the limits; it counts in the budgets until it is open.

        A node that must go is left to `execute`, which resumes its removal.
        """
        seen = reader.node(node) if node else None
        if seen is not None and must_leave_for(seen.node):
            self._work.send([work_on_claim(claim.name, self._clock.now())])
            return
        current = untainted(claim)
        if current is not claim:
            current = self._stores.claims.change(claim, current)
        if seen is not None:
            release_node(self._kubernetes, seen)
        if current.is_disrupting:
            self._stores.claims.change(current, staying(current))

    def _give_up(
        self,
        claim: ClaimRecord,
        record: CommandRecord,
        step: steps.Abandon,
        reader: NodeStateReader,
        report: RunReport,
    ) -> None:
        """Remove an unneeded replacement."""
        if self._is_wanted(claim, reader):
            return
        message = f"command {record.id} was abandoned: {step.message}"
        has_failed = step.reason == CommandReason.TIMEOUT and claim.phase is not ClaimPhase.INITIALIZED
        # Only a replacement that did not become ready counts in its NodePool's breaker.
        not_ready, unused = TerminationReason.REPLACEMENT_NOT_READY, TerminationReason.REPLACEMENT_UNUSED
        self._deletion.begin(claim, not_ready if has_failed else unused, message, report)
        self._work.send([work_on_claim(claim.name, self._clock.now())])

    def _is_wanted(self, claim: ClaimRecord, reader: NodeStateReader) -> bool:
        """Whether pods run on a replacement, or are expected there."""
        expected = self._stores.nominations.until(self._clock.now())
        if claim.nominated or claim.name in expected or claim.node_name in expected:
            return True
        # The row of a restored table may be older than the node and not name it.
        joined = {claim.node_name} if claim.node_name else {node.name for node in reader.facts(claim).nodes}
        pods = [pod for node in sorted(joined) for pod in reader.pods_on(node)]
        return any(not pod.is_daemon and not pod.is_static and not pod.is_terminal for pod in pods)
