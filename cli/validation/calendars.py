"""Findings about Calendars: rules that overlap or never hold, NodePools that never open, lead times longer than the gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from cli.manifests.inventory import Document
from cli.validation.formats import Code, Finding, Severity, finding_in, nearest
from core import api, labels
from core.api.objects import is_ours, kind_of, mapping
from core.api.older_versions import problems
from core.api.status import path_of
from core.calendars import holds as rule_holds
from core.calendars import instant, next_change, periods, rules_of, starts, wall_time, zone
from core.errors import InvalidInputError
from core.model.node_pool import Calendar, CalendarRule, NodePool

AHEAD: Final = timedelta(days=400)
"""How far ahead rules are followed: a year, so that each date and each change of clocks comes once."""

CHANGES_MAX: Final = 2_000
"""The most changes of one NodePool that are followed."""

GAPS_MAX: Final = 60
"""The most changes of a rule whose times are compared with the lead time."""

_Placed = tuple[Document, Calendar]


def calendar_findings(documents: Sequence[Document], now: datetime) -> Iterator[Finding]:
    """Return the findings about calendars and NodePools' annotations, which need the whole input and the present time."""
    pools = [(document, pool) for document in documents if (pool := _pool_in(document)) is not None]
    calendars = [(document, calendar) for document in documents if (calendar := _calendar_in(document)) is not None]
    annotated = [(document, pool.calendar) for document, pool in pools if pool.calendar is not None]
    places = {
        rule.name: _place(placed[0], index) for placed in (*calendars, *annotated) for index, rule in _rules(placed)
    }
    for document, calendar in calendars:
        yield from _selection(document, calendar, [pool for _, pool in pools])
    for placed in (*calendars, *annotated):
        for _, rule in _rules(placed):
            yield from _of_rule(rule, places[rule.name], now)
    for _, pool in sorted(pools, key=lambda pair: pair[1].name):
        yield from _of_pool(pool, [calendar for _, calendar in calendars], places, now)


_Place = tuple[Document, str]


def _rules(placed: _Placed) -> Iterator[tuple[int, CalendarRule]]:
    yield from enumerate(placed[1].rules)


def _place(document: Document, index: int) -> _Place:
    if kind_of(document.object) == "NodePool":
        return document, path_of(("metadata", "annotations", labels.CALENDAR))
    return document, path_of(("spec", "rules", index))


def _warning(place: _Place, code: Code, message: str) -> Finding:
    return finding_in(place[0], code, place[1], message, severity=Severity.WARNING)


def _calendar_in(document: Document) -> Calendar | None:
    if not is_ours(document.object) or kind_of(document.object) != "Calendar" or problems(document.object):
        return None
    return api.calendar(document.object)


def _pool_in(document: Document) -> NodePool | None:
    if not is_ours(document.object) or kind_of(document.object) != "NodePool":
        return None
    try:
        return api.node_pool(document.object)
    except InvalidInputError:
        return None


def _selection(document: Document, calendar: Calendar, pools: Sequence[NodePool]) -> Iterator[Finding]:
    names = sorted(pool.name for pool in pools)
    written = mapping(mapping(document.object.get("spec")).get("nodePools"))
    for index, name in enumerate(calendar.node_pools):
        if name not in names:
            yield finding_in(
                document,
                Code.NOT_FOUND,
                path_of(("spec", "nodePools", "names", index)),
                f"there is no NodePool {name!r} in the input",
                severity=Severity.WARNING,
                suggestion=nearest(name, names),
            )
    selected = any(calendar.match_labels.items() <= pool.own_labels.items() for pool in pools)
    if written.get("matchLabels") and pools and not selected:
        field = path_of(("spec", "nodePools", "matchLabels"))
        message = "no NodePool of the input has these labels in its metadata"
        yield finding_in(document, Code.MATCHES_NOTHING, field, message, severity=Severity.WARNING)


