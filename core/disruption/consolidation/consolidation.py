"""Decides whether some nodes can be deleted, or replaced by one cheaper node: Karpenter's price rules.

A replacement's most expensive launch must be strictly cheaper than all nodes that it replaces together. If it may be spot, it
must be spot: on-demand would not be cheaper. Spot replaces spot only with the feature gate, and a single node only if fifteen
types are cheaper, so that the next price change does not move it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core import labels
from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.prices import ReplacementOptions
from core.disruption.simulation import Simulation
from core.model.plan import Command, PlannedClaim
from core.reasons.node import NodeReason
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason

FLEXIBLE_TYPES: Final = 15
"""How many cheaper types a lone spot node needs before another spot node may replace it (Karpenter)."""


def consolidated(candidates: Sequence[Candidate], disruption_pass: DisruptionPass, *, method: str) -> Command | Refusal:
    """Return the command that removes these nodes, with no replacement or with one."""
    simulation = disruption_pass.simulate(candidates, consolidation=True)
    refusal = unplaced(simulation)
    if refusal is not None:
        return refusal
    replacements: tuple[PlannedClaim, ...] = ()
    if simulation.claims:
        replacement = _replacement(simulation.claims, candidates, disruption_pass)
        if isinstance(replacement, Refusal):
            return replacement
        replacements = (replacement,)
    savings = sum(c.price for c in candidates) - sum(claim.price for claim in replacements)
    pool = rejecting_pool(candidates, savings, disruption_pass.totals)
    if pool:
        text = f"the savings are too small for the pods that NodePool {pool} (policy Balanced) would have to move"
        return Refusal(NodeReason.BALANCED, text)
    return Command(
        reason=TerminationReason.UNDERUTILIZED,
        method=method,
        nodes=tuple(c.name for c in candidates),
        claims=tuple(c.claim.name for c in candidates),
        replacements=replacements,
        moves=simulation.moves,
        savings=savings,
    )


def unplaced(simulation: Simulation) -> Refusal | None:
    """Return why the simulated move is impossible, whatever it saves; None if it is possible."""
    if simulation.stranded:
        return Refusal(NodeReason.PODS_UNSCHEDULABLE, simulation.stranded)
    if simulation.displaces:
        return Refusal(NodeReason.NO_CHEAPER_OPTION, "pending pods would then need a new node instead")
    return None


def _replacement(
    claims: Sequence[PlannedClaim], candidates: Sequence[Candidate], disruption_pass: DisruptionPass
) -> PlannedClaim | Refusal:
    if len(claims) > 1:
        return Refusal(NodeReason.NO_CHEAPER_OPTION, f"its pods would need {len(claims)} new nodes")
    return affordable(claims[0], sum(c.price for c in candidates), candidates, disruption_pass)


def affordable(
    claim: PlannedClaim, price: int, candidates: Sequence[Candidate], disruption_pass: DisruptionPass
) -> PlannedClaim | Refusal:
    """Return the claim, narrowed to what is strictly cheaper than `price` and not merely the same type as a candidate."""
    options = ReplacementOptions.of(claim, disruption_pass.snapshot)
    is_spot = all(c.capacity_type == labels.SPOT for c in candidates)
    if is_spot and labels.SPOT in claim.capacity_types:
        found = _spot_options(options, price, alone=len(candidates) == 1, disruption_pass=disruption_pass)
    else:
        found = _cheaper(options, price)
        if not isinstance(found, Refusal):
            spot = found.restricted_to(labels.SPOT)
            found = spot if spot.types and not spot.missing_values() else found
    if not isinstance(found, Refusal) and len(candidates) > 1:
        found = _without_same_type(found, candidates)
    return found if isinstance(found, Refusal) else found.planned()


def _cheaper(options: ReplacementOptions, price: int) -> ReplacementOptions | Refusal:
    """Return the types whose most expensive launch is below `price`, or a refusal if there are none or minValues fail."""
    found = options.below(price)
    if not found.types:
        return Refusal(NodeReason.NO_CHEAPER_OPTION, "no cheaper instance type could hold its pods")
    missing = found.missing_values()
    if missing:
        return Refusal(NodeReason.NO_CHEAPER_OPTION, f"too few cheaper instance types for minValues of {missing}")
    return found


def _spot_options(
    options: ReplacementOptions, price: int, *, alone: bool, disruption_pass: DisruptionPass
) -> ReplacementOptions | Refusal:
    if not disruption_pass.snapshot.options.feature_gates.spot_to_spot_consolidation:
        text = "a spot node is replaced by another only with the feature gate SpotToSpotConsolidation"
        return Refusal(NodeReason.SPOT_TO_SPOT, text)
    found = _cheaper(options.restricted_to(labels.SPOT), price)
    if isinstance(found, Refusal) or not alone:
        return found
    if len(found.types) < FLEXIBLE_TYPES:
        text = f"{FLEXIBLE_TYPES} cheaper spot instance types are needed, there are {len(found.types)}"
        return Refusal(NodeReason.SPOT_TO_SPOT, text)
    return found.first(max(FLEXIBLE_TYPES, found.needed_for_min_values()))


def _without_same_type(options: ReplacementOptions, candidates: Sequence[Candidate]) -> ReplacementOptions | Refusal:
    """Keep only types cheaper than every candidate whose type is among the options.

    Otherwise the same type would replace one of several nodes: deleting only the others saves as much with fewer moves.
    """
    cheapest: dict[str, int] = {}
    for candidate in candidates:
        name = candidate.instance_type.name if candidate.instance_type is not None else ""
        cheapest[name] = min(candidate.price, cheapest.get(name, candidate.price))
    shared = [cheapest[t.name] for t, _ in options.types if t.name in cheapest]
    return _cheaper(options, min(shared)) if shared else options
