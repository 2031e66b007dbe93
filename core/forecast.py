"""Forecasts ramps that recur each week, and says how much warm room ahead of them would have been used.

A slot's growth is how many more pods a NodePool has at most in it than at its beginning, and what they request: pods that
replace others are none. The room is a quantile of the same slot's growth on the same weekdays. The forecast of each day from
the other days says how much of it is used; a ramp whose room is hardly used is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.calendars import as_written, wall_time, warm_buffer, zone
from core.model.node_pool import WarmRoom
from core.model.snapshot import Snapshot
from core.model.values.quantity import MICROSECOND
from core.scheduling import schedule

PODS, CPU, MEMORY = "pods", "cpu", "memory"
RESOURCES: Final = (PODS, CPU, MEMORY)
_ROUNDED_TO: Final = {CPU: 10, MEMORY: 1 << 20}
"""Requests of the room's pods are rounded up to ten thousandths of a CPU and to mebibytes."""

DAY: Final = timedelta(days=1)

# The pods of a recorded period.


class PodLife(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that got a node of a NodePool: from when to when it was there, and how long it waited as far as snapshots show."""

    pool: str
    created_at: datetime
    gone_at: datetime | None
    requests: dict[str, int]
    waited: timedelta


class PodLives:
    """`see` snapshots in order of time, then read `lives`. Pods of DaemonSets come with nodes and are left out."""

    def __init__(self) -> None:
        self._present: dict[str, PodLife] = {}
        self._ended: list[PodLife] = []

    def see(self, snapshot: Snapshot) -> None:
        """Take the pods of the next snapshot."""
        pools = {node.name: node.labels.get(labels.NODEPOOL, "") for node in snapshot.nodes}
        bound = {
            pod.uid or pod.key: pod
            for pod in snapshot.pods
            if pod.is_active and not pod.is_daemon and pools.get(pod.node_name)
        }
        for key in sorted(self._present.keys() - bound.keys()):
            self._ended.append(msgspec.structs.replace(self._present.pop(key), gone_at=snapshot.now))
        for key, pod in bound.items():
            if key in self._present:
                continue
            created = pod.created_at or snapshot.now
            self._present[key] = PodLife(
                pool=pools[pod.node_name],
                created_at=created,
                gone_at=None,
                requests={PODS: 1, **{name: pod.spec.requests.get(name, 0) for name in (CPU, MEMORY)}},
                waited=max(timedelta(0), (pod.started_at or snapshot.now) - created),
            )

    @property
    def lives(self) -> tuple[PodLife, ...]:
        """The pods so far, in the order of their creation."""
        return tuple(sorted((*self._ended, *self._present.values()), key=lambda life: (life.created_at, life.pool)))


# The ramps that recur.


class ForecastRules(msgspec.Struct, frozen=True, kw_only=True):
    """How ramps are recognised, and what room for them may cost.

    Attributes:
        slot: The length of a slot; a day is divided into whole ones.
        percentile: Which of the same slots' growths the room is for.
        days_min: On how many days a weekday must have been recorded.
        used_min_percent: How much of the room must be used on the mean day; a ramp below that is left out.
        except_dates: Dates (ISO) that are no evidence and get no room, such as holidays.
        nanodollars_per_hour: What the room of one NodePool may cost an hour, None for any amount.
    """

    time_zone: str
    slot: timedelta = timedelta(minutes=5)
    percentile: int = 90
    days_min: int = 3
    used_min_percent: int = 50
    except_dates: tuple[str, ...] = ()
    nanodollars_per_hour: int | None = None


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """A growth that recurs in one slot of some weekdays.

    Attributes:
        weekdays: From 0, Monday.
        starts: When the slot begins, from the wall clock's midnight.
        pods, requests: The room: so many pods with these requests each, their mean.
        days: How many days are the evidence.
        used_percent: How much of the room forecast from the other days the day's pods took, on the mean day.
        covered_percent: Which part of the pods that room would have taken.
        waited: The median wait of the pods that came in the slot.
        hourly: What nodes for the room cost, in nano-dollars an hour.
        is_capped: Whether the limit on dollars an hour made the room smaller.
    """

    pool: str
    weekdays: tuple[int, ...]
    starts: timedelta
    pods: int
    requests: dict[str, int]
    days: int
    used_percent: int
    covered_percent: int
    waited: timedelta
    hourly: int = 0
    is_capped: bool = False


Growth = Mapping[str, int]


def ramps(lives: Sequence[PodLife], since: datetime, until: datetime, rules: ForecastRules) -> tuple[Ramp, ...]:
    """Return the recurring ramps of each NodePool in order of slots, also those whose room would hardly be used."""
    dates = _whole_days(since, until, rules)
    recurring: list[Ramp] = []
    for pool in sorted({life.pool for life in lives}):
        of_pool = [life for life in lives if life.pool == pool]
        growths = _growths(of_pool, dates, rules)
        for slot in sorted({slot for _, slot in growths}):
            ramp = _ramp(pool, slot, growths, _arrivals(of_pool, slot, rules), dates, rules)
            if ramp is not None:
                recurring.append(ramp)
    return tuple(recurring)


def pays(ramp: Ramp, rules: ForecastRules) -> bool:
    """Whether enough of the ramp's room would have been used."""
    return ramp.pods > 0 and ramp.used_percent >= rules.used_min_percent


def capped(ramp: Ramp, hourly: int, rules: ForecastRules) -> Ramp:
    """Return the ramp with the price of its room; a room that costs more than the rules allow becomes smaller."""
    most = rules.nanodollars_per_hour
    if most is None or hourly <= most or not ramp.pods:
        return msgspec.structs.replace(ramp, hourly=hourly)
    pods = ramp.pods * most // hourly
    return msgspec.structs.replace(ramp, pods=pods, hourly=hourly * pods // ramp.pods, is_capped=True)


def room_price(snapshot: Snapshot, ramp: Ramp) -> int | None:
    """Return what new nodes for the room cost in the snapshot's market, in nano-dollars an hour; None if none can be had."""
    pools = tuple(as_written(pool) for pool in snapshot.node_pools if pool.name == ramp.pool)
    if not pools or not ramp.pods:
        return None
    alone = msgspec.structs.replace(
        snapshot,
        node_pools=pools,
        calendars=(),
        pods=(),
        nodes=(),
        node_claims=(),
        buffers=(warm_buffer(ramp.pool, WarmRoom(pods=ramp.pods, requests=ramp.requests)),),
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


def _growths(lives: Sequence[PodLife], dates: Sequence[date], rules: ForecastRules) -> dict[tuple[date, int], Growth]:
    """Return by how much the requests grew at most in each slot of each day; slots without growth are missing."""
    place = zone(rules.time_zone)
    days = frozenset(dates)
    changes = [(life.created_at, 1, life) for life in lives]
    changes += [(life.gone_at, -1, life) for life in lives if life.gone_at is not None]
    level, before, peak = dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0), dict.fromkeys(RESOURCES, 0)
    present: tuple[date, int] | None = None
    growths: dict[tuple[date, int], Growth] = {}
    for moment, sign, life in sorted(changes, key=lambda change: (change[0], change[1])):
        wall = wall_time(moment, place)
        here = wall.date(), _slot_of(wall, rules)
        if here != present:
            present, before, peak = here, dict(level), dict(level)
        for name in RESOURCES:
            level[name] += sign * life.requests[name]
            peak[name] = max(peak[name], level[name])
        growth = {name: peak[name] - before[name] for name in RESOURCES}
        if here[0] in days and any(growth.values()):
            growths[here] = growth
    return growths


def _slot_of(wall: datetime, rules: ForecastRules) -> int:
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    return (wall - midnight) // rules.slot


def _arrivals(lives: Iterable[PodLife], slot: int, rules: ForecastRules) -> list[PodLife]:
    place = zone(rules.time_zone)
    return [life for life in lives if _slot_of(wall_time(life.created_at, place), rules) == slot]


def _ramp(
    pool: str,
    slot: int,
    growths: Mapping[tuple[date, int], Growth],
    arrivals: Sequence[PodLife],
    dates: Sequence[date],
    rules: ForecastRules,
) -> Ramp | None:
    """Return the ramp of a slot; it holds on the weekdays that mostly had growth. None if no weekday had."""
    by_weekday: dict[int, list[Growth]] = defaultdict(list)
    for day in dates:
        by_weekday[day.weekday()].append(growths.get((day, slot), {}))
    weekdays = tuple(
        weekday
        for weekday, seen in sorted(by_weekday.items())
        if len(seen) >= rules.days_min and 2 * sum(map(bool, seen)) > len(seen)
    )
    if not weekdays or not arrivals:
        return None
    seen = [growth for weekday in weekdays for growth in by_weekday[weekday]]
    room = {name: _quantile([growth.get(name, 0) for growth in seen], rules.percentile) for name in RESOURCES}
    if not room[PODS]:
        return None
    used, covered = _backtest([growth.get(PODS, 0) for growth in seen], rules)
    return Ramp(
        pool=pool,
        weekdays=weekdays,
        starts=slot * rules.slot,
        pods=room[PODS],
        requests={name: -(-room[name] // (room[PODS] * whole)) * whole for name, whole in _ROUNDED_TO.items()},
        days=len(seen),
        used_percent=used,
        covered_percent=covered,
        waited=_quantile([life.waited // MICROSECOND for life in arrivals], 50) * MICROSECOND,
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
