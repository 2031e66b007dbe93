"""Which NodePool came nearest."""

from __future__ import annotations

from core.reasons.pod import PodReason
from core.scheduling.explanation.verdict import PoolFinding, nearness


def finding(reason: str, nearest: str = "") -> PoolFinding:
    return PoolFinding(node_pool="p", reason=reason, message="", nearest=nearest)


def test_a_toleration_that_is_missing_is_nearer_than_no_room_and_farther_than_limits() -> None:
    """Otherwise a user would be told to raise the limits of a pool that is not theirs, or to resize a pod."""
    order = [
        finding(PodReason.TAINT_NOT_TOLERATED),
        finding(PodReason.REQUIREMENT_NOT_MET),
        finding(PodReason.NO_OFFERING_FITS),
        finding(PodReason.TAINT_NOT_TOLERATED, nearest="a toleration is missing"),
        finding(PodReason.LIMIT_REACHED),
    ]
    assert sorted([*order[3:], *order[:3]], key=nearness) == order
