"""Records call sites, each a function and a call, in worlds without faults.

`data/call_sites.json` has how often each site occurred in some worlds; `python -m simulator.campaign --record-sites` writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).parent.parent / "data" / "call_sites.json"
KEPT: Final = 20
"""Number of worlds in the record."""

SELDOM: Final = 0.75
"""Heavy seeds aim at sites that a smaller share of the recorded worlds has: earlier faults may keep all worlds from these."""

Site = tuple[str, str]


class Meetings(msgspec.Struct):
    """How often each site occurred, and where functions crashed."""

    met: Counter[Site] = msgspec.field(default_factory=Counter)
    crashed: set[tuple[Site, str]] = set()

    def meet(self, function: str, call: str) -> int:
        """Count a call at this site; return the count."""
        self.met[function, call] += 1
        return self.met[function, call]

    def join(self, others: Iterable[Meetings]) -> Meetings:
        """Add the counts of another world."""
        for other in others:
            self.met += other.met
            self.crashed |= other.crashed
        return self


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded call sites: world → `function call` → count."""

    worlds: dict[int, dict[str, int]]

    def sites(self) -> frozenset[Site]:
        """Return every recorded site."""
        return frozenset(map(_site, {text for met in self.worlds.values() for text in met}))


@cache
def recorded() -> Record:
    """Return the latest record."""
    return msgspec.json.decode(FILE.read_bytes(), type=Record)


@cache
def seldom() -> tuple[tuple[Site, int], ...]:
    """Return the sites that fewer than `SELDOM` of the recorded worlds have, in order, each with the number of worlds."""
    worlds = recorded().worlds
    worlds_with = Counter(_site(text) for met in worlds.values() for text in met)
    return tuple((site, number) for site, number in sorted(worlds_with.items()) if number < SELDOM * len(worlds))


def write(worlds: Mapping[int, Meetings]) -> None:
    """Write the record: the sites of the worlds with the rarest sites."""
    found = {
        str(seed): {" ".join(site): met for site, met in sorted(worlds[seed].met.items())}
        for seed in sorted(_kept({seed: meetings.met for seed, meetings in worlds.items()}))
    }
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode({"worlds": found}), indent=1) + b"\n")


def _kept(worlds: Mapping[int, Mapping[Site, int]]) -> set[int]:
    """Return `KEPT` of the worlds, chosen one by one.

    Each choice has the highest worth per call, where a site is worth 1/2^n if n chosen worlds have it.
    """
    kept: set[int] = set()
    worlds_with: Counter[Site] = Counter()

    def worth(seed: int) -> float:
        return sum(0.5 ** worlds_with[site] for site in worlds[seed]) / sum(worlds[seed].values())

    while len(kept) < min(KEPT, len(worlds)):
        best = max(sorted(worlds.keys() - kept), key=worth)
        kept.add(best)
        worlds_with.update(worlds[best].keys())
    return kept


def _site(text: str) -> Site:
    function, _, call = text.partition(" ")
    return function, call
