"""Which NodePool came nearest."""

from __future__ import annotations

from core.reasons.pod import PodReason
from core.scheduling.explanation.findings import PoolFinding, nearness


def finding(reason: str, *, is_asked_for: bool = False) -> PoolFinding:
    return PoolFinding(node_pool="p", reason=reason, message="", is_asked_for=is_asked_for)


def test_a_taint_is_the_last_reason_unless_the_pod_requests_the_pools_device() -> None:
    """A web pod should not be told to tolerate the GPU nodes' taint; a GPU pod should be."""
    order = [
        finding(PodReason.TAINT_NOT_TOLERATED),
        finding(PodReason.NO_NODE_POOL),
        finding(PodReason.REQUIREMENT_NOT_MET),
        finding(PodReason.NO_OFFERING_FITS),
        finding(PodReason.TAINT_NOT_TOLERATED, is_asked_for=True),
        finding(PodReason.LIMIT_REACHED),
    ]
    assert sorted([*order[3:], *order[:3]], key=nearness) == order
