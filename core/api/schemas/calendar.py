"""Calendar `fleetwright.dev/v1alpha1` as users write it, and its form in a NodePool's annotation: the same spec as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from core import labels
from core.api.objects import JsonObject, mapping
from core.api.schemas import fields
from core.api.schemas.fields import ApiModel, Metadata, Rule, examined
from core.api.schemas.node_pool import BudgetEntry, ClaimRequirement, PoolRequirement, RequirementEntry
from core.api.status import Location, path_of
from core.calendars import zone
from core.cron import Schedule
from core.errors import InvalidInputError
from core.model.node_pool import (
    DAY,
    FORCE,
    MONTH,
    TELL,
    Budget,
    Calendar,
    CalendarRule,
    CalendarSettings,
    CalendarWindow,
    Cap,
    CapAction,
    WarmRoom,
)
from core.model.values import quantity
from core.model.values.quantity import in_calendar, parse_duration
from core.model.values.requirements import Requirement

RULES_MAX: Final = 50
CAPS_MAX: Final = 20
"""Caps of one Calendar: each that counts a claim has a counter, which is written with it in one transaction."""

WINDOWS_MAX: Final = 50
DATES_MAX: Final = 400
DURATION_MAX: Final = timedelta(days=31)
WARM_PODS_MAX: Final = 10_000

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _known_zone(name: str) -> str:
    try:
        zone(name)
    except InvalidInputError as error:
        raise PydanticCustomError("zone", "{problem}", {"problem": error.problem}) from error
    return name


def _readable_schedule(text: str) -> str:
    try:
        Schedule.parse(text)
    except InvalidInputError as error:
        raise PydanticCustomError("schedule", "{problem}", {"problem": error.problem}) from error
    return text


def _existing_date(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise PydanticCustomError("date", "{text} is not a date of the calendar", {"text": repr(text)}) from error
    return text


TimeZone = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_known_zone)]
Cron = Annotated[str, Field(pattern=fields.SCHEDULE), AfterValidator(_readable_schedule)]
Date = Annotated[str, Field(pattern=fields.DATE, max_length=10), AfterValidator(_existing_date)]
WallTime = Annotated[str, Field(pattern=fields.WALL_TIME, max_length=16), AfterValidator(_existing_date)]


def _shapes(window: JsonObject) -> list[tuple[str, ...]]:
    return [shape for shape in _SHAPES if any(name in window for name in shape)]


_SHAPES: Final = (("schedule", "duration"), ("days", "from", "to"), ("start", "end"))


def _no_one_shape(window: JsonObject) -> list[Location]:
    return [] if len(_shapes(window)) == 1 else [()]


def _incomplete(window: JsonObject) -> list[Location]:
    missing = [name for shape in _shapes(window) for name in shape if name != "days" and name not in window]
    return [(name,) for name in missing] if len(_shapes(window)) == 1 else []


def _too_long(window: JsonObject) -> list[Location]:
    duration = parse_duration(str(window.get("duration", ""))) if "duration" in window else None
    return [("duration",)] if duration is not None and not timedelta(0) < duration <= DURATION_MAX else []


def _backwards(window: JsonObject) -> list[Location]:
    return [("end",)] if "start" in window and "end" in window and window["end"] <= window["start"] else []


class WindowEntry(ApiModel):
    """One window: cron and duration, or days with hours, or one that opens once; by the clocks of the rule's zone."""

    schedule: Cron | None = None
    duration: Annotated[str, Field(pattern=fields.WINDOW)] | None = None
    days: Annotated[list[Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]], Field(max_length=7)] | None = None
    opens: Annotated[str, Field(pattern=fields.TIME_OF_DAY)] | None = Field(default=None, alias="from")
    closes: Annotated[str, Field(pattern=fields.TIME_OF_DAY)] | None = Field(default=None, alias="to")
    start: WallTime | None = None
    end: WallTime | None = None

    rules = (
        Rule(
            (),
            _no_one_shape,
            "needs either schedule and duration, or from and to with or without days, or start and end",
            "[has(self.schedule) || has(self.duration), has(self.days) || has(self.from) || has(self.to), "
            "has(self.start) || has(self.end)].filter(shape, shape).size() == 1",
        ),
        Rule(
            (),
            _incomplete,
            "is required: the two bounds of a window go together",
            "has(self.schedule) == has(self.duration) && has(self.from) == has(self.to) && has(self.start) == has(self.end)"
            " && (!has(self.days) || has(self.from))",
        ),
        Rule(
            ("duration",),
            _too_long,
            "must be longer than nothing and at most 744h",
            "!has(self.duration) || (duration(self.duration) > duration('0s') && duration(self.duration) <= duration('744h'))",
        ),
        Rule(
            ("start", "end"),
            _backwards,
            "must be after start",
            "!has(self.start) || !has(self.end) || self.end > self.start",
        ),
    )


