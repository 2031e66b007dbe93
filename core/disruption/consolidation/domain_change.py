"""Moves the pods of one command to a cheaper zone if their topology rules allow it.

A target keeps pods with such rules in their domain, so that its commands keep the rules in any order. One command per pass may
be exempt: the pods of all others stay in their domains, so it finds the same counts whether it runs first or last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.consolidation import affordable, unplaced
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import leaving_later
from core.model.plan import Command, Move, PlannedClaim
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason

ACROSS_DOMAINS: Final = ("single", "multi")
"""Methods of commands whose pods may leave their domains, for one node and for several. They are validated like Karpenter's."""


def with_domain_change(commands: Sequence[Command], disruption_pass: DisruptionPass) -> list[Command]:
    """Return the commands; the one that saves the most by letting its pods leave their domains is changed, and comes first.

    Every launch of its new node costs less than the one that the target planned. The new node keeps its name.
    """
    changes = [
        (command.savings - changed.savings, number, changed)
        for number, command in enumerate(commands)
        if (changed := _changed(number, commands, disruption_pass)) is not None
    ]
    if not changes:
        return list(commands)
    _, number, changed = min(changes, key=lambda change: change[:2])
    return [changed, *_others(number, commands)]


def _changed(number: int, commands: Sequence[Command], disruption_pass: DisruptionPass) -> Command | None:
    """Return the command with its pods free to leave their domains, None if that is impossible or not cheaper."""
    command = commands[number]
    if not _is_alterable(command):
        return None
    known = {candidate.name: candidate for candidate in disruption_pass.survey.candidates}
    going = [known[name] for name in command.nodes]
    if not _is_held(going, disruption_pass):
        return None
    (planned,) = command.replacements
    simulation = disruption_pass.simulate(going, consolidation=True)
    if unplaced(simulation) is not None or len(simulation.claims) != 1:
        return None
    claim = affordable(simulation.claims[0], planned.price, going, disruption_pass)
    if isinstance(claim, Refusal):
        return None
    moves = [Move(move.pod, planned.name if move.to == claim.name else move.to) for move in simulation.moves]
    targets = {move.to for move in moves}
    if not targets.isdisjoint(_nodes_of(_others(number, commands)) | leaving_later(disruption_pass)):
        return None
    return _replacing(command, msgspec.structs.replace(claim, name=planned.name), moves)


def _is_alterable(command: Command) -> bool:
    """Whether the command is voluntary, starts now, and has exactly one new node."""
    by_choice = command.reason == TerminationReason.UNDERUTILIZED
    return by_choice and command.wave == 1 and len(command.replacements) == 1


def _is_held(going: Sequence[Candidate], disruption_pass: DisruptionPass) -> bool:
    """Whether the target keeps any pod of these nodes in its domain."""
    groups = disruption_pass.planner.context.pod_groups
    return any(groups.of(pod).signature.domain_keys for candidate in going for pod in candidate.pods)


def _replacing(command: Command, claim: PlannedClaim, moves: Sequence[Move]) -> Command:
    """Return the command with another new node, which all its nodes await."""
    return msgspec.structs.replace(
        command,
        method=ACROSS_DOMAINS[len(command.nodes) > 1],
        replacements=(claim,),
        moves=tuple(sorted(moves)),
        savings=command.savings + command.replacements[0].price - claim.price,
        awaits={},
    )


def _others(number: int, commands: Sequence[Command]) -> list[Command]:
    return [*commands[:number], *commands[number + 1 :]]


def _nodes_of(commands: Sequence[Command]) -> set[str]:
    """Return the names of nodes that commands remove or move pods to."""
    return {name for command in commands for name in (*command.nodes, *(move.to for move in command.moves))}
