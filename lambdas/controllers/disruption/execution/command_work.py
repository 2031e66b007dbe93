"""Carries out a disruption command: validates, taints, replaces, waits, removes; or abandons it and releases its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from adapters.brakes.ports import skipped
from adapters.messages import work_on_claim
from adapters.observation.stores import Stores
from adapters.ports import Clock, Queue
from adapters.run_report import RunReport
from core.brakes.brake import Brake, BrakeKind, action_of
from core.lifecycle import steps
from core.lifecycle.commands import SHORTEST, next_command_step, replacement_names
from core.lifecycle.facts import CommandFacts
from core.lifecycle.records import CommandRecord
from core.model.moved_workload import EvictedNode
from core.pods.disposition import is_reschedulable
from core.reasons.termination import TerminationReason
from lambdas.controllers.disruption.execution.command_validator import CommandValidator
from lambdas.controllers.disruption.execution.outcomes import done
from lambdas.controllers.disruption.execution.rollback import CommandRollback
from lambdas.controllers.disruption.execution.start import CommandStarter
from lambdas.controllers.node_lifecycle.claim_deletion import ClaimDeletion
from lambdas.controllers.node_lifecycle.claim_work import HELD_BACK
from lambdas.controllers.nodes.node_state_reader import NodeStateReader

MAX_STEPS: Final = 4
BUSY: Final = timedelta(seconds=1)
"""Delay while another run has the lease, to validate commands or to plan, for about a second."""

LONG_BUSY: Final = timedelta(seconds=5)
"""The longest such delay: a tenth of the time in the command's phase. A run that died keeps its lease for minutes, and each
attempt to start observes the market."""


class CommandWork:
    """Advances one command as far as possible now."""

    def __init__(
        self,
        stores: Stores,
        validator: CommandValidator,
        start: CommandStarter,
        giving_up: CommandRollback,
        deletion: ClaimDeletion,
        work: Queue,
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._validator = validator
        self._start = start
        self._giving_up = giving_up
        self._deletion = deletion
        self._work = work
        self._clock = clock

    def advance(self, command_id: str, reader: NodeStateReader, report: RunReport) -> timedelta | None:
        """Take all possible steps; return when to check again, None if there is nothing to wait for."""
        record = self._stores.commands.get(command_id)
        report.decision_id = record.decision if record is not None else ""
        for _ in range(MAX_STEPS):
            if record is None:
                return None
            facts = self._facts(record)
            match self._next(record, facts, report):
                case steps.Wait(delay):
                    return delay
                case steps.Verify():
                    self._validator.run(f"command/{record.id}", report)
                    record = self._stores.commands.get(command_id)
                    if record is not None and not record.has_started:
                        return self._busy(record)
                case steps.Start():
                    started = self._start.run(record, facts, reader, report)
                    if started is None:
                        return self._busy(record)
                    record = started
                case steps.RemoveCandidates() as step:
                    self._remove(record, step, facts, reader, report)
                    if step.is_last:
                        return None
                case steps.Abandon() as step:
                    self._giving_up.run(record, facts, reader, step, report)
                    return None
        return BUSY

    def _busy(self, record: CommandRecord) -> timedelta:
        """Return when to ask for the lease again."""
        tenth = timedelta(seconds=(self._clock.now() - record.phase_since) // timedelta(seconds=10))
        return min(LONG_BUSY, max(BUSY, tenth))

    def _next(self, record: CommandRecord, facts: CommandFacts, report: RunReport) -> steps.CommandStep:
        """Return the next step; brakes delay it, or end the command."""
        step = next_command_step(record, facts, self._clock.now())
        brake = None if isinstance(step, steps.Abandon) else self._brake(record, facts)
        if brake is None:
            return step
        if brake.kind is BrakeKind.UNREADABLE:
            skipped(brake, record.id, report)
            return steps.Wait(HELD_BACK, brake.message)
        return steps.Abandon(brake.kind, brake.message)

    def _facts(self, record: CommandRecord) -> CommandFacts:
        wanted = (*record.command.claims, *replacement_names(record))
        found = {name: claim for name in wanted if (claim := self._stores.claims.get(name)) is not None}
        is_late = record.has_started and self._clock.now() - record.created_at > SHORTEST
        started = [other for other in self._stores.commands.all() if other.has_started] if is_late else [record]
        return CommandFacts(claims=found, queued=sum(len(other.command.claims) for other in started))

    def _brake(self, record: CommandRecord, facts: CommandFacts) -> Brake | None:
        """Return the brake that stops the command; one that cannot be read delays it, any other ends it."""
        brakes = self._stores.brakes.engaged()
        pools = sorted({facts.claims[name].plan.node_pool for name in record.command.claims if name in facts.claims})
        stopping = (brakes.stopping(action_of(record.command.reason), pool) for pool in pools)
        return next((brake for brake in stopping if brake is not None), None)

    def _remove(
        self,
        record: CommandRecord,
        step: steps.RemoveCandidates,
        facts: CommandFacts,
        reader: NodeStateReader,
        report: RunReport,
    ) -> None:
        """Begin to remove candidates, then drop a finished command; in this order, a crash leaves no stray marks."""
        going = [facts.claims[name] for name in step.claims]
        self._remember(record, {claim.name: claim.plan.node_pool for claim in going if claim.deletion is None}, reader)
        message = f"command {record.id}, {record.command.method}"
        reason = TerminationReason.stored(record.command.reason)
        for claim in going:
            self._deletion.begin(claim, reason, message, report)
        now = self._clock.now()
        if step.is_last:
            self._stores.commands.remove(record)
            report.outcomes.append(done(record, now))
        self._work.send(work_on_claim(claim.name, now) for claim in going)

    def _remember(self, record: CommandRecord, pools: Mapping[str, str], reader: NodeStateReader) -> None:
        """Record the workloads whose pods are about to move; `pools` are the NodePools of these claims."""
        named = zip(record.command.claims, record.command.nodes, strict=True)
        nodes = [node for claim, node in named if claim in pools]
        pods = {node: [pod for pod in reader.pods_on(node) if is_reschedulable(pod)] for node in nodes}
        workloads = {pod.workload for own in pods.values() for pod in own}
        if workloads:
            now = self._clock.now()
            drained = {
                claim: EvictedNode(node_pool=pools[claim], pods=len(pods[node]), at=now)
                for claim, node in zip(record.command.claims, record.command.nodes, strict=True)
                if pods.get(node)
            }
            history = self._stores.moves.readable(now)
            changed = history.after_command(record.id, record.command, workloads, now, drained)
            self._stores.moves.write(changed, now)
