"""Explains why a target keeps candidates."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_search import TargetSearch
from core.packing.problem import Bools, Floats
from core.reasons.code import ReasonCode
from core.reasons.node import NodeReason


def refuse_the_rest(
    disruption_pass: DisruptionPass, search: TargetSearch, keeps: Bools | None, worth: Floats | None = None
) -> None:
    """Record for every candidate why it stays, as if none went; the entries of candidates that do go are replaced later.

    Args:
        disruption_pass: Receives the refusals.
        search: The search with its findings.
        keeps: [node], whether the target keeps it; None if there is no target.
        worth: [node], a node's price less the cost of its pods elsewhere, in nano-dollars per hour; None if unknown.
    """
    fleet = search.fleet
    for node, candidate in enumerate(fleet.candidates):
        if keeps is not None and not keeps[node]:
            known = disruption_pass.refusals.get(candidate.name)
            if known is not None and known.reason == NodeReason.EVICTION_RATE:
                continue
            text = f"node {candidate.name} goes in a later wave"
            savings = 0 if worth is None else max(0, int(worth[node]))
            disruption_pass.refuse(candidate, NodeReason.LATER_WAVE, text, savings)
            continue
        disruption_pass.refuse(candidate, *_why(fleet, search, node, candidate))


def _why(fleet: TargetFleet, search: TargetSearch, node: int, candidate: Candidate) -> tuple[ReasonCode, str]:
    rows, homeless = fleet.rows, search.realizations.homeless
    stranded = next((pod.key for pod in rows.pods[node] if rows.row_of_pod[pod.key] in homeless), "")
    if stranded:
        return NodeReason.PODS_UNSCHEDULABLE, f"pod {stranded} would find no place"
    if search.realizations.gated[node]:
        text = "its pods would need a new spot node, and the feature gate SpotToSpotConsolidation is off"
        return NodeReason.SPOT_TO_SPOT, text
    pods, price = len(candidate.pods), int(fleet.rows.problem.move_prices[node])
    text = f"no place for its {pods} pods costs less than the node itself"
    if price:
        text += f", with {price / 10**9:.4f} $/h for the moves"
    return NodeReason.NO_CHEAPER_OPTION, text
