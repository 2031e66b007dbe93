"""How many instance types a launch may choose from: the wider the choice, the rarer a launch fails or a spot node goes."""

from __future__ import annotations

import statistics
from typing import Any, Final

from core.model.catalogue import InstanceType
from core.model.plan import Plan, PlannedClaim
from core.model.snapshot import Snapshot

TYPES_MIN: Final = 15
BAND: Final = (8, 5)
"""Types count that cost up to 1.6 times the claim's cheapest."""

_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
_GENERAL: Final = ("c", "m", "r")


def flexibility(snapshot: Snapshot, plan: Plan) -> dict[str, Any] | None:
    """Of the claims for general-purpose types, the share that keeps enough types in the band; None without such claims."""
    kinds = {kind.name: kind for kind in snapshot.catalogue.default}
    counts = [
        _in_band(claim, kinds)
        for claim in plan.claims
        if claim.instance_types and kinds[claim.instance_types[0]].labels.get(_CATEGORY, ("",))[0] in _GENERAL
    ]
    if not counts:
        return None
    share = sum(count >= TYPES_MIN for count in counts) / len(counts)
    return {"claims": len(counts), "share": share, "median": statistics.median(counts)}


def _in_band(claim: PlannedClaim, kinds: dict[str, InstanceType]) -> int:
    limit = claim.price * BAND[0] // BAND[1]
    return sum(_cheapest(kinds[name], claim) <= limit for name in claim.instance_types)


def _cheapest(kind: InstanceType, claim: PlannedClaim) -> int:
    return min(
        offering.price
        for offering in kind.offerings
        if offering.available and offering.zone in claim.zones and offering.capacity_type in claim.capacity_types
    )
