"""Drains without progress are counted in each round, and those that last for a day apart."""

from __future__ import annotations

import msgspec
import pytest

from core.lifecycle.draining.escalation import EscalationLevel
from core.lifecycle.records import Deletion
from installation.metric_names import DRAINS_BLOCKED, DRAINS_BLOCKED_FOR_A_DAY
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend, sweep


@pytest.mark.parametrize(
    ("level", "blocked", "for_a_day"),
    [
        (None, 0, 0),
        (0, 0, 0),
        (EscalationLevel.SLOW, 0, 0),
        (EscalationLevel.BLOCKED, 1, 0),
        (EscalationLevel.LASTING, 1, 0),
        (EscalationLevel.ALARMING, 1, 1),
    ],
)
def test_a_drain_counts_from_the_level_at_which_it_is_blocked(level: int | None, blocked: int, for_a_day: int) -> None:
    lab = a_working_node()
    if level is not None:
        going = Deletion(reason="Empty", asked_at=lab.clock.now())
        amend(lab, deletion=msgspec.structs.replace(going, escalation_level=int(level)))
    assert sweep(lab, "blockedDrains").counts == {DRAINS_BLOCKED: blocked, DRAINS_BLOCKED_FOR_A_DAY: for_a_day}
