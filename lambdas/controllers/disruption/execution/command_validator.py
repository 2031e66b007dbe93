"""Validates all due commands on one snapshot, under a lease and in order, so that no budget is used twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.observation.observer import Observer
from adapters.observation.stores import Stores
from adapters.ports import Clock, ConflictError, Queue
from adapters.run_report import RunReport
from adapters.store import DISRUPTION, ClaimChange, CommandChange, Disrupted, Lease, Leases, Targets
from core.brakes.brake import action_of
from core.disruption.conditions.node_health import HealthCheck
from core.gc_pause import collector_paused
from core.lifecycle.records import CommandPhase, CommandRecord
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.refusal import Refusal
from core.reasons.run import FailureReason
from core.reasons.termination import TerminationReason
from lambdas.controllers.budget_places import BudgetPlaces
from lambdas.controllers.disruption.execution.outcomes import abandoned
from lambdas.controllers.launching.claim_record import with_class_hash
from lambdas.controllers.resync.run_requests import request_run

LEASE_FOR: Final = timedelta(minutes=1)
"""The function's timeout: no run outlives its lease, and a killed one blocks others for no longer."""

CHECKS_FOR: Final = timedelta(seconds=20)
"""How long checks may be started on one observation; later commands are checked on a new one."""


class CommandValidator:
    """Starts commands that still hold and drops the others."""

    def __init__(
        self, observer: Observer, stores: Stores, targets: Targets, leases: Leases, run_requests: Queue, clock: Clock
    ) -> None:
        self._run_requests = run_requests
        self._targets = targets
        self._observer = observer
        self._stores = stores
        self._leases = leases
        self._clock = clock

    def run(self, owner: str, report: RunReport) -> None:
        """Validate due commands, unless another run holds the lease. Raises PortError."""
        lease = self._leases.acquire(DISRUPTION, owner, now=self._clock.now(), for_=LEASE_FOR)
        if lease is None:
            return
        try:
            self._check(self._observer.observe(), lease, report)
        finally:
            self._leases.release(lease)

    def _check(self, view: ClusterState, lease: Lease, report: RunReport) -> None:
        view.require_commands()
        self._stores.moves.read(self._clock.now())  # a stopped rollout that cannot be read would begin again
        begun = self._clock.now()
        due = sorted(self._due(view), key=lambda record: (record.created_at, record.id))
        with collector_paused():
            from core.disruption.validation.validation import (
                Validation,  # the planner: few messages of `execute` are about commands
            )

            snapshot = msgspec.structs.replace(view.snapshot, stored_target=self._targets.read())
            validation = Validation([record.command for record in due], snapshot)
        for record in due:
            if self._clock.now() - begun > CHECKS_FOR:
                return
            with collector_paused():
                found = validation.check(record.command)
            if isinstance(found, Refusal):
                self._drop(record, found, report)
                continue
            command = _with_hashes(found.command, view.snapshot)
            if self._starts(record, command, view, lease, report):
                for node, why in found.left_out.items():
                    report.decide(DecisionKind.SKIP, node, CommandReason.LEFT_OUT, why)
                with collector_paused():
                    validation.carry_out(command)

    def _due(self, view: ClusterState) -> Sequence[CommandRecord]:
        """Return the commands that are due and that no brake stops."""
        brakes = self._stores.brakes.engaged()
        return [
            record
            for record in view.commands
            if record.phase is CommandPhase.VERIFYING
            and record.verify_at <= self._clock.now()
            and not any(
                brakes.stopping(action_of(record.command.reason), view.claims[name].plan.node_pool)
                for name in record.command.claims
                if name in view.claims
            )
        ]

    def _starts(
        self, record: CommandRecord, command: Command, view: ClusterState, lease: Lease, report: RunReport
    ) -> bool:
        """Store that the command starts, with a place in the budgets for each of its nodes; return whether it was possible."""
        now = self._clock.now()
        bounds = BudgetPlaces(view, command.reason, self._clock, together=_together(command, view.snapshot)).now()
        after = msgspec.structs.replace(record, phase=CommandPhase.STARTING, phase_since=now, command=command)
        changes = [ClaimChange(view.claims[name], view.claims[name]) for name in command.claims]
        try:
            done = self._stores.claims.disrupt(changes, bounds, command=CommandChange(record, after), lease=lease)
        except ConflictError as error:
            report.decide(DecisionKind.SKIP, record.id, FailureReason.CONFLICT, str(error))
            return False
        if done.spent:
            self._release(done)
            message = f"NodePools {', '.join(done.spent)} let no more nodes go for {command.reason}"
            self._drop(record, Refusal(CommandReason.BUDGET_SPENT, message), report)
        return not done.spent

    def _release(self, done: Disrupted) -> None:
        """Release the places that a command took in earlier transactions, if a later one was refused."""
        for claim in done.claims:
            self._stores.claims.change(claim, msgspec.structs.replace(claim, is_disrupting=False))

    def _drop(self, record: CommandRecord, refusal: Refusal, report: RunReport) -> None:
        try:
            self._stores.commands.remove(record)
        except ConflictError as error:
            report.decide(DecisionKind.SKIP, record.id, FailureReason.CONFLICT, str(error))
            return
        now = self._clock.now()
        report.decide(DecisionKind.ABANDON, record.id, refusal.reason, refusal.message)
        report.outcomes.append(abandoned(record, refusal.reason, refusal.message, now))
        request_run(self._run_requests, "command dropped")
        if refusal.reason == CommandReason.VALIDATION_FAILED:
            self._stores.moves.write(self._stores.moves.read(now).after_failure(record.command, now), now)


def _together(command: Command, snapshot: Snapshot) -> frozenset[str]:
    """Return the claims of the command; for unhealthy nodes, also all others that are due: each would wait for the rest."""
    if command.reason != TerminationReason.UNHEALTHY:
        return frozenset(command.claims)
    states = state_nodes(snapshot)
    return HealthCheck(states, snapshot.now).due(states).union(command.claims)


def _with_hashes(command: Command, snapshot: Snapshot) -> Command:
    replacements = tuple(with_class_hash(claim, snapshot.node_classes) for claim in command.replacements)
    return msgspec.structs.replace(command, replacements=replacements)
