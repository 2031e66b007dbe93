"""What calendars say: which rules hold at a moment, what becomes of each NodePool, and when that changes.

The plan, `explain --at`, `validate`, `diff`, `simulate`, the functions and `fleetwright calendar` share it.

A rule's windows are on the wall clock of its IANA zone. When clocks are put forward, a time that does not exist is the moment
of the jump, so a window that lies in the gap as a whole does not open on that day. When they are put back, a repeated time is
the first of the two; a window that is open then stays open for the repeated hour.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from core import labels
from core.cron import Schedule
from core.errors import InvalidInputError
from core.model.node_pool import (
    FORCE,
    GRACE_PERIOD,
    LEAVE,
    Calendar,
    CalendarRule,
    CalendarSettings,
    CalendarWindow,
    NodePool,
    PoolHours,
    WarmRoom,
    WrittenSettings,
)
from core.model.pod import Pod, PodSpec
from core.model.snapshot import VIRTUAL_PRIORITY, CapacityBuffer, Snapshot
from core.model.values.quantity import in_calendar
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import PREFER_NO_SCHEDULE, Toleration
from core.pools import template_requirements
from core.reasons.pods import PoolClosed

# The wall clock of a zone. A wall time is a datetime that is written as if it were UTC.


_TICK: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_ZERO: Final = timedelta(0)
_ZONES_KEPT: Final = 64


@lru_cache(_ZONES_KEPT)
def zone(name: str) -> ZoneInfo:
    """Return an IANA zone.

    Raises:
        InvalidInputError: If there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (
        ValueError,
        OSError,
        KeyError,
    ) as error:  # ZoneInfoNotFoundError is a KeyError; a folder's name is an OSError
        raise InvalidInputError(f"{name!r} is not an IANA time zone such as Europe/Berlin") from error


def instant(wall: datetime, place: ZoneInfo) -> datetime:
    """Return when the zone's clocks first show a wall time or, if they skip it, the moment of the jump."""
    shown = wall.replace(tzinfo=place)
    moment = shown.astimezone(UTC)
    if moment.astimezone(place).replace(tzinfo=UTC) == wall:
        return moment
    skipped = abs(_offset(moment, place) - _offset(moment - _DAY, place))
    return _jump(moment - skipped - timedelta(hours=1), moment, place)


def wall_time(moment: datetime, place: ZoneInfo) -> datetime:
    """Return the latest wall time whose `instant` is not after the moment: in a repeated hour, the end of that hour."""
    shown = moment.astimezone(place)
    wall = shown.replace(tzinfo=UTC, fold=0)
    if not shown.fold:
        return wall
    repeated = shown.replace(fold=0).utcoffset() or _ZERO
    jump = _jump(moment - (repeated - (shown.utcoffset() or _ZERO)), moment, place)
    return (jump + repeated).replace(tzinfo=UTC) - _TICK


def _offset(moment: datetime, place: ZoneInfo) -> timedelta:
    return moment.astimezone(place).utcoffset() or _ZERO


def _jump(low: datetime, high: datetime, place: ZoneInfo) -> datetime:
    """Return the second at which the zone's offset becomes that of `high`, by bisection."""
    wanted = _offset(high, place)
    low, high = low.replace(microsecond=0), high.replace(microsecond=0)
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        if _offset(middle, place) == wanted:
            high = middle
        else:
            low = middle
    return high


# Which rules hold, and when that changes.


EDGES_MAX: Final = 2_000
"""The most edges of windows that are examined for the next change of a rule, or for a NodePool's opening and close: each minute
of more than a day, and two and a half years of a window a day."""

_WINDOWS_KEPT: Final = 512


def holds(rule: CalendarRule, moment: datetime) -> bool:
    """Whether the rule holds at a moment."""
    return _holds_on(rule, wall_time(moment, zone(rule.time_zone)))


