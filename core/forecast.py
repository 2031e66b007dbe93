"""Forecasts ramps that recur each week, and says how much warm room ahead of them would have been used.

A slot's growth is how many more pods a NodePool has at most in it than at its beginning, and what they request: pods that
replace others are none. Slots that follow each other are one ramp. Its room is a quantile of the same slots' growth on the same
weekdays, and pods that come use it up: room that was made again behind them would outlast the ramp. The forecast of each day
from the other days says how much of it is used; a ramp whose room is hardly used is left out. The forecasts of the last days
from the days before them alone say if it still is: a ramp that no longer comes gets no room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec

from core.calendars import as_written, holds, wall_time, warm_buffer, zone
from core.model.node_pool import Calendar, CalendarRule, CalendarSettings, CalendarWindow, WarmRoom
from core.model.snapshot import Snapshot
from core.model.values.quantity import dollars, render
from core.pods import (
    CPU,
    MEMORY,
    PODS,
    RESOURCES,
    Fall,
    Growths,
    PodLife,
    SlotGrowth,
    emptiest_pools,
    fall_rule,
    recurring_falls,
    with_departures,
)
from core.scheduling import schedule

_ROUNDED_TO: Final = {CPU: 10, MEMORY: 1 << 20}
"""Requests of the room's pods are rounded up to ten thousandths of a CPU and to mebibytes."""

DAY: Final = timedelta(days=1)
SLOT: Final = timedelta(minutes=5)
_SECOND: Final = timedelta(seconds=1)

# The ramps that recur.


class ForecastRules(msgspec.Struct, frozen=True, kw_only=True):
    """How ramps are recognised, and what room for them may cost.

    Attributes:
        slot: The length of a slot; a day is divided into whole ones.
        percentile: Which of the days' growths the room is for.
        days_min: On how many days a weekday must have been recorded.
        used_min_percent: How much of the room must be used on the mean day; a ramp below that is left out.
        except_dates: Dates (ISO) that are no evidence and get no room, such as holidays.
        nanodollars_per_hour: What the room of one NodePool may cost an hour, None for any amount.
    """

    time_zone: str
    slot: timedelta = SLOT
    percentile: int = 90
    days_min: int = 3
    used_min_percent: int = 50
    except_dates: tuple[str, ...] = ()
    nanodollars_per_hour: int | None = None


class RoomUse(msgspec.Struct, frozen=True, array_like=True):
    """One day's room, forecast from the days before it, and how many pods came."""

    date: str
    room: int
    came: int


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """A growth that recurs at the same time of some weekdays.

    Attributes:
        weekdays: From 0, Monday.
        starts: When its first slot begins, from the wall clock's midnight.
        lasts: How long its slots are together.
        pods, amounts: By how many pods the NodePool grows, and what they request together.
        places, requests: The room: so many places with these requests each, in which the largest of the pods fits.
        days: How many days are the evidence.
        used_percent: How much of the room forecast from the other days the day's pods took, on the mean day.
        covered_percent: Which part of the pods that room would have taken.
        waited: The median wait of the pods that came in it.
        hourly: What nodes for the room cost, in nano-dollars an hour.
        is_capped: Whether the limit on dollars an hour made the room smaller.
        recent: The last days, `RECENT` at most.

    A row of an earlier release has one slot, and a place for each pod.
    """

    pool: str
    weekdays: tuple[int, ...]
    starts: timedelta
    lasts: timedelta = SLOT
    pods: int
    amounts: dict[str, int] = {}
    places: int = 0
    requests: dict[str, int]
    days: int
    used_percent: int
    covered_percent: int
    waited: timedelta
    hourly: int = 0
    is_capped: bool = False
    recent: tuple[RoomUse, ...] = ()

    def __post_init__(self) -> None:
        """Complete a row of an earlier release; room of no place has no pods either."""
        if self.pods and not self.places:
            msgspec.structs.force_setattr(self, "places", self.pods)
            amounts = {name: amount * self.pods for name, amount in self.requests.items()}
            msgspec.structs.force_setattr(self, "amounts", amounts)

    @property
    def recent_percent(self) -> int:
        """How much of the room of the last days was used; 100 without any."""
        room = sum(day.room for day in self.recent)
        return 100 * sum(min(day.room, day.came) for day in self.recent) // room if room else 100

    @property
    def name(self) -> str:
        """When it comes, such as `Mon-Fri 09:00`."""
        return f"{days_text(self.weekdays)} {clock_text(self.starts)}"


