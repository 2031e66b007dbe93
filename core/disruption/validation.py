"""Validates commands some seconds after the decision, against a new snapshot (Karpenter, validation)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from core.disruption.blocked_nodes import blocks
from core.disruption.candidates.candidate import Candidate
from core.disruption.conditions.node_health import HealthCheck
from core.disruption.consolidation.consolidation import consolidated
from core.disruption.consolidation.eligibility import hindrance
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import terminate_first
from core.disruption.simulation import Simulation
from core.model.plan import Command, PlannedClaim
from core.model.snapshot import Snapshot
from core.reasons.command import CommandReason
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason


class Validation:
    """Checks due commands in order, each against the snapshot after the earlier ones.

    The deletion marks of these commands on the snapshot's nodes do not count.
    """

    def __init__(self, commands: Iterable[Command], snapshot: Snapshot) -> None:
        own = {name for command in commands for name in command.claims}
        marks = tuple(name for name in snapshot.marked_for_deletion if name not in own)
        self._pass = DisruptionPass(msgspec.structs.replace(snapshot, marked_for_deletion=marks))
        self._ahead: list[Command] = []

    def check(self, command: Command) -> Command | Refusal:
        """Return the command in the form that may be carried out now, or why it no longer holds.

        Every node must still be a candidate for the same reason, budgets must allow all of them, and the scheduler must still
        find a place for their pods with no more and no other new nodes. Where they no longer need any, the replacements are
        dropped; where some of several nodes are no longer candidates, a new command is decided for the others. Karpenter
        abandons such commands. Drift is carried out at any cost, so only its pods must find a place. A command of a target with
        further waves keeps its new nodes as long as there are pods for them.

        Commands for drift that have no node in common are checked against one snapshot, in which the nodes of the others take
        no pods: rebuilding it after each of hundreds would cost half a second each in a large cluster.
        """
        if self._ahead and _is_apart(command, self._ahead):
            found = self._check(command, closed={name for other in self._ahead for name in _touched(other)})
            if not isinstance(found, Refusal):
                return found
        if self._ahead:
            self._pass.rebuild(self._ahead)
            self._ahead = []
        return self._check(command, closed=())

    def _check(self, command: Command, *, closed: Collection[str]) -> Command | Refusal:
        fresh = self._pass
        by_claim = {c.claim.name: c for c in fresh.survey.candidates}
        problems = {name: _unfit(name, by_claim.get(name), command, fresh) for name in command.claims}
        candidates = [by_claim[name] for name, problem in problems.items() if not problem]
        lost = next(filter(None, problems.values()), "")
        is_divisible = command.method == "multi" or (command.method == "repack" and not command.replacements)
        if lost and not (is_divisible and candidates):
            return _refusal(lost)
        if command.reason == TerminationReason.UNHEALTHY:
            has_budget = all(fresh.budgets.allow_repair(candidate, fresh.commands) for candidate in candidates)
        else:
            has_budget = fresh.budgets.allow(candidates, command.reason)
        if not fresh.snapshot.options.ignore_budgets and not has_budget:
            return _refusal(f"budgets no longer let {len(candidates)} nodes go for {command.reason}")
        return _of_fewer(candidates, command, fresh) if lost else _simulated(candidates, command, fresh, closed)

    def carry_out(self, command: Command) -> None:
        """Remove the command's nodes from the snapshot.

        Its replacements offer no room to the next command: they do not exist yet, and their launch may fail.
        """
        bare = msgspec.structs.replace(command, replacements=())
        self._pass.count([bare])
        self._ahead.append(bare)


def _is_apart(command: Command, others: Sequence[Command]) -> bool:
    """Whether the command's pods and those of the others can be planned independently."""
    touched = _touched(command)
    return all(c.method == "drift" for c in (command, *others)) and all(touched.isdisjoint(_touched(c)) for c in others)


def _touched(command: Command) -> set[str]:
    """Return the nodes that the command removes or moves pods to."""
    return {*command.nodes, *(move.to for move in command.moves)}


def _unfit(claim: str, candidate: Candidate | None, command: Command, fresh: DisruptionPass) -> str:
    """Return why a node of the command no longer qualifies, empty if it does."""
    if candidate is None:
        node = dict(zip(command.claims, command.nodes, strict=True))[claim]
        said = next((b.message for b in fresh.survey.blocked if b.node == node), "it is gone")
        return f"NodeClaim {claim} is no longer a candidate: {said}"
    if not fresh.is_free(candidate, command.reason):
        return blocks(candidate, fresh)[0].message
    if command.reason == TerminationReason.DRIFTED:
        return "" if candidate.drift else f"node {candidate.name} is no longer drifted"
    if command.reason == TerminationReason.UNHEALTHY:
        is_ill = HealthCheck(fresh.states, fresh.snapshot.now).problem(candidate.state.node)
        return "" if is_ill else f"node {candidate.name} is healthy again"
    rule = hindrance(candidate, fresh)
    if rule is not None:
        return rule.message
    if command.reason == TerminationReason.EMPTY and not candidate.is_empty:
        return f"node {candidate.name} is no longer empty"
    return ""


