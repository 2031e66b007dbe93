"""What a launch that failed does to the breaker of its NodePool."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.brakes.brake import Action
from core.brakes.breaker import OPENS_AFTER
from core.lifecycle.records import ClaimPhase
from lambdas.messages import work_on_claim
from tests.fakes.lab import Lab, a_pending_pod


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_launch_that_was_never_tried_does_not_count_in_the_breaker(attempts: int) -> None:
    """Otherwise, a kill switch that stops launches for five minutes opens the breakers of all growing pools."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    stored, now = lab.claim, lab.clock.now()
    lab.cloud.terminate([stored.instance_id])
    untried = {"machine": None, "phase": ClaimPhase.REQUESTED, "requested_at": now - timedelta(minutes=6)}
    lab.rows.claims[stored.name] = msgspec.structs.replace(stored, attempts=attempts, **untried)
    for _ in range(OPENS_AFTER - 1):
        lab.brakes.failed("default", "failed before", now)
    lab.execute(work_on_claim(stored.name, now))
    assert lab.claims == ()
    assert (lab.brakes.engaged().stopping(Action.EXPIRE, "default") is not None) == bool(attempts)
