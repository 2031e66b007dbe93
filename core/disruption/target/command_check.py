"""Checks the commands of a target: those of a small fleet in order, each against the snapshot that the earlier ones leave.

A target is valid as a whole and every slot is final. This check adds the rules for single commands: Karpenter's, and those for
a cluster that already violates its own rules. For a small fleet it takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.disruption.candidates.balanced_policy import PoolTotals, rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.domain_change import ACROSS_DOMAINS
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import short_lived
from core.disruption.target.target_refusals import NO_SAVING, SLOT_CHANGED, SLOT_DENIED, WaveObjection
from core.disruption.validation.slot_check import slot_is_denied
from core.model.plan import Command
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def valid_commands(
    commands: Sequence[Command], disruption_pass: DisruptionPass, *, worthwhile: int
) -> tuple[list[Command], dict[str, WaveObjection]]:
    """Return the commands that are valid individually, and node → why it does not go for each node of the others.

    A command that needs a new node of an invalid one is invalid too.

    Args:
        commands: In their order.
        disruption_pass: The pass in which they were decided; it is not changed.
        worthwhile: Nodes are replaced only if that saves at least 1/`worthwhile` of their cost.
    """
    fresh = DisruptionPass(disruption_pass.snapshot)
    return _without_denied(commands, lambda command: _objection(command, fresh, worthwhile), fresh.carry_out)


def approved_commands(
    commands: Sequence[Command], disruption_pass: DisruptionPass
) -> tuple[list[Command], dict[str, WaveObjection]]:
    """Return the commands of one wave that the policy Balanced approves, and why others stay, as `valid_commands` does.

    The rest of that check is not needed for a fleet of many nodes: validation refuses a command, before it begins, that leaves
    a pod without a place.
    """
    totals = disruption_pass.totals
    known = {candidate.name: candidate for candidate in disruption_pass.survey.candidates} if totals else {}

    def objection(command: Command) -> WaveObjection | None:
        by_choice = command.reason == TerminationReason.UNDERUTILIZED
        return _unbalanced([known[name] for name in command.nodes], command.savings, totals) if by_choice else None

    return _without_denied(commands, objection) if totals else (list(commands), {})


def _without_denied(
    commands: Sequence[Command],
    objection: Callable[[Command], WaveObjection | None],
    carry_out: Callable[[Sequence[Command]], None] | None = None,
) -> tuple[list[Command], dict[str, WaveObjection]]:
    found: list[Command] = []
    objections: dict[str, WaveObjection] = {}
    lost: dict[str, WaveObjection] = {}
    for command in commands:
        why = next((lost[move.to] for move in command.moves if move.to in lost), None) or objection(command)
        if why is not None:
            objections |= dict.fromkeys(command.nodes, why)
            lost |= {claim.name: why for claim in command.replacements}
            continue
        found.append(command)
        if carry_out is not None:
            carry_out([command])
    return found, objections


def _objection(command: Command, fresh: DisruptionPass, worthwhile: int) -> WaveObjection | None:
    known = {candidate.name: candidate for candidate in fresh.survey.candidates}
    going = [known[name] for name in command.nodes if name in known]
    if len(going) < len(command.nodes):
        return NO_SAVING
    by_choice = command.reason == TerminationReason.UNDERUTILIZED
    planned_moves = () if command.method in ACROSS_DOMAINS else command.moves  # a pod with a slot keeps its domain
    simulation = fresh.simulate(
        going,
        consolidation=by_choice,
        closed=short_lived(fresh),
        planned_moves=planned_moves,
        new_nodes=command.replacements,
    )
    if simulation.stranded:
        return WaveObjection(NodeReason.PODS_UNSCHEDULABLE, simulation.stranded)
    if len(simulation.claims) > len(command.replacements):
        return NO_SAVING
    if slot_is_denied(command.moves, going, fresh):
        return SLOT_DENIED
    if not by_choice:
        return None
    if _moves_to_changed_node(command, fresh):
        return SLOT_CHANGED
    price = sum(candidate.price for candidate in going)
    if command.replacements and command.savings * worthwhile < price:
        return NO_SAVING
    return _unbalanced(going, command.savings, fresh.totals)


def _moves_to_changed_node(command: Command, fresh: DisruptionPass) -> bool:
    """Whether a pod goes to a node whose consolidateAfter is not over, such as one that an earlier command launches."""
    context = fresh.planner.context
    positions = (context.positions[move.to] for move in command.moves if move.to in context.positions)
    return any(context.existing_nodes[position].is_recently_changed for position in positions)


def _unbalanced(going: Sequence[Candidate], savings: int, totals: Mapping[str, PoolTotals]) -> WaveObjection | None:
    pool = rejecting_pool(going, savings, totals)
    text = f"the policy Balanced of NodePool {pool} asks for more saving per moved pod"
    return WaveObjection(NodeReason.BALANCED, text) if pool else None