def _of_fewer(candidates: list[Candidate], command: Command, fresh: DisruptionPass) -> Command | Refusal:
    """Return the command for its remaining nodes, with no more new nodes than it had."""
    if command.method == "repack":
        return _simulated(candidates, _without_others(command, candidates), fresh, ())
    found = consolidated(candidates, fresh, method=command.method if len(candidates) > 1 else "single")
    if isinstance(found, Refusal):
        return _refusal(found.message)
    problem = _more(found.replacements, command)
    return _refusal(problem) if problem else found


def _without_others(command: Command, candidates: Sequence[Candidate]) -> Command:
    """Return the part of the command that deletes these of its nodes."""
    staying = {pod.key for candidate in candidates for pod in candidate.state.pods}
    return msgspec.structs.replace(
        command,
        nodes=tuple(candidate.name for candidate in candidates),
        claims=tuple(candidate.claim.name for candidate in candidates),
        moves=tuple(move for move in command.moves if move.pod in staying),
        savings=sum(candidate.price for candidate in candidates),
    )


def _simulated(
    candidates: list[Candidate], command: Command, fresh: DisruptionPass, closed: Collection[str]
) -> Command | Refusal:
    if command.reason == TerminationReason.EMPTY or command.method == "static-drift":
        return command
    if command.method == terminate_first.METHOD:
        problem = next(filter(None, (terminate_first.obstacle(found, fresh.snapshot) for found in candidates)), "")
        return _refusal(problem) if problem else command
    is_drift = command.reason in (TerminationReason.DRIFTED, TerminationReason.UNHEALTHY)
    is_repack = command.method == "repack"
    below = 1 + max((claim.price for claim in command.replacements), default=0) if is_repack else None
    meant = command.moves if is_repack else ()
    closed = {*closed, *fresh.short_lived} if is_repack else closed
    simulation = fresh.simulate(candidates, consolidation=not is_drift, below=below, closed=closed, meant=meant)
    if simulation.stranded:
        return _refusal(simulation.stranded)
    if is_drift:
        return command
    price = sum(c.price for c in candidates)
    if is_repack and command.replacements and _goes_on(fresh.snapshot):
        saves = price > sum(claim.price for claim in simulation.claims)
        return (
            _still_needed(command, candidates) if saves else _refusal("its pods now need new nodes that cost no less")
        )
    if command.replacements and not simulation.claims:
        return msgspec.structs.replace(command, replacements=(), moves=simulation.moves, savings=price)
    if is_repack and command.replacements:
        saves = price > sum(claim.price for claim in simulation.claims)
        return command if saves else _refusal("its pods now need new nodes that cost no less")
    problem = _more(simulation.claims, command) or _lost_type(simulation, command)
    return _refusal(problem) if problem else command


def _goes_on(snapshot: Snapshot) -> bool:
    """Whether the current target has further nodes to drain after the stored commands."""
    return snapshot.stored_target is not None and bool(snapshot.stored_target.drains)


def _still_needed(command: Command, candidates: Sequence[Candidate]) -> Command:
    """Return the command without those new nodes whose pods are all gone.

    Room on other nodes is no reason to drop a new node: it is reserved for later waves, or is on nodes that go later, so that
    pods moved there would move again (docs/adr/0151).
    """
    present = {pod.key for candidate in candidates for pod in candidate.state.pods}
    kept = tuple(claim for claim in command.replacements if not present.isdisjoint(claim.pods))
    if len(kept) == len(command.replacements):
        return command
    names = {claim.name for claim in command.replacements} - {claim.name for claim in kept}
    return msgspec.structs.replace(
        command,
        replacements=kept,
        moves=tuple(move for move in command.moves if move.to not in names),
        savings=command.savings + sum(claim.price for claim in command.replacements if claim.name in names),
        awaits={node: tuple(name for name in awaited if name not in names) for node, awaited in command.awaits.items()},
    )


def _refusal(problem: str) -> Refusal:
    return Refusal(CommandReason.VALIDATION_FAILED, problem)


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
