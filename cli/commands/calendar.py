"""`fleetwright calendar`: what holds for each NodePool in the next days, by its Calendars."""

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
    from core.model.node_pool import NodePool
    from core.model.snapshot import Snapshot

DAYS_DEFAULT: Final = 14
DAYS_MAX: Final = 400
CHANGES_MAX: Final = 5_000
"""The most changes of one NodePool that are followed: one each quarter of an hour for seven weeks."""

_EXAMPLES: Final = """examples:
  fleetwright calendar -f pools/
  fleetwright calendar -f pools/ --days 30 -o json
  fleetwright calendar --cluster prod --now 2026-12-24T00:00:00Z
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
    shared.add_output(parser)
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the periods in which nothing changes, NodePool by NodePool."""
    from cli.inputs import read_inputs

    arguments.now = arguments.now or datetime.now(UTC).replace(microsecond=0)
    snapshot = read_inputs(arguments).snapshot
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
