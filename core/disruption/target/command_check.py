"""Checks the commands of a small fleet in order, each against the snapshot that the earlier ones leave.

A target is valid as a whole and every seat is final. This check adds the rules for single commands: Karpenter's, and those for
a cluster that already violates its own rules. For a small fleet it takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.consolidation.domain_change import ACROSS_DOMAINS
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def holding(commands: Sequence[Command], disruption_pass: DisruptionPass, *, worthwhile: int) -> list[Command]:
    """Return the commands that are valid on their own; one that needs a new node of a rejected command is rejected too.

    Args:
        commands: In their order.
        disruption_pass: The pass in which they were decided; it is not changed.
        worthwhile: Nodes are replaced only if that saves at least 1/`worthwhile` of their cost.
    """
    options = msgspec.structs.replace(disruption_pass.snapshot.options, ignore_budgets=True)
    fresh = DisruptionPass(msgspec.structs.replace(disruption_pass.snapshot, options=options))
    found: list[Command] = []
    lost: set[str] = set()
    for command in commands:
        if any(move.to in lost for move in command.moves) or not _holds(command, fresh, worthwhile):
            lost.update(claim.name for claim in command.replacements)
            continue
        found.append(command)
        fresh.carry_out([command])
    return found


def _holds(command: Command, fresh: DisruptionPass, worthwhile: int) -> bool:
    known = {candidate.name: candidate for candidate in fresh.survey.candidates}
    going = [known[name] for name in command.nodes if name in known]
    if len(going) < len(command.nodes):
        return False
    by_choice = command.reason == TerminationReason.UNDERUTILIZED
    meant = () if command.method in ACROSS_DOMAINS else command.moves  # a pod with a seat keeps its domain
    simulation = fresh.simulate(going, consolidation=by_choice, closed=fresh.short_lived, meant=meant)
    if simulation.stranded or len(simulation.claims) > len(command.replacements):
        return False
    if not by_choice:
        return True
    price = sum(candidate.price for candidate in going)
    saves = not command.replacements or command.savings * worthwhile >= price
    return saves and not rejecting_pool(going, command.savings, fresh.totals)
