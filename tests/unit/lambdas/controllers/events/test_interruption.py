"""When an interrupted instance ends, as its event says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core.lifecycle.draining.replacing import REPLACED_WITHIN, SPOT_NOTICE
from core.reasons.termination import TerminationReason
from lambdas.controllers.events.interruption import read_event
from tests.builders import NOW

SPOT = "EC2 Spot Instance Interruption Warning"
RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"


def an_event(kind: str, time: Any) -> dict[str, Any]:
    return {"source": "aws.ec2", "detail-type": kind, "time": time, "detail": {"instance-id": "i-1"}}


@pytest.mark.parametrize(
    ("kind", "reason", "left"),
    [
        (SPOT, TerminationReason.SPOT_INTERRUPTED, SPOT_NOTICE),
        (RESERVATION, TerminationReason.RESERVATION_INTERRUPTED, SPOT_NOTICE),
        (REBALANCE, TerminationReason.REBALANCE_RECOMMENDED, REPLACED_WITHIN),
    ],
)
def test_the_end_counts_from_the_notice_and_not_from_its_delivery(
    kind: str, reason: TerminationReason, left: timedelta
) -> None:
    """A late event leaves less time for the drain; one without a readable time leaves none that is known."""
    for time, ends_at in ((NOW.isoformat(), NOW + left), ("soon", None), (None, None)):
        found = read_event(an_event(kind, time))
        assert found is not None
        assert (found.reason, found.instance_ids, found.ends_at) == (reason, ("i-1",), ends_at)
