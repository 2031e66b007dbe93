"""The pages whose figures come from runs that are kept: `docs/figures.json` and `docs/benchmarks.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.page import with_figures as with_bench
from simulator.campaign.page import with_figures

ROOT: Final = Path(__file__).parents[1]
KEPT: Final = ROOT / "docs" / "figures.json"
BENCHMARKS: Final = ROOT / "docs" / "benchmarks.json"
_WRITTEN_BY: Final = "<!-- Written by `make docs` from docs/figures.json. -->"


def pages() -> dict[Path, str]:
    """Each page and its whole text."""
    kept = json.loads(KEPT.read_text())
    found = {ROOT / "docs" / "engineering" / "what-is-proven.md": proven(kept)}
    if (campaign := _figures(kept, "sim")) is not None:
        page = ROOT / "docs" / "engineering" / "fault-campaign.md"
        found[page] = with_figures(page.read_text(), campaign)
    if BENCHMARKS.exists():
        page = ROOT / "docs" / "reference" / "benchmarks.md"
        found[page] = with_bench(page.read_text(), json.loads(BENCHMARKS.read_text()))
    return found


def proven(kept: Mapping[str, Any]) -> str:
    """What the steps of the night were, how they ended, and the faults that no test noticed."""
    machine = kept["machine"]
    how = (
        "`make nightly` runs what is too long for CI and keeps every figure in `build/nightly.json`; "
        "`make docs FIGURES=build/nightly.json` writes this page from it."
    )
    when = (
        f"The night below began at {kept['startedAt']} at commit {kept['commit'][:12]}, on {machine['processors']} "
        f"processors and Python {machine['python']}."
    )
    head = ("| step | command | ended | minutes | last line |", "| --- | --- | --- | --- | --- |")
    parts = ["# What is proven, and by what", _WRITTEN_BY, how, when, "\n".join((*head, *_rows(kept))), *_mutants(kept)]
    return "\n\n".join(parts) + "\n"


def _rows(kept: Mapping[str, Any]) -> Iterator[str]:
    for name, step in kept["steps"].items():
        ended = "well" if step["exitCode"] == 0 else f"with {step['exitCode']}"
        last = step["lastLines"][-1].replace("|", "/") if step["lastLines"] else ""
        yield f"| {name} | `{step['command']}` | {ended} | {step['seconds'] / 60:.1f} | {last} |"


def _mutants(kept: Mapping[str, Any]) -> Iterator[str]:
    found = _figures(kept, "mutants")
    if found is None:
        return
    yield "## Faults that the tests of their area kill"
    yield f"{found['killed']} of {found['mutants']} ({found['percent']} %), seed {found['seed']}."
    areas = (f"| `{area}` | {score['mutants']} | {score['killed']} |" for area, score in found["areas"].items())
    yield "\n".join(("| area | faults | killed |", "| --- | --- | --- |", *areas))
    if found["survivors"]:
        yield "Those that survived:"
        yield "\n".join(f"- `{row['file']}:{row['line']}`: {row['what']}" for row in found["survivors"])


def _figures(kept: Mapping[str, Any], step: str) -> dict[str, Any] | None:
    figures: dict[str, Any] | None = kept["steps"].get(step, {}).get("figures")
    return figures