class WarmEntry(ApiModel):
    """`settings.warm`: room that is kept free on the NodePool's nodes; without `refill`, pods that come use it up."""

    pods: Annotated[int, Field(ge=0, le=WARM_PODS_MAX)]
    requests: dict[str, fields.Quantity] = {}
    refill: bool = True


_SETTING_NAMES: Final = (
    "closed",
    "limits",
    "weight",
    "capacityTypes",
    "requirements",
    "budgets",
    "warm",
)
"""A rule needs at least one of these settings; the others say how it closes or warms."""


def _nothing_set(settings: JsonObject) -> list[Location]:
    return [] if any(name in settings for name in _SETTING_NAMES) else [()]


def _force_without_time(settings: JsonObject) -> list[Location]:
    is_forced = settings.get("podsThatStay") == FORCE
    return [("forceAfter",)] if is_forced != ("forceAfter" in settings) else []


REQUIREMENTS_MAX: Final = 10
VALUES_MAX: Final = 100
BUDGETS_MAX: Final = 10
"""Of one rule. The API server refuses a definition whose rules may cost too much for the longest lists."""


class CalendarRequirement(PoolRequirement):
    """One of `settings.requirements`: as of a NodePool, with a shorter list of values."""

    values: Annotated[list[fields.LabelValue], Field(max_length=VALUES_MAX)] = []


class SettingsEntry(ApiModel):
    """`rules[].settings`: what holds while the rule does."""

    closed: bool | None = None
    lead_time: fields.Duration | None = None
    pods_that_stay: Literal["Leave", "TerminationGracePeriod", "Force"] | None = None
    force_after: Annotated[str, Field(pattern=fields.WINDOW)] | None = None
    limits: dict[str, fields.Quantity] | None = None
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    capacity_types: (
        Annotated[list[Literal["reserved", "spot", "on-demand"]], Field(min_length=1, max_length=3)] | None
    ) = None
    requirements: Annotated[list[CalendarRequirement], Field(max_length=REQUIREMENTS_MAX)] | None = None
    budgets: Annotated[list[BudgetEntry], Field(max_length=BUDGETS_MAX)] | None = None
    warm: WarmEntry | None = None

    rules = (
        Rule(
            (),
            _nothing_set,
            f"sets nothing: it needs one of {', '.join(_SETTING_NAMES)}",
            " || ".join(f"has(self.{name})" for name in _SETTING_NAMES),
        ),
        Rule(
            ("podsThatStay", "forceAfter"),
            _force_without_time,
            "goes with podsThatStay: Force, and only with it",
            "has(self.forceAfter) == (has(self.podsThatStay) && self.podsThatStay == 'Force')",
        ),
    )


def _ends_before_it_begins(rule: JsonObject) -> list[Location]:
    bounds = rule.get("validFrom"), rule.get("validUntil")
    return [("validUntil",)] if bounds[0] and bounds[1] and bounds[1] < bounds[0] else []


def _outside_of_nothing(rule: JsonObject) -> list[Location]:
    return [("when",)] if rule.get("when") == "Outside" and not rule.get("windows") else []


