"""Writes the tables of docs/explanation/costs.md about the functions' bundles: their sizes, and what a start costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from infra.packaging.bundles import BUNDLES, MEGABYTE

_ALLOWED: Final = {bundle.name: bundle.bytes_max // MEGABYTE for bundle in BUNDLES}
"""Bundle → how many MB it may have unpacked: `make package` fails above that."""


def sizes(package: Mapping[str, Any]) -> str:
    """Return the table of `make package`."""
    functions: dict[str, list[str]] = {}
    made: dict[str, Mapping[str, Any]] = {}
    for name, measured in package["functions"].items():
        functions.setdefault(measured["bundle"], []).append(name)
        made[measured["bundle"]] = measured
    rows = (
        f"| {bundle} | {measured['unzippedBytes'] / MEGABYTE:.1f} | {_ALLOWED[bundle]} "
        f"| {measured['zippedBytes'] / MEGABYTE:.1f} | {', '.join(functions[bundle])} |"
        for bundle, measured in sorted(made.items())
    )
    head = ("| bundle | MB unpacked | allowed | MB zipped | functions |", "| --- | --- | --- | --- | --- |")
    return "\n".join((*head, *rows))


def starts(run: Mapping[str, Any]) -> str:
    """Return the table of `make cold-start`."""
    rows = (
        f"| {name} | {measured['bundle']} | {measured['importMilliseconds']} | {measured['controllerMilliseconds']} "
        f"| {measured['cpuMilliseconds']} | {measured['goalMilliseconds']} |"
        for name, measured in run["functions"].items()
    )
    head = ("| function | bundle | import | controller | sum | goal |", "| --- | --- | --- | --- | --- | --- |")
    caption = f"Python {run['python']}, the median of {run['runs'] - 1} starts after the first:"
    return "\n".join((caption, "", *head, *rows))
