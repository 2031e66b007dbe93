"""Which nodes should go: observe, decide, store commands. Carrying them out is `execute`'s work, after a second look."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core.disruption.decision import disrupt, startable
from core.disruption.reasons import DRIFTED
from core.lifecycle.commands import VERIFY_AFTER
from core.lifecycle.records import CommandRecord
from core.model.catalogue import Catalogue
from core.model.node_claim import Condition
from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import Snapshot
from lambdas.decisions import Outcome
from lambdas.messages import work_on_command
from lambdas.observer import Memory, Observer
from lambdas.ports import Clock, ConflictError, Queue
from lambdas.view import View

THINK_AGAIN: Final = timedelta(minutes=5)
"""A world in which nothing was to be done is not thought through again for so long while it stays the same (Karpenter)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Disruption:
    """What `disrupt` does. One run at a time: the function's reserved concurrency is one."""

    def __init__(self, observer: Observer, memory: Memory, work: Queue, clock: Clock) -> None:
        self._observer = observer
        self._memory = memory
        self._work = work
        self._clock = clock
        self._quiet: tuple[str, datetime] = ("", _EPOCH)

    def run(self, outcome: Outcome, *, is_window: bool = False) -> None:
        """Decide, and store what was decided. `is_window`: a budget window has just opened or closed."""
        records = self._memory.claims.all()
        if not any(record.is_resting for record in records):
            outcome.count("candidates", 0)
            return
        view = self._observer.look(claims=records)
        write_pod_events(self._memory, view)
        if any(not command.has_started for command in view.commands):
            outcome.decide("skip", view.snapshot.cluster, "CommandPending", "a command waits for its second look")
            return
        world = _fingerprint(view.snapshot)
        if not is_window and self._quiet[0] == world and self._clock.now() < self._quiet[1]:
            outcome.count("unchanged")
            return
        plan = disrupt(view.snapshot)
        self._report(plan, outcome)
        for command in startable(plan):
            self._store(command, outcome)
        self._quiet = ("", _EPOCH) if plan.commands else (world, self._clock.now() + THINK_AGAIN)

    def _store(self, command: Command, outcome: Outcome) -> None:
        """Store a command and ask for its next step; drift does not wait for a second look (Karpenter)."""
        now = self._clock.now()
        record = CommandRecord(
            id=_id(command, now),
            command=command,
            created_at=now,
            phase_since=now,
            verify_at=now if command.reason == DRIFTED else now + VERIFY_AFTER,
        )
        try:
            self._memory.commands.add(record)
        except ConflictError:
            outcome.decide("skip", record.id, "AlreadyDecided", "an earlier try of this run stored it")
        self._work.send([work_on_command(record.id, now)], delay=record.verify_at - now)
        prices = f"saves {command.savings / 10**9:.4f} USD/h with {len(command.replacements)} replacements"
        for node in command.nodes:
            outcome.decide("disrupt", node, command.reason, f"{command.method}, {prices}, checked again first")

    def _report(self, plan: DisruptionPlan, outcome: Outcome) -> None:
        outcome.count("commands", len(plan.commands))
        for reason, number in sorted(Counter(blocked.reason for blocked in plan.blocked).items()):
            outcome.count(f"blocked{reason}", number)


def write_pod_events(memory: Memory, view: View) -> None:
    """Write down on which nodes pods came or went; another writer's word goes first, the next look sees it again."""
    for before, after in view.pod_events:
        try:
            memory.claims.change(before, after)
        except ConflictError:
            continue


def _id(command: Command, now: datetime) -> str:
    text = "/".join((now.isoformat(), command.reason, *command.claims))
    return blake2b(text.encode(), digest_size=5).hexdigest()


def _fingerprint(snapshot: Snapshot) -> str:
    """Stands for everything that a decision depends on but time itself and prices, which `THINK_AGAIN` looks after."""
    claims = tuple(
        msgspec.structs.replace(
            claim,
            last_pod_event_at=None,
            conditions={name: Condition(found.status) for name, found in sorted(claim.conditions.items())},
        )
        for claim in snapshot.node_claims
    )
    world = msgspec.structs.replace(snapshot, now=_EPOCH, catalogue=Catalogue(), node_claims=claims, nominated_until={})
    return blake2b(msgspec.json.encode(world), digest_size=16).hexdigest()
