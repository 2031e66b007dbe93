"""The period that a report covers: as asked for, or from the first record to the last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cli.errors import InputError
from cli.ledger.period_reader import REACHED_BACK, PeriodReader
from tests.builders import NOW
from tests.unit.cli.ledger.stored import MemoryLedger, an_entry, asked
from tests.unit.cli.ledger.test_past import PLAN, WORLD, disrupted, provisioned

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


LEDGER = MemoryLedger(*(an_entry(f"entry-{hours}", at(hours)) for hours in (0, 1, 2, 3)))


@pytest.mark.parametrize(
    ("since", "until", "count", "begins", "ends"),
    [
        (None, None, 4, 0, 3),
        (None, 2, 3, 0, 2),
        (None, 2.5, 3, 0, 2.5),
        (1, None, 3, 1, 3),
        (1.5, 2.5, 1, 2, 2.5),
        (-5, 9, 4, 0, 9),
    ],
)
def test_the_period_is_the_one_asked_for_as_far_as_there_are_records(
    since: float | None, until: float | None, count: int, begins: float, ends: float
) -> None:
    given = {"since": None if since is None else at(since), "until": None if until is None else at(until)}
    period = PeriodReader(LEDGER, asked(**given))
    assert (len(period), period.since, period.until) == (count, at(begins), at(ends))


@pytest.mark.parametrize(
    ("since", "count", "begins"),
    [(1.5, 3, 1.5), (1, 4, 1), (0, 4, 0), (None, 4, 0), (3 + REACHED_BACK / timedelta(hours=1), 1, None)],
)
def test_a_period_may_begin_with_the_snapshot_that_was_current_then(
    since: float | None, count: int, begins: float | None
) -> None:
    """An unchanged cluster is not recorded."""
    moment = None if since is None else at(since)
    period = PeriodReader(LEDGER, asked(since=moment), reaches_back=True)
    assert (len(period), period.since) == (count, moment if begins is None else at(begins))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"since": at(4)}, "there is no decision of that time"),
        ({"until": at(-1)}, "there is no decision of that time"),
        ({}, "the ledger has several clusters: prod, test"),
    ],
)
def test_a_period_without_records_or_of_several_clusters_is_refused(given: dict[str, Any], problem: str) -> None:
    ledger = MemoryLedger(an_entry("a", at(0)), an_entry("b", at(0), cluster="test"))
    with pytest.raises(InputError, match=problem):
        PeriodReader(ledger, asked(**given))
    assert len(PeriodReader(ledger, asked(cluster="test"))) == 1


def test_decisions_come_with_their_snapshots_and_those_to_disrupt_with_their_plans() -> None:
    """A snapshot that was current when the period began counts from there."""
    ledger = provisioned(disrupted(MemoryLedger(), at=NOW), at=NOW + timedelta(hours=1))
    first, second = PeriodReader(ledger, asked()).decisions()
    assert (first.entry.id, first.plan, second.entry.id, second.plan) == ("bbbb1", PLAN, "aaaa1", None)
    assert first.snapshot.pods == WORLD.pods
    later = NOW + timedelta(minutes=30)
    snapshots = list(PeriodReader(ledger, asked(since=later), reaches_back=True))
    assert [snapshot.now for snapshot in snapshots] == [later, later]


def test_a_snapshot_of_the_first_moment_stays_as_it_is() -> None:
    ledger = provisioned(MemoryLedger(), "aaaa1", at=NOW)
    reader = PeriodReader(ledger, asked(since=NOW))
    assert reader.within(WORLD) is WORLD
    older = reader.within(msgspec.structs.replace(WORLD, now=NOW - timedelta(seconds=1)))
    assert older == WORLD
