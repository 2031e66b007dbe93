"""Each instance counts once, for as long as it ran."""

from __future__ import annotations

import msgspec

from core.cost_report.instance_hours import cost, lives, overlap
from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from tests.builders import NOW
from tests.unit.cost_report.period_for_tests import HOUR, a_life


def outcome_of(life: InstanceLife) -> DecisionOutcome:
    at = life.ended_at or life.launched_at
    return DecisionOutcome(decision="d", part=life.instance, state=OutcomeState.DONE, at=at, instance=life)


def test_an_instance_reported_twice_counts_once() -> None:
    """`execute` may terminate it, and `reconcile` may find it gone; a retried message reports it again."""
    launch = a_life()
    end = msgspec.structs.replace(a_life(hours=2), launched_at=NOW - HOUR)
    (life,) = lives(
        [outcome_of(launch), outcome_of(end), outcome_of(msgspec.structs.replace(end, ended_at=NOW + 3 * HOUR))]
    )
    assert (life.launched_at, life.ended_at) == (NOW, NOW + 2 * HOUR)
    assert cost(life.price, overlap(life, NOW + HOUR, NOW + 9 * HOUR)) == 100_000_000
    assert not overlap(life, NOW + 3 * HOUR, NOW + 4 * HOUR)
