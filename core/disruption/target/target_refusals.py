"""Explains why a target keeps candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_search import TargetSearch
from core.packing.problem import Bools, Floats
from core.reasons.code import ReasonCode
from core.reasons.node import NodeReason


class WaveObjection(NamedTuple):
    """Why a node does not go with the wave that begins now, apart from budgets: a code, and text that completes a sentence."""

    reason: NodeReason
    message: str


NO_SLOTS: Final = WaveObjection(
    NodeReason.PODS_UNSCHEDULABLE, "the places for its pods are not open yet: pods of spot nodes have no others"
)
SLOT_DENIED: Final = WaveObjection(
    NodeReason.PODS_UNSCHEDULABLE,
    "a rule denies one of its pods its place: once the pods of other nodes have moved there, or until they have",
)
SLOT_CHANGED: Final = WaveObjection(
    NodeReason.CONSOLIDATE_AFTER, "consolidateAfter is not over for a node to which its pods would go"
)
NO_LIMITS: Final = WaveObjection(
    NodeReason.PODS_UNSCHEDULABLE, "limits of NodePools leave no room for new nodes while this one is there"
)
TOO_DEAR: Final = WaveObjection(
    NodeReason.NO_CHEAPER_OPTION, "the new nodes for its pods may become as expensive as what they replace"
)
NO_SAVING: Final = WaveObjection(NodeReason.NO_CHEAPER_OPTION, "what it saves by itself is too little for new nodes")
TOGETHER_ONLY: Final = WaveObjection(
    NodeReason.BUDGET, "it saves only together with more nodes than budgets let go at one time"
)


class TargetWaveResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The part of a target that does not begin now.

    Attributes:
        keeps: [node], whether the target keeps it; None without a target.
        worth: [node], its price less the cost of its pods elsewhere, in nano-dollars per hour; None if unknown.
        objections: Node → why it does not go now, apart from budgets. It may name a node that this target keeps, but that a
            discarded target drained.
        goes_on: Whether later waves are still expected: commands begin now or are in progress.
    """

    keeps: Bools | None = None
    worth: Floats | None = None
    objections: Mapping[str, WaveObjection] = {}
    goes_on: bool = True


def waits(held: Iterable[Candidate], until: datetime) -> WaveObjection:
    """Return why a node stays that the target keeps or does not know, while the target waits for held nodes."""
    first, *others = sorted(candidate.name for candidate in held)
    names = f"{first} and {len(others)} more" if others else first
    text = (
        f"no other target is made until {until:%Y-%m-%dT%H:%M:%SZ}: "
        f"PodDisruptionBudgets keep {names} while pods that were moved start"
    )
    return WaveObjection(NodeReason.TARGET_WAITS, text)


def waits_for_budgets(fleet: TargetFleet, keeps: Bools, disruption_pass: DisruptionPass) -> dict[str, WaveObjection]:
    """Return node → why it stays that a target keeps or does not know, while the target waits for leaving nodes.

    Nothing is computed for such a node. The text has the budgets that keep it, or else the first node of the target, and the
    nodes that use them up.
    """
    budgets, found = disruption_pass.budgets, dict[str, WaveObjection]()
    going = next((node for node, stays in enumerate(keeps) if not stays), None)
    awaited = "" if going is None else budgets.objection(fleet.candidates[going], fleet.reason(going))
    for node, candidate in enumerate(fleet.candidates):
        if keeps[node]:
            why = budgets.objection(candidate, fleet.reason(node)) or awaited
            text = f"nothing is decided about it while the current target waits: {why}"
            found[candidate.name] = WaveObjection(NodeReason.TARGET_WAITS, text)
    return found


def refuse_the_rest(disruption_pass: DisruptionPass, search: TargetSearch, left: TargetWaveResult) -> None:
    """Record for every candidate why it stays, as if none went; candidates that do go lose their refusal later.

    A node that the target drains is refused as "later wave" only if an earlier wave is to come. Otherwise its own objection is
    the reason.
    """
    fleet = search.fleet
    for node, candidate in enumerate(fleet.candidates):
        if left.keeps is None or left.keeps[node]:
            why = left.objections.get(candidate.name) or _why(fleet, search, node, candidate)
            disruption_pass.refuse(candidate, *why)
            continue
        known = disruption_pass.refusals.get(candidate.name)
        if known is None or known.reason != NodeReason.EVICTION_RATE:
            _refuse_for_now(disruption_pass, candidate, left, node)


def _refuse_for_now(disruption_pass: DisruptionPass, candidate: Candidate, left: TargetWaveResult, node: int) -> None:
    savings = 0 if left.worth is None else max(0, int(left.worth[node]))
    objection = left.objections.get(candidate.name)
    if objection is not None and not left.goes_on:
        disruption_pass.refuse(candidate, *objection, savings)
        return
    text = f"node {candidate.name} goes in a later wave" + (f": {objection.message}" if objection is not None else "")
    disruption_pass.refuse(candidate, NodeReason.LATER_WAVE, text, savings)


def _why(fleet: TargetFleet, search: TargetSearch, node: int, candidate: Candidate) -> tuple[ReasonCode, str]:
    rows, unplaced_items = fleet.rows, search.realizations.unplaced_items
    stranded = next((pod.key for pod in rows.pods[node] if rows.row_of_pod[pod.key] in unplaced_items), "")
    if stranded:
        return NodeReason.PODS_UNSCHEDULABLE, f"pod {stranded} would find no place"
    if search.realizations.gated[node]:
        text = "its pods would need a new spot node, and the feature gate SpotToSpotConsolidation is off"
        return NodeReason.SPOT_TO_SPOT, text
    pods, price = len(candidate.pods), int(fleet.rows.problem.move_prices[node])
    text = f"no place for its {'pod' if pods == 1 else f'{pods} pods'} costs less than the node itself"
    if price:
        text += f", with ${price / 10**9:.4f} an hour for the moves"
    return NodeReason.NO_CHEAPER_OPTION, text
