"""Validates commands some seconds after the decision, against a new snapshot (Karpenter, validation)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from core import labels
from core.disruption import methods
from core.disruption.candidate import Candidate, rejecting_pool
from core.disruption.consolidation import blocks, consolidated, objection
from core.disruption.consolidation_nodes import WORTHWHILE, narrowed_claims
from core.disruption.disruption_pass import DisruptionPass, Simulation, short_lived
from core.disruption.node_health import HealthCheck
from core.model.plan import Command, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import NotToRepair, PodUnplaced, TargetBelowMoves
from core.reasons.runs import (
    PART_COSTS_MORE,
    PART_SAVES_TOO_LITTLE,
    SAVES_NOTHING,
    BudgetsAllowFewer,
    HealthyAgain,
    Invalid,
    LoneSpotNode,
    MoreNodesNeeded,
    NoCandidate,
    NoLongerDrifted,
    NoLongerEmpty,
    TypeUnsuited,
)

# Reduces a command to those of its nodes that may still go (docs/engineering/handbook/command-validation.md).


def part_of(command: Command, candidates: Sequence[Candidate], snapshot: Snapshot) -> Command:
    """Return the command for these of its nodes, without new nodes whose pods are all gone or stay where they are.

    Room on other nodes is no reason to drop a new node: it is reserved for later waves, or is on nodes that go later, from
    which pods would move again (docs/engineering/handbook/command-validation.md).
    """
    moving = {pod.key for candidate in candidates for pod in candidate.state.pods}
    needed = [claim for claim in command.replacements if not moving.isdisjoint(claim.pods)]
    if len(candidates) == len(command.nodes) and len(needed) == len(command.replacements):
        return command
    staying = {pod.key: pod for pod in snapshot.pods if pod.key not in moving}
    return _with(command, candidates, tuple(_for_pods(claim, staying) for claim in needed))


def paying_part(part: Command, candidates: Sequence[Candidate], fresh: DisruptionPass) -> Command | Refusal:
    """Return the part of a voluntary command with new nodes that cost less than the nodes that go, or why it does not pay.

    The new nodes were chosen for the pods of all nodes of the command: those that stay do not contribute to their price.
    """
    claims = part.replacements
    if claims:
        if len(candidates) == 1 and candidates[0].capacity_type == labels.SPOT:
            return LoneSpotNode(candidates[0].name)
        narrowed = narrowed_claims(claims, sum(candidate.price for candidate in candidates), {}, fresh.snapshot)
        if narrowed is None:
            return PART_COSTS_MORE
        part = _with(part, candidates, narrowed)
        if part.savings * WORTHWHILE < sum(candidate.price for candidate in candidates):
            return PART_SAVES_TOO_LITTLE
    pool = rejecting_pool(candidates, part.savings, fresh.totals)
    return Invalid(TargetBelowMoves(pool)) if pool else part


def _with(command: Command, candidates: Sequence[Candidate], claims: tuple[PlannedClaim, ...]) -> Command:
    """Return the command for these nodes and new nodes, at their present prices."""
    moving = {pod.key for candidate in candidates for pod in candidate.state.pods}
    lost = {claim.name for claim in command.replacements} - {claim.name for claim in claims}
    names = [candidate.name for candidate in candidates]
    return msgspec.structs.replace(
        command,
        nodes=tuple(names),
        claims=tuple(candidate.claim.name for candidate in candidates),
        replacements=claims,
        moves=tuple(move for move in command.moves if move.pod in moving and move.to not in lost),
        savings=sum(candidate.price for candidate in candidates) - sum(claim.price for claim in claims),
        awaits={
            node: tuple(name for name in awaited if name not in lost)
            for node, awaited in command.awaits.items()
            if node in names
        },
    )


def _for_pods(claim: PlannedClaim, staying: Mapping[str, Pod]) -> PlannedClaim:
    """Return a new node without the pods that stay where they are. Its types remain: larger ones than needed still fit."""
    requested = dict(claim.resources)
    for key in claim.pods:
        if key in staying:
            requested = quantity.subtract(requested, staying[key].spec.requests)
    return msgspec.structs.replace(
        claim, pods=tuple(key for key in claim.pods if key not in staying), resources=requested
    )


# Finds the nodes of a stored command that may still go for its reason.


def remaining_nodes(command: Command, fresh: DisruptionPass) -> tuple[list[Candidate], dict[str, Refusal]]:
    """Return the command's nodes that pods, pools and budgets still let go for its reason; and node → why, for the others."""
    is_repair = command.reason == TerminationReason.UNHEALTHY
    survey = fresh.survey
    by_claim = {c.claim.name: c for c in (*survey.candidates, *(survey.repairable if is_repair else ()))}
    named = list(zip(command.claims, command.nodes, strict=True))
    verdicts = {node: _unfit(claim, node, by_claim.get(claim), command, fresh) for claim, node in named}
    left_out = {node: why for node, why in verdicts.items() if why is not None}
    fit = [by_claim[claim] for claim, node in named if node not in left_out]
    going = _within_budgets(fit, command, fresh)
    fewer = BudgetsAllowFewer(len(going), len(fit), command.reason)
    return going, left_out | {candidate.name: fewer for candidate in fit if candidate not in going}


