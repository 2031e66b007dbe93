"""The sentence that says how far a simulation is from what was spent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.answers.what_if_document import what_if_document, what_if_table
from core.counterfactual.fleet_simulation import RecordedPeriod, SimulatedPeriod

AT = datetime(2026, 11, 20, tzinfo=UTC)
DOLLAR = 1_000_000_000


def simulated(cost: int) -> SimulatedPeriod:
    return SimulatedPeriod(
        cost=cost, by_pool={}, hours=1.0, launched=1, moves=0, waited=0, unplaced=(), nodes=0, commands={}, series=()
    )


@pytest.mark.parametrize(("cost", "says"), [(50, "50.0% less"), (150, "50.0% more"), (100, "0.0% less")])
def test_the_simulation_is_compared_with_what_was_spent(cost: int, says: str) -> None:
    """Half of $100 is 50 % less; that $100 are twice as much is another figure."""
    recorded = RecordedPeriod(since=AT, until=AT + timedelta(hours=1), snapshots=2, cost=100 * DOLLAR)
    told = what_if_table(what_if_document(recorded, simulated(cost * DOLLAR), simulated(cost * DOLLAR)))
    assert f"$100.0000 were spent; simulated: {says}" in " ".join(told.split())
