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
    for name, found in package["functions"].items():
        functions.setdefault(found["bundle"], []).append(name)
        made[found["bundle"]] = found
    rows = (
        f"| {bundle} | {found['unzippedBytes'] / MEGABYTE:.1f} | {_ALLOWED[bundle]} "
        f"| {found['zippedBytes'] / MEGABYTE:.1f} | {', '.join(functions[bundle])} |"
        for bundle, found in sorted(made.items())
    )
    head = ("| bundle | MB unpacked | allowed | MB zipped | functions |", "| --- | --- | --- | --- | --- |")
    return "\n".join((*head, *rows))


def starts(run: Mapping[str, Any]) -> str:
    """Return the table of `make cold-start`."""
    rows = (
        f"| {name} | {found['bundle']} | {found['importMilliseconds']} | {found['controllerMilliseconds']} "
        f"| {found['cpuMilliseconds']} | {found['goalMilliseconds']} |"
        for name, found in run["functions"].items()
    )
    head = ("| function | bundle | import | controller | sum | goal |", "| --- | --- | --- | --- | --- | --- |")
    said = f"Python {run['python']}, the median of {run['runs'] - 1} starts after the first:"
    return "\n".join((said, "", *head, *rows))
