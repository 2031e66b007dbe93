"""Chooses the next step of one disruption command (Karpenter, orchestration queue).

If a replacement is lost, nodes whose pods go to other replacements still leave. The command is abandoned once all its remaining
nodes wait for the lost one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from core.lifecycle.deletion import is_voluntary
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandPhase, CommandRecord
from core.lifecycle.steps import (
    Abandon,
    CommandFacts,
    CommandStep,
    RemoveCandidates,
    Start,
    Verify,
    Wait,
    recheck_after,
)
from core.model.plan import Command, StoredTarget
from core.reasons.code import TerminationReason
from core.reasons.runs import CommandReason

VERIFY_AFTER: Final = timedelta(seconds=15)
"""Time from a decision to its verification and start (Karpenter)."""

STALE_AFTER: Final = timedelta(minutes=5)
"""The age at which an unverified command is dropped: it was decided on an outdated cluster state."""

REPLACEMENTS_RECHECKED: Final = timedelta(seconds=5)
"""The interval of checks for replacements.

Instances take most of a minute to boot, and a check costs a read for the command and each of its claims.
"""

_PER_CANDIDATE: Final = timedelta(milliseconds=80)
SHORTEST: Final = timedelta(minutes=10)
_LONGEST: Final = timedelta(hours=1)


def first_check_at(command: Command, continued: StoredTarget | None, now: datetime) -> datetime:
    """Return when a command that was decided now is checked on a new snapshot.

    Drift is checked at once (Karpenter). For a command of an existing target, the time counts from the decision of the target:
    waiting again in each wave would show nothing new.

    Args:
        command: The decided command.
        continued: The stored target that the command continues; None if it continues none.
        now: The time of the decision.
    """
    if command.reason == TerminationReason.DRIFTED:
        return now
    if continued is not None and {drain.node for drain in continued.drains}.issuperset(command.nodes):
        return max(now, continued.made_at + VERIFY_AFTER)
    return now + VERIFY_AFTER


def next_command_step(record: CommandRecord, facts: CommandFacts, now: datetime) -> CommandStep:
    """Return the next step of a command; the same record and facts give the same step."""
    leaving = tuple(name for name in record.command.claims if name in facts.claims)
    if not leaving:
        return Abandon(CommandReason.CANDIDATES_GONE, "its nodes are already gone")
    if record.phase is CommandPhase.VERIFYING:
        if abs(now - record.created_at) > STALE_AFTER:  # a moment that is far ahead is of a wrong clock
            return Abandon(CommandReason.STALE, "it could not be validated in time")
        if now < record.verify_at:
            return Wait(record.verify_at - now, "to be validated before it starts")
        return Verify()
    if now - record.created_at > time_limit(facts.queued):
        return Abandon(CommandReason.TIMEOUT, f"replacements were not ready within {time_limit(facts.queued)}")
    if record.phase is CommandPhase.STARTING:
        return Start()
    return _replace(record, facts, leaving, now)


def replacement_names(record: CommandRecord) -> tuple[str, ...]:
    """Return the names of the claims that replace the command's nodes, none before the command has started.

    They depend on the command alone: a run that finds it half started requests the same claims again, or terminates them.
    """
    if record.replacements or not record.has_started:
        return record.replacements
    return names_of_replacements(record.id, record.command)


def names_of_replacements(command_id: str, command: Command) -> tuple[str, ...]:
    """Return the names that the claims of a command will have, in the order of its replacements.

    Each has the number of its planned name, so that it keeps its name if the command loses others before it starts: the stored
    target knows it by that name.
    """
    return tuple(
        f"{claim.node_pool}-{command_id}-{claim.name.removeprefix(f'{claim.node_pool}-')}"
        for claim in command.replacements
    )


def time_limit(queued: int) -> timedelta:
    """Return how long replacements may take: 80 ms for each queued node, at least 10 minutes, at most an hour (Karpenter)."""
    return min(_LONGEST, max(SHORTEST, queued * _PER_CANDIDATE))


def _replace(record: CommandRecord, facts: CommandFacts, leaving: tuple[str, ...], now: datetime) -> CommandStep:
    replacements = {name: facts.claims.get(name) for name in record.replacements}
    present = {name: claim for name, claim in replacements.items() if claim is not None and claim.deletion is None}
    lost = replacements.keys() - present.keys()
    pending = {name for name, claim in present.items() if claim.phase is not ClaimPhase.INITIALIZED}
    if not pending and not lost:
        return RemoveCandidates(leaving)
    staying = [name for name in leaving if facts.claims[name].deletion is None]
    going = tuple(name for name in staying if not awaited(record, name) & (pending | lost))
    if going:
        return RemoveCandidates(going, is_last=False)
    if lost and all(awaited(record, name) & lost for name in staying):
        return Abandon(CommandReason.REPLACEMENT_LOST, f"replacement {min(lost)} could not be launched or is gone")
    delay = max(REPLACEMENTS_RECHECKED, recheck_after(record.phase_since, now))
    return Wait(delay, f"waiting for {', '.join(sorted(pending))} to be initialized")


def awaited(record: CommandRecord, claim: str) -> set[str]:
    """Return the replacements that must be ready before the node of this claim is drained: those that its pods go to."""
    command = record.command
    node = command.nodes[command.claims.index(claim)]
    if node not in command.awaits:
        return set(record.replacements)
    planned = [replacement.name for replacement in command.replacements]
    return {name for name, meant in zip(record.replacements, planned, strict=True) if meant in command.awaits[node]}


# Spreads the removals of claims whose instances AWS retires or restarts on an announced date
# (docs/engineering/handbook/draining.md).


BEGINS_BEFORE: Final = timedelta(hours=72)
"""How long before the date removals begin: three nights, so that a nightly budget window opens at least twice."""

SPREAD: Final = timedelta(hours=24)
"""The period over which removals of claims with the same date begin: AWS may announce one date for a whole rack."""

DUE_BEFORE: Final = timedelta(hours=6)
"""How long before the date budgets no longer apply."""


def is_due(record: ClaimRecord, now: datetime) -> bool:
    """Whether the claim must go now: its date is near or past, and it is not leaving for such a reason already."""
    must_go = record.deletion is not None and not is_voluntary(record.deletion)
    return record.retires_at is not None and not must_go and now >= record.retires_at - DUE_BEFORE


def approaching(records: Iterable[ClaimRecord], removed: Collection[str], now: datetime) -> tuple[str, ...]:
    """Return names of the claims that may go now within budgets, the nearest date first, ties by name.

    Args:
        records: All claims.
        removed: Names of claims that commands are already removing.
        now: The moment.
    """
    nearing = [
        (record.retires_at, record.name)
        for record in records
        if record.retires_at is not None
        and record.deletion is None
        and record.name not in removed
        and (record.hold is None or record.hold.until <= now)
        and begins_at(record.name, record.retires_at) <= now < record.retires_at - DUE_BEFORE
    ]
    return tuple(name for _, name in sorted(nearing))


def begins_at(name: str, retires_at: datetime) -> datetime:
    """Return when the claim of this name may begin to go; always the same for the same arguments."""
    draw = int.from_bytes(blake2b(name.encode(), digest_size=4).digest())
    return retires_at - BEGINS_BEFORE + timedelta(microseconds=SPREAD // timedelta(microseconds=1) * draw >> 32)