def ramps(lives: Sequence[PodLife], since: datetime, until: datetime, rules: ForecastRules) -> tuple[Ramp, ...]:
    """Return the recurring ramps of each NodePool in order of slots, also those whose room would hardly be used."""
    return recurring(growths(lives, rules), since, until, rules)


def recurring(recorded: Growths, since: datetime, until: datetime, rules: ForecastRules) -> tuple[Ramp, ...]:
    """Return the ramps that recur in the growths of a period."""
    dates = _whole_days(since, until, rules)
    by_slot: dict[tuple[str, int], dict[date, SlotGrowth]] = defaultdict(dict)
    for day in dates:
        for pool, slots in recorded.get(day.isoformat(), {}).items():
            for growth in slots:
                by_slot[pool, growth.slot][day] = growth
    growing = [key for key in sorted(by_slot) if _weekdays(by_slot[key], dates, rules)]
    merged = (_ramp(run, by_slot, dates, rules) for run in _runs(growing, rules))
    return tuple(ramp for ramp in merged if ramp is not None)


def _runs(growing: Sequence[tuple[str, int]], rules: ForecastRules) -> Iterator[list[tuple[str, int]]]:
    """Yield the slots of one NodePool that are one ramp: without two calm ones between them, `LONGEST` together at most."""
    run: list[tuple[str, int]] = []
    for pool, slot in growing:
        if run and (pool != run[0][0] or slot - run[-1][1] > 2 or (slot + 1 - run[0][1]) * rules.slot > LONGEST):
            yield run
            run = []
        run.append((pool, slot))
    if run:
        yield run


def pays(ramp: Ramp, rules: ForecastRules) -> bool:
    """Whether enough of the ramp's room would have been used."""
    return ramp.pods > 0 and ramp.used_percent >= rules.used_min_percent