def next_change(rule: CalendarRule, moment: datetime, steps: Iterator[int] | None = None) -> datetime | None:
    """Return when the rule next begins or ceases to hold, None if never.

    After `EDGES_MAX` edges that change nothing, the last of them is returned: ask again then. Callers that ask for several
    changes bound all of them by one iterator, which takes a step for each edge; after its end the moment itself is returned.
    """
    place = zone(rule.time_zone)
    wall = wall_time(moment, place)
    since, before, change = wall, _holds_on(rule, wall), moment
    for _ in iter(range(EDGES_MAX)) if steps is None else steps:
        from_there = _past_like_weeks([rule], since, wall)
        edge = None if from_there is None else _next_edge(rule, from_there)
        if edge is None:
            return None
        change = instant(edge, place)
        wall = wall_time(change, place)  # past all edges that clocks skip
        if _holds_on(rule, wall) != before:
            break
    return change


_SEEN: Final = timedelta(days=14)
"""Weeks like these repeat: each hour of the week was seen twice, and clocks skip no hour twice in a fortnight."""


def _past_like_weeks(rules: Sequence[CalendarRule], since: datetime, wall: datetime) -> datetime | None:
    """Return the wall time from which a walk over the rules' edges goes on; None if all that follows is like what it saw.

    Rules of one zone whose windows recur each week are alike in all weeks but those with one of their dates. So a walk that
    has seen nothing change since a wall time goes on a day before the next date.
    """
    if wall - since < _SEEN or any(rule.time_zone != rules[0].time_zone for rule in rules):
        return wall
    if not all(_is_weekly(window.schedule) for rule in rules for window in rule.windows if window.start is None):
        return wall
    dated = [span for rule in rules for span in _dated(rule)]
    if wall - max([since, *(ends for begins, ends in dated if begins <= wall)]) < _SEEN:
        return wall
    begins = min((begins for begins, _ in dated if begins > wall), default=None)
    return None if begins is None else max(wall, begins - _DAY)


def _dated(rule: CalendarRule) -> Iterator[tuple[datetime, datetime]]:
    """Yield the spans in which the rule may differ from its other weeks; the windows of a date may last beyond it."""
    lasting = max((window.duration for window in rule.windows if window.start is None), default=_ZERO)
    for date in (*rule.except_dates, rule.valid_from, rule.valid_until):
        if date:
            yield _midnight(date), in_calendar(_midnight(date) + _DAY + lasting)
    for window in rule.windows:
        if window.start is not None:
            yield window.start, window.start + window.duration


@lru_cache(_WINDOWS_KEPT)
def _is_weekly(schedule: str) -> bool:
    cron = Schedule.parse(schedule)
    return cron.days is None and cron.months is None


def _next_edge(rule: CalendarRule, wall: datetime) -> datetime | None:
    """Return the next wall time at which the rule may begin or cease to hold; its windows mean nothing outside its validity."""
    date = f"{wall:%Y-%m-%d}"
    if rule.valid_until and date > rule.valid_until:
        return None
    if date < rule.valid_from:
        return _midnight(rule.valid_from)
    return min(_edges(rule, wall), default=None)


def _holds_on(rule: CalendarRule, wall: datetime) -> bool:
    date = f"{wall:%Y-%m-%d}"
    if date < rule.valid_from or (rule.valid_until and date > rule.valid_until):
        return False
    if not rule.windows:
        return date not in rule.except_dates
    return any(_opened(rule, window, wall) is not None for window in rule.windows) != rule.is_outside


def _opened(rule: CalendarRule, window: CalendarWindow, wall: datetime) -> datetime | None:
    """Return the first start of the window that is still open at the wall time, None if it is not open."""
    if window.start is not None:
        is_open = window.start <= wall < window.start + window.duration
        return window.start if is_open and f"{window.start:%Y-%m-%d}" not in rule.except_dates else None
    start = _next_start(rule, window, wall - window.duration)
    return start if start is not None and start <= wall else None


