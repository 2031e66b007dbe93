"""Writes the pages whose figures come from runs that are kept as JSON under `docs/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.bundle_page import sizes, starts
from benchmarks.disruption.page import figures as disruption_figures
from benchmarks.operations.cost_page import costs
from benchmarks.page import figures as benchmark_figures
from simulator.campaign.page import figures as campaign_figures
from tests.e2e.peer.page import PICTURE, drawn
from tests.e2e.peer.page import figures as peer_figures
from tests.mutation import page as mutants

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
NIGHT: Final = "figures.json"
PEER: Final = "e2e-peer.json"
_NAMED: Final = "mutants-named"
_FUZZ: Final = "fuzz-"
_SUMMED_UP: Final = ", seeds "
"""What the last line of a judge has, and what it prints of a single seed or on its way has not."""
_WRITTEN_BY: Final = "<!-- Written by `make docs` from docs/figures.json. -->"
_END: Final = "<!-- End of the figures. -->"

SECTIONS: Final[tuple[tuple[str, str, Callable[[Mapping[str, Any]], str]], ...]] = (
    ("benchmarks.json", "reference/benchmarks.md", benchmark_figures),
    ("bench-disruption.json", "reference/disruption-benchmark.md", disruption_figures),
    (PEER, "reference/e2e-peer.md", peer_figures),
    ("sim.json", "engineering/fault-campaign.md", campaign_figures),
    ("cost.json", "explanation/costs.md", costs),
    ("package.json", "explanation/costs.md", sizes),
    ("cold-start.json", "explanation/costs.md", starts),
)
"""The JSON of a run, the page that has a section with its figures, and the function that writes the section."""


def pages() -> dict[Path, str]:
    """Each page or picture and its whole text."""
    night = json.loads((DOCS / NIGHT).read_text())
    found = {DOCS / "engineering" / "what-is-proven.md": proven(night)}
    for kept, name, written in SECTIONS:
        if (DOCS / kept).exists():
            page = DOCS / name
            text = written(json.loads((DOCS / kept).read_text()))
            found[page] = with_section(found.get(page) or page.read_text(), kept, text)
    if (DOCS / PEER).exists():
        found[DOCS / "reference" / PICTURE] = drawn(json.loads((DOCS / PEER).read_text()))
    return found


def with_section(page: str, kept: str, text: str) -> str:
    """The page with this text in place of its figures from the file of this name.

    Raises:
        ValueError: If the page has no section for them.
    """
    begin = f"<!-- Figures: `make docs` writes them from docs/{kept}. -->"
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(_END)
    if not (has_begin and has_end):
        raise ValueError(f"the page must have the lines {begin!r} and {_END!r}, which the figures stand between")
    return f"{before}{begin}\n\n{text}\n\n{_END}{after}"


def proven(kept: Mapping[str, Any]) -> str:
    """The steps of the night, their results, and the faults that no test noticed."""
    machine = kept["machine"]
    how = (
        "`make nightly` runs what is too long for CI and keeps every figure in `build/nightly.json`; "
        "`make docs FIGURES=build/nightly.json` writes this page from it."
    )
    machine_line = f"The machine has {machine['processors']} processors and Python {machine['python']}."
    head = (
        "| step | command | begun | commit | ended | minutes | last line |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    )
    parts = [
        "# What is proven, and by what",
        _WRITTEN_BY,
        how,
        machine_line,
        "\n".join((*head, *_rows(kept))),
        *_worlds(kept),
        *mutants.sections(_samples(kept), mutants.words()),
        *_named(kept),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(kept: Mapping[str, Any]) -> Iterator[str]:
    for name, step in kept["steps"].items():
        ended = "well" if step["exitCode"] == 0 else f"with {step['exitCode']}"
        last = step["lastLines"][-1].replace("|", "/") if step["lastLines"] else ""
        run = f"`{step['command']}` | {step['startedAt']} | {step['commit'][:12]}"
        yield f"| {name} | {run} | {ended} | {step['seconds'] / 60:.1f} | {last} |"


def _worlds(kept: Mapping[str, Any]) -> Iterator[str]:
    """What each naive judge was asked, and what it found: shares by rule, method and outcome."""
    lines = [
        f"- {name.removeprefix(_FUZZ)}: {line}"
        for name, step in kept["steps"].items()
        if name.startswith(_FUZZ)
        for line in step["lastLines"]
        if _SUMMED_UP in line
    ]
    if lines:
        yield "## Random worlds, and what was asked in them"
        yield "\n".join(lines)


def _samples(kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The samples of mutants, of all areas or of some, the latest last."""
    found = [
        step
        for name, step in kept["steps"].items()
        if name.partition("-")[0] == "mutants" and name != _NAMED and step["figures"] is not None
    ]
    return sorted(found, key=lambda step: str(step["startedAt"]))


def _named(kept: Mapping[str, Any]) -> Iterator[str]:
    found = _figures(kept, _NAMED)
    if found is None:
        return
    yield "## Faults by name, and the test that notices each"
    yield (
        f"`make mutants-named` puts faults into the code that once went unnoticed, or whose loss costs a user something: "
        f"{found['killed']} of {found['mutants']} are noticed. The test is the first that fails; others may fail as well."
    )
    rows = (f"| {row['what']} | `{row['file']}` | {_shown(row['killer'])} |" for row in found["named"])
    yield "\n".join(("| fault | module | test |", "| --- | --- | --- |", *rows))


def _shown(test: str) -> str:
    """A test by its file below `tests/` and its name, without the parameters; a fault that no test notices says so."""
    file, has_name, name = test.partition("::")
    return f"`{file.removeprefix('tests/')}`: `{name.partition('[')[0]}`" if has_name else test or "**none**"


def _figures(kept: Mapping[str, Any], step: str) -> dict[str, Any] | None:
    figures: dict[str, Any] | None = kept["steps"].get(step, {}).get("figures")
    return figures