def _unfit(
    claim: str, node: str, candidate: Candidate | None, command: Command, fresh: DisruptionPass
) -> Refusal | None:
    """Return why a node of the command no longer qualifies, budgets aside; None if it does."""
    if candidate is None:
        return NoCandidate(claim, next(iter(fresh.survey.blocked.get(node, ())), None))
    if not fresh.is_free(candidate, command.reason):
        return blocks(candidate, fresh)[0]
    if command.reason == TerminationReason.DRIFTED:
        return None if candidate.drift else NoLongerDrifted(candidate.name)
    if command.reason == TerminationReason.UNHEALTHY:
        if methods.do_not_repair(candidate):
            return NotToRepair(candidate.name)
        illness = HealthCheck(fresh.states, fresh.snapshot.now).illness(candidate.state)
        return HealthyAgain(candidate.name) if illness is None else None
    rule = objection(candidate, fresh)
    if rule is None and command.reason == TerminationReason.EMPTY and not candidate.is_empty:
        return NoLongerEmpty(candidate.name)
    return rule


def _within_budgets(candidates: Sequence[Candidate], command: Command, fresh: DisruptionPass) -> list[Candidate]:
    """Return the nodes, in order, that all budgets let go together; those with new nodes share PodDisruptionBudgets."""
    if fresh.snapshot.options.ignore_budgets:
        return list(candidates)
    if command.reason == TerminationReason.UNHEALTHY:
        return [candidate for candidate in candidates if fresh.budgets.repair_objection(candidate) is None]
    if command.method == MULTI or (command.method == REPACK and command.replacements):
        return fresh.budgets.within_one_command(candidates, command.reason)
    return fresh.budgets.within(candidates, command.reason)


MULTI: Final = "multi"
"""The method whose command replaces several nodes at once."""

REPACK: Final = "repack"
"""The method of a target's commands for nodes that have not drifted."""

DIVISIBLE: Final = ("drift", REPACK)
"""Methods whose commands remain meaningful without some of their nodes: every pod has its own slot."""


class ValidCommand(msgspec.Struct, frozen=True):
    """A command that may be carried out now.

    Attributes:
        command: The command in the form that is valid now.
        left_out: Node → why it stays, for each node of the decided command that is no longer part of it.
    """

    command: Command
    left_out: dict[str, Refusal] = {}


class Validation:
    """Checks due commands in order, each against the snapshot after the earlier ones.

    The deletion marks of these commands on the snapshot's nodes do not count.
    """

    def __init__(self, commands: Iterable[Command], snapshot: Snapshot) -> None:
        commands = tuple(commands)
        names = {name for command in commands for name in command.claims}
        marks = tuple(name for name in snapshot.marked_for_deletion if name not in names)
        self._pass = DisruptionPass(msgspec.structs.replace(snapshot, marked_for_deletion=marks))
        self._ahead: list[Command] = []
        self._unchecked = {command.claims for command in commands if command.method in DIVISIBLE}

    def check(self, command: Command) -> ValidCommand | Refusal:
        """Return the command in the form that may be carried out now, or why it no longer holds.

        Every node must still be a candidate for the same reason, budgets must allow it, and the scheduler must still find a
        place for its pods with no more and no other new nodes. Where they no longer need any, the replacements are dropped.
        Nodes that do not qualify are left out and the others go without them (docs/engineering/handbook/command-validation.md);
        Karpenter does that for empty nodes only. Drift is carried out at any cost, so only its pods must find a place. A
        command of a target keeps its new nodes as long as there are pods for them and further nodes of the target go, in later
        waves or with commands that are not checked yet: the room on existing nodes is for their pods.

        Commands for drift that have no node in common are checked against one snapshot, in which the nodes of the others take
        no pods: rebuilding it after each of hundreds would cost half a second each in a large cluster.
        """
        if self._ahead and _is_apart(command, self._ahead):
            verdict = self._check(command, closed={name for other in self._ahead for name in _nodes_of(other)})
            if isinstance(verdict, ValidCommand) and not verdict.left_out:
                return verdict
        if self._ahead:
            self._pass.rebuild(self._ahead)
            self._ahead = []
        return self._check(command, closed=())

    def _check(self, command: Command, *, closed: Collection[str]) -> ValidCommand | Refusal:
        self._unchecked.discard(command.claims)
        going, left_out = remaining_nodes(command, self._pass)
        if not going:
            return Invalid(next(iter(left_out.values())))
        if command.method in DIVISIBLE:
            goes_on = bool(self._unchecked) or _has_later_waves(self._pass.snapshot)
            return _divided(going, left_out, command, self._pass, closed, goes_on=goes_on)
        verdict = _consolidated_again(going, command, self._pass) if left_out else _whole(going, command, self._pass)
        return verdict if isinstance(verdict, Refusal) else ValidCommand(verdict, left_out)

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
    left_out: dict[str, Refusal],
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
        left_out = {**left_out, **stuck}
        going = [candidate for candidate in going if candidate.name not in stuck]
        part, simulation = _placed(going, command, fresh, closed)
    if simulation.stranded:
        return Invalid(simulation.stranded)
    verdict = part if part.reason == TerminationReason.DRIFTED else _voluntary(part, going, simulation, goes_on=goes_on)
    if not isinstance(verdict, Refusal) and left_out and part.reason != TerminationReason.DRIFTED:
        verdict = paying_part(verdict, going, fresh)
    return verdict if isinstance(verdict, Refusal) else ValidCommand(verdict, left_out)


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


