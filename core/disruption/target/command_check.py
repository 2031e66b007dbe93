"""Checks the commands of a target: those of a small fleet in order, each against the snapshot that the earlier ones leave.

A target is valid as a whole and every slot is final. This check adds the rules for single commands: Karpenter's, and those for
a cluster that already violates its own rules. For a small fleet it takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

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
    for_drift = {
        claim.name: command.wave
        for command in commands
        for claim in command.replacements
        if command.reason == TerminationReason.DRIFTED
    }

    def objection(command: Command) -> WaveObjection | None:
        filled = {move.to for move in command.moves if for_drift.get(move.to) == command.wave}
        return _objection(command, fresh, worthwhile, filled)

    return _without_denied(commands, objection, fresh.carry_out)


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


def _objection(
    command: Command, fresh: DisruptionPass, worthwhile: int, filled: Collection[str]
) -> WaveObjection | None:
    """Why a command is denied; `filled` are the nodes that drift launches in its wave and that it moves pods to."""
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
    if slot_is_denied(command, going, fresh):
        return SLOT_DENIED
    if not by_choice:
        return None
    if any(_rests(name, fresh) for name in filled):
        return SLOT_CHANGED
    price = sum(candidate.price for candidate in going)
    if command.replacements and command.savings * worthwhile < price:
        return NO_SAVING
    return _unbalanced(going, command.savings, fresh.totals)


def _rests(name: str, fresh: DisruptionPass) -> bool:
    """Whether a node is there whose consolidateAfter is not over."""
    context = fresh.planner.context
    return name in context.positions and context.existing_nodes[context.positions[name]].is_recently_changed


def _unbalanced(going: Sequence[Candidate], savings: int, totals: Mapping[str, PoolTotals]) -> WaveObjection | None:
    pool = rejecting_pool(going, savings, totals)
    text = f"the policy Balanced of NodePool {pool} asks for more saving per moved pod"
    return WaveObjection(NodeReason.BALANCED, text) if pool else None
