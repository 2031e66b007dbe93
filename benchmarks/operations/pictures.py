"""Draws the two dashboards: the deployed graphs, from the metrics of a simulated night."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

from benchmarks.operations.playing import played
from infra.constructs.dashboard import MONEY, OPERATIONS, Graph
from infra.packaging.dependencies import ROOT

NIGHT: Final = ROOT / "examples" / "demo.yaml"
PERIOD: Final = timedelta(minutes=5)
"""CloudWatch's period for graphs over hours."""

ABOVE_POINTS: Final = 1.4
"""How much higher than its points a graph is: the legend lies above them."""

Series = Mapping[str, Sequence[tuple[datetime, float]]]


def draw_all(folder: Path) -> None:
    """Play the demo's night and write operations.png and money.png."""
    folder.mkdir(parents=True, exist_ok=True)
    series = played(NIGHT).usage.series
    draw(folder / "operations.png", "Operations", OPERATIONS, series, columns=3)
    draw(folder / "money.png", "Money", MONEY, series, columns=2)


def draw(path: Path, title: str, graphs: Sequence[Graph], series: Series, *, columns: int) -> None:
    """Draw these graphs in one picture."""
    mpl.use("Agg")
    from matplotlib import dates
    from matplotlib import pyplot as plt

    rows = -(-len(graphs) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(6.4 * columns, 3.0 * rows), squeeze=False)
    figure.suptitle(f"Fleetwright: {title} (simulated night of examples/demo.yaml)", fontsize=14)
    span = [moment for values in series.values() for moment, _ in values]
    for place, graph in zip(axes.flat, graphs, strict=False):
        _draw_graph(place, graph, series)
        place.set_xlim(min(span), max(span))
        place.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))  # type: ignore[no-untyped-call]
    for place in list(axes.flat)[len(graphs) :]:
        place.set_visible(False)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_graph(place: Any, graph: Graph, series: Series) -> None:
    place.set_title(graph.title, fontsize=9)
    place.tick_params(labelsize=8)
    place.grid(alpha=0.3)
    has_points = False
    for metric in graph.metrics:
        points = in_periods(series.get(metric, ()), graph.statistic)
        has_points = has_points or bool(points)
        place.plot(*with_gaps(points), marker=".", markersize=4, linewidth=1, label=metric)
    place.set_ylim(0, ABOVE_POINTS * place.get_ylim()[1] if has_points else 1)
    place.legend(fontsize=7, loc="upper right")
    if not has_points:
        place.text(0.5, 0.5, "nothing to tell", transform=place.transAxes, ha="center", va="center", color="grey")


def in_periods(values: Sequence[tuple[datetime, float]], statistic: str) -> dict[datetime, float]:
    """Return a metric as CloudWatch shows it: one value for each period with data."""
    periods: defaultdict[datetime, list[float]] = defaultdict(list)
    for moment, value in values:
        periods[moment - (moment - datetime.min.replace(tzinfo=moment.tzinfo)) % PERIOD].append(value)
    joined = sum if statistic == "Sum" else max
    return {begun: joined(period_values) for begun, period_values in sorted(periods.items())}


def with_gaps(points: Mapping[datetime, float]) -> tuple[list[datetime], list[float]]:
    """Return times and values with a value that is no number after each period that no other follows at once.

    A line over hours without data would claim that something was measured there.
    """
    times: list[datetime] = []
    values: list[float] = []
    for moment, value in sorted(points.items()):
        if times and moment - times[-1] > PERIOD:
            times.append(times[-1] + PERIOD)
            values.append(math.nan)
        times.append(moment)
        values.append(value)
    return times, values