def _stuck(going: Sequence[Candidate], simulation: Simulation) -> dict[str, PodUnplaced]:
    """Return node → why it stays, for each whose pods find no place."""
    pods = {
        candidate.name: next((p for p in candidate.pods if p.key in simulation.unplaced), None) for candidate in going
    }
    return {node: PodUnplaced(pod.key) for node, pod in pods.items() if pod is not None}


def _voluntary(
    part: Command, going: Sequence[Candidate], simulation: Simulation, *, goes_on: bool
) -> Command | Refusal:
    """Return a command of the target in its present form: only as long as it saves, and without new nodes it does not need."""
    if not part.replacements:
        return _more(simulation.claims, part) or part
    if not simulation.claims and not goes_on:
        return _without_replacements(part, going, simulation)
    saves = sum(candidate.price for candidate in going) > sum(claim.price for claim in simulation.claims)
    return part if saves else SAVES_NOTHING


def _consolidated_again(going: list[Candidate], command: Command, fresh: DisruptionPass) -> Command | Refusal:
    """Return Karpenter's consolidation of the remaining nodes, with no more new nodes than the command had."""
    again = consolidated(going, fresh, method=command.method if len(going) > 1 else "single")
    if isinstance(again, Refusal):
        return Invalid(again)
    return _more(again.replacements, command) or again


def _whole(going: list[Candidate], command: Command, fresh: DisruptionPass) -> Command | Refusal:
    """Return a command of which every node qualifies in its present form."""
    if command.reason == TerminationReason.EMPTY or command.method == methods.STATIC_DRIFT:
        return command
    if command.method == methods.REPAIR and all(candidate.pool.is_static for candidate in going):
        return command
    if command.method == methods.TERMINATE_FIRST:
        refusal = next(filter(None, (methods.objection(subject, fresh.snapshot) for subject in going)), None)
        return Invalid(refusal) if refusal is not None else command
    is_repair = command.reason == TerminationReason.UNHEALTHY
    simulation = fresh.simulate(going, consolidation=not is_repair, with_blocked=is_repair)
    if simulation.stranded:
        return Invalid(simulation.stranded)
    if is_repair:
        return command
    if command.replacements and not simulation.claims:
        return _without_replacements(command, going, simulation)
    return _more(simulation.claims, command) or _lost_type(simulation, command) or command


def _without_replacements(command: Command, going: Sequence[Candidate], simulation: Simulation) -> Command:
    """Return the command as a deletion: the nodes that stay have room for all pods of these that go."""
    price = sum(candidate.price for candidate in going)
    return msgspec.structs.replace(command, replacements=(), moves=simulation.moves, savings=price)


def _has_later_waves(snapshot: Snapshot) -> bool:
    """Whether the current target has further nodes to drain after the stored commands."""
    return snapshot.stored_target is not None and bool(snapshot.stored_target.drains)


def _more(claims: Sequence[PlannedClaim], command: Command) -> Refusal | None:
    """Return a refusal if more new nodes are needed than the command has, else None."""
    needed, planned = len(claims), len(command.replacements)
    return MoreNodesNeeded(needed, planned) if needed > planned else None


def _lost_type(simulation: Simulation, command: Command) -> Refusal | None:
    """Return a type of a replacement that no longer suits its pods, None if all do."""
    possible = {name for claim in simulation.claims for name in claim.instance_types}
    for claim in command.replacements:
        lost = [name for name in claim.instance_types if name not in possible]
        if lost:
            return TypeUnsuited(lost[0], claim.name)
    return None
