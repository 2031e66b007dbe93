"""Validates commands some seconds after the decision, against a new snapshot (Karpenter, validation)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.consolidation import consolidated
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import short_lived
from core.disruption.methods import static_drift, terminate_first
from core.disruption.simulation import Simulation
from core.disruption.validation.command_part import failed_validation, part_of, paying_part
from core.disruption.validation.remaining_nodes import remaining_nodes
from core.model.plan import Command, PlannedClaim
from core.model.snapshot import Snapshot
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason

DIVISIBLE: Final = ("drift", "repack")
"""Methods whose commands remain meaningful without some of their nodes: every pod has its own slot."""


class ValidCommand(msgspec.Struct, frozen=True):
    """A command that may be carried out now.

    Attributes:
        command: The command in the form that is valid now.
        left_out: Node → why it stays, for each node of the decided command that is no longer part of it.
    """

    command: Command
    left_out: dict[str, str] = {}


class Validation:
    """Checks due commands in order, each against the snapshot after the earlier ones.

    The deletion marks of these commands on the snapshot's nodes do not count.
    """

    def __init__(self, commands: Iterable[Command], snapshot: Snapshot) -> None:
        commands = tuple(commands)
        own = {name for command in commands for name in command.claims}
        marks = tuple(name for name in snapshot.marked_for_deletion if name not in own)
        self._pass = DisruptionPass(msgspec.structs.replace(snapshot, marked_for_deletion=marks))
        self._ahead: list[Command] = []
        self._unchecked = {command.claims for command in commands if command.method in DIVISIBLE}

    def check(self, command: Command) -> ValidCommand | Refusal:
        """Return the command in the form that may be carried out now, or why it no longer holds.

        Every node must still be a candidate for the same reason, budgets must allow it, and the scheduler must still find a
        place for its pods with no more and no other new nodes. Where they no longer need any, the replacements are dropped.
        Nodes that do not qualify are left out and the others go without them (docs/adr/0220); Karpenter does that for empty
        nodes only. Drift is carried out at any cost, so only its pods must find a place. A command of a target keeps its new
        nodes as long as there are pods for them and further nodes of the target go, in later waves or with commands that are
        not checked yet: the room on existing nodes is for their pods (docs/adr/0151).

        Commands for drift that have no node in common are checked against one snapshot, in which the nodes of the others take
        no pods: rebuilding it after each of hundreds would cost half a second each in a large cluster.
        """
        if self._ahead and _is_apart(command, self._ahead):
            found = self._check(command, closed={name for other in self._ahead for name in _nodes_of(other)})
            if isinstance(found, ValidCommand) and not found.left_out:
                return found
        if self._ahead:
            self._pass.rebuild(self._ahead)
            self._ahead = []
        return self._check(command, closed=())

    def _check(self, command: Command, *, closed: Collection[str]) -> ValidCommand | Refusal:
        self._unchecked.discard(command.claims)
        going, left_out = remaining_nodes(command, self._pass)
        if not going:
            return failed_validation(next(iter(left_out.values())))
        if command.method in DIVISIBLE:
            goes_on = bool(self._unchecked) or _has_later_waves(self._pass.snapshot)
            return _divided(going, left_out, command, self._pass, closed, goes_on=goes_on)
        found = _consolidated_again(going, command, self._pass) if left_out else _whole(going, command, self._pass)
        return found if isinstance(found, Refusal) else ValidCommand(found, left_out)

    def carry_out(self, command: Command) -> None:
        """Remove the command's nodes from the snapshot.

        Its replacements offer no room to the next command: they do not exist yet, and their launch may fail.
        """
        bare = msgspec.structs.replace(command, replacements=())
        self._pass.count([bare])
        self._ahead.append(bare)


def _is_apart(command: Command, others: Sequence[Command]) -> bool:
    """Whether the command's pods and those of the others can be planned independently."""
    own_nodes = _nodes_of(command)
    return all(c.method == "drift" for c in (command, *others)) and all(
        own_nodes.isdisjoint(_nodes_of(c)) for c in others
    )


def _nodes_of(command: Command) -> set[str]:
    """Return the nodes that the command removes or moves pods to."""
    return {*command.nodes, *(move.to for move in command.moves)}


def _divided(
    going: Sequence[Candidate],
    left_out: dict[str, str],
    command: Command,
    fresh: DisruptionPass,
    closed: Collection[str],
    *,
    goes_on: bool,
) -> ValidCommand | Refusal:
    """Return the command for those of these nodes whose pods find a place, or why it does not hold for them.

    If pods of some nodes find no place, the pods of the others are placed once more: the nodes that stay leave more room.
    `goes_on`: whether further nodes of the target go.
    """
    part, simulation = _placed(going, command, fresh, closed)
    stuck = _stuck(going, simulation)
    if stuck and len(stuck) < len(going):
        left_out = left_out | stuck
        going = [candidate for candidate in going if candidate.name not in stuck]
        part, simulation = _placed(going, command, fresh, closed)
    if simulation.stranded:
        return failed_validation(simulation.stranded)
    found = part if part.reason == TerminationReason.DRIFTED else _voluntary(part, going, simulation, goes_on=goes_on)
    if not isinstance(found, Refusal) and left_out and part.reason != TerminationReason.DRIFTED:
        found = paying_part(found, going, fresh)
    return found if isinstance(found, Refusal) else ValidCommand(found, left_out)