def _used_up_from_no_time_on(rule: JsonObject) -> list[Location]:
    warm = rule.get("settings", {}).get("warm", {})
    is_from_a_window = bool(rule.get("windows")) and rule.get("when") != "Outside"
    return [] if is_from_a_window or warm.get("refill", True) else [("settings", "warm", "refill")]


class RuleEntry(ApiModel):
    """One rule: settings, and when they hold."""

    name: fields.ObjectName
    time_zone: TimeZone | None = None
    windows: Annotated[list[WindowEntry], Field(max_length=WINDOWS_MAX)] = []
    when: Literal["Inside", "Outside"] = "Inside"
    except_dates: Annotated[list[Date], Field(max_length=DATES_MAX)] = []
    valid_from: Date | None = None
    valid_until: Date | None = None
    settings: SettingsEntry

    rules = (
        Rule(
            ("validFrom", "validUntil"),
            _ends_before_it_begins,
            "is before validFrom",
            "!has(self.validFrom) || !has(self.validUntil) || self.validUntil >= self.validFrom",
        ),
        Rule(
            ("when", "windows"),
            _outside_of_nothing,
            "Outside needs windows to be outside of",
            "!has(self.when) || self.when != 'Outside' || (has(self.windows) && self.windows.size() > 0)",
        ),
        Rule(
            ("settings", "when", "windows"),
            _used_up_from_no_time_on,
            "false needs windows, and when: Inside, for pods count from the window's opening",
            "!has(self.settings.warm) || !has(self.settings.warm.refill) || self.settings.warm.refill"
            " || (has(self.windows) && self.windows.size() > 0 && (!has(self.when) || self.when == 'Inside'))",
        ),
    )


class PoolSelection(ApiModel):
    """`nodePools`: the NodePools that the rules are for, by name or by their labels."""

    names: Annotated[list[fields.ObjectName], Field(max_length=200)] = []
    match_labels: Annotated[dict[str, fields.LabelValue], Field(max_length=20)] = {}


class PodSelection(ApiModel):
    """`caps[].pods`: the pods whose nodes a cap counts."""

    namespaces: Annotated[list[fields.ObjectName], Field(max_length=50)] = []
    match_labels: Annotated[dict[str, fields.LabelValue], Field(max_length=20)] = {}


PERIODS: Final = {"dollars-per-day": DAY, "dollars-per-month": MONTH}
"""Names in a cap's limits of what nodes may cost in a period."""

ACTIONS_MAX: Final = 4
LIMITS_MAX: Final = 20


def _not_about_a_period(cap: JsonObject) -> list[Location]:
    if any(name in cap.get("limits", {}) for name in PERIODS):
        return []
    return [(name,) for name in ("actions", "countAhead") if name in cap]


class ActionEntry(ApiModel):
    """One of `caps[].actions`: what happens once the forecast of a period reaches a percentage of its limit."""

    percent: Annotated[int, Field(ge=1, le=100)]
    do: Annotated[list[Literal["Tell", "HoldBack", "NoOnDemandFallback"]], Field(min_length=1, max_length=3)]


class CapEntry(ApiModel):
    """One cap: pods, and the most that nodes for them may take at a time or cost in a period."""

    name: fields.ObjectName
    pods: PodSelection = Field(default_factory=PodSelection)
    limits: Annotated[dict[str, fields.Quantity], Field(min_length=1, max_length=LIMITS_MAX)]
    count_ahead: Annotated[str, Field(pattern=fields.WINDOW)] | None = None
    actions: Annotated[list[ActionEntry], Field(max_length=ACTIONS_MAX)] | None = None

    rules = (
        Rule(
            ("actions", "countAhead"),
            _not_about_a_period,
            f"needs {' or '.join(PERIODS)} in limits",
            "!(has(self.actions) || has(self.countAhead)) || "
            + " || ".join(f"'{name}' in self.limits" for name in PERIODS),
        ),
    )


