"""`disrupt` learns ramps from the ledger it keeps, an hour at a time, whatever of it cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.ledger import LedgerWriter, RecordedSnapshots, SearchBound
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.forecast import SLOTS_MAX, ForecastRules, GrowthHistory, PodLife, SlotGrowth, extended
from core.ledger.entry import PROVISION, DecisionSummary, LedgerPart
from core.ledger.reading import DECISIONS
from core.model.plan import Plan
from core.model.pod import Pod
from lambdas.controllers.forecast import ForecastRuns
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.account import FakeBrakes
from tests.fakes.lab import SETTINGS
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, MemoryObjects

HOUR = datetime(2026, 11, 30, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
_, NODE = a_node_of(a_type(), "n1", pool="base")


class Course:
    """A ledger with a ramp of five pods at 08:02, and what `disrupt` learns from it."""

    def __init__(self) -> None:
        self.objects, self.rows, self.clock = MemoryObjects(), Rows(), FakeClock(HOUR)
        self.writer = LedgerWriter(self.objects, "test", self.clock)
        self.observed = a_snapshot(node_pools=(a_pool("base"),), types=(a_type(cpu="8", memory="32Gi"),))
        for minute in range(-20, 80, 4):
            self.record(HOUR + minute * MINUTE)

    def pods(self, now: datetime) -> tuple[Pod, ...]:
        old = a_pod("old", node_name="n1", created_at=HOUR - timedelta(days=2))
        new = [
            a_pod(
                f"new-{number}", node_name="n1", created_at=HOUR + 2 * MINUTE, started_at=HOUR + 3 * MINUTE, cpu="500m"
            )
            for number in range(5)
        ]
        return (old, *(new if now >= HOUR + 3 * MINUTE else ()))

    def record(self, now: datetime) -> None:
        self.clock.pause(now - self.clock.now())
        snapshot = a_snapshot(now=now, nodes=(NODE,), pods=self.pods(now))
        draft = self.writer.draft(PROVISION, snapshot, Plan(now=now), SearchBound())
        self.writer.write(draft, DecisionSummary("x", "Launched", (LedgerPart(id=f"c{now}", reason="Launched"),)))

    def run(self, now: datetime, **settings: Any) -> RunReport:
        self.clock.pause(now - self.clock.now())
        chosen = msgspec.structs.replace(SETTINGS, forecast="on", **settings)
        view = SimpleNamespace(snapshot=msgspec.structs.replace(self.observed, now=now), node_pools={})
        runs = ForecastRuns(
            observer=SimpleNamespace(observe=lambda: view),  # type: ignore[arg-type]  # what it uses of it
            recorded=RecordedSnapshots(self.objects, "test", self.clock),
            store=self.rows.stores(FakeBrakes(self.clock)).forecasts,
            ledger=self.writer,
            kubernetes=None,  # type: ignore[arg-type]  # no ramp stops here
            settings=chosen,
            clock=self.clock,
        )
        report = RunReport()
        runs.run(report, deadline=now + timedelta(minutes=5))
        return report

    @property
    def growth(self) -> dict[str, dict[str, tuple[SlotGrowth, ...]]]:
        assert self.rows.growth is not None
        return self.rows.growth.days


@pytest.fixture
def course() -> Course:
    return Course()


def test_each_settled_hour_of_the_ledger_is_read_once(course: Course) -> None:
    listed: list[str] = []
    keys = course.objects.keys
    course.objects.keys = lambda prefix, after="": listed.append(prefix) or keys(prefix, after)  # type: ignore[method-assign, func-returns-value]  # counts
    first = course.run(HOUR + timedelta(hours=1, minutes=14))
    assert len(listed) < 50, "a day that is over is listed once"
    assert first.counts["forecastHours"] == 29 * 24 - 1, "weeks without decisions cost nothing"
    assert course.growth == {}, "08:00 to 09:00 is settled at 09:15"
    assert course.run(HOUR + timedelta(hours=1, minutes=15)).counts["forecastHours"] == 1
    (slots,) = (pools["base"] for pools in course.growth.values())
    assert [(growth.slot, growth.pods, growth.waited) for growth in slots] == [(96, 5, 60)]
    assert course.rows.growth is not None
    assert course.rows.growth.since == HOUR - 20 * MINUTE
    assert course.run(HOUR + timedelta(hours=1, minutes=16)).counts["forecastHours"] == 0
    assert course.rows.forecast is not None


def test_other_clocks_start_an_empty_history(course: Course) -> None:
    course.run(HOUR + timedelta(hours=2))
    course.run(HOUR + timedelta(hours=2), forecast_time_zone="Europe/Berlin")
    assert course.rows.growth is not None
    assert course.rows.growth.time_zone == "Europe/Berlin"
    assert [growth.slot for growth in course.growth["2026-11-30"]["base"]] == [108]


def test_entries_that_cannot_be_read_are_left_out(course: Course) -> None:
    for number, key in enumerate(sorted(key for key in course.objects.objects if key.startswith(DECISIONS))):
        if number % 2:
            course.objects.objects[key] = b"damaged"
    report = course.run(HOUR + timedelta(hours=2))
    assert report.counts.get("unexpectedErrors", 0) == 0
    assert course.growth["2026-11-30"]["base"][0].pods == 5


def test_a_table_that_fails_harms_nothing_else(course: Course) -> None:
    def fails(what: str) -> None:
        raise TransientError("dynamodb:PutItem", what)

    course.rows.before_call = fails
    report = course.run(HOUR + timedelta(hours=2))
    assert report.counts["portErrors"] == 1
    course.rows.before_call = lambda _: None
    course.run(HOUR + timedelta(hours=2))
    assert "2026-11-30" in course.growth


def test_the_history_of_a_day_is_bounded() -> None:
    rules, start = ForecastRules(time_zone="UTC"), HOUR.replace(hour=0)
    history = GrowthHistory(time_zone="UTC", since=start, read_until=start)
    for hour in range(24):
        now = start + timedelta(hours=hour)
        day = {"2026-11-30": {"base": [SlotGrowth(12 * hour + n, hour + 1, 1, 1, 1) for n in range(12)]}}
        lives = _lives_of(day, now)
        history = extended(history, lives, now + timedelta(hours=1), rules)
    slots = history.days["2026-11-30"]["base"]
    assert len(slots) == SLOTS_MAX
    assert min(growth.pods for growth in slots) > 20, "the largest stay"


def _lives_of(day: dict[str, dict[str, list[SlotGrowth]]], now: datetime) -> list[PodLife]:
    return [
        PodLife(
            pool="base",
            created_at=now + (growth.slot % 12) * 5 * MINUTE,
            gone_at=now + (growth.slot % 12) * 5 * MINUTE + MINUTE,
            requests={"pods": 1, "cpu": 1, "memory": 1},
            waited=timedelta(0),
        )
        for growth in day["2026-11-30"]["base"]
        for _ in range(growth.pods)
    ]
