"""Summarizes a decision in one sentence, and lists its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from core.ledger.entry import LedgerPart
from core.model.plan import Command, DisruptionPlan, PlannedClaim
from core.reasons.claim import ClaimReason
from core.reasons.run import RunReason


class DecisionSummary(msgspec.Struct, frozen=True):
    """The part of a ledger entry for people and queries; fields as in `LedgerEntry`."""

    what: str
    reason: str
    parts: tuple[LedgerPart, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def of_provisioning(
    claims: Sequence[PlannedClaim], bindings: Iterable[tuple[str, str]], refused: Iterable[tuple[str, str]]
) -> DecisionSummary:
    """Summarize a plan for waiting pods.

    Args:
        claims: The claims to launch, under their final names.
        bindings: Pod and node of each pod that fits on existing capacity.
        refused: Pod and reason of each pod without a place.
    """
    parts = tuple(
        LedgerPart(id=claim.name, reason=ClaimReason.LAUNCHED, pods=claim.pods, hourly=claim.price) for claim in claims
    )
    bound, without = tuple(bindings), tuple(refused)
    return DecisionSummary(
        what="; ".join(_provisioning_words(claims, len(bound), len(without))) or "nothing to do",
        reason=_provisioning_reason(parts, bound, without),
        parts=parts,
        bindings=bound,
        refused=without,
    )


def of_disruption(
    plan: DisruptionPlan, begun: Sequence[tuple[str, Command]], proposed: Sequence[tuple[str, Command, str]] = ()
) -> DecisionSummary:
    """Summarize a disruption decision.

    Args:
        plan: The disruption plan.
        begun: The commands to store, with their ids; the plan's other commands are found again later.
        proposed: The commands that wait for approval, and why.
    """
    parts = [_command_part(command_id, command) for command_id, command in begun]
    parts += [_command_part(command_id, command, waits) for command_id, command, waits in proposed]
    refused = tuple((blocked.node, blocked.reason) for blocked in plan.blocked)
    words = [command_sentence(command) for _, command in begun]
    words += [f"propose to {command_sentence(command)}" for _, command, _ in proposed]
    return DecisionSummary(
        what="; ".join(words) or f"{_counted(len(refused), 'node')} {'stays' if len(refused) == 1 else 'stay'}",
        reason=parts[0].reason if parts else _most_common(reason for _, reason in refused),
        parts=tuple(parts),
        refused=refused,
    )


def observed(summary: DecisionSummary) -> DecisionSummary:
    """Return the summary of a decision that is only recorded."""
    return msgspec.structs.replace(summary, what=f"only observed: {summary.what}")


def _command_part(command_id: str, command: Command, waits: str = "") -> LedgerPart:
    return LedgerPart(
        id=command_id,
        reason=command.reason,
        nodes=command.nodes,
        pods=tuple(move.pod for move in command.moves),
        replacements=tuple(claim.name for claim in command.replacements),
        hourly=-command.savings,
        waits=waits,
    )


def command_sentence(command: Command) -> str:
    """Describe one command, as a part of its decision's sentence."""
    nodes = ", ".join(command.nodes)
    if not command.replacements:
        return f"remove {nodes}"
    types = Counter(claim.instance_types[0] for claim in command.replacements if claim.instance_types)
    return f"replace {nodes} by {', '.join(f'{number} x {name}' for name, number in sorted(types.items()))}"


def _provisioning_words(claims: Sequence[PlannedClaim], bound: int, without: int) -> list[str]:
    words = []
    if claims:
        types = Counter(claim.instance_types[0] for claim in claims if claim.instance_types)
        named = ", ".join(f"{number} x {name}" for name, number in sorted(types.items()))
        pods = sum(len(claim.pods) for claim in claims)
        words.append(f"launch {_counted(len(claims), 'node')} ({named}) for {_counted(pods, 'pod')}")
    if bound:
        words.append(f"{_counted(bound, 'pod')} on nodes that exist")
    if without:
        words.append(f"{_counted(without, 'pod')} without a place")
    return words


def _provisioning_reason(
    parts: Sequence[LedgerPart], bound: Sequence[tuple[str, str]], without: Sequence[tuple[str, str]]
) -> str:
    if parts:
        return ClaimReason.LAUNCHED
    return _most_common(reason for _, reason in without) if without else ClaimReason.FITS_EXISTING if bound else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _most_common(reasons: Iterable[str]) -> str:
    """Return the most common reason; ties by name."""
    found = Counter(reasons)
    return min(found, key=lambda reason: (-found[reason], reason), default=RunReason.NOTHING_TO_DO)