def _repeated_names(entries: str, spec: JsonObject) -> list[Location]:
    names = [entry["name"] for entry in spec.get(entries, [])]
    return [(entries, index, "name") for index, name in enumerate(names) if name in names[:index]]


class CalendarSpec(ApiModel):
    """`spec` of a Calendar."""

    node_pools: PoolSelection = Field(default_factory=PoolSelection)
    time_zone: TimeZone = "UTC"
    rules_: Annotated[list[RuleEntry], Field(max_length=RULES_MAX)] = Field(default=[], alias="rules")
    caps: Annotated[list[CapEntry], Field(max_length=CAPS_MAX)] = []

    rules = (
        Rule(
            ("rules",),
            partial(_repeated_names, "rules"),
            "names another rule already",
            "!has(self.rules) || self.rules.all(a, self.rules.exists_one(b, a.name == b.name))",
        ),
        Rule(
            ("caps",),
            partial(_repeated_names, "caps"),
            "names another cap already",
            "!has(self.caps) || self.caps.all(a, self.caps.exists_one(b, a.name == b.name))",
        ),
    )


class CalendarObject(ApiModel):
    """A Calendar: what holds for NodePools at which hours."""

    metadata: Metadata
    spec: CalendarSpec


# Translation to the model.


def calendar_of(spec: CalendarSpec, name: str) -> Calendar:
    """Return a valid Calendar in the model."""
    return Calendar(
        name=name,
        node_pools=tuple(spec.node_pools.names),
        match_labels=dict(spec.node_pools.match_labels),
        rules=tuple(_rule(rule, spec, name) for rule in spec.rules_),
        caps=tuple(_cap(cap, spec, name) for cap in spec.caps),
    )


def _cap(cap: CapEntry, spec: CalendarSpec, calendar: str) -> Cap:
    amounts = {name: quantity.parse(amount, quantity.HOURLY) for name, amount in cap.limits.items() if name in PERIODS}
    limits = {_IN_FULL.get(name, name): amount for name, amount in cap.limits.items() if name not in PERIODS}
    return Cap(
        name=f"{calendar}/{cap.name}",
        namespaces=tuple(sorted(set(cap.pods.namespaces))),
        pod_labels=dict(cap.pods.match_labels),
        limits=quantity.parse_resources(limits),
        periods={PERIODS[name]: amount for name, amount in sorted(amounts.items())},
        time_zone=spec.time_zone if amounts else "UTC",
        ahead=None if cap.count_ahead is None else _span(cap.count_ahead),
        actions=_actions(cap) if amounts else (),
    )


def _actions(cap: CapEntry) -> tuple[CapAction, ...]:
    """Return the actions by percentage; without any, two tell people, at 80 and at 100 percent."""
    if cap.actions is None:
        return tuple(CapAction(percent=percent, do=(TELL,)) for percent in (80, 100))
    ordered = sorted(cap.actions, key=lambda action: action.percent)
    return tuple(CapAction(percent=action.percent, do=tuple(sorted(set(action.do)))) for action in ordered)


_IN_FULL: Final = {quantity.HOURLY.partition("/")[2]: quantity.HOURLY}
"""Short names of resources in caps."""


def _rule(rule: RuleEntry, spec: CalendarSpec, calendar: str) -> CalendarRule:
    return CalendarRule(
        name=f"{calendar}/{rule.name}",
        time_zone=rule.time_zone or spec.time_zone,
        settings=_settings(rule.settings),
        windows=tuple(map(_window, rule.windows)),
        is_outside=rule.when == "Outside",
        except_dates=tuple(sorted(set(rule.except_dates))),
        valid_from=rule.valid_from or "",
        valid_until=rule.valid_until or "",
    )


