"""Background for the lines of the report: budget windows, steps of the scenario, interruptions, faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from cli.report.series import Events
from core.api.objects import mapping, sequence
from core.disruption.budgets.cron import Schedule
from core.errors import InvalidInputError
from core.model.values.duration import parse_duration

HITS_MAX: Final = 500
"""The most windows of one budget that are drawn; a month with an hourly window has more than are readable."""

_SAME_STEP: Final = timedelta(seconds=5)
_NAMED_MAX: Final = 3


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled span of time: `kind` is window, step, interruption, capacity or fault. A moment has start == end."""

    start: datetime
    end: datetime
    kind: str
    text: str


def bands(events: Events) -> tuple[Band, ...]:
    """Return windows first, then single moments, in order."""
    return (*_windows(events), *_moments(events))


def _windows(events: Events) -> list[Band]:
    """Return when budgets with a schedule are in force; pools with the same window share a band."""
    start, end = events[0][0], events[-1][0]
    pools: dict[str, Mapping[str, Any]] = {
        fields["name"]: mapping(fields.get("object"))
        for _, event, fields in events
        if event == "objectApplied" and fields.get("kind") == "NodePool"
    }
    shared: dict[tuple[datetime, datetime, str], list[str]] = {}
    for name, pool in sorted(pools.items()):
        for budget in sequence(mapping(mapping(pool.get("spec")).get("disruption")).get("budgets")):
            for opens, closes in _spans(budget, start, end):
                shared.setdefault((opens, closes, _limit(budget)), []).append(name)
    return [
        Band(start=opens, end=closes, kind="window", text=f"{', '.join(dict.fromkeys(names))}: {text}")
        for (opens, closes, text), names in sorted(shared.items())
    ]


def _spans(budget: Mapping[str, Any], start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    try:
        span, schedule = parse_duration(str(budget.get("duration"))), Schedule.parse(str(budget.get("schedule")))
    except InvalidInputError:
        return
    if not span:
        return
    opens = schedule.next_after(start - span)
    for _ in range(HITS_MAX):
        if opens is None or opens >= end:
            return
        yield max(opens, start), min(opens + span, end)
        opens = schedule.next_after(opens)


def _limit(budget: Mapping[str, Any]) -> str:
    nodes = str(budget.get("nodes", "10%"))
    what = "no node may go" if nodes in ("0", "0%") else f"at most {nodes} of the nodes may go"
    reasons = budget.get("reasons")
    return f"{what} ({', '.join(reasons)})" if reasons else what


def _moments(events: Events) -> list[Band]:
    """Return the moments; those closer than five seconds are joined with all their texts."""
    started = events[0][0]
    found: list[tuple[datetime, str, list[str]]] = []
    replicas: dict[str, object] = {}
    for at, event, fields in events:
        kind, text = _kind_and_text(event, fields, replicas)
        if not kind or (kind == "step" and at <= started):
            continue
        if found and found[-1][1] == kind and at - found[-1][0] <= _SAME_STEP:
            found[-1][2].append(text)
        else:
            found.append((at, kind, [text]))
    return [Band(start=at, end=at, kind=kind, text=_joined(kind, texts)) for at, kind, texts in found]


def _kind_and_text(event: str, fields: Mapping[str, Any], replicas: dict[str, object]) -> tuple[str, str]:
    """Return kind and text of one event; empty for actions of the functions or the cluster."""
    if event == "interruptionNotice":
        return "interruption", str(fields["kind"])
    if event == "fault":
        return "fault", f"{fields['kind']} at {fields['call']}"
    if event == "capacityChanged":
        what = "/".join(str(fields.get(key) or "*") for key in ("instanceType", "zone", "capacityType"))
        left = fields.get("available")
        return "capacity", f"{what}: {'as before' if left is None else f'{left} left'}"
    if fields.get("by") != "user" or event not in ("objectApplied", "objectDeleted"):
        return "", ""
    named = f"{fields['kind']} {fields['name']}"
    if event == "objectDeleted":
        return "step", f"deleted {named}"
    count = mapping(mapping(fields.get("object")).get("spec")).get("replicas")
    known, before = named in replicas, replicas.get(named)
    replicas[named] = count
    if count is None:
        return "step", named
    return (
        "step",
        f"{fields['name']} {before} to {count}" if known and before != count else f"{fields['name']}: {count}",
    )


def _joined(kind: str, texts: list[str]) -> str:
    counts = {text: texts.count(text) for text in texts}
    if kind == "interruption":
        return ", ".join(f"{count} {text} notice{'s' if count > 1 else ''}" for text, count in counts.items())
    parts = [f"{text}, {count} times" if count > 1 else text for text, count in counts.items()]
    more = len(parts) - _NAMED_MAX
    return "; ".join(parts[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
