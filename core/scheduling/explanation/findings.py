"""Why a pod has no place, as data: what each NodePool lacks, and the pool that came nearest."""

from __future__ import annotations

import msgspec

from core.reasons.pod import RANK, PodReason


class PoolFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a pod off the nodes of one NodePool.

    Attributes:
        reason: A code, None if nothing does.
        message: The same for people, without the pool's name.
        ruled_out: How many instance types each constraint excluded; each type counts once, by the first constraint that it
            fails.
        nearest: The type that comes nearest to having room, and what it lacks; empty if room is not the reason.
        is_asked_for: Whether only its taint and limits keep the pod off, and the pod requests a device or a label that it has.
    """

    node_pool: str
    reason: str | None
    message: str
    ruled_out: dict[str, int] = {}
    nearest: str = ""
    is_asked_for: bool = False


class PodFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod has no place, over all NodePools: the code of the pool that came nearest."""

    reason: str
    message: str
    pools: tuple[PoolFinding, ...] = ()


def nearness(finding: PoolFinding) -> int:
    """Return how near a NodePool came, by its reason; one that nothing rules out is nearest.

    A taint keeps pods out deliberately: it ranks last, but before lack of room if the pod requests what the pool provides.
    """
    if finding.reason is None:
        return 2 * len(RANK)
    if finding.reason == PodReason.TAINT_NOT_TOLERATED:
        return 2 * RANK[PodReason.NO_OFFERING_FITS] + 1 if finding.is_asked_for else -1
    return 2 * RANK[finding.reason]