def _window(window: WindowEntry) -> CalendarWindow:
    if window.schedule is not None:
        return CalendarWindow(schedule=window.schedule, duration=_span(window.duration))
    if window.start is not None and window.end is not None:
        start, end = (
            in_calendar(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in (window.start, window.end)
        )
        return CalendarWindow(start=start, duration=end - start)
    opens, closes = _clock(window.opens), _clock(window.closes)
    lasting = closes - opens if closes > opens else closes - opens + timedelta(days=1)
    hour, minute = divmod(opens // timedelta(minutes=1), 60)
    days = ",".join(sorted(window.days or (), key=_DAYS.index)).lower() or "*"
    return CalendarWindow(schedule=f"{minute} {hour} * * {days}", duration=lasting)


def _clock(text: str | None) -> timedelta:
    hour, _, minute = (text or "00:00").partition(":")
    return timedelta(hours=int(hour), minutes=int(minute))


def _span(text: str | None) -> timedelta:
    return parse_duration(text or "0s") or timedelta(0)


def _settings(entry: SettingsEntry) -> CalendarSettings:
    bought = None if entry.capacity_types is None else Requirement.one_of(labels.CAPACITY_TYPE, *entry.capacity_types)
    requirements = tuple(map(_requirement, entry.requirements or ())) + ((bought,) if bought else ())
    return CalendarSettings(
        closed=entry.closed,
        lead_time=None if entry.lead_time is None else _span(entry.lead_time),
        pods_that_stay=entry.pods_that_stay,
        force_after=None if entry.force_after is None else _span(entry.force_after),
        limits=None if entry.limits is None else quantity.parse_resources(entry.limits),
        weight=entry.weight,
        requirements=requirements or None,
        budgets=None if entry.budgets is None else tuple(map(_budget, entry.budgets)),
        warm=None
        if entry.warm is None
        else WarmRoom(
            pods=entry.warm.pods, requests=quantity.parse_resources(entry.warm.requests), refill=entry.warm.refill
        ),
    )


def _requirement(entry: RequirementEntry) -> Requirement:
    least = entry.min_values if isinstance(entry, ClaimRequirement) else None
    return Requirement.of(entry.key, entry.operator, entry.values, least)


def _budget(entry: BudgetEntry) -> Budget:
    reasons = None if entry.reasons is None else tuple(entry.reasons)
    duration = None if entry.duration is None else _span(entry.duration)
    return Budget(nodes=entry.nodes, reasons=reasons, schedule=entry.schedule, duration=duration)


# The annotation of a NodePool.


def annotated_calendar(pool: JsonObject, name: str) -> Calendar | None:
    """Return the rules in a NodePool's annotation, None without one.

    Raises:
        InvalidInputError: If the annotation is not a Calendar's spec in JSON; the error names the first fault.
    """
    written = _annotation(pool)
    if written is None:
        return None
    for place, problem in annotation_faults(pool):
        raise InvalidInputError(problem, subject=f"NodePool {name}", field=place)
    spec, _ = examined(CalendarSpec, json.loads(written))
    return None if spec is None else calendar_of(spec, name)


def annotation_faults(pool: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield path and problem of each fault of the rules in a NodePool's annotation."""
    written = _annotation(pool)
    if written is None:
        return
    place = path_of(("metadata", "annotations", labels.CALENDAR))
    try:
        raw: Any = json.loads(written)
    except ValueError as error:
        yield place, f"is not JSON: {error}"
        return
    if not isinstance(raw, dict):
        yield place, "must be an object with rules, in JSON"
        return
    if "nodePools" in raw:
        yield place, "nodePools: the rules are for this NodePool alone; leave it out"
    if "caps" in raw:
        yield (
            place,
            "caps: a cap is over all NodePools of a Calendar; write it there, or use spec.limits of the NodePool",
        )
    for location, message in examined(CalendarSpec, raw)[1]:
        yield place, f"{path_of(location)} {message}"


def _annotation(pool: JsonObject) -> str | None:
    text = mapping(mapping(pool.get("metadata")).get("annotations")).get(labels.CALENDAR)
    return text if isinstance(text, str) else None
