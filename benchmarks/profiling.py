"""Shows where the time of a plan goes, by part of the planner and by function."""

from __future__ import annotations

import cProfile
import pstats
import time
from pathlib import PurePath
from typing import Final

from benchmarks.files import Files
from benchmarks.measure import clock, decoded, with_steps
from core.scheduling import Planner
from core.scheduling.context import SchedulingContext

_FUNCTIONS_SHOWN: Final = 15
_PARTS: Final = (
    ("existing nodes", ("node_search", "node_sets", "existing_node", "state_node")),
    ("grouping pods", ("shapes", "classes", "pod_class", "selection", "pending", "preferences", "default_spreads")),
    ("topology", ("topology", "tally", "host_counts", "pinning", "narrowing")),
    (
        "new claims",
        (
            "claim_search",
            "claim_index",
            "new_claims",
            "in_flight",
            "thresholds",
            "limits",
            "reservations",
            "min_values",
        ),
    ),
    ("instance types", ("type_", "template", "requirement", "resource_axis", "daemons", "overlays", "catalogue")),
    ("final types", ("results", "price_order")),
    ("greedy, the rest", ("planner", "context", "scheduling/")),
    ("packing", ("packing/", "repack", "improve")),
)
"""Part → substrings or prefixes of its modules' names; the first match counts."""

Function = tuple[str, int, str]


def profiled(files: Files, budget_seconds: float | None) -> str:
    """Return tables for the greedy plan and, with a budget, for an improved plan. Profiling doubles the time."""
    snapshot = decoded(files)
    Planner(with_steps(snapshot, 0)).plan()
    parts = []
    for title, seconds in (("greedy", None), ("improved", budget_seconds)):
        if title == "improved" and seconds is None:
            continue
        world = snapshot if seconds is not None else with_steps(snapshot, 0)
        profile = cProfile.Profile(time.process_time)
        profile.enable()
        Planner(world, SchedulingContext(world)).plan(None if seconds is None else clock(seconds))
        profile.disable()
        parts.append(f"{title}\n{_tables(pstats.Stats(profile))}")
    return "\n\n".join(parts)


def _tables(stats: pstats.Stats) -> str:
    own_seconds = _own_seconds(stats)
    total = sum(own_seconds.values()) or 1.0
    by_part: dict[str, float] = {}
    for function, seconds in own_seconds.items():
        part = _part_of(function[0])
        by_part[part] = by_part.get(part, 0.0) + seconds
    lines = [f"  {seconds:7.3f} s  {seconds / total:5.1%}  {part}" for part, seconds in _most(by_part)]
    lines.append(f"  {total:7.3f} s  of processor, by function:")
    slowest = _most({_name(function): seconds for function, seconds in own_seconds.items()})[:_FUNCTIONS_SHOWN]
    return "\n".join([*lines, *(f"  {seconds:7.3f} s  {seconds / total:5.1%}  {name}" for name, seconds in slowest)])


def _own_seconds(stats: pstats.Stats) -> dict[Function, float]:
    """Return the time spent in each of our functions; built-in and third-party functions count for their callers."""
    seconds: dict[Function, float] = {}
    for function, (_, _, own_time, _, callers) in stats.stats.items():  # type: ignore[attr-defined]  # not in the stubs
        if _is_ours(function[0]):
            seconds[function] = seconds.get(function, 0.0) + own_time
            continue
        for caller, (_, _, own_there, _) in callers.items():
            seconds[caller] = seconds.get(caller, 0.0) + own_there
    return seconds


def _is_ours(path: str) -> bool:
    return "core" in PurePath(path).parts and "site-packages" not in path


def _part_of(path: str) -> str:
    if not _is_ours(path):
        return "libraries called by libraries"
    pieces = PurePath(path).parts
    inside = "/".join(pieces[pieces.index("core") + 1 :])
    for part, names in _PARTS:
        if any(inside.startswith(name) or f"/{name}" in inside for name in names):
            return part
    return "elsewhere in core"


def _name(function: Function) -> str:
    path, line, name = function
    return f"{'/'.join(PurePath(path).parts[-2:])}:{line} {name}"


def _most(amounts: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(amounts.items(), key=lambda pair: (-pair[1], pair[0]))
