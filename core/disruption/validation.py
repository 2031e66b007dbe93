"""Does a command still hold? Asked some seconds after the decision, against a fresh look at the world (Karpenter)."""

from __future__ import annotations

import msgspec

from core.disruption import reasons
from core.disruption.blocking import blocks
from core.disruption.candidate import Candidate
from core.disruption.eligibility import hindrance
from core.disruption.round import Round
from core.disruption.simulation import Simulation
from core.model.plan import Command
from core.model.snapshot import Snapshot


def validate(command: Command, snapshot: Snapshot) -> Command | str:
    """The command as it may be carried out now, or why it no longer holds.

    Every node must still be a candidate for the same reason, budgets must bear all of them, and the scheduler must still
    find a place for their pods with no more and no other new nodes. Where they need none any more, the replacements are left
    out; Karpenter gives such a command up. Drift is carried out whatever it costs, so there only the pods must find a place.
    The command's own marks on the snapshot are looked past.
    """
    marks = tuple(name for name in snapshot.marked_for_deletion if name not in command.claims)
    fresh = Round(msgspec.structs.replace(snapshot, marked_for_deletion=marks))
    by_claim = {c.claim.name: c for c in fresh.survey.candidates}
    missing = [name for name in command.claims if name not in by_claim]
    if missing:
        said = next((b.message for b in fresh.survey.blocked if b.node in command.nodes), "it is gone")
        return f"NodeClaim {missing[0]} is no candidate any more: {said}"
    candidates = [by_claim[name] for name in command.claims]
    for candidate in candidates:
        problem = _unfit(candidate, command, fresh)
        if problem:
            return problem
    if not snapshot.options.ignore_budgets and not fresh.has_budget(candidates, command.reason):
        return f"budgets no longer let {len(candidates)} nodes go for {command.reason}"
    return _simulated(candidates, command, fresh)


def _unfit(candidate: Candidate, command: Command, fresh: Round) -> str:
    """Why the candidate no longer qualifies, empty where it does."""
    if not fresh.is_free(candidate, command.reason):
        return blocks(candidate, fresh)[0].message
    if command.reason == reasons.DRIFTED:
        return "" if candidate.drift else f"node {candidate.name} is no longer drifted"
    rule = hindrance(candidate, fresh)
    if rule is not None:
        return rule.message
    if command.reason == reasons.EMPTY and not candidate.is_empty:
        return f"node {candidate.name} is no longer empty"
    return ""


def _simulated(candidates: list[Candidate], command: Command, fresh: Round) -> Command | str:
    if command.reason == reasons.EMPTY or command.method == "static-drift":
        return command
    is_drift, is_repack = command.reason == reasons.DRIFTED, command.method == "repack"
    below = 1 + max((claim.price for claim in command.replacements), default=0) if is_repack else None
    simulation = fresh.simulate(candidates, consolidation=not is_drift, below=below)
    if simulation.stranded or is_drift:
        return simulation.stranded or command
    price = sum(c.price for c in candidates)
    if command.replacements and not simulation.claims:
        return msgspec.structs.replace(command, replacements=(), moves=simulation.moves, savings=price)
    if is_repack:
        saves = price > sum(claim.price for claim in simulation.claims)
        return command if saves else "its pods now need new nodes that cost no less"
    return _changed(simulation, command) or command


def _changed(simulation: Simulation, command: Command) -> str:
    """Why the new nodes are no longer those of the command, empty where they are."""
    if len(simulation.claims) != len(command.replacements):
        return f"its pods now need {len(simulation.claims)} new nodes, not {len(command.replacements)}"
    possible = {name for claim in simulation.claims for name in claim.instance_types}
    for claim in command.replacements:
        lost = [name for name in claim.instance_types if name not in possible]
        if lost:
            return f"instance type {lost[0]} would no longer do for replacement {claim.name}"
    return ""