def capped(ramp: Ramp, hourly: int, rules: ForecastRules) -> Ramp:
    """Return the ramp with the price of its room; a room that costs more than the rules allow becomes smaller."""
    most = rules.nanodollars_per_hour
    if most is None or hourly <= most or not ramp.pods:
        return msgspec.structs.replace(ramp, hourly=hourly)
    places = ramp.places * most // hourly
    return msgspec.structs.replace(
        ramp,
        pods=ramp.pods * places // ramp.places,
        amounts={name: amount * places // ramp.places for name, amount in ramp.amounts.items()},
        places=places,
        hourly=hourly * places // ramp.places,
        is_capped=True,
    )


def priced(snapshot: Snapshot, ramp: Ramp) -> Ramp | None:
    """Return the ramp with the price of its room, as `warm_price` has it; None if no node has such a place.

    If none has a place in which the largest pod fits, the places are of the mean size.
    """
    mean = msgspec.structs.replace(
        ramp, places=ramp.pods, requests=_rounded({name: -(-ramp.amounts[name] // ramp.pods) for name in ramp.amounts})
    )
    for way in (ramp, mean):
        hourly = warm_price(snapshot, way.pool, warm_room(way))
        if hourly is not None:
            return msgspec.structs.replace(way, hourly=hourly)
    return None


def warm_room(ramp: Ramp, evidence: str = "") -> WarmRoom:
    """Return the room ahead of the ramp."""
    return WarmRoom(pods=ramp.places, requests=ramp.requests, evidence=evidence, refill=False)


def _rounded(requests: Mapping[str, int]) -> dict[str, int]:
    return {name: -(-requests[name] // unit) * unit for name, unit in _ROUNDED_TO.items()}


def warm_price(snapshot: Snapshot, name: str, room: WarmRoom) -> int | None:
    """Return what new nodes of a NodePool for warm room cost in the snapshot's market, in nano-dollars an hour.

    None if none can be had.
    """
    pools = tuple(as_written(pool) for pool in snapshot.node_pools if pool.name == name)
    if not pools or not room.pods:
        return None
    alone = msgspec.structs.replace(
        snapshot,
        node_pools=pools,
        calendars=(),
        pods=(),
        nodes=(),
        node_claims=(),
        buffers=(warm_buffer(name, room),),
        provisioning_requests=(),
        group_objects=(),
        stored_target=None,
    )
    claims = schedule(alone).claims
    return sum(claim.price for claim in claims) if claims else None


def _whole_days(since: datetime, until: datetime, rules: ForecastRules) -> tuple[date, ...]:
    """Return the days of the zone that lie in the period as a whole, without exceptions."""
    place = zone(rules.time_zone)
    first, last = wall_time(since, place), wall_time(until, place)
    day, days = first.date(), list[date]()
    while day <= last.date():
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if midnight >= first and midnight + DAY <= last and day.isoformat() not in rules.except_dates:
            days.append(day)
        day += DAY
    return tuple(days)


def growths(lives: Sequence[PodLife], rules: ForecastRules) -> dict[str, dict[str, tuple[SlotGrowth, ...]]]:
    """Return by how much NodePools grew in each slot of each day; slots without growth are missing."""
    recorded: dict[str, dict[str, tuple[SlotGrowth, ...]]] = defaultdict(dict)
    for pool in sorted({life.pool for life in lives}):
        of_pool = [life for life in lives if life.pool == pool]
        came = _came(of_pool, rules)
        by_day: dict[str, list[SlotGrowth]] = defaultdict(list)
        for (day, slot), (peak, after) in sorted(_peaks(of_pool, rules).items()):
            pods = came.get((day, slot), ())
            by_day[day].append(
                SlotGrowth(
                    slot=slot,
                    pods=peak[PODS],
                    cpu=peak[CPU],
                    memory=peak[MEMORY],
                    waited=_quantile([life.waited // _SECOND for life in pods], 50) if pods else 0,
                    pods_after=after[PODS],
                    cpu_after=after[CPU],
                    memory_after=after[MEMORY],
                    cpu_most=max((life.requests[CPU] for life in pods), default=0),
                    memory_most=max((life.requests[MEMORY] for life in pods), default=0),
                )
            )
        for day, slots in by_day.items():
            recorded[day][pool] = tuple(slots)
    return dict(recorded)


_Amounts = dict[str, int]


def _peaks(lives: Sequence[PodLife], rules: ForecastRules) -> dict[tuple[str, int], tuple[_Amounts, _Amounts]]:
    """Return by how much the requests of one NodePool's pods exceeded those at the slot's beginning, at most and at its end."""
    place = zone(rules.time_zone)
    changes = [(life.created_at, 1, life) for life in lives]
    changes += [(life.gone_at, -1, life) for life in lives if life.gone_at is not None]
    level, before, peak = dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0)
    present: tuple[str, int] | None = None
    peaks: dict[tuple[str, int], tuple[_Amounts, _Amounts]] = {}
    for moment, sign, life in sorted(changes, key=lambda change: (change[0], change[1])):
        here = _slot_of(wall_time(moment, place), rules)
        if here != present:
            present, before, peak = here, dict(level), dict(level)
        for name in RESOURCES:
            level[name] += sign * life.requests[name]
            peak[name] = max(peak[name], level[name])
        if peak != before:
            peaks[here] = (
                {name: peak[name] - before[name] for name in RESOURCES},
                {name: level[name] - before[name] for name in RESOURCES},
            )
    return peaks


def _came(lives: Sequence[PodLife], rules: ForecastRules) -> dict[tuple[str, int], list[PodLife]]:
    """Return the pods that came in each slot."""
    place = zone(rules.time_zone)
    came: dict[tuple[str, int], list[PodLife]] = defaultdict(list)
    for life in lives:
        came[_slot_of(wall_time(life.created_at, place), rules)].append(life)
    return came


def _slot_of(wall: datetime, rules: ForecastRules) -> tuple[str, int]:
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    return wall.date().isoformat(), (wall - midnight) // rules.slot


def _weekdays(grew: Container[date], dates: Sequence[date], rules: ForecastRules) -> tuple[int, ...]:
    """Return the weekdays that mostly had growth, of those that were recorded often enough."""
    by_weekday: dict[int, list[date]] = defaultdict(list)
    for day in dates:
        by_weekday[day.weekday()].append(day)
    return tuple(
        weekday
        for weekday, seen in sorted(by_weekday.items())
        if len(seen) >= rules.days_min and 2 * sum(day in grew for day in seen) > len(seen)
    )


class _DayGrowth(msgspec.Struct, frozen=True):
    """By how much a NodePool grew at most over the slots of a ramp on one day."""

    amounts: dict[str, int]
    most: dict[str, int]
    waits: list[int]

    @classmethod
    def of(cls, slots: Iterable[SlotGrowth]) -> _DayGrowth:
        """Return the growth of slots that follow each other. Those that are missing had none, and are taken as level."""
        level, peak, most = dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0), {CPU: 0, MEMORY: 0}
        waits: list[int] = []
        for slot in slots:
            grew = {PODS: slot.pods, CPU: slot.cpu, MEMORY: slot.memory}
            after, largest = slot.in_the_end(), slot.largest_requests()
            peak = {name: max(peak[name], level[name] + grew[name]) for name in RESOURCES}
            level = {name: level[name] + after[name] for name in RESOURCES}
            most = {name: max(most[name], largest[name]) for name in most}
            waits += [slot.waited] * slot.pods
        return cls(peak, most, waits)


SPARE_PLACES: Final = 1
"""Places beyond the sum of what pods of several sizes request: small ones leave remainders on each node of the room, so that
the last one may find its place on no single node."""


def _ramp(
    run: Sequence[tuple[str, int]],
    by_slot: Mapping[tuple[str, int], Mapping[date, SlotGrowth]],
    dates: Sequence[date],
    rules: ForecastRules,
) -> Ramp | None:
    """Return the ramp of slots of a NodePool; it holds on the weekdays that mostly had growth. None if no weekday had."""
    (pool, first), (_, last) = run[0], run[-1]
    every = [by_slot[pool, slot] for slot in range(first, last + 1) if (pool, slot) in by_slot]
    weekdays = _weekdays({day for slot in every for day in slot}, dates, rules)
    days = [day for day in dates if day.weekday() in weekdays]
    seen = [_DayGrowth.of(slot[day] for slot in every if day in slot) for day in days]
    pods = [growth.amounts[PODS] for growth in seen]
    grown = _quantile(pods, rules.percentile) if pods else 0
    if not grown:
        return None
    used, covered = _backtest(pods, rules)
    amounts = {name: _quantile([growth.amounts[name] for growth in seen], rules.percentile) for name in (CPU, MEMORY)}
    most = {name: _quantile([growth.most[name] for growth in seen], rules.percentile) for name in (CPU, MEMORY)}
    in_sum = min([grown, *(-(-amounts[name] // most[name]) for name in amounts if amounts[name] and most[name])])
    return Ramp(
        pool=pool,
        weekdays=weekdays,
        starts=first * rules.slot,
        lasts=(last + 1 - first) * rules.slot,
        pods=grown,
        amounts=amounts,
        places=min(grown, in_sum + SPARE_PLACES),
        requests=_rounded({name: max(most[name], -(-amounts[name] // in_sum)) for name in amounts}),
        days=len(seen),
        used_percent=used,
        covered_percent=covered,
        waited=_quantile([wait for growth in seen for wait in growth.waits], 50) * _SECOND,
        recent=_recent([day.isoformat() for day in days], pods, rules),
    )


def _quantile(values: Sequence[int], percentile: int) -> int:
    """Return the smallest value that this percentage of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-percentile * len(ordered) // 100) - 1)]


def _backtest(pods: Sequence[int], rules: ForecastRules) -> tuple[int, int]:
    """Forecast each day from the others; return the percentages of the room that was used, and of the pods that it took."""
    room = taken = 0
    for index, came in enumerate(pods):
        others = [*pods[:index], *pods[index + 1 :]]
        forecast = _quantile(others, rules.percentile) if others else 0
        room, taken = room + forecast, taken + min(forecast, came)
    came = sum(pods)
    return 100 * taken // room if room else 0, 100 * taken // came if came else 0


def _recent(days: Sequence[str], pods: Sequence[int], rules: ForecastRules) -> tuple[RoomUse, ...]:
    """Forecast each of the last days from those before it alone, as it was known then."""
    first = max(rules.days_min, len(days) - RECENT)
    return tuple(
        RoomUse(days[index], _quantile(pods[:index], rules.percentile), pods[index])
        for index in range(first, len(days))
    )


# The forecast that keeps room by itself.


RECENT: Final = 5
"""How many of its last days decide whether a ramp still pays: a week of weekdays."""

LONGEST: Final = timedelta(minutes=30)
"""The longest ramp whose room is launched at once; the rest of a longer one is the next ramp. Room waits for half of this on
average."""

STOPS_AFTER: Final = 3
"""A ramp is not stopped by fewer days."""

LEAD_TIME: Final = timedelta(minutes=3)
"""How long before its slot the room is launched: a node takes about a minute."""

HISTORY: Final = timedelta(days=29)
"""How far back growth is evidence: four of each weekday as a whole."""

VALID_FOR: Final = timedelta(days=3)
"""How long a forecast keeps room that is not computed again."""

SLOTS_MAX: Final = 32
"""The most slots of a day that are kept for a NodePool, those with the most pods: the others count as without growth. Fewer are
kept if a row does not hold them."""

POOLS_MAX: Final = 50
"""The most NodePools of a day that are kept, those with the most pods that come, and those with the most that leave."""

RAMPS_MAX: Final = 100
"""The most ramps that are kept, those with the most pods: to price one takes a tenth of a second with all of EC2's types."""


class GrowthHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The growths that were read from the ledger so far.

    Attributes:
        time_zone: By whose clocks days and slots are counted.
        since: When the first decision was recorded, None if none was read.
        read_until: Until when the ledger was read.
        days: Date (ISO) → NodePool → its slots with growth.
        departures: When pods left; the slots in which they do so would take the place of those with growth.
    """

    time_zone: str
    since: datetime | None = None
    read_until: datetime
    days: dict[str, dict[str, tuple[SlotGrowth, ...]]] = {}
    departures: dict[str, dict[str, dict[int, int]]] = {}


def extended(history: GrowthHistory, lives: Sequence[PodLife], until: datetime, rules: ForecastRules) -> GrowthHistory:
    """Return the history with what grew from where it ends until then, which are whole slots.

    `lives` are those of the pods of this time; earlier changes that they name are left out.
    """
    place = zone(rules.time_zone)
    first, last = (_slot_of(wall_time(moment, place), rules) for moment in (history.read_until, until))
    days = {day: dict(pools) for day, pools in history.days.items()}
    for day, pools in growths(lives, rules).items():
        for pool, slots in pools.items():
            new = [growth for growth in slots if first <= (day, growth.slot) < last]
            if new:
                together = (*days.setdefault(day, {}).get(pool, ()), *new)
                days[day][pool] = _largest_slots(together, SLOTS_MAX)
    oldest = wall_time(until - HISTORY, place).date().isoformat()
    kept = {day: _largest_pools(pools) for day, pools in sorted(days.items()) if day >= oldest}
    both = with_departures(
        history.departures, lives, history.read_until, until, lambda moment: wall_time(moment, place)
    )
    departures = {day: emptiest_pools(pools, POOLS_MAX) for day, pools in sorted(both.items()) if day >= oldest}
    return msgspec.structs.replace(history, read_until=until, days=kept, departures=departures)


def thinned(history: GrowthHistory, slots: int) -> GrowthHistory:
    """Return the history with so many slots of a day of a NodePool at most, on all days alike."""
    days = {
        day: {pool: _largest_slots(grown, slots) for pool, grown in pools.items()}
        for day, pools in history.days.items()
    }
    return msgspec.structs.replace(history, days=days)


def _largest_slots(grown: Iterable[SlotGrowth], most: int) -> tuple[SlotGrowth, ...]:
    largest = sorted(grown, key=lambda growth: (-growth.pods, growth.slot))[:most]
    return tuple(sorted(largest, key=lambda growth: growth.slot))


def _largest_pools(pools: Mapping[str, tuple[SlotGrowth, ...]]) -> dict[str, tuple[SlotGrowth, ...]]:
    names = sorted(pools, key=lambda name: (-sum(growth.pods for growth in pools[name]), name))[:POOLS_MAX]
    return {name: pools[name] for name in sorted(names)}


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The ramps as they were forecast at a moment.

    Attributes:
        falls: When pods of these NodePools leave again.
        noted: Ramp, as `NodePool when` → the date of its last entry in the ledger, while room is only recorded.
    """

    at: datetime
    rules: ForecastRules
    ramps: tuple[Ramp, ...] = ()
    falls: tuple[Fall, ...] = ()
    noted: dict[str, str] = {}


def forecast_from(history: GrowthHistory, snapshot: Snapshot, rules: ForecastRules) -> Forecast:
    """Return the forecast at the snapshot's time, with the prices of its market, and within what the rules allow together."""
    since = max(history.since or history.read_until, history.read_until - HISTORY)
    largest = sorted(recurring(history.days, since, history.read_until, rules), key=lambda ramp: -ramp.pods)
    ramps = (priced(snapshot, ramp) if acts(ramp, rules) else ramp for ramp in largest[:RAMPS_MAX])
    return Forecast(
        at=snapshot.now,
        rules=rules,
        ramps=_within_amount([ramp for ramp in ramps if ramp is not None], rules),
        falls=recurring_falls(history.departures, _whole_days(since, history.read_until, rules), rules.days_min),
    )


def _within_amount(ramps_with_price: Sequence[Ramp], rules: ForecastRules) -> tuple[Ramp, ...]:
    """Return the ramps in order, their room reduced so that all NodePools together cost no more an hour at any time.

    Those whose room is used most come first. Ramps of one NodePool follow each other, since the later one's room takes the
    place of the earlier one's.
    """
    kept: list[Ramp] = []
    for ramp in sorted(
        ramps_with_price, key=lambda ramp: (-ramp.used_percent, -ramp.covered_percent, ramp.pool, ramp.starts)
    ):
        if not acts(ramp, rules) or rules.nanodollars_per_hour is None:
            kept.append(ramp)
            continue
        beside: dict[str, int] = {}
        for other in kept:
            if other.pool != ramp.pool and acts(other, rules) and _overlap(ramp, other):
                beside[other.pool] = max(beside.get(other.pool, 0), other.hourly)
        remaining = max(0, rules.nanodollars_per_hour - sum(beside.values()))
        kept.append(capped(ramp, ramp.hourly, msgspec.structs.replace(rules, nanodollars_per_hour=remaining)))
    return tuple(sorted(kept, key=lambda ramp: (ramp.pool, ramp.starts, ramp.weekdays)))


def _overlap(ramp: Ramp, other: Ramp) -> bool:
    first, later = sorted((ramp, other), key=lambda ramp: ramp.starts)
    apart = later.starts - first.starts
    return apart < first.lasts + LEAD_TIME or DAY - apart < later.lasts + LEAD_TIME


def is_stopped(ramp: Ramp, rules: ForecastRules) -> bool:
    """Whether the room of the last days was hardly used, so that the ramp gets none."""
    return len(ramp.recent) >= STOPS_AFTER and ramp.recent_percent < rules.used_min_percent


def acts(ramp: Ramp, rules: ForecastRules) -> bool:
    """Whether the ramp gets room: it pays, and still did in the last days."""
    return pays(ramp, rules) and not is_stopped(ramp, rules)


def stopped(forecast: Forecast) -> tuple[Ramp, ...]:
    """Return the ramps that would pay by all their days, and are stopped by the last ones."""
    rules = forecast.rules
    return tuple(ramp for ramp in forecast.ramps if pays(ramp, rules) and is_stopped(ramp, rules))


CALENDAR: Final = "(forecast)"
"""Begins the names of the Calendars that a forecast makes. No object has such a name, and it sorts before all of them: the room
of a written Calendar takes the place of the forecast's."""


def calendars_of(forecast: Forecast) -> tuple[Calendar, ...]:
    """Return the Calendars that keep the room of the ramps that act, and the nodes of their pods while these leave again."""
    kept = [ramp for ramp in forecast.ramps if acts(ramp, forecast.rules)]
    clock, last = forecast.rules.time_zone, _valid_until(forecast)
    return tuple(
        Calendar(
            name=f"{CALENDAR} {pool}",
            node_pools=(pool,),
            rules=(
                *(_rule(ramp, forecast) for ramp in kept if ramp.pool == pool),
                *(fall_rule(fall, clock, last) for fall in _falls_after(kept, forecast.falls) if fall.pool == pool),
            ),
        )
        for pool in sorted({ramp.pool for ramp in kept})
    )


def _falls_after(kept: Sequence[Ramp], falls: Iterable[Fall]) -> Iterator[Fall]:
    """Yield the falls on the weekdays on which they begin within a day after a ramp of their NodePool: its pods leave again."""
    for fall in falls:
        of_pool = [ramp for ramp in kept if ramp.pool == fall.pool]
        weekdays = tuple(day for day in fall.weekdays if any(_is_after(ramp, fall.starts, day) for ramp in of_pool))
        if weekdays:
            yield msgspec.structs.replace(fall, weekdays=weekdays)


def _is_after(ramp: Ramp, starts: timedelta, weekday: int) -> bool:
    since = ((weekday - begins) % 7 * DAY + starts - ramp.starts for begins in ramp.weekdays)
    return any(timedelta(0) < apart <= DAY for apart in since)


def _rule(ramp: Ramp, forecast: Forecast) -> CalendarRule:
    minutes, rules = ramp.starts // timedelta(minutes=1), forecast.rules
    days = ",".join(str((weekday + 1) % 7) for weekday in ramp.weekdays)
    return CalendarRule(
        name=f"forecast/{ramp.name}",
        time_zone=rules.time_zone,
        windows=(CalendarWindow(schedule=f"{minutes % 60} {minutes // 60} * * {days}", duration=ramp.lasts),),
        valid_until=_valid_until(forecast),
        settings=CalendarSettings(
            lead_time=LEAD_TIME,
            warm=warm_room(ramp, ramp_sentence(ramp, rules)),
        ),
    )


def _valid_until(forecast: Forecast) -> str:
    return wall_time(forecast.at + VALID_FOR, zone(forecast.rules.time_zone)).date().isoformat()


def due(forecast: Forecast, now: datetime) -> tuple[Ramp, ...]:
    """Return the ramps whose room is kept at a moment; of one NodePool's the last takes the place of the others."""
    return tuple(
        ramp
        for ramp in forecast.ramps
        if acts(ramp, forecast.rules) and any(holds(_rule(ramp, forecast), moment) for moment in (now, now + LEAD_TIME))
    )


class RoomBalance(msgspec.Struct, frozen=True, kw_only=True):
    """What room ahead of a ramp costs and brings in its last days, whether it was kept or only recorded.

    Attributes:
        days: How many days these are.
        cost: Nano-dollars for new nodes from the lead time to the ramp's end, as if pods came at the end, at today's prices.
        pods: How many pods the room takes.
        wait: The waits of these pods together, at the ramp's median.
    """

    days: int
    cost: int
    pods: int
    wait: timedelta


def balance(ramp: Ramp) -> RoomBalance:
    """Return what the ramp's room of the last days costs at most, and what it brings."""
    room = sum(day.room for day in ramp.recent)
    pods = sum(min(day.room, day.came) for day in ramp.recent)
    lasting = (ramp.lasts + LEAD_TIME) // _SECOND
    hourly = ramp.hourly * room // ramp.pods if ramp.pods else 0
    return RoomBalance(days=len(ramp.recent), cost=hourly * lasting // 3600, pods=pods, wait=pods * ramp.waited)


# What a person reads.


WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def days_text(weekdays: Sequence[int]) -> str:
    """Return the weekdays as text: `Mon-Fri`, or one by one."""
    first, last = weekdays[0], weekdays[-1]
    if len(weekdays) > 2 and tuple(weekdays) == tuple(range(first, last + 1)):
        return f"{WEEKDAYS[first]}-{WEEKDAYS[last]}"
    return ", ".join(WEEKDAYS[weekday] for weekday in weekdays)


def clock_text(since_midnight: timedelta) -> str:
    """Return a time of day as a Calendar's window has it; the end of the day is 00:00."""
    minutes = since_midnight // timedelta(minutes=1) % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"


def ramp_sentence(ramp: Ramp, rules: ForecastRules) -> str:
    """Return what the room is for, with its evidence."""
    requests = ", ".join(f"{name} {amount}" for name, amount in room_requests(ramp).items())
    cap = ", as far as it may cost" if ramp.is_capped else ""
    kind = "of" if ramp.places == ramp.pods else f"with room like {ramp.places} of"
    room = f"p{rules.percentile} of {_counted(ramp.days, 'day')} is {_counted(ramp.pods, 'pod')} {kind} {requests}"
    tested = f"forecast from the other days, {ramp.used_percent} % was used, by {ramp.covered_percent} % of the pods"
    is_tested = len(ramp.recent) >= STOPS_AFTER
    recent = f", and {ramp.recent_percent} % in the last {len(ramp.recent)} days" if is_tested else ""
    hours = f"{ramp.name} to {clock_text(ramp.starts + ramp.lasts)}"
    return f"{hours}: {room}{cap}; {tested}{recent}; pods waited {ramp.waited // _SECOND} s"


def balance_sentence(ramp: Ramp) -> str:
    """Return what room ahead of the ramp would have cost and brought in its last days; empty without such days."""
    lately = balance(ramp)
    if not lately.days:
        return ""
    days = "the last day" if lately.days == 1 else f"the last {lately.days} days"
    wait = f"{_counted(lately.wait // timedelta(minutes=1), 'minute')} of waiting"
    return f"in {days} it would have cost ${dollars(lately.cost):.4f} and spared {_counted(lately.pods, 'pod')} {wait}"


def room_requests(ramp: Ramp) -> dict[str, str]:
    """Return the requests of each pod of the room as text."""
    return {name: render(amount, name) for name, amount in sorted(ramp.requests.items()) if amount}


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
