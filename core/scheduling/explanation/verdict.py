"""Why a pod has no place, as data."""

from __future__ import annotations

import msgspec

from core.reasons.pod import RANK, PodReason


class PoolFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one NodePool could not do for a pod.

    Attributes:
        reason: A code, empty where the pool would do.
        message: The same for people, without the pool's name.
        ruled_out: What ruled out how many instance types, each counted once, by the first constraint that it fails.
        nearest: The type that comes nearest to having room, and what it lacks; empty where that is not the point.
    """

    node_pool: str
    reason: str
    message: str
    ruled_out: dict[str, int] = {}
    nearest: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod has no place, over all NodePools: the code of the pool that came nearest."""

    reason: str
    message: str
    pools: tuple[PoolFinding, ...] = ()


def nearness(finding: PoolFinding) -> int:
    """How near a NodePool came, by the reason that it gives; a toleration that is missing is nearer than no room."""
    if finding.reason == PodReason.TAINT_NOT_TOLERATED and finding.nearest:
        return 2 * RANK[PodReason.NO_OFFERING_FITS] + 1
    return 2 * RANK[finding.reason]
