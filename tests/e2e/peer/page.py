"""The figures of a comparison for its page of the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.e2e.peer.figures import Result
from tests.e2e.peer.picture import median_run, picture
from tests.e2e.peer.table import table

PICTURE: Final = "e2e-peer-moments.svg"
"""Stands beside the page."""

_COLUMNS: Final = ("pods", "side", "moment", "first s", "median s", "last s")


def figures(found: Mapping[str, Any]) -> str:
    """The figures of a run (`build/e2e-peer.json`) in Markdown: both sides, their ratios, and where the seconds go."""
    return "\n\n".join(_parts(msgspec.convert(found["results"], list[Result]), found["conditions"]))


def drawn(found: Mapping[str, Any]) -> str:
    """The moments of a run as a picture (SVG): the median run of each side and size."""
    return picture(msgspec.convert(found["results"], list[Result]))


def _parts(results: Sequence[Result], conditions: Mapping[str, Any]) -> Iterator[str]:
    taken = sorted({result.taken_at[:10] for result in results})
    where = f"on {conditions['cores']} processors; a node boots for {conditions['bootSeconds']:g} s"
    yield f"Taken on {' and '.join(taken)} {where}, and settled is {conditions['quietSeconds']:g} s without a change."
    yield table(results)
    sizes = sorted({result.pods for result in results})
    ratios = [line for pods in sizes for line in _ratios(pods, results)]
    if ratios:
        yield "Ours over Karpenter's, each the median of its runs:"
        yield _markdown(("pods", "runs", "last pod", "$/h", "$/h after", "settled", "evictions"), ratios)
    medians = [median_run(results, pods, side) for pods in sizes for side in ("fleetwright", "karpenter")]
    moments = [row for result in medians if result is not None for row in _moments(result)]
    if moments:
        yield "Seconds from the first Deployment to a pod's moments, and from a claim's first pod to the claim's:"
        yield f"![The moments of pods and claims on one line of seconds]({PICTURE})"
        yield _markdown(_COLUMNS, moments)


def _ratios(pods: int, results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    ours, theirs = (
        [result for result in results if (result.pods, result.side) == (pods, side)]
        for side in ("fleetwright", "karpenter")
    )
    if not ours or not theirs:
        return
    pairs = [(_median(name, ours), _median(name, theirs)) for name in _figures(ours[0])]
    runs = f"{len(ours)} and {len(theirs)}"
    yield (f"{pods:,}", runs, *(f"{our / their:.2f}" if our is not None and their else "" for our, their in pairs))


def _median(name: str, results: Sequence[Result]) -> float | None:
    """Return a figure's median over runs, or None if a run lacks it: a median of the others would hide that."""
    found = [_figures(result)[name] for result in results]
    known = [figure for figure in found if figure is not None]
    return statistics.median(known) if len(known) == len(found) else None


def _figures(result: Result) -> dict[str, float | None]:
    burst, halved = result.burst, result.halved
    return {
        "lastPod": burst and burst.last_running_seconds,
        "dollars": burst and burst.dollars_per_hour,
        "dollarsAfter": halved and halved.dollars_per_hour,
        "settled": halved and halved.seconds,
        "evictions": halved and halved.evictions,
    }


def _moments(result: Result) -> Iterator[tuple[str, ...]]:
    if result.burst is None:
        return
    for whose, spreads in (("pod", result.burst.pod_seconds), ("claim", result.burst.claim_seconds)):
        for moment, spread in spreads.items():
            yield (f"{result.pods:,}", result.side, f"{whose} {moment}", *(f"{seconds:g}" for seconds in spread))


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        (f"| {' | '.join(headings)} |", "| --- " * len(headings) + "|", *(f"| {' | '.join(row)} |" for row in rows))
    )
