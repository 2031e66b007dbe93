"""Reduces a command to those of its nodes that may still go (docs/adr/0220)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from core import labels
from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.new_nodes import narrowed_claims
from core.disruption.consolidation.payback import WORTHWHILE
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values import resources
from core.reasons.command import CommandReason
from core.reasons.refusal import Refusal


def part_of(command: Command, candidates: Sequence[Candidate], snapshot: Snapshot) -> Command:
    """Return the command for these of its nodes, without new nodes whose pods are all gone or stay where they are.

    Room on other nodes is no reason to drop a new node: it is reserved for later waves, or is on nodes that go later, from
    which pods would move again (docs/adr/0151).
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
            return failed_validation(
                f"spot node {candidates[0].name} is the only one left, and other rules apply to its replacement"
            )
        found = narrowed_claims(claims, sum(candidate.price for candidate in candidates), {}, fresh.snapshot)
        if found is None:
            return failed_validation("the nodes that may still go do not pay for their new nodes")
        part = _with(part, candidates, found)
        if part.savings * WORTHWHILE < sum(candidate.price for candidate in candidates):
            return failed_validation("the nodes that may still go save too little")
    pool = rejecting_pool(candidates, part.savings, fresh.totals)
    text = f"the policy Balanced of NodePool {pool} asks for more saving per moved pod"
    return failed_validation(text) if pool else part


def failed_validation(problem: str) -> Refusal:
    """Return the refusal of a command that no longer holds."""
    return Refusal(CommandReason.VALIDATION_FAILED, problem)


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
            requested = resources.subtract(requested, staying[key].spec.requests)
    return msgspec.structs.replace(
        claim, pods=tuple(key for key in claim.pods if key not in staying), resources=requested
    )
