"""Carries out a disruption command: check again, taint, replace, wait, let go; or give it up and free its nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from core.brakes.brake import Action, Brake, BrakeKind
from core.disruption.validation import validate
from core.lifecycle import steps
from core.lifecycle.commands import next_command_step
from core.lifecycle.deletion import tainted, untainted
from core.lifecycle.facts import CommandFacts
from core.lifecycle.records import ClaimRecord, CommandPhase, CommandRecord
from core.lifecycle.termination import taint_of
from core.model.plan import Command
from core.model.snapshot import Snapshot
from lambdas.brakes.ports import skipped
from lambdas.controllers.claim_work import HELD_BACK, ClaimWork
from lambdas.controllers.cluster_look import ClusterLook
from lambdas.controllers.launching import Launcher, with_class_hash
from lambdas.controllers.node_writes import patch_node, release_node
from lambdas.decisions import Outcome
from lambdas.garbage import collector_at_rest
from lambdas.messages import work_on_claim
from lambdas.observer import Memory, Observer
from lambdas.ports import Clock, Kubernetes, NotFoundError, Queue
from lambdas.store import PLANNER, Leases

MAX_STEPS: Final = 4
LEASE_FOR: Final = timedelta(seconds=30)
BUSY: Final = timedelta(seconds=2)


class CommandWork:
    """Moves one command on as far as it will go now."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        memory: Memory,
        leases: Leases,
        launcher: Launcher,
        observer: Observer,
        claim_work: ClaimWork,
        work: Queue,
        clock: Clock,
    ) -> None:
        self._kubernetes = kubernetes
        self._memory = memory
        self._leases = leases
        self._launcher = launcher
        self._observer = observer
        self._claim_work = claim_work
        self._work = work
        self._clock = clock

    def advance(self, command_id: str, look: ClusterLook, outcome: Outcome) -> timedelta | None:
        """Take the steps that can be taken; when to look again, None if there is nothing to wait for."""
        record = self._memory.commands.get(command_id)
        for _ in range(MAX_STEPS):
            if record is None:
                return None
            facts = self._facts(record)
            step = next_command_step(record, facts, self._clock.now())
            brake = None if isinstance(step, steps.Abandon) else self._brake(record, facts)
            if brake is not None and brake.kind is BrakeKind.UNREADABLE:
                skipped(brake, record.id, outcome)
                return HELD_BACK
            if brake is not None:
                step = steps.Abandon(brake.kind, brake.message)
            match step:
                case steps.Wait():
                    return step.delay
                case steps.Verify():
                    record = self._verify(record, outcome)
                case steps.Start():
                    started = self._start(record, facts, look, outcome)
                    if isinstance(started, timedelta):
                        return started
                    record = started
                case steps.RemoveCandidates():
                    self._remove(record, facts, outcome)
                    return None
                case steps.Abandon():
                    self._abandon(record, facts, look, step, outcome)
                    return None
        return BUSY

    def _facts(self, record: CommandRecord) -> CommandFacts:
        wanted = (*record.command.claims, *record.replacements)
        found = {name: claim for name in wanted if (claim := self._memory.claims.get(name)) is not None}
        return CommandFacts(claims=found, queued=len(record.command.claims))

    def _brake(self, record: CommandRecord, facts: CommandFacts) -> Brake | None:
        """The brake that stops the command; one that cannot be read holds it back, any other ends it."""
        brakes = self._memory.brakes.engaged()
        pools = sorted({facts.claims[name].plan.node_pool for name in record.command.claims if name in facts.claims})
        stopping = (brakes.stopping(Action.DISRUPT, pool) for pool in pools)
        return next((brake for brake in stopping if brake is not None), None)

    def _verify(self, record: CommandRecord, outcome: Outcome) -> CommandRecord | None:
        view = self._observer.look()
        with collector_at_rest():
            found = validate(record.command, view.snapshot)
        if isinstance(found, str):
            outcome.decide("abandon", record.id, "ValidationFailed", found)
            self._memory.commands.remove(record)
            return None
        command = _with_hashes(found, view.snapshot)
        return self._moved(record, phase=CommandPhase.STARTING, command=command)

    def _start(
        self, record: CommandRecord, facts: CommandFacts, look: ClusterLook, outcome: Outcome
    ) -> CommandRecord | timedelta | None:
        """Taint the candidates, then store the replacements' claims; each part may be repeated after a crash."""
        self._taint(record, look)
        for claim in (facts.claims[name] for name in record.command.claims if name in facts.claims):
            if claim.reserved:
                self._memory.claims.change(claim, tainted(claim, self._clock.now()))
        names: tuple[str, ...] = ()
        if record.command.replacements:
            lease = self._leases.acquire(PLANNER, f"command/{record.id}", now=self._clock.now(), for_=LEASE_FOR)
            if lease is None:
                return BUSY
            view = self._observer.look()
            claims = self._replacements(record, view.snapshot)
            limits = {pool.name: pool.limits for pool in view.snapshot.node_pools}
            requested = self._memory.claims.request(claims, limits, lease)
            self._leases.release(lease)
            names = tuple(claim.name for claim in claims)
            now = self._clock.now()
            self._work.send(work_on_claim(claim.name, now) for claim in requested.accepted)
            if requested.refused:
                outcome.decide("skip", record.id, "LimitReached", "a NodePool's limit leaves no room for replacements")
        outcome.decide("disrupt", record.id, record.command.reason, ", ".join(record.command.nodes))
        return self._moved(record, phase=CommandPhase.REPLACING, replacements=names)

    def _replacements(self, record: CommandRecord, snapshot: Snapshot) -> list[ClaimRecord]:
        now = self._clock.now()
        return [
            self._launcher.record(planned, f"{planned.node_pool}-{record.id}-{index}", snapshot, now)
            for index, planned in enumerate(record.command.replacements)
        ]

    def _taint(self, record: CommandRecord, look: ClusterLook) -> None:
        for name in record.command.nodes:
            seen = look.node(name)
            if seen is None:
                continue
            wanted = taint_of(seen.node, record.command.reason)
            if set(seen.node.taints) == set(wanted.taints):
                continue
            try:
                patch_node(self._kubernetes, seen, annotations=wanted.annotations, taints=wanted.taints)
            except NotFoundError:
                continue
            look.look_again(name)

    def _remove(self, record: CommandRecord, facts: CommandFacts, outcome: Outcome) -> None:
        """Let the candidates go, then drop the command: in this order, so that no crash leaves them marked by nobody."""
        going = [facts.claims[name] for name in record.command.claims if name in facts.claims]
        message = f"command {record.id}, {record.command.method}"
        for claim in going:
            self._claim_work.begin_termination(claim, record.command.reason, message, outcome)
        self._memory.commands.remove(record)
        now = self._clock.now()
        self._work.send(work_on_claim(claim.name, now) for claim in going)

    def _abandon(
        self, record: CommandRecord, facts: CommandFacts, look: ClusterLook, step: steps.Abandon, outcome: Outcome
    ) -> None:
        for name, node in zip(record.command.claims, record.command.nodes, strict=True):
            claim = facts.claims.get(name)
            if claim is None or claim.deletion is not None:
                continue
            seen = look.node(node)
            if record.has_started and seen is not None:
                release_node(self._kubernetes, seen)
            held = untainted(claim)
            if held is not claim:
                self._memory.claims.change(claim, held)
        self._memory.commands.remove(record)
        outcome.decide("abandon", record.id, step.reason, step.message)

    def _moved(self, record: CommandRecord, **changes: object) -> CommandRecord:
        after = msgspec.structs.replace(record, phase_since=self._clock.now(), **changes)
        return self._memory.commands.change(record, after)


def _with_hashes(command: Command, snapshot: Snapshot) -> Command:
    replacements = tuple(with_class_hash(claim, snapshot.node_classes) for claim in command.replacements)
    return msgspec.structs.replace(command, replacements=replacements)
