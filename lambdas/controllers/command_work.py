"""Carries out a disruption command: validates, taints, replaces, waits, removes; or abandons it and releases its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from adapters.brakes import skipped
from adapters.messages import LAUNCHES_A_MESSAGE, work_on_claim, work_on_claims
from adapters.observability import logger
from adapters.observation.observer import ClusterState, Observer
from adapters.observation.stores import Stores
from adapters.ports import Clock, ConflictError, FunctionQueues, Kubernetes, NotFoundError, PortError, Queue
from adapters.run_report import RunReport
from adapters.runtime import RunTasks
from adapters.store import DISRUPTION, PLANNER, ClaimChange, CommandChange, Disrupted, Lease, Leases, Requested, Targets
from core.approval.proposal import ApprovalRule, moved_namespaces, namespaces_by_node, namespaces_of
from core.brakes import Brake, BrakeKind, action_of
from core.disruption.node_health import drain_bound
from core.interpreter import collector_paused
from core.ledger.outcome import DecisionOutcome, OutcomeState
from core.lifecycle import steps
from core.lifecycle.commands import SHORTEST, next_command_step, replacement_names
from core.lifecycle.deletion import staying, tainted, untainted
from core.lifecycle.draining import must_leave_for, taint_of
from core.lifecycle.launching import with_subnets
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandPhase, CommandRecord
from core.lifecycle.steps import CommandFacts
from core.model.plan import Command
from core.model.snapshot import EvictedNode, Node, Snapshot
from core.model.values.quantity import CPU
from core.model.values.taints import LEAVING
from core.pods import is_reschedulable
from core.pools import holder, limits_by_counter
from core.reasons.code import DecisionKind, Refusal, TerminationReason
from core.reasons.runs import BudgetsSpent, CommandReason, FailureReason, TakesApproval
from installation.metric_names import COMMANDS_STARTED
from lambdas.controllers.claim_deletion import ClaimDeletion
from lambdas.controllers.disruption_state import failed_rollouts
from lambdas.controllers.events import DecisionEvents
from lambdas.controllers.launching import Launcher, with_class_hash
from lambdas.controllers.node_lifecycle import HELD_BACK
from lambdas.controllers.nodes import MARKS, NodeStateReader, mark_node, patch_node, release_node
from lambdas.controllers.run_requests import request_run
from lambdas.controllers.sweeps.sweep import BudgetPlaces

# Builds the outcome of a command for the ledger.


def done(record: CommandRecord, now: datetime) -> DecisionOutcome:
    """Return the outcome of a command whose replacements are ready and whose nodes go."""
    return DecisionOutcome(
        decision=record.decision, part=record.id, state=OutcomeState.DONE, at=now, reason=record.command.reason
    )


def abandoned(record: CommandRecord, reason: str, message: str, now: datetime) -> DecisionOutcome:
    """Return the outcome of an abandoned command, whose nodes stay."""
    return DecisionOutcome(
        decision=record.decision, part=record.id, state=OutcomeState.ABANDONED, at=now, reason=reason, message=message
    )


# Validates all due commands on one snapshot, under a lease and in order, so that no budget is used twice.


LEASE_FOR: Final = timedelta(minutes=1)
"""The function's timeout: no run outlives its lease, and a killed one blocks others for no longer."""

CHECKS_FOR: Final = timedelta(seconds=20)
"""How long checks may be started on one observation; later commands are checked on a new one."""


MARKED_AT_MOST: Final = 200
MARKED_WITHIN: Final = timedelta(seconds=8)
"""How many nodes one run marks, and for how long: two calls each, ten side by side."""