def _placed(
    going: Sequence[Candidate], command: Command, fresh: DisruptionPass, closed: Collection[str]
) -> tuple[Command, Simulation]:
    """Return the command for these of its nodes, and where their pods would go."""
    part = part_of(command, going, fresh.snapshot)
    if part.reason == TerminationReason.DRIFTED:
        return part, fresh.simulate(going, consolidation=False, closed=closed)
    below = 1 + max((claim.price for claim in part.replacements), default=0)
    shut = {*closed, *short_lived(fresh)}
    planned = fresh.simulate(
        going,
        consolidation=True,
        below=below,
        closed=shut,
        planned_moves=part.moves,
        new_nodes=part.replacements,
    )
    return part, planned


def _stuck(going: Sequence[Candidate], simulation: Simulation) -> dict[str, str]:
    """Return node → why it stays, for each whose pods find no place."""
    pods = {
        candidate.name: next((p for p in candidate.pods if p.key in simulation.unplaced), None) for candidate in going
    }
    return {node: f"pod {pod.key} would find no place" for node, pod in pods.items() if pod is not None}


def _voluntary(
    part: Command, going: Sequence[Candidate], simulation: Simulation, *, goes_on: bool
) -> Command | Refusal:
    """Return a command of the target in its present form: only as long as it saves, and without new nodes it does not need."""
    if not part.replacements:
        problem = _more(simulation.claims, part)
        return failed_validation(problem) if problem else part
    if not simulation.claims and not goes_on:
        return _without_replacements(part, going, simulation)
    saves = sum(candidate.price for candidate in going) > sum(claim.price for claim in simulation.claims)
    return part if saves else failed_validation("its pods now need new nodes that cost no less")


def _consolidated_again(going: list[Candidate], command: Command, fresh: DisruptionPass) -> Command | Refusal:
    """Return Karpenter's consolidation of the remaining nodes, with no more new nodes than the command had."""
    found = consolidated(going, fresh, method=command.method if len(going) > 1 else "single")
    if isinstance(found, Refusal):
        return failed_validation(found.message)
    problem = _more(found.replacements, command)
    return failed_validation(problem) if problem else found


def _whole(going: list[Candidate], command: Command, fresh: DisruptionPass) -> Command | Refusal:
    """Return a command of which every node qualifies in its present form."""
    if command.reason == TerminationReason.EMPTY or command.method == static_drift.METHOD:
        return command
    if command.method == terminate_first.METHOD:
        problem = next(filter(None, (terminate_first.objection(found, fresh.snapshot) for found in going)), "")
        return failed_validation(problem) if problem else command
    is_repair = command.reason == TerminationReason.UNHEALTHY
    simulation = fresh.simulate(going, consolidation=not is_repair)
    if simulation.stranded:
        return failed_validation(simulation.stranded)
    if is_repair:
        return command
    if command.replacements and not simulation.claims:
        return _without_replacements(command, going, simulation)
    problem = _more(simulation.claims, command) or _lost_type(simulation, command)
    return failed_validation(problem) if problem else command


def _without_replacements(command: Command, going: Sequence[Candidate], simulation: Simulation) -> Command:
    """Return the command as a deletion: the nodes that stay have room for all pods of these that go."""
    price = sum(candidate.price for candidate in going)
    return msgspec.structs.replace(command, replacements=(), moves=simulation.moves, savings=price)


def _has_later_waves(snapshot: Snapshot) -> bool:
    """Whether the current target has further nodes to drain after the stored commands."""
    return snapshot.stored_target is not None and bool(snapshot.stored_target.drains)


def _more(claims: Sequence[PlannedClaim], command: Command) -> str:
    """Return an explanation if more new nodes are needed than the command has, else an empty text."""
    if len(claims) <= len(command.replacements):
        return ""
    return f"its pods now need {len(claims)} new nodes, not {len(command.replacements)}"


def _lost_type(simulation: Simulation, command: Command) -> str:
    """Return a type of a replacement that no longer suits its pods, empty if all do."""
    possible = {name for claim in simulation.claims for name in claim.instance_types}
    for claim in command.replacements:
        lost = [name for name in claim.instance_types if name not in possible]
        if lost:
            return f"instance type {lost[0]} no longer suits replacement {claim.name}"
    return ""
