"""Checks the commands of a small fleet one after the other, each in the world as those before it leave it.

A target is legal as a whole and every seat is final. What a single command of it may be judged by, Karpenter's rules and a
cluster that broke its own rules before, is asked here, where asking takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def holding(commands: Sequence[Command], disruption_pass: DisruptionPass, *, worthwhile: int) -> list[Command]:
    """Those of the commands that hold by themselves; what needs a new node of one that does not, does not either.

    Args:
        commands: In their order.
        disruption_pass: The pass that they were decided in, which is left as it is.
        worthwhile: Nodes are replaced only where that saves one part in so many of what they cost.
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
    simulation = fresh.simulate(going, consolidation=by_choice, closed=fresh.drifted, meant=command.moves)
    if simulation.stranded or len(simulation.claims) > len(command.replacements):
        return False
    if not by_choice:
        return True
    price = sum(candidate.price for candidate in going)
    saves = not command.replacements or command.savings * worthwhile >= price
    return saves and not rejecting_pool(going, command.savings, fresh.totals)