def _of_rule(rule: CalendarRule, place: _Place, now: datetime) -> Iterator[Finding]:
    first = now if rule_holds(rule, now) else next_change(rule, now)
    if first is None or first > now + AHEAD:
        past = _past(rule, now) if first is None else ""
        message = f"rule {rule.name} does not hold within the next {AHEAD.days} days"
        yield _warning(place, Code.NEVER_HOLDS, f"{message}: {past}" if past else message)
    for window in rule.windows:
        clock = zone(rule.time_zone)
        for start in starts(rule, window, now, now + AHEAD):
            date = f"{start:%Y-%m-%d}"
            is_valid = rule.valid_from <= date and not (rule.valid_until and date > rule.valid_until)
            if is_valid and instant(start, clock) == instant(start + window.duration, clock):
                message = (
                    f"rule {rule.name}: on {date} clocks skip its window {start:%H:%M} as a whole, so it does not open"
                )
                yield _warning(place, Code.NEVER_HOLDS, message)
                break
    yield from _long_lead(rule, place, now)


def _past(rule: CalendarRule, now: datetime) -> str:
    """Return what of a rule that never holds again is past, empty for nothing."""
    wall = wall_time(now, zone(rule.time_zone))
    if rule.valid_until and rule.valid_until < f"{wall:%Y-%m-%d}":
        return f"validUntil {rule.valid_until} is past"
    ends = [window.start + window.duration for window in rule.windows if window.start is not None]
    is_over = len(ends) == len(rule.windows) and max(ends, default=wall) <= wall
    return "all its windows are past" if ends and is_over else ""


def _long_lead(rule: CalendarRule, place: _Place, now: datetime) -> Iterator[Finding]:
    """Report a lead time that takes up the whole of a closing, or of the time between two windows with warm room."""
    lead = rule.settings.lead_time
    if not lead:
        return
    gaps = [
        (begins, ends) for begins, ends in _spans(rule, now, held=bool(rule.settings.closed)) if ends - begins <= lead
    ]
    if not gaps:
        return
    begins, ends = gaps[0]
    since = f"from {begins:%Y-%m-%dT%H:%M:%SZ}, and its leadTime is {lead}"
    if rule.settings.closed:
        message = f"closes for {ends - begins} {since}: the NodePool launches again before it has emptied"
    elif rule.settings.warm is not None:
        message = f"does not hold for {ends - begins} {since}: the warm room never ends"
    else:
        return
    yield _warning(place, Code.LEAD_TIME, f"rule {rule.name} {message}")


def _spans(rule: CalendarRule, now: datetime, *, held: bool) -> Iterator[tuple[datetime, datetime]]:
    """Yield the next times from beginning to end during which the rule holds, or does not."""
    moment, begins = now, None
    for _ in range(GAPS_MAX):
        change = next_change(rule, moment)
        if change is None or change > now + AHEAD:
            return
        if rule_holds(rule, change) == held:
            begins = change
        elif begins is not None:
            yield begins, change
        moment = change


def _of_pool(
    pool: NodePool, calendars: Sequence[Calendar], places: dict[str, _Place], now: datetime
) -> Iterator[Finding]:
    """Return what rules together mean for a NodePool; one that holds once is meant to replace others."""
    rules = rules_of(pool, calendars)
    if not rules:
        return
    exceptions = {rule.name for rule in rules if rule.windows and all(w.start is not None for w in rule.windows)}
    reported: set[str] = set()
    is_ever_open = False
    closed_by = ""
    for period in periods(pool, calendars, now, now + AHEAD, at_most=CHANGES_MAX):
        hours = period.pool.hours
        is_ever_open = is_ever_open or not period.pool.is_closed
        closed_by = closed_by or (hours.closed_by if hours is not None else "")
        for text in hours.overruled if hours is not None else ():
            if text in reported:
                continue
            reported.add(text)
            later = text.rpartition(" by rule ")[2]
            if later in exceptions:
                continue
            message = (
                f"NodePool {pool.name}: from {period.since:%Y-%m-%dT%H:%M:%SZ} two rules hold at once, and the later one "
                f"replaces {text}"
            )
            yield _warning(places[later], Code.OVERLAP, message)
    if not is_ever_open:
        message = f"NodePool {pool.name} is closed for all of the next {AHEAD.days} days, by rule {closed_by}"
        yield _warning(places[closed_by], Code.NEVER_OPENS, message)
