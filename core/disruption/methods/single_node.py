"""Single-node consolidation: deletes one node, or replaces it by a cheaper one."""

from __future__ import annotations

from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.consolidation import consolidated
from core.disruption.consolidation.eligibility import underutilized
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.node import NodeReason
from core.reasons.refusal import Refusal


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first candidate for which there is one.

    Pools take turns, so that a large one does not starve the others.
    """
    for candidate in _in_turns(underutilized(disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        if (
            candidate.name in disruption_pass.refusals
        ):  # a refused node stays refused: the cluster has only become fuller since
            continue
        pool = rejecting_pool([candidate], candidate.price, disruption_pass.totals)
        if pool:  # deletion saves the most; if that is not worthwhile, no replacement is
            disruption_pass.refuse(
                candidate, NodeReason.BALANCED, f"even deleting it saves too little for NodePool {pool} (Balanced)"
            )
            continue
        found = consolidated([candidate], disruption_pass, method="single")
        if not isinstance(found, Refusal):
            return [found]
        disruption_pass.refuse(candidate, found.reason, found.message)
    return []


def _in_turns(candidates: list[Candidate]) -> list[Candidate]:
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    turns = [(place, name, c) for name, own in by_pool.items() for place, c in enumerate(own)]
    return [candidate for _, _, candidate in sorted(turns, key=lambda turn: turn[:2])]
