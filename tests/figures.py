"""Writes the pages whose figures come from runs that are kept as JSON under `docs/`."""

from __future__ import annotations

import json
from collections import Counter
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
from tests.mutation.left_out import KINDS, LISTED

Samples = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Area → the commit and the figures of its latest sample."""

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
NIGHT: Final = "figures.json"
PEER: Final = "e2e-peer.json"
_NAMED: Final = "mutants-named"
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
        *_mutants(kept),
        *_named(kept),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(kept: Mapping[str, Any]) -> Iterator[str]:
    for name, step in kept["steps"].items():
        ended = "well" if step["exitCode"] == 0 else f"with {step['exitCode']}"
        last = step["lastLines"][-1].replace("|", "/") if step["lastLines"] else ""
        run = f"`{step['command']}` | {step['startedAt']} | {step['commit'][:12]}"
        yield f"| {name} | {run} | {ended} | {step['seconds'] / 60:.1f} | {last} |"


def _mutants(kept: Mapping[str, Any]) -> Iterator[str]:
    """The score by area. A later sample of one area takes the place of its part of the sample of all."""
    of_area: dict[str, tuple[str, dict[str, Any]]] = {}
    of_own: dict[str, tuple[str, dict[str, Any]]] = {}
    for step in _samples(kept):
        found = of_own if step["figures"].get("ownTestsAlone") else of_area
        found |= dict.fromkeys(step["figures"]["areas"], (step["commit"][:12], step["figures"]))
    if of_area:
        yield "## Faults that the tests of their area kill"
        yield f"{_sum(of_area)}, drawn by the seed, from the code of the commit, where folders have these names."
        yield _scores(of_area)
    if of_own:
        yield "## Faults that the tests at their module's path kill by themselves"
        yield (
            f"{_sum(of_own)}: fewer than the tests of their area would, and other faults than those above (`--own`). Since "
            f"[ADR 271](../adr/0271-whole-results-are-compared-with-texts.md), the tests of whole results are asked as well; "
            "older commits have none."
        )
        yield _scores(of_own)
    yield from _left_out(of_area | of_own)
    yield from _survivors(of_area, "Those that survived the tests of their area")
    yield from _survivors(of_own, "Those that survived the tests at their module's path")


def _sum(of_area: Samples) -> str:
    scores = [found["areas"][area] for area, (_, found) in of_area.items()]
    made, killed = (sum(score[key] for score in scores) for key in ("mutants", "killed"))
    return f"{killed} of {made} ({100 * killed // max(made, 1)} %)"


def _scores(of_area: Samples) -> str:
    rows = (
        f"| `{area}` | {found['areas'][area]['mutants']} | {found['areas'][area]['killed']} | {found['seed']} | {commit} |"
        for area, (commit, found) in sorted(of_area.items())
    )
    return "\n".join(("| area | faults | killed | seed | commit |", "| --- | --- | --- | --- | --- |", *rows))


def _survivors(of_area: Samples, title: str) -> Iterator[str]:
    rows = [
        row
        for area, (_, found) in sorted(of_area.items())
        for row in found["survivors"]
        if row["file"].startswith(f"{area}/")
    ]
    if rows:
        yield f"{title}; lines and names of modules are those of the commit of the area:"
        yield "\n".join(f"- `{row['file']}:{row['line']}`: {row['what']}{_not_asked(row)}" for row in rows)


def _not_asked(row: Mapping[str, Any]) -> str:
    """Whether more tests might have noticed a survivor (docs/adr/0274)."""
    return f" ({row['notAsked']} more tests run it, and take too long to be asked)" if row.get("notAsked") else ""


def _left_out(of_area: Samples) -> Iterator[str]:
    """The faults that are not drawn, by the reason why nobody could see them; none for samples of before they were counted."""
    counts: Counter[str] = Counter()
    for area, (_, found) in of_area.items():
        counts.update(found.get("leftOut", {}).get(area, {}))
    if not counts:
        return
    yield "Faults that are not drawn, since no caller can see them, in the areas whose sample counts them:"
    rows = [f"| {kind.name} | {counts[kind.name]} | {kind.why} |" for kind in KINDS if counts[kind.name]]
    rows += [f"| one by one | {counts[LISTED]} | each with its reason in `tests/mutation/equivalent.toml` |"]
    yield "\n".join(("| kind of code | faults | why |", "| --- | --- | --- |", *rows))


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
