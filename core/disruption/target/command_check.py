"""Checks the commands of a small fleet in order, each against the snapshot that the earlier ones leave.

A target is valid as a whole and every slot is final. This check adds the rules for single commands: Karpenter's, and those for
a cluster that already violates its own rules. For a small fleet it takes milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.domain_change import ACROSS_DOMAINS
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import short_lived
from core.disruption.target.target_refusals import NO_SAVING, SLOT_DENIED, WaveObjection
from core.model.plan import Command, Move
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
    found: list[Command] = []
    objections: dict[str, WaveObjection] = {}
    lost: dict[str, WaveObjection] = {}
    for command in commands:
        why = next((lost[move.to] for move in command.moves if move.to in lost), None)
        why = why or _objection(command, fresh, worthwhile)
        if why is not None:
            objections |= dict.fromkeys(command.nodes, why)
            lost |= {claim.name: why for claim in command.replacements}
            continue
        found.append(command)
        fresh.carry_out([command])
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
    if _misses_slot(planned_moves, simulation.moves, going, fresh):
        return SLOT_DENIED
    if not by_choice:
        return None
    price = sum(candidate.price for candidate in going)
    if command.replacements and command.savings * worthwhile < price:
        return NO_SAVING
    pool = rejecting_pool(going, command.savings, fresh.totals)
    text = f"the policy Balanced of NodePool {pool} asks for more saving per moved pod"
    return WaveObjection(NodeReason.BALANCED, text) if pool else None


def _misses_slot(
    planned: Sequence[Move], found: Sequence[Move], going: Sequence[Candidate], fresh: DisruptionPass
) -> bool:
    """Whether a rule denies a pod its slot on a node that exists or that an earlier command launches.

    A pod with a spread over hosts may take a slot before a pod that its selector counts, not after it. Pods with preferences
    are not examined: they may be elsewhere because they prefer it.
    """
    context = fresh.planner.context
    pods = [pod for candidate in going for pod in candidate.state.pods]
    examined = {pod.key for pod in pods if len(context.pod_groups.of(pod).steps) == 1}
    slots = Counter(move.to for move in planned if move.to in context.positions and move.pod in examined)
    return bool(slots - Counter(move.to for move in found if move.pod in examined))
