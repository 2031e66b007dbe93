"""Measures how many instance types launches can choose from: with more types, fewer launches fail and fewer spot nodes end."""

from __future__ import annotations

import statistics
from typing import Any, Final

from core.model.catalogue import InstanceType
from core.model.plan import Plan, PlannedClaim
from core.model.snapshot import Snapshot

TYPES_MIN: Final = 15
BAND: Final = (8, 5)
"""Types count if they cost up to 1.6 times the claim's cheapest."""

_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
_GENERAL: Final = ("c", "m", "r")


def flexibility(snapshot: Snapshot, plan: Plan) -> dict[str, Any] | None:
    """Return the share of claims for general-purpose types that keep enough types in the band; None without such claims.

    `fallback` is the cost of these claims if each got the last of its first 15 types, divided by their price: the cost of using
    the alternatives. Having them costs nothing, since a claim's price is that of its cheapest type.
    """
    kinds = {kind.name: kind for kind in snapshot.catalogue.default}
    claims = [claim for claim in plan.claims if _is_general(claim, kinds)]
    if not claims:
        return None
    counts = [_in_band(claim, kinds) for claim in claims]
    share = sum(count >= TYPES_MIN for count in counts) / len(counts)
    last = sum(_cheapest(kinds[claim.instance_types[:TYPES_MIN][-1]], claim) for claim in claims)
    fallback = last / sum(claim.price for claim in claims) - 1
    return {"claims": len(claims), "share": share, "median": statistics.median(counts), "fallback": fallback}


def _is_general(claim: PlannedClaim, kinds: dict[str, InstanceType]) -> bool:
    return bool(claim.instance_types) and kinds[claim.instance_types[0]].labels.get(_CATEGORY, ("",))[0] in _GENERAL


def _in_band(claim: PlannedClaim, kinds: dict[str, InstanceType]) -> int:
    limit = claim.price * BAND[0] // BAND[1]
    return sum(_cheapest(kinds[name], claim) <= limit for name in claim.instance_types)


def _cheapest(kind: InstanceType, claim: PlannedClaim) -> int:
    return min(
        offering.price
        for offering in kind.offerings
        if offering.available and offering.zone in claim.zones and offering.capacity_type in claim.capacity_types
    )
