"""What the claims of a cap cost in a day or a month."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.lifecycle.metering import (
    PRICE_CHANGES_MAX,
    SpendMeter,
    cost,
    counted_by_caps,
    offered_as,
    readings_due,
    spending,
    whole_costs,
)
from core.lifecycle.records import ClaimRecord, Machine, Moments
from core.model.catalogue import Offering
from core.model.node_pool import DAY, MONTH, Calendar, Cap
from core.model.plan import ObjectRef, PlannedClaim
from core.model.snapshot import Spending
from core.model.values.quantity import HOURLY, PPM, dollars, nanodollars
from core.pools import with_charges
from core.spending import bounds, period_states
from tests.builders import a_pool, a_snapshot

HOUR = timedelta(hours=1)


START = datetime(2026, 11, 2, tzinfo=UTC)


def a_cap(**changes: Any) -> Cap:
    return Cap(**{"name": "costs/shop", "namespaces": ("shop",), "periods": {DAY: nanodollars(24)}, **changes})


def calendars(*caps: Cap, **changes: Any) -> tuple[Calendar, ...]:
    return (Calendar(name="costs", caps=caps or (a_cap(),), **changes),)


def a_claim(name: str, launched_at: datetime, *, price: float = 1.0, share: int = PPM) -> ClaimRecord:
    plan = PlannedClaim(
        name=name,
        node_pool="default",
        node_class=ObjectRef("", "", ""),
        annotations=with_charges({}, {"costs/shop": share}),
    )
    offering = Offering("m5.large", "a", "spot", nanodollars(price))
    return ClaimRecord(
        name=name,
        plan=plan,
        token=name,
        requested_at=launched_at,
        phase_since=launched_at,
        machine=Machine(instance_id=name, provider_id=name, offering=offering),
        moments=Moments(launched_at=launched_at),
    )


class Meters:
    """A table in which claims begin and end, and meters are read now and then."""

    def __init__(self, *caps: Cap) -> None:
        self.calendars = calendars(*caps)
        self.claims: list[ClaimRecord] = []
        self.meters: dict[str, SpendMeter] = {}

    def end(self, claim: ClaimRecord, now: datetime) -> None:
        self.claims.remove(claim)
        for cap, amount in whole_costs(claim, now).items():
            meter = self.meters.get(cap, SpendMeter(cap=cap))
            self.meters[cap] = msgspec.structs.replace(meter, ended=meter.ended + amount)

    def read(self, now: datetime) -> None:
        for cap, period, start, reading in readings_due(self.calendars, self.meters, self.claims, now):
            meter = self.meters.get(cap, SpendMeter(cap=cap))
            readings = {**meter.readings, period: (start, reading)}
            self.meters[cap] = msgspec.structs.replace(meter, readings=readings)

    def spent(self, now: datetime) -> tuple[Spending, ...]:
        return spending(self.calendars, self.meters, self.claims, now)


_STEPS = st.lists(
    st.tuples(st.integers(1, 300), st.integers(1, 40), st.integers(1, PPM), st.booleans()), min_size=1, max_size=40
)


@given(_STEPS, st.integers(0, 20))
def test_what_a_period_has_spent_is_the_cost_of_its_part_of_every_claims_life(
    steps: list[tuple[int, int, int, bool]], reads_from: int
) -> None:
    """Claims may begin before the period and end in it; the meter is read some minutes after its start."""
    table, now, ended = Meters(), START - 2 * HOUR, list[tuple[ClaimRecord, datetime]]()
    table.read(now)  # what ends before the first reading of a meter counts in no period
    for index, (minutes, price, share, ends) in enumerate(steps):
        if now < START <= now + timedelta(minutes=minutes):
            table.read(START)
        now += timedelta(minutes=minutes)
        if index >= reads_from:
            table.read(now)
        if ends and table.claims:
            ended.append((table.claims[0], now))
            table.end(table.claims[0], now)
        else:
            table.claims.append(a_claim(f"c{index}", now, price=price / 10, share=share))
    (entry,) = table.spent(now)
    start, _ = bounds(DAY, "UTC", now)
    lives = [*ended, *((claim, now) for claim in table.claims)]
    expected = sum(cost(claim, "costs/shop", start, end) for claim, end in lives if end > start)
    assert entry.since == start
    if start == START or start < START:
        assert abs(entry.spent - expected) <= 2 * len(lives), "rounding of each claim alone"


@pytest.mark.parametrize(
    "place", ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]
)
def test_a_calendar_in_another_zone_keeps_what_the_month_has_spent(place: str) -> None:
    month = START.replace(day=1)
    table = Meters(a_cap(periods={MONTH: nanodollars(100)}))
    table.read(month)
    claim = a_claim("a", month + 5 * 24 * HOUR)
    table.claims.append(claim)
    table.end(claim, month + 6 * 24 * HOUR)
    table.calendars = calendars(a_cap(periods={MONTH: nanodollars(100)}, time_zone=place))
    for day in (7, 20, 28):
        table.read(month + day * 24 * HOUR)
        assert dollars(table.spent(month + day * 24 * HOUR)[0].spent) == 24.0
    following, _ = bounds(MONTH, place, month + 40 * 24 * HOUR)
    table.read(following)
    assert table.spent(following + HOUR)[0].spent == 0


def test_a_claim_costs_from_its_launch_until_its_termination_is_asked_for() -> None:
    claim = a_claim("a", START, price=2.0, share=PPM // 2)
    assert dollars(cost(claim, "costs/shop", None, START + 3 * HOUR)) == 3.0
    assert dollars(cost(claim, "costs/shop", START + HOUR, START + 3 * HOUR)) == 2.0
    assert cost(claim, "costs/other", None, START + HOUR) == 0
    assert whole_costs(msgspec.structs.replace(claim, machine=None), START + HOUR) == {}


def test_a_price_that_changes_counts_from_then_on() -> None:
    """EC2 bills a spot instance at the price of the hour, not at that of its launch."""
    claim, pool = a_claim("a", START, price=1.0), a_pool(limits={HOURLY: nanodollars(9)}, caps=(a_cap(),))
    risen = counted_by_caps(claim, pool, nanodollars(3), START + HOUR)
    assert (risen.hourly, risen.reserved[HOURLY]) == (nanodollars(3), nanodollars(3))
    fallen = counted_by_caps(risen, pool, nanodollars(0.5), START + 2 * HOUR)
    for since, until, expected in ((0, 1, 1.0), (0, 3, 4.5), (1, 3, 3.5), (2, 4, 1.0), (5, 4, 0.0)):
        amount = cost(fallen, "costs/shop", START + since * HOUR, START + until * HOUR)
        assert dollars(amount) == expected, (since, until)
    assert msgspec.convert(msgspec.to_builtins(fallen), ClaimRecord) == fallen
    (entry,) = spending(calendars(), {}, [fallen], START + 3 * HOUR)
    assert (dollars(entry.spent), dollars(entry.hourly)) == (4.5, 0.5)


@pytest.mark.parametrize(
    ("price", "noted"), [(1.0, False), (1.000001, True), (0.991, False), (0.989, True), (0.0, False)]
)
def test_every_rise_of_a_price_is_noted_and_a_fall_of_one_percent(price: float, noted: bool) -> None:
    """A price of zero is unknown."""
    pool = a_pool(limits={HOURLY: nanodollars(9)}, caps=(a_cap(),))
    claim = counted_by_caps(a_claim("a", START, price=1.0), pool, nanodollars(1), START)
    assert (counted_by_caps(claim, pool, nanodollars(price), START + HOUR) is not claim) == noted


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**10)), min_size=1, max_size=3 * PRICE_CHANGES_MAX))
def test_a_claim_costs_the_same_however_often_its_price_changes(changes: list[tuple[int, int]]) -> None:
    """Many changes are joined; a period that is read at the end of any of them loses nothing."""
    pool, claim = a_pool(limits={HOURLY: 1}, caps=(a_cap(),)), a_claim("a", START)
    now, expected = START, 0
    for seconds, price in changes:
        expected += claim.hourly * seconds
        now += timedelta(seconds=seconds)
        claim = counted_by_caps(claim, pool, price, now)
        assert len(claim.price_changes) <= PRICE_CHANGES_MAX
    exact = -(-expected // 3600)
    rounding = len(changes) * ((now - START) // HOUR + 1)
    assert exact <= cost(claim, "costs/shop", None, now) <= exact + rounding, "means are rounded up"


def test_a_machine_that_is_offered_otherwise_counts_as_before_until_then() -> None:
    claim = a_claim("a", START, price=0.5)
    assert claim.machine is not None
    on_demand = msgspec.structs.replace(claim.machine, offering=Offering("m5.large", "a", "on-demand", nanodollars(4)))
    after = offered_as(claim, on_demand)
    assert cost(after, "costs/shop", None, START + HOUR) == nanodollars(0.5)
    pool = a_pool(limits={HOURLY: nanodollars(9)}, caps=(a_cap(),))
    counted = counted_by_caps(after, pool, nanodollars(4), START + HOUR)
    assert dollars(cost(counted, "costs/shop", None, START + 2 * HOUR)) == 4.5


def test_a_row_of_an_earlier_release_counts_from_its_launch() -> None:
    claim = msgspec.structs.replace(
        a_claim("a", START), limit_groups=("costs/all",), counted_since={"costs/all": START}
    )
    row = msgspec.to_builtins(claim)
    assert msgspec.convert(row, ClaimRecord) == claim
    del row["counted_since"]
    assert dollars(cost(msgspec.convert(row, ClaimRecord), "costs/all", None, START + 2 * HOUR)) == 2.0


# What may be launched: never more than a period has left.


LIMITS = {DAY: nanodollars(30), MONTH: nanodollars(100)}


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 80), st.booleans()), min_size=1, max_size=80),
    st.sampled_from((None, 3 * HOUR, 10 * HOUR)),
)
@example([(1380, 20, False), *[(1, 20, False)] * 9, *[(400, 1, False)] * 3], None)  # late in the day
def test_no_period_is_overshot_if_no_node_runs_for_longer_than_is_counted(
    steps: list[tuple[int, int, bool]], ahead: timedelta | None
) -> None:
    """Whatever begins and ends in which order, over days and the end of the month."""
    table, now = Meters(a_cap(periods=LIMITS, ahead=ahead)), datetime(2026, 11, 29, tzinfo=UTC)
    table.read(now)
    for index, (minutes, price, ends) in enumerate(steps):
        now += timedelta(minutes=minutes)
        for claim in list(table.claims):
            gone = claim.requested_at + (ahead or 24 * HOUR)
            if gone <= now:
                table.read(gone)
                table.end(claim, gone)
        table.read(now)
        spent = table.spent(now)
        assert all(entry.spent <= LIMITS[entry.period] + RESOLUTION * (index + 1) for entry in spent)
        snapshot = a_snapshot(now=now, calendars=table.calendars, spending=spent, node_pools=(a_pool(),))
        allowed = min(state.allowed for state in period_states(snapshot))
        if ends and table.claims:
            table.end(table.claims[0], now)
        elif spent[0].hourly + nanodollars(price / 20) <= allowed:
            table.claims.append(a_claim(f"c{index}", now, price=price / 20))


RESOLUTION = 10**3
"""Nano-dollars by which the rounding of one claim's cost may differ."""