@dataclass(kw_only=True)
class CommandValidator:
    """Starts commands that still hold and drops the others. `rule`: which commands wait for approval, None if none does."""

    kubernetes: Kubernetes
    observer: Observer
    stores: Stores
    targets: Targets
    leases: Leases
    run_requests: Queue
    clock: Clock
    run_tasks: RunTasks
    rule: ApprovalRule | None

    def run(self, owner: str, report: RunReport) -> None:
        """Validate due commands, unless another run holds the lease. Raises PortError."""
        lease = self.leases.acquire(DISRUPTION, owner, now=self.clock.now(), for_=LEASE_FOR)
        if lease is None:
            return
        try:
            self._check(self.observer.observe(), lease, report)
        finally:
            self.leases.release(lease)

    def _check(self, view: ClusterState, lease: Lease, report: RunReport) -> None:
        view.require_commands()
        self.stores.moves.read(self.clock.now())  # a stopped rollout that cannot be read would begin again
        begun = self.clock.now()
        due = sorted(self._due(view), key=lambda record: (record.created_at, record.id))
        with collector_paused():
            from core.disruption.validation import Validation

            snapshot = msgspec.structs.replace(view.snapshot, stored_target=self.targets.read())
            validation = Validation([record.command for record in due], snapshot)
            by_node = namespaces_by_node(snapshot) if due and self.rule is not None else {}
        self._mark(snapshot, report)
        for record in due:
            if self.clock.now() - begun > CHECKS_FOR:
                return
            with collector_paused():
                verdict = validation.check(record.command)
            if isinstance(verdict, Refusal):
                self._drop(record, verdict, report)
                continue
            unapproved = self._unapproved(record, verdict.command, by_node)
            if unapproved is not None:
                self._drop(record, unapproved, report)
                continue
            command = _with_hashes(verdict.command, view.snapshot)
            if self._starts(record, command, view, lease, report):
                for node, why in verdict.left_out.items():
                    report.decide(DecisionKind.SKIP, node, CommandReason.LEFT_OUT, why.message)
                with collector_paused():
                    validation.carry_out(command)

    def _unapproved(self, record: CommandRecord, command: Command, by_node: Mapping[str, set[str]]) -> Refusal | None:
        """Return why a command must not start: pods have come to its nodes which are moved only with approval.

        `command` is its present form, without the nodes that stay. In a row that knows only its moves, pods that were there
        count as come: it is dropped once, and decided again.
        """
        if self.rule is None or command.reason == TerminationReason.UNHEALTHY:
            return None
        decided = namespaces_of(record.command).union(record.namespaces)
        unapproved = self.rule.guarded(moved_namespaces(command, by_node) - decided)
        return TakesApproval(tuple(unapproved)) if unapproved else None

    def _mark(self, snapshot: Snapshot, report: RunReport) -> None:
        """Mark the nodes that later waves drain, so that kube-scheduler sends the pods of this wave to others.

        What is not marked now is marked with the next wave, or by `reconcile`.
        """
        going = snapshot.drained_later
        unmarked = [n for n in snapshot.nodes if n.name in going and LEAVING not in n.taints and n.deleted_at is None]
        marked = sorted(unmarked, key=lambda node: node.name)[:MARKED_AT_MOST]

        def mark(node: Node) -> None:
            marks = {LEAVING, *(taint for taint in node.taints if taint in MARKS)}
            try:
                mark_node(self.kubernetes, node, marks)
            except PortError as error:
                logger.warning("node not marked", extra={"node": node.name, "problem": str(error)})

        self.run_tasks([partial(mark, node) for node in marked], MARKED_WITHIN)
        report.count("markedNodes", len(marked))

    def _due(self, view: ClusterState) -> Sequence[CommandRecord]:
        """Return the commands that are due and that no brake stops."""
        brakes = self.stores.brakes.engaged()
        return [
            record
            for record in view.commands
            if record.phase is CommandPhase.VERIFYING
            and record.verify_at <= self.clock.now()
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
        now = self.clock.now()
        bounds = BudgetPlaces(view, command.reason, self.clock, together=frozenset(command.claims)).now()
        after = msgspec.structs.replace(record, phase=CommandPhase.STARTING, phase_since=now, command=command)
        changes = [ClaimChange(view.claims[name], view.claims[name]) for name in command.claims]
        try:
            done = self.stores.claims.disrupt(changes, bounds, command=CommandChange(record, after), lease=lease)
        except ConflictError as error:
            report.decide(DecisionKind.SKIP, record.id, FailureReason.CONFLICT, str(error))
            return False
        if done.spent:
            self._release(done)
            self._drop(record, BudgetsSpent(tuple(done.spent), command.reason), report)
        return not done.spent

    def _release(self, done: Disrupted) -> None:
        """Release the places that a command took in earlier transactions, if a later one was refused."""
        for claim in done.claims:
            self.stores.claims.change(claim, msgspec.structs.replace(claim, is_disrupting=False))

    def _drop(self, record: CommandRecord, refusal: Refusal, report: RunReport) -> None:
        try:
            self.stores.commands.remove(record)
        except ConflictError as error:
            report.decide(DecisionKind.SKIP, record.id, FailureReason.CONFLICT, str(error))
            return
        now = self.clock.now()
        report.decide(DecisionKind.ABANDON, record.id, refusal.reason, refusal.message)
        report.outcomes.append(abandoned(record, refusal.reason, refusal.message, now))
        request_run(self.run_requests, "command dropped")
        if refusal.reason == CommandReason.VALIDATION_FAILED:
            self.stores.moves.write(self.stores.moves.read(now).after_failure(record.command, now), now)


def _with_hashes(command: Command, snapshot: Snapshot) -> Command:
    replacements = tuple(with_class_hash(claim, snapshot.node_classes) for claim in command.replacements)
    return msgspec.structs.replace(command, replacements=replacements)


# Abandons a command: its nodes stay and are usable again; its replacements are removed unless they are needed.


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


# Starts a command: its nodes are closed to new pods, and its replacements are requested.


START_LEASE_FOR: Final = timedelta(seconds=30)
"""Duration of the planner's lease: everything is read before, so it covers only a few transactions."""


class CommandStarter:
    """Taints nodes, frees their share of the limits, and requests the replacements: in this order.

    See docs/engineering/handbook/draining.md.
    """

    def __init__(
        self,
        kubernetes: Kubernetes,
        stores: Stores,
        leases: Leases,
        launcher: Launcher,
        observer: Observer,
        work: Queue,
        news: DecisionEvents,
        clock: Clock,
    ) -> None:
        self._news = news
        self._kubernetes = kubernetes
        self._stores = stores
        self._leases = leases
        self._launcher = launcher
        self._observer = observer
        self._work = work
        self._clock = clock

    def run(
        self, record: CommandRecord, facts: CommandFacts, reader: NodeStateReader, report: RunReport
    ) -> CommandRecord | None:
        """Start the command; every part can be repeated after a crash. Return None while another run plans.

        Raises PortError.
        """
        self._taint(record, reader)
        for name in record.command.claims:
            claim = facts.claims.get(name)
            if claim is not None and claim.reserved:
                self._stores.claims.change(claim, tainted(claim, self._clock.now()))
        if record.command.replacements and not self._replace(record, report):
            return None
        reason = TerminationReason.stored(record.command.reason)
        report.decide(DecisionKind.DISRUPT, record.id, reason, ", ".join(record.command.nodes))
        after = msgspec.structs.replace(
            record,
            phase=CommandPhase.REPLACING,
            phase_since=self._clock.now(),
            replacements=replacement_names(record),
        )
        started = self._stores.commands.change(record, after)
        report.count(COMMANDS_STARTED)
        self._news.command(record)
        return started

    def _replace(self, record: CommandRecord, report: RunReport) -> bool:
        """Store the replacements' claims; return whether the planner's lease was available.

        A replacement that cannot be launched is never stored: the next step finds it missing and abandons the command.
        """
        market = self._observer.market()
        claims = list[ClaimRecord]()
        for claim in self._replacements(record, market):
            if isinstance(claim, Refusal):
                report.decide(DecisionKind.SKIP, record.id, claim.reason, claim.message)
                return True
            claims.append(claim)
        requested = self._request(record, with_subnets(claims, market), market)
        if requested is None:
            return False
        now = self._clock.now()
        names = [claim.name for claim in requested.accepted]
        self._work.send(work_on_claims(names, now, at_most=LAUNCHES_A_MESSAGE))
        if requested.refused:
            report.decide(
                DecisionKind.SKIP,
                record.id,
                CommandReason.LIMIT_REACHED,
                f"the limits of {_full(requested)} leave no room for replacements beside the nodes that they replace",
            )
        return True

    def _request(self, record: CommandRecord, claims: Sequence[ClaimRecord], market: Snapshot) -> Requested | None:
        limits = limits_by_counter(market.node_pools)
        lease = self._leases.acquire(PLANNER, f"command/{record.id}", now=self._clock.now(), for_=START_LEASE_FOR)
        if lease is None:
            return None
        try:
            return self._stores.claims.request(claims, limits, lease)
        finally:
            self._leases.release(lease)

    def _replacements(self, record: CommandRecord, market: Snapshot) -> list[ClaimRecord | Refusal]:
        now = self._clock.now()
        named = zip(record.command.replacements, replacement_names(record), strict=True)
        made = (self._launcher.record(planned, name, market, now) for planned, name in named)
        return [
            replacement if isinstance(replacement, Refusal) else msgspec.structs.replace(replacement, command=record.id)
            for replacement in made
        ]

    def _taint(self, record: CommandRecord, reader: NodeStateReader) -> None:
        for name in record.command.nodes:
            seen = reader.node(name)
            if seen is None:
                continue
            wanted = taint_of(seen.node, record.command.reason)
            if set(seen.node.taints) == set(wanted.taints):
                continue
            try:
                patch_node(self._kubernetes, seen, annotations=wanted.annotations, taints=wanted.taints)
            except NotFoundError:
                continue
            reader.refresh(name)


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
        claims = {name: claim for name in wanted if (claim := self._stores.claims.get(name)) is not None}
        is_late = record.has_started and self._clock.now() - record.created_at > SHORTEST
        started = [other for other in self._stores.commands.all() if other.has_started] if is_late else [record]
        return CommandFacts(claims=claims, queued=sum(len(other.command.claims) for other in started))

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
        self._remember(record, {claim.name: claim for claim in going if claim.deletion is None}, reader)
        message = f"command {record.id}, {record.command.method}"
        reason = TerminationReason.stored(record.command.reason)
        for claim in going:
            bound = self._drain_within(claim, reason, reader)
            self._deletion.begin(claim, reason, message, report, drain_within=bound, command=record.id)
        now = self._clock.now()
        if step.is_last:
            self._stores.commands.remove(record)
            report.outcomes.append(done(record, now))
        self._work.send(work_on_claim(claim.name, now) for claim in going)

    def _drain_within(self, claim: ClaimRecord, reason: TerminationReason, reader: NodeStateReader) -> timedelta | None:
        """Return the bound on the drain of an unhealthy node, by what is wrong with it now; None for other reasons."""
        if reason != TerminationReason.UNHEALTHY:
            return None
        node = reader.node(claim.node_name)
        return drain_bound(node.node if node is not None else None, self._clock.now())

    def _remember(self, record: CommandRecord, going: Mapping[str, ClaimRecord], reader: NodeStateReader) -> None:
        """Record the workloads whose pods are about to move from the nodes of these claims."""
        named = zip(record.command.claims, record.command.nodes, strict=True)
        nodes = [node for claim, node in named if claim in going]
        pods = {node: [pod for pod in reader.pods_on(node) if is_reschedulable(pod)] for node in nodes}
        workloads = {pod.workload for node_pods in pods.values() for pod in node_pods}
        if workloads:
            now = self._clock.now()
            drained = {
                claim: _evicted(going[claim], len(pods[node]), now)
                for claim, node in zip(record.command.claims, record.command.nodes, strict=True)
                if pods.get(node)
            }
            history = self._stores.moves.readable(now)
            changed = history.after_command(record.id, record.command, workloads, now, drained)
            self._stores.moves.write(changed, now)


def _evicted(claim: ClaimRecord, pods: int, now: datetime) -> EvictedNode:
    """Return what is remembered of a node whose drain begins, from which this many pods need a new place."""
    cpu = claim.machine.capacity.get(CPU, 0) if claim.machine is not None else 0
    return EvictedNode(node_pool=claim.plan.node_pool, pods=pods, at=now, cpu=cpu, created_at=claim.requested_at)


def _full(requested: Requested) -> str:
    """Return the limits and caps that refused replacements, in words."""
    counters = sorted({requested.full.get(record.name) or record.plan.node_pool for record in requested.refused})
    return " and ".join(map(holder, counters))
