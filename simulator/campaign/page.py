"""The figures of a campaign as they stand on its page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

BEGIN: Final = "<!-- Figures: `make docs` writes them from docs/figures.json. -->"
END: Final = "<!-- End of the figures. -->"


def with_figures(page: str, found: Mapping[str, Any]) -> str:
    """The page with these figures (`simulator.campaign.report`) in place of those that it has.

    Raises:
        ValueError: If the page has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must have the lines {BEGIN!r} and {END!r}, which the figures stand between")
    return f"{before}{BEGIN}\n\n" + "\n\n".join(_parts(found)) + f"\n\n{END}{after}"


def _parts(found: Mapping[str, Any]) -> Iterator[str]:
    sites = found["callSites"]
    yield (
        f"`make sim SEEDS={found['seeds']} FIRST={found['first']}`, {found['heavy']} of the seeds heavy: {found['faults']:,} "
        f"faults in {found['calls']:,} calls, {found['cpuSecondsPerSeed']} CPU-seconds a seed, "
        f"{_span(found['wallSeconds'])} in {found['processes']} processes. "
        f"Functions died before {sites['before']} and after {sites['after']} of {sites['total']} call sites."
    )
    for when, missed in (("before", sites["notBefore"]), ("after", sites["notAfter"])):
        if missed:
            yield f"Not {when}: " + ", ".join(f"`{site}`" for site in missed) + "."
    if not found["violated"]:
        yield "Nothing was violated."
        return
    rows = [f"| {row['seed']} | {row['law']} | {row['message'].replace('|', '/')} |" for row in found["violated"]]
    yield "\n".join(("| seed | law | first violation |", "| --- | --- | --- |", *rows))


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
