"""A recorded period beside its alternative: figures of both, their difference, and how far the simulation is off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cli.answers.what_if_document import _numbers, what_if_document, what_if_markdown, what_if_table
from core.counterfactual.simulated_period import RecordedPeriod, SimulatedPeriod

AT = datetime(2026, 11, 20, tzinfo=UTC)
DOLLAR = 1_000_000_000
RECORDED = RecordedPeriod(since=AT, until=AT + timedelta(hours=2), snapshots=2, cost=100 * DOLLAR)
THEN = SimulatedPeriod(
    cost=100 * DOLLAR,
    by_pool={"general": 100 * DOLLAR},
    hours=3.0,
    launched=2,
    moves=4,
    waited=5,
    unplaced=("a/both", "a/gained"),
    nodes=2,
    commands={"Empty": 1},
    series=(),
)


def simulated(**changes: Any) -> SimulatedPeriod:
    return msgspec.structs.replace(THEN, **changes)


NOW = simulated(cost=90 * DOLLAR, hours=2.5, launched=1, moves=6, waited=5, unplaced=("a/both", "a/lost"), nodes=1)


def told(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("cost", "says"), [(50, "50.0% less"), (150, "50.0% more"), (100, "0.0% less")])
def test_the_simulation_is_compared_with_what_was_spent(cost: int, says: str) -> None:
    """Half of $100 is 50 % less; that $100 are twice as much is another figure."""
    text = what_if_table(what_if_document(RECORDED, simulated(cost=cost * DOLLAR), simulated(cost=cost * DOLLAR)))
    assert f"$100.0000 were spent; simulated: {says}" in told(text)


def test_the_document_has_both_sides_and_the_second_less_the_first() -> None:
    document = what_if_document(RECORDED, THEN, NOW)
    assert (document["from"], document["to"], document["snapshots"]) == (
        "2026-11-20T00:00:00Z",
        "2026-11-20T02:00:00Z",
        2,
    )
    assert document["before"] == {
        "dollars": 100.0,
        "monthly": 36500.0,
        "nodeHours": 3.0,
        "nodesLaunched": 2,
        "moves": 4,
        "podsOnNewNodes": 5,
        "unplaced": ["a/both", "a/gained"],
        "nodesAtEnd": 2,
        "commands": {"Empty": 1},
        "byNodePool": {"general": 100.0},
    }
    assert document["difference"] == {
        "dollars": -10.0,
        "monthly": -3650.0,
        "share": -0.1,
        "moves": 2,
        "podsLost": ["a/lost"],
        "podsGained": ["a/gained"],
    }


ROWS = [
    ("dollars", "100.0000", "90.0000", "-10.0000 (-10.0%)"),
    ("a month", "36,500.00", "32,850.00", "-3,650.00"),
    ("node hours", "3.00", "2.50", "-0.50"),
    ("nodes launched", "2", "1", "-1"),
    ("pods moved", "4", "6", "+2"),
    ("pods that waited for a new node", "5", "5", "+0"),
    ("nodes at the end", "2", "1", "-1"),
]
HEAD = "2026-11-20 00:00 to 2026-11-20 02:00 UTC, 2 snapshots: $100.0000 were spent; simulated: 0.0% less"


def test_text_and_markdown_have_the_same_rows() -> None:
    document = what_if_document(RECORDED, THEN, NOW)
    text, markdown = what_if_table(document), what_if_markdown(document)
    lines = [told(line) for line in text.splitlines()]
    assert told(text).startswith(HEAD)
    assert HEAD in markdown
    for row in ROWS:
        assert " ".join(row) in lines
        assert f"| {' | '.join(row)} |" in markdown
    assert "without a place now: a/lost" in lines
    assert "with a place now: a/gained" in lines
    assert all(f"- {assumed}" in markdown and assumed in told(text) for assumed in document["assumptions"])


def test_of_many_pods_five_are_named_and_without_any_there_is_no_line() -> None:
    pods = tuple(f"a/{number}" for number in range(7))
    text = what_if_table(what_if_document(RECORDED, simulated(unplaced=()), simulated(unplaced=pods)))
    assert "without a place now: a/0, a/1, a/2, a/3, a/4 +2" in text
    assert "with a place now" not in text
    assert "without a place now" not in what_if_table(what_if_document(RECORDED, simulated(), simulated(unplaced=())))


def test_nothing_spent_and_a_period_without_length_have_no_shares() -> None:
    recorded = msgspec.structs.replace(RECORDED, until=AT, cost=0)
    document = what_if_document(recorded, simulated(cost=0), simulated(cost=0))
    assert (document["modelError"], document["difference"]["share"], document["before"]["monthly"]) == (None, None, 0.0)
    text = told(what_if_table(document))
    assert "2 snapshots: $0.0000 were spent AS THEN" in text
    assert "dollars 0.0000 0.0000 +0.0000 a month" in text


def test_a_number_with_fractions_on_either_side_is_told_with_them() -> None:
    for before, after in ((1, 2.5), (1.0, 2), (1, 2)):
        has_fractions = isinstance(before + after, float)
        wanted = (f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}") if has_fractions else ("1", "2", "+1")
        assert _numbers(before, after) == wanted
