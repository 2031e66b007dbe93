"""`fleetwright calendar`: what holds for each NodePool in the next days, by its Calendars and the forecast."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli.arguments import add_cluster, add_installation
from cli.errors import DONE
from cli.terminal import output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.calendars import Period
    from core.forecast import Forecast, GrowthHistory
    from core.model.node_pool import NodePool, WarmRoom
    from core.model.snapshot import Snapshot

DAYS_DEFAULT: Final = 14
DAYS_MAX: Final = 400
CHANGES_MAX: Final = 5_000
"""The most changes of one NodePool that are followed: one each quarter of an hour for seven weeks."""

_EXAMPLES: Final = """examples:
  fleetwright calendar -f pools/
  fleetwright calendar -f pools/ --days 30 -o json
  fleetwright calendar --cluster prod --now 2026-12-24T00:00:00Z
  fleetwright calendar --cluster prod --week
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_installation(parser)
    parser.add_argument(
        "--days",
        type=_days,
        default=DAYS_DEFAULT,
        metavar="N",
        help=f"how many days, at most {DAYS_MAX} (default: %(default)s)",
    )
    parser.add_argument(
        "--week",
        action="store_true",
        help="seven days by hours: open, warm, forecast, what came a week before, dollars",
    )
    shared.add_output(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the periods in which nothing changes, NodePool by NodePool."""
    from cli.inputs import read_inputs, warn_of

    arguments.now = arguments.now or datetime.now(UTC).replace(microsecond=0)
    inputs = read_inputs(arguments)
    warn_of(inputs.set_aside)
    snapshot, own_state = inputs.snapshot, inputs.own
    if arguments.week:
        learned = (own_state.forecast, own_state.growth) if own_state is not None else (None, None)
        output.show(week_document(snapshot, *learned), arguments.output, _week_table)
        return DONE
    document = calendar_document(snapshot, arguments.now + timedelta(days=arguments.days))
    output.show(document, arguments.output, _table)
    return DONE


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to {DAYS_MAX}")
    return int(text)


def calendar_document(snapshot: Snapshot, until: datetime) -> dict[str, Any]:
    """Return what holds for each NodePool from the snapshot's time on; one that only a Calendar names counts, too."""
    from cli.answers.plan import API_VERSION
    from core.calendars import periods
    from core.model.node_pool import NodePool

    pools = {pool.name: pool for pool in snapshot.node_pools}
    named = sorted({name for calendar in snapshot.calendars for name in calendar.node_pools})
    pools = {**{name: NodePool(name=name) for name in named}, **pools}
    return {
        "apiVersion": API_VERSION,
        "kind": "CalendarView",
        "from": output.rfc3339(snapshot.now),
        "until": output.rfc3339(until),
        "nodePools": [
            {
                "name": name,
                "inInput": name in {pool.name for pool in snapshot.node_pools},
                "periods": [
                    _period(period)
                    for period in periods(pool, snapshot.calendars, snapshot.now, until, at_most=CHANGES_MAX)
                ],
            }
            for name, pool in sorted(pools.items())
        ],
    }


def _period(period: Period) -> dict[str, Any]:
    pool, hours = period.pool, period.pool.hours
    document: dict[str, Any] = {
        "from": output.rfc3339(period.since),
        "until": output.rfc3339(period.until),
        "state": _state(pool),
        "rules": list(hours.rules) if hours is not None else [],
        "overruled": list(hours.overruled) if hours is not None else [],
        "closedBy": hours.closed_by or None if hours is not None else None,
        "opensAt": output.rfc3339(hours.opens_at) if hours is not None and hours.opens_at is not None else None,
        "forceAt": output.rfc3339(hours.force_at) if hours is not None and hours.force_at is not None else None,
    }
    return document | _settings(pool)


def _state(pool: NodePool) -> str:
    if pool.is_closed:
        return "closed"
    return "waking" if pool.hours is not None and pool.hours.is_waking else "open"


def _settings(pool: NodePool) -> dict[str, Any]:
    """Return the settings that differ from what the NodePool says itself."""
    from core.model.values.quantity import render
    from core.scheduling.explanation_text import shown

    if pool.hours is None:
        return {"settings": {}}
    written = pool.hours.written
    settings: dict[str, Any] = {}
    if pool.limits != written.limits:
        settings["limits"] = {name: render(amount, name) for name, amount in sorted(pool.limits.items())}
    if pool.weight != written.weight:
        settings["weight"] = pool.weight
    if new := [shown(required) for required in pool.requirements if required not in written.requirements]:
        settings["requirements"] = new
    if pool.disruption.budgets != written.budgets:
        settings["budgets"] = [_budget_text(budget.nodes, budget.reasons) for budget in pool.disruption.budgets]
    if pool.hours.warm is not None:
        requests = {name: render(amount, name) for name, amount in sorted(pool.hours.warm.requests.items())}
        settings["warm"] = {"pods": pool.hours.warm.pods, "requests": requests}
    return {"settings": settings}


def _budget_text(nodes: str, reasons: tuple[str, ...] | None) -> str:
    return nodes if reasons is None else f"{nodes} for {', '.join(reasons) or 'nothing'}"


def _table(document: Mapping[str, Any]) -> str:
    rows = [
        (pool["name"], period["from"], period["until"], period["state"], _said(period))
        for pool in document["nodePools"]
        for period in pool["periods"]
    ]
    return output.table(("NODEPOOL", "FROM", "UNTIL", "STATE", "BY"), rows) if rows else "no NodePools"


def _said(period: Mapping[str, Any]) -> str:
    settings = "; ".join(f"{name}: {_flat(value)}" for name, value in period["settings"].items())
    overruled = f"overruled: {'; '.join(period['overruled'])}" if period["overruled"] else ""
    return " | ".join(part for part in (", ".join(period["rules"]), settings, overruled) if part)


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# The week by hours.


WEEK: Final = timedelta(days=7)
_HOUR: Final = timedelta(hours=1)

OPEN, PART, CLOSED, WARM = "=", "-", ".", "#"
_LEGEND: Final = (
    f"{OPEN} open, {PART} open for a part of the hour, {CLOSED} closed, {WARM} with warm room; FORECAST: pods of ramps that "
    "get room; CAME: pods of the same day a week before; WARM $: what nodes for the room cost"
)


def week_document(snapshot: Snapshot, forecast: Forecast | None, growth: GrowthHistory | None) -> dict[str, Any]:
    """Return each hour of the next seven days for each NodePool, by the clocks of the forecast or the first Calendar's rule."""
    from cli.answers.plan import API_VERSION
    from core.calendars import instant, wall_time, zone

    zones = [rule.time_zone for calendar in snapshot.calendars for rule in calendar.rules]
    name = forecast.rules.time_zone if forecast is not None else next(iter(zones), "UTC")
    place = zone(name)
    first = wall_time(snapshot.now, place).replace(minute=0, second=0, microsecond=0)
    hours = [first + number * _HOUR for number in range(WEEK // _HOUR)]
    starts = [instant(hour, place) for hour in (*hours, hours[-1] + _HOUR)]
    return {
        "apiVersion": API_VERSION,
        "kind": "CalendarWeek",
        "timeZone": name,
        "nodePools": [
            {"name": pool.name, "hours": _hours_of(pool, snapshot, hours, starts, forecast, growth)}
            for pool in sorted(snapshot.node_pools, key=lambda pool: pool.name)
        ],
    }


def _hours_of(
    pool: NodePool,
    snapshot: Snapshot,
    hours: list[datetime],
    starts: list[datetime],
    forecast: Forecast | None,
    growth: GrowthHistory | None,
) -> list[dict[str, Any]]:
    """Return the hours of one NodePool; one that the clocks skip is left out, and a repeated one counts as one."""
    from core.calendars import periods
    from core.model.values.quantity import dollars

    prices = _RoomPrices(snapshot, pool.name)
    held = list(periods(pool, snapshot.calendars, starts[0], starts[-1], at_most=CHANGES_MAX))
    answers = []
    for hour, start, end in zip(hours, starts, starts[1:], strict=False):
        if start == end:
            continue
        parts = [
            (min(end, period.until) - max(start, period.since), period.pool)
            for period in held
            if period.since < end and period.until > start
        ]
        opened = sum((lasting for lasting, of_part in parts if not of_part.is_closed), timedelta(0))
        rooms = [(lasting, room) for lasting, of_part in parts if (room := _warm_of(of_part)) is not None]
        spent = sum(prices.of(room) * (lasting // timedelta(seconds=1)) // 3600 for lasting, room in rooms)
        answers.append(
            {
                "from": output.rfc3339(start),
                "day": f"{hour:%a %Y-%m-%d}",
                "hour": hour.hour,
                "openPercent": 100 * opened // (end - start),
                "warmPods": max((room.pods for _, room in rooms), default=0),
                "warmDollars": round(dollars(spent), 4),
                "forecastPods": _forecast_pods(pool.name, hour, forecast),
                "came": _came(pool.name, hour, growth, forecast),
            }
        )
    return answers


def _warm_of(pool: NodePool) -> WarmRoom | None:
    return pool.hours.warm if pool.hours is not None and not pool.is_closed else None


class _RoomPrices:
    """What warm room of one NodePool costs an hour; each room is priced once."""

    def __init__(self, snapshot: Snapshot, pool: str) -> None:
        self._snapshot = snapshot
        self._pool = pool
        self._known: list[tuple[WarmRoom, int]] = []

    def of(self, room: WarmRoom) -> int:
        """Return the price in nano-dollars, zero if no node can be had."""
        from core.forecast import warm_price

        for priced_room, price in self._known:
            if priced_room == room:
                return price
        self._known.append((room, warm_price(self._snapshot, self._pool, room) or 0))
        return self._known[-1][1]


def _forecast_pods(pool: str, hour: datetime, forecast: Forecast | None) -> int | None:
    """Return the pods of the ramps of this hour that get room; None without a forecast."""
    from core.forecast import acts

    if forecast is None:
        return None
    return sum(
        ramp.pods
        for ramp in forecast.ramps
        if ramp.pool == pool
        and hour.weekday() in ramp.weekdays
        and ramp.starts // _HOUR == hour.hour
        and acts(ramp, forecast.rules)
    )


def _came(pool: str, hour: datetime, growth: GrowthHistory | None, forecast: Forecast | None) -> int | None:
    """Return by how many pods the NodePool grew in the slots of the same hour a week before; None where nothing was read."""
    if growth is None or forecast is None:
        return None
    slots = growth.days.get(f"{hour - WEEK:%Y-%m-%d}", {}).get(pool, ())
    return sum(slot.pods for slot in slots if slot.slot * forecast.rules.slot // _HOUR == hour.hour)


def _week_table(document: Mapping[str, Any]) -> str:
    rows = []
    for pool in document["nodePools"]:
        days: dict[str, list[dict[str, Any]]] = {}
        for hour in pool["hours"]:
            days.setdefault(hour["day"], []).append(hour)
        rows += [_day_row(pool["name"], day, hours) for day, hours in days.items()]
    if not rows:
        return "no NodePools"
    headings = ("NODEPOOL", "DAY", "0     6     12    18", "FORECAST", "CAME", "WARM $")
    return f"{output.table(headings, rows)}\n\n{_LEGEND}; clocks of {document['timeZone']}"


def _day_row(name: str, day: str, hours: list[dict[str, Any]]) -> tuple[object, ...]:
    cells = {hour["hour"]: _cell(hour) for hour in hours}
    drawn = "".join(cells.get(hour, " ") for hour in range(24)).rstrip()
    counts = [_total(hours, key) for key in ("forecastPods", "came")]
    return name, day, drawn, *counts, f"{sum(hour['warmDollars'] for hour in hours):.2f}"


def _cell(hour: Mapping[str, Any]) -> str:
    if hour["warmPods"]:
        return WARM
    return OPEN if hour["openPercent"] == 100 else CLOSED if not hour["openPercent"] else PART


def _total(hours: list[dict[str, Any]], key: str) -> str:
    figures = [hour[key] for hour in hours if hour[key] is not None]
    return str(sum(figures)) if figures else ""
