"""Writes the table of docs/explanation/costs.md about what the functions cost a month."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GOALS: Final = {"idle": 2.5, "1000": 40.0}
"""Cluster → dollars a month, without the audit log."""


def costs(run: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of `make cost`: a row for each cluster, a column for each part that costs something."""
    parts = [part for part in next(iter(run.values())) if any(cost_by_part[part] for cost_by_part in run.values())]
    head = (f"| | {' | '.join(parts)} | sum | goal |", f"|{' --- |' * (len(parts) + 3)}")
    rows = (
        f"| {_named(name)} | {' | '.join(f'{cost_by_part[part]:.2f}' for part in parts)} | {total(cost_by_part):.2f} "
        f"| {f'{GOALS[name]:g}' if name in GOALS else ''} |"
        for name, cost_by_part in run.items()
    )
    return "\n".join(("Dollars a month, without the audit log and the dashboards:", "", *head, *rows))


def total(parts: Mapping[str, float]) -> float:
    """Return what a cluster costs."""
    return round(sum(parts.values()), 2)


def _named(name: str) -> str:
    nodes, _, how = name.partition(" ")
    return "no nodes" if nodes == "idle" else f"{int(nodes):,} nodes{f', {how[1:-1]}' if how else ''}"
