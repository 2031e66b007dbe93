"""A NodePool's breaker: judges from the last few launches whether the pool's new nodes join.

A closed breaker stops nothing. New nodes that fail in series open it: the pool then keeps its working nodes instead of
replacing them with nodes that never join. After its pause, it is half open: one command of the pool at a time may try. A node
that becomes ready closes it; a further failure opens it again, for twice as long.

The last four of these results also determine the NodePool's condition NodeRegistrationHealthy (Karpenter).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.brakes import Action, Brake, BrakeKind, action_of
from core.lifecycle.records import ClaimRecord
from core.lifecycle.steps import BeginTermination, ClaimStep, Drain, Launch, TaintNode, TerminateInstance
from core.model.plan import Command
from core.reasons.code import ClaimReason, TerminationReason

OPENS_AFTER: Final = 3
"""Failures in a row that open it: one broken machine is chance, three point to an image, a subnet or a role."""

FIRST_PAUSE: Final = timedelta(minutes=15)
"""The first pause: as long as a node may take to join."""

LONGEST_PAUSE: Final = timedelta(hours=4)

FORGOTTEN_AFTER: Final = timedelta(days=1)
"""Failures farther apart than this are not in a row."""

RESULTS: Final = 4
UNHEALTHY_FROM: Final = 2
"""This many failures among the last four new nodes make the NodePool's registration unhealthy (Karpenter)."""

JOIN_FAILURES: Final[frozenset[str]] = frozenset(
    {
        ClaimReason.LAUNCH_DENIED,
        ClaimReason.LAUNCH_TIMEOUT,
        TerminationReason.INITIALIZATION_TIMEOUT,
        TerminationReason.INSTANCE_GONE,
        TerminationReason.REGISTRATION_TIMEOUT,
        TerminationReason.REPLACEMENT_NOT_READY,
        TerminationReason.START_FAILED,
    }
)
"""Removal reasons of a claim that never became ready that count as failures. Missing capacity is not a failure of the pool."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one NodePool; a pool of which no node was launched has no record.

    Attributes:
        failures: New nodes that failed since the last one that became ready.
        openings: How often it opened since then.
        open_until: When its pause ends; None before it first opens.
        failed_at: When the last node failed; None for never, or in rows older than this field.
        message: The last failure.
        results: Whether each of the last `RESULTS` new nodes became ready, the oldest first.
        generations: Generations of NodePool and EC2NodeClass to which the results belong; empty until `reconcile` sets them.
    """

    node_pool: str
    failures: int = 0
    openings: int = 0
    open_until: datetime | None = None
    failed_at: datetime | None = None
    message: str = ""
    results: tuple[bool, ...] = ()
    generations: str = ""
    version: int = 0

    def after_failure(self, message: str, now: datetime) -> Breaker:
        """Return the breaker after one more failure. A failure during a pause does not extend it: it is a late report."""
        changed = msgspec.structs.replace(self._with(False), message=message, failed_at=now)
        if self.open_until is not None and now < self.open_until:
            return changed
        before = Breaker(node_pool=self.node_pool) if self._is_forgotten(now) else self
        failures, openings, open_until = before.failures + 1, before.openings, before.open_until
        if failures >= OPENS_AFTER:
            open_until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(openings, 10))
            openings += 1
        return msgspec.structs.replace(changed, failures=failures, openings=openings, open_until=open_until)

    def after_success(self) -> Breaker:
        """Return the breaker closed, after a new node became ready; the same object if this changes nothing."""
        return msgspec.structs.replace(
            self._with(True), failures=0, openings=0, open_until=None, failed_at=None, message=""
        )

    def at(self, generations: str) -> Breaker:
        """Return the breaker for these generations of NodePool and EC2NodeClass: results of others do not apply to them."""
        results = self.results if self.generations in ("", generations) else ()
        return msgspec.structs.replace(self, generations=generations, results=results)

    @property
    def registers(self) -> bool | None:
        """Whether new nodes join and become ready, None while results are too few (Karpenter, NodeRegistrationHealthy)."""
        if self.results.count(False) >= UNHEALTHY_FROM:
            return False
        return True if any(self.results) else None

    def brake(self, now: datetime) -> Brake | None:
        """The brake that it currently engages, None while it is closed."""
        if self.open_until is None or self._is_forgotten(now):
            return None
        message = f"{self.failures} new nodes of NodePool {self.node_pool} failed in a row, the last: {self.message}"
        if now < self.open_until:
            until = self.open_until.isoformat(timespec="seconds")
            return Brake(BrakeKind.POOL_BREAKER, f"{message}; tried again at {until}", node_pool=self.node_pool)
        return Brake(BrakeKind.POOL_PROBE, f"{message}; one command at a time tries again", node_pool=self.node_pool)

    def _with(self, result: bool) -> Breaker:
        return msgspec.structs.replace(self, results=(*self.results, result)[-RESULTS:])

    def _is_forgotten(self, now: datetime) -> bool:
        last = self.open_until or self.failed_at
        return last is not None and now - last >= FORGOTTEN_AFTER


# Limits a NodePool whose breaker is half open to one disruption command at a time.


def one_at_a_time(
    commands: Iterable[Command], under_way: Iterable[Command], pool_of: Mapping[str, str], probed: Collection[str]
) -> tuple[Command, ...]:
    """Return those of `commands`, in order, that may begin in addition to the commands in progress.

    Args:
        commands: The decided commands.
        under_way: Commands that began before.
        pool_of: Claim → its NodePool.
        probed: NodePools whose breaker is half open.
    """
    busy = {pool_of.get(claim, "") for command in under_way for claim in command.claims}
    chosen: list[Command] = []
    for command in commands:
        tried = {pool_of.get(claim, "") for claim in command.claims}.intersection(probed)
        if not tried & busy:
            chosen.append(command)
            busy |= tried
    return tuple(chosen)


# Maps a claim's next steps to the actions that a brake may stop.


def action_of_step(record: ClaimRecord, step: ClaimStep) -> Action | None:
    """Return the action of `step`; None for steps that no brake stops, since they complete what has ended or already works."""
    if isinstance(step, Launch):
        return Action.LAUNCH
    if isinstance(step, BeginTermination):
        return action_of(step.reason)
    if record.deletion is None or not isinstance(step, TaintNode | Drain | TerminateInstance):
        return None
    has_begun = record.deletion.tainted_at is not None or record.deletion.terminated_at is not None
    return Action.DRAIN if has_begun else action_of(record.deletion.reason)