def _next_start(rule: CalendarRule, window: CalendarWindow, after: datetime) -> datetime | None:
    """Return the window's first start strictly after a wall time, on no excepted date."""
    if window.start is not None:
        is_coming = window.start > after and f"{window.start:%Y-%m-%d}" not in rule.except_dates
        return window.start if is_coming else None
    schedule = Schedule.parse(window.schedule)
    start = schedule.next_after(after)
    for _ in rule.except_dates:
        if start is None or f"{start:%Y-%m-%d}" not in rule.except_dates:
            return start
        start = schedule.next_after(start.replace(hour=23, minute=59, second=59, microsecond=0))
    return start


def starts(rule: CalendarRule, window: CalendarWindow, since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the wall times at which a window opens between two moments, at most `EDGES_MAX` of them."""
    place = zone(rule.time_zone)
    wall, end = wall_time(since, place), wall_time(until, place)
    for _ in range(EDGES_MAX):
        start = _next_start(rule, window, wall)
        if start is None or start > end:
            return
        yield start
        wall = start


def _edges(rule: CalendarRule, wall: datetime) -> Iterator[datetime]:
    """Yield, for each of its windows and bounds, the next wall time at which the rule may begin or cease to hold."""
    for window in rule.windows:
        if not rule.except_dates and window.schedule and _is_always_open(window.schedule, window.duration):
            continue
        opened, coming = _opened(rule, window, wall), _next_start(rule, window, wall)
        if opened is not None:
            yield opened + window.duration
        if coming is not None:
            yield coming
    midnights = [rule.valid_from] if rule.valid_from else []
    after_midnights = [rule.valid_until] if rule.valid_until else []
    if not rule.windows:
        midnights += rule.except_dates
        after_midnights += rule.except_dates
    ends = (*map(_midnight, midnights), *(_midnight(date) + _DAY for date in after_midnights))
    yield from (end for end in ends if end > wall)


@lru_cache(_WINDOWS_KEPT)
def _is_always_open(schedule: str, duration: timedelta) -> bool:
    """Whether a window opens every day and leaves no gap: from 08:00 to 08:00, or each hour for an hour."""
    cron = Schedule.parse(schedule)
    is_daily = cron.days is None and cron.months is None and cron.weekdays in (None, tuple(range(7)))
    if not is_daily:
        return False
    hours, minutes = cron.hours or range(24), cron.minutes or range(60)
    times = [timedelta(hours=hour, minutes=minute) for hour in hours for minute in minutes]
    return all(later - earlier <= duration for earlier, later in pairwise((*times, times[0] + _DAY)))


def _midnight(date: str) -> datetime:
    return in_calendar(datetime.fromisoformat(date).replace(tzinfo=UTC))


# What becomes of a NodePool.


def rules_of(pool: NodePool, calendars: Iterable[Calendar]) -> tuple[CalendarRule, ...]:
    """Return the rules for a NodePool in the order in which they apply: calendars by name, then its own annotation."""
    of_pool = [calendar for calendar in calendars if is_for(calendar, pool)]
    rules = [rule for calendar in sorted(of_pool, key=lambda c: c.name) for rule in calendar.rules]
    return (*rules, *(pool.calendar.rules if pool.calendar is not None else ()))


def is_for(calendar: Calendar, pool: NodePool) -> bool:
    """Whether a Calendar selects the NodePool, by name or by its labels; without a selection it selects all."""
    if not calendar.node_pools and not calendar.match_labels:
        return True
    selected = bool(calendar.match_labels) and calendar.match_labels.items() <= pool.own_labels.items()
    return selected or pool.name in calendar.node_pools


def at(pool: NodePool, calendars: Iterable[Calendar], now: datetime) -> NodePool:
    """Return the NodePool as it is at the moment: what its calendars set takes the place of what it says itself."""
    calendars = tuple(calendars)
    rules = rules_of(pool, calendars)
    pool = _capped(as_written(pool), calendars)
    if not rules:
        return pool
    in_force = [rule for rule in rules if holds(rule, now)]
    settings, overruled = _combined(in_force)
    hours = _hours(rules, in_force, now)
    written = WrittenSettings(
        limits=pool.limits, weight=pool.weight, requirements=pool.requirements, budgets=pool.disruption.budgets
    )
    budgets = pool.disruption.budgets if settings.budgets is None else settings.budgets
    return msgspec.structs.replace(
        pool,
        limits={**pool.limits, **(settings.limits or {})},
        weight=pool.weight if settings.weight is None else settings.weight,
        requirements=_replaced(pool.requirements, settings.requirements),
        disruption=msgspec.structs.replace(pool.disruption, budgets=budgets),
        hours=msgspec.structs.replace(hours, overruled=overruled, written=written),
    )


def _capped(pool: NodePool, calendars: Iterable[Calendar]) -> NodePool:
    """Return the NodePool with the caps of its Calendars."""
    of_pool = sorted((calendar for calendar in calendars if is_for(calendar, pool)), key=lambda calendar: calendar.name)
    caps = [cap for calendar in of_pool for cap in calendar.caps]
    if not caps:
        return pool
    shared = {cap.name: cap.limits for cap in caps if cap.is_for_all_pods}
    by_pods = tuple(cap for cap in caps if not cap.is_for_all_pods)
    return msgspec.structs.replace(pool, shared_limits={**pool.shared_limits, **shared}, caps=by_pods)


def closes(pool: NodePool, calendars: Iterable[Calendar]) -> bool:
    """Whether a rule says at some time that the NodePool is closed."""
    return any(rule.settings.closed for rule in rules_of(pool, calendars))


def rules_digest(rules: Iterable[CalendarRule], *, of_room: bool = False) -> str:
    """Return a digest of when the rules close and what their closing does, or of the room that they keep; empty without rules.

    An encoding of the whole rules would change with releases, and with settings that do neither.
    """
    text = "\n".join("|".join((*_when(rule), *(_room(rule) if of_room else _closure(rule)))) for rule in rules)
    return blake2b(text.encode(), digest_size=8).hexdigest() if text else ""


def _when(rule: CalendarRule) -> Iterator[str]:
    settings = rule.settings
    spans = (settings.lead_time, settings.force_after, *(window.duration for window in rule.windows))
    starts = (window.start for window in rule.windows)
    yield rule.time_zone
    yield from (window.schedule for window in rule.windows)
    yield from ("" if start is None else start.isoformat() for start in starts)
    yield from ("" if span is None else str(span // timedelta(seconds=1)) for span in spans)
    yield from (str(rule.is_outside), ",".join(rule.except_dates), rule.valid_from, rule.valid_until)


def _closure(rule: CalendarRule) -> Iterator[str]:
    yield from (str(rule.settings.closed), rule.settings.pods_that_stay or "")


def _room(rule: CalendarRule) -> Iterator[str]:
    room = rule.settings.warm
    yield str(rule.settings.closed)
    if room is not None:
        yield from (str(room.pods), str(room.refill), *(f"{name}={n}" for name, n in sorted(room.requests.items())))


def as_written(pool: NodePool) -> NodePool:
    """Return the NodePool without what calendars make of it."""
    if pool.hours is None:
        return pool
    written = pool.hours.written
    return msgspec.structs.replace(
        pool,
        limits=written.limits,
        weight=written.weight,
        requirements=written.requirements,
        disruption=msgspec.structs.replace(pool.disruption, budgets=written.budgets),
        hours=None,
    )


def _combined(in_force: Sequence[CalendarRule]) -> tuple[CalendarSettings, tuple[str, ...]]:
    """Return the settings of all rules together, later ones over earlier ones, and which of them are replaced."""
    values: dict[str, object] = {}
    setters: dict[str, str] = {}
    overruled: list[str] = []
    for rule in in_force:
        for field in rule.settings.__struct_fields__:
            value = getattr(rule.settings, field)
            if value is None or field in _OF_CLOSING:
                continue
            if field in values and values[field] != value:
                overruled.append(f"{field} of rule {setters[field]} by rule {rule.name}")
            values[field] = _joined(values.get(field), value)
            setters[field] = rule.name
    return CalendarSettings(**values), tuple(overruled)  # type: ignore[arg-type]  # each value is of its own field


_OF_CLOSING: Final = ("lead_time", "pods_that_stay", "force_after")
"""Settings that say how the rule itself closes or warms; no other rule's take their place."""


def _joined(before: object, value: object) -> object:
    """Join a setting with that of an earlier rule: limits and requirements by what they name, all else replaces."""
    if isinstance(before, dict) and isinstance(value, dict):
        return {**before, **value}
    if isinstance(before, tuple) and isinstance(value, tuple) and all(isinstance(v, Requirement) for v in value):
        return _replaced(before, value)
    return value


def _replaced(written: tuple[Requirement, ...], settings: tuple[Requirement, ...] | None) -> tuple[Requirement, ...]:
    if not settings:
        return written
    keys = {requirement.key for requirement in settings}
    return (*(requirement for requirement in written if requirement.key not in keys), *settings)


def _hours(rules: Sequence[CalendarRule], in_force: Sequence[CalendarRule], now: datetime) -> PoolHours:
    closing = _closing(in_force)
    warm, warm_moments = _warm(rules, now)
    moments = [change for rule in rules if (change := next_change(rule, now)) is not None] + warm_moments
    stays = [end for rule in in_force if rule.settings.keeps_occupied and (end := next_change(rule, now)) is not None]
    hours = msgspec.structs.replace(
        warm, rules=tuple(rule.name for rule in in_force), occupied_until=max(stays, default=None)
    )
    if closing is not None:
        settings, opens_at = closing.settings, _opening(rules, now)
        lead = settings.lead_time or _ZERO
        force_at = _force_at(rules, settings, now)
        if opens_at is not None:
            moments.append(opens_at - lead)
        if force_at is not None:
            moments.append(force_at)
        hours = msgspec.structs.replace(
            hours,
            closed_by=closing.name,
            opens_at=opens_at,
            is_waking=opens_at is not None and opens_at - lead <= now,
            pods_that_stay=settings.pods_that_stay or LEAVE,
            force_at=force_at,
            is_forced=force_at is not None and force_at <= now,
        )
    return msgspec.structs.replace(hours, changes_at=min((m for m in moments if m > now), default=None))


def _closing(in_force: Iterable[CalendarRule]) -> CalendarRule | None:
    """Return the rule that closes the NodePool: the last one with a say, if that closes it."""
    last = [rule for rule in in_force if rule.settings.closed is not None][-1:]
    return last[0] if last and last[0].settings.closed else None


def _closed_at(rules: Sequence[CalendarRule], moment: datetime) -> bool:
    return _closing([rule for rule in rules if holds(rule, moment)]) is not None


def _opening(rules: Sequence[CalendarRule], now: datetime) -> datetime | None:
    """Return when a closed NodePool next opens, None if it never does, as far as `EDGES_MAX` edges tell."""
    deciding = [rule for rule in rules if rule.settings.closed is not None]
    place = zone(deciding[0].time_zone)
    since, moment, steps = wall_time(now, place), now, iter(range(EDGES_MAX))
    while True:
        wall = wall_time(moment, place)
        from_there = _past_like_weeks(deciding, since, wall)
        if from_there is None:
            return None
        moment = moment if from_there == wall else instant(from_there, place)
        changes = [change for rule in deciding if (change := next_change(rule, moment, steps)) is not None]
        following = min(changes, default=moment)
        if following == moment:
            return None
        moment = following
        if not _closed_at(deciding, moment):
            return moment


def _force_at(rules: Sequence[CalendarRule], settings: CalendarSettings, now: datetime) -> datetime | None:
    """Return when the nodes of a closed NodePool go in any case: `forceAfter` after it closed; None if pods decide."""
    if settings.pods_that_stay != FORCE or settings.force_after is None:
        return None
    deciding = [rule for rule in rules if rule.settings.closed is not None]
    moment = now - settings.force_after
    closed_since = moment if _closed_at(deciding, moment) else None
    steps = iter(range(EDGES_MAX))
    while moment < now:
        changes = [change for rule in deciding if (change := next_change(rule, moment, steps)) is not None]
        following = min((change for change in changes if change <= now), default=now)
        if following == moment:  # too many edges to tell: nothing is forced
            return now + settings.force_after
        moment = following
        if moment < now:
            closed_since = (closed_since or moment) if _closed_at(deciding, moment) else None
    return (closed_since or now) + settings.force_after


def _warm(rules: Sequence[CalendarRule], now: datetime) -> tuple[PoolHours, list[datetime]]:
    """Return the warm room, which is launched a rule's lead time before its windows, and the moments when it next changes."""
    hours = PoolHours()
    moments = []
    for rule in rules:
        lead = rule.settings.lead_time or _ZERO
        if rule.settings.warm is None:
            continue
        is_held, change = holds(rule, now), next_change(rule, now)
        begins = next_change(rule, change) if is_held and change is not None else change
        ahead = begins - lead if begins is not None and (is_held or holds(rule, begins)) else None
        if is_held or (ahead is not None and ahead <= now):
            opens = _opened_at(rule, now) if is_held else begins
            since = None if opens is None else opens - lead
            hours = PoolHours(warm=rule.settings.warm, warm_since=since, warm_opens=opens)
        if ahead is not None:
            moments.append(ahead)
    return hours, moments


def _opened_at(rule: CalendarRule, now: datetime) -> datetime | None:
    """Return when the last window of the rule opened that is still open; None if it holds for another reason."""
    place = zone(rule.time_zone)
    wall = wall_time(now, place)
    opened = [start for window in rule.windows if (start := _opened(rule, window, wall)) is not None]
    return instant(max(opened), place) if opened and not rule.is_outside else None


# The whole snapshot.


WARM_NAMESPACE: Final = "fleetwright-calendar"
"""The namespace of virtual pods of warm room; no object has it."""

_TOLERATES_ALL: Final = (Toleration(operator="Exists"),)


def with_calendars(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its NodePools as calendars have them at its time, and with the room that these keep warm."""
    pools = tuple(at(pool, snapshot.calendars, snapshot.now) for pool in snapshot.node_pools)
    if pools == snapshot.node_pools:
        return snapshot
    warm = tuple(
        warm_buffer(pool.name, pool.hours.warm, _taken(pool, pool.hours, snapshot))
        for pool in pools
        if pool.hours is not None and pool.hours.warm and not pool.is_closed
    )
    return msgspec.structs.replace(snapshot, node_pools=pools, buffers=(*snapshot.buffers, *warm))


def _taken(pool: NodePool, hours: PoolHours, snapshot: Snapshot) -> int:
    """Return how many places of warm room are used up since it is kept; none if room is made again.

    Pods count that came to the NodePool's nodes, and pending ones that may. It is the largest number that uses up no resource
    beyond what came, so that room remains for pods of any size. Some time after the opening, places without room count, too.
    """
    room, since, opens = hours.warm, hours.warm_since, hours.warm_opens
    if room is None or room.refill or since is None or opens is None:
        return 0
    nodes = {node.name for node in snapshot.nodes if node.labels.get(labels.NODEPOOL) == pool.name}
    template = template_requirements(pool)
    came = [
        pod
        for pod in snapshot.pods
        if pod.created_at is not None
        and pod.created_at >= since
        and pod.is_active
        and not pod.is_daemon
        and (pod.node_name in nodes if pod.node_name else _may_use(pod, pool, template))
    ]
    wanted = {name: amount for name, amount in sorted(room.requests.items()) if amount} or {"pods": 1}
    amounts = {name: sum(pod.spec.requests.get(name, 0) for pod in came) for name in wanted}
    taken = min(room.pods, *(amounts[name] // amount for name, amount in wanted.items()))
    if snapshot.now < opens + LAUNCHED_FOR:
        return taken
    return max(taken, room.pods - _places(snapshot, nodes, {**wanted, "pods": 1}))


LAUNCHED_FOR: Final = timedelta(minutes=5)
"""How long after the opening room is launched that is not made again. Later it is only kept where nodes have it: pods of other
sizes leave gaps, and nodes for places that no longer fit into them would outlast the room."""


def _places(snapshot: Snapshot, nodes: Container[str], wanted: Mapping[str, int]) -> int:
    """Return how many pods of a shape the free room of these nodes holds."""
    free = {node.name: dict(node.allocatable) for node in snapshot.nodes if node.name in nodes}
    for pod in snapshot.pods:
        if pod.node_name in free and pod.is_active:
            for name in wanted:
                free[pod.node_name][name] = free[pod.node_name].get(name, 0) - pod.spec.requests.get(name, 0)
    per_node = (min(room.get(name, 0) // amount for name, amount in wanted.items()) for room in free.values())
    return sum(max(0, places) for places in per_node)


def lacks_warm_room(snapshot: Snapshot) -> bool:
    """Whether nodes that stay have less room than calendars keep warm; nodes that start have none yet."""
    leaving = {c.node_name for c in snapshot.node_claims if c.deleted_at or c.name in snapshot.marked_for_deletion}
    staying = [node for node in snapshot.nodes if node.deleted_at is None and node.name not in leaving]
    for buffer in snapshot.buffers:
        nodes = {node.name for node in staying if node.labels.get(labels.NODEPOOL) == buffer.calendar}
        if buffer.calendar and _places(snapshot, nodes, buffer.spec.requests) < buffer.pods - buffer.taken:
            return True
    return False


def _may_use(pod: Pod, pool: NodePool, template: Requirements) -> bool:
    """Whether labels and taints of the NodePool's template admit the pod."""
    is_tolerated = all(
        any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
        for taint in pool.taints
        if taint.effect != PREFER_NO_SCHEDULE
    )
    terms = pod.spec.required_terms
    alternatives = [(*pod.spec.node_selector, *term.requirements) for term in terms] or [pod.spec.node_selector]
    return is_tolerated and any(
        template.compatible(Requirements(required), allow_undefined=labels.WELL_KNOWN) for required in alternatives
    )


def warm_buffer(pool: str, room: WarmRoom, taken: int = 0) -> CapacityBuffer:
    """Return the virtual pods for which a NodePool keeps room."""
    spec = PodSpec(
        requests={**room.requests, "pods": 1},
        node_selector=(Requirement.one_of(labels.NODEPOOL, pool),),
        tolerations=_TOLERATES_ALL,
        priority=VIRTUAL_PRIORITY,
    )
    return CapacityBuffer(
        namespace=WARM_NAMESPACE,
        name=pool,
        uid=f"calendar-{pool}",
        pods=room.pods,
        spec=spec,
        taken=taken,
        calendar=pool,
    )


def closed_pools(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the NodePools that are outside their hours."""
    return frozenset(pool.name for pool in snapshot.node_pools if pool.is_closed)


def why_closed(pool: NodePool) -> PoolClosed | None:
    """Return which rule closes a NodePool, and when it launches again; None for an open one."""
    hours = pool.hours
    return PoolClosed(hours.closed_by, hours.opens_at) if hours is not None and pool.is_closed else None


def hours_of(pool: NodePool) -> tuple[str, ...]:
    """Return sentences about the calendars' rules that hold for a NodePool now."""
    hours = pool.hours
    if hours is None:
        return ()
    lines = [f"rule {name} of a calendar holds" for name in hours.rules]
    lines += [f"a later rule replaces {text}" for text in hours.overruled]
    if hours.is_waking and hours.opens_at is not None:
        lines.append(f"it wakes: it launches already, and opens at {hours.opens_at:%Y-%m-%dT%H:%M:%SZ}")
    if hours.warm is not None:
        evidence = f", by forecast: {hours.warm.evidence}" if hours.warm.evidence else ""
        lines.append(f"it keeps room free for {hours.warm.pods} pods{evidence}")
    if hours.occupied_until is not None:
        lines.append(f"consolidation removes empty nodes only until {hours.occupied_until:%Y-%m-%dT%H:%M:%SZ}")
    if hours.changes_at is not None:
        lines.append(f"its calendars change something at {hours.changes_at:%Y-%m-%dT%H:%M:%SZ}")
    return tuple(lines)


def closing_claims(snapshot: Snapshot, pools: Iterable[str]) -> dict[str, str]:
    """Return claim → NodePool for the claims that leave these closed NodePools, oldest first, ties by name.

    One that is leaving already is left out, unless its NodePool's time is over. One whose drain was cancelled is left alone for
    a while.
    """
    names = frozenset(pools)
    forced = {p.name for p in snapshot.node_pools if p.name in names and p.hours is not None and p.hours.is_forced}
    leaving = [
        (claim.created_at or snapshot.now, claim.name, claim.node_pool)
        for claim in snapshot.node_claims
        if claim.node_pool in names
        and (
            claim.node_pool in forced
            or (
                claim.deleted_at is None
                and claim.name not in snapshot.marked_for_deletion
                and (claim.hold is None or claim.hold.until <= snapshot.now)
            )
        )
    ]
    return {name: pool for _, name, pool in sorted(leaving)}


def stays_until(pool: NodePool) -> str:
    """Return until when a node of a closed NodePool stays whose pods may not be evicted."""
    hours = pool.hours
    if hours is not None and hours.force_at is not None:
        return f"until {hours.force_at:%Y-%m-%dT%H:%M:%SZ}, when it goes regardless of pods (podsThatStay: {FORCE})"
    if hours is not None and hours.pods_that_stay == GRACE_PERIOD:
        return "until the pod leaves: its NodeClaim has no terminationGracePeriod"
    return f"until the pod leaves (podsThatStay: {LEAVE})"


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A time during which nothing changes for a NodePool; `pool` is what holds from `since` on."""

    since: datetime
    until: datetime
    pool: NodePool


def periods(
    pool: NodePool, calendars: Sequence[Calendar], since: datetime, until: datetime, *, at_most: int
) -> Iterator[Period]:
    """Yield what holds for a NodePool between two moments, in periods that differ; at most `at_most` changes are followed.

    Args:
        pool: The NodePool.
        calendars: All calendars.
        since: The first moment.
        until: The end.
        at_most: The bound on changes.
    """
    begun, present = since, at(pool, calendars, since)
    moment = since
    for _ in range(at_most):
        following = present.hours.changes_at if present.hours is not None else None
        if following is None or following >= until:
            break
        moment, coming = following, at(pool, calendars, following)
        if _meaning(coming) != _meaning(present):
            yield Period(since=begun, until=moment, pool=present)
            begun = moment
        present = coming
    yield Period(since=begun, until=until, pool=present)


def _meaning(pool: NodePool) -> NodePool:
    """Return the NodePool without what differs at each moment of one period."""
    if pool.hours is None:
        return pool
    hours = msgspec.structs.replace(
        pool.hours, changes_at=None, opens_at=None, force_at=None, is_forced=False, warm_since=None, warm_opens=None
    )
    return msgspec.structs.replace(pool, hours=hours)


def boundaries(snapshot: Snapshot, until: datetime, *, at_most: int) -> tuple[datetime, ...]:
    """Return the moments after the snapshot's time at which calendars change a NodePool, the earliest `at_most` of them."""
    moments: set[datetime] = set()
    for pool in snapshot.node_pools:
        moment = snapshot.now
        for _ in range(at_most):
            hours = at(pool, snapshot.calendars, moment).hours
            if hours is None or hours.changes_at is None or hours.changes_at > until:
                break
            moment = hours.changes_at
            moments.add(moment)
    return tuple(sorted(moments)[:at_most])
