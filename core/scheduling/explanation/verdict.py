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
        is_asked_for: The pool would do but for its taint and its limits, and the pod asks for a device or a label that it has.
    """

    node_pool: str
    reason: str
    message: str
    ruled_out: dict[str, int] = {}
    nearest: str = ""
    is_asked_for: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod has no place, over all NodePools: the code of the pool that came nearest."""

    reason: str
    message: str
    pools: tuple[PoolFinding, ...] = ()


def nearness(finding: PoolFinding) -> int:
    """How near a NodePool came, by the reason that it gives.

    A taint keeps pods out on purpose: it comes last, but before no room where the pod asks for what the pool is there for.
    """
    if finding.reason == PodReason.TAINT_NOT_TOLERATED:
        return 2 * RANK[PodReason.NO_OFFERING_FITS] + 1 if finding.is_asked_for else -1
    return 2 * RANK[finding.reason]
