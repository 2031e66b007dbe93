"""Call sites: every call that some function makes, and which of them a seed's functions die at, before or after.

A site is (function, call). `data/call_sites.json` says how often each was met in some worlds without faults; it is written
by `python -m simulator.campaign --record-sites`. The seeds take the sites in turn, each in a world that is known to have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from simulator import calls

FILE: Final = Path(__file__).parent.parent / "data" / "call_sites.json"
CRASHES: Final = (calls.CRASH_BEFORE, calls.CRASH_AFTER)
DEEPEST: Final = 6
"""The function dies at the so-manieth such call at most: later ones are like the earlier."""

TOGETHER: Final = 3
"""Crashes in one world."""

Site = tuple[str, str]


class Crash(msgspec.Struct, frozen=True):
    """A function dies at its `nth` call of this name, counted from the start."""

    site: Site
    kind: str
    nth: int


class Meetings(msgspec.Struct):
    """Which sites were met how often, and where functions died."""

    met: Counter[Site] = msgspec.field(default_factory=Counter)
    died: set[tuple[Site, str]] = set()

    def meet(self, function: str, call: str) -> int:
        """A call is made; returns how many that are by now."""
        self.met[function, call] += 1
        return self.met[function, call]

    def join(self, others: Iterable[Meetings]) -> Meetings:
        """Together with those of other worlds."""
        for other in others:
            self.met += other.met
            self.died |= other.died
        return self


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What was met: world → `function call` → how often."""

    worlds: dict[int, dict[str, int]]

    def sites(self) -> tuple[Site, ...]:
        """Every site, in order."""
        return tuple(sorted({_site(text) for met in self.worlds.values() for text in met}))


@cache
def recorded() -> Record:
    """What was recorded last."""
    return msgspec.json.decode(FILE.read_bytes(), type=Record) if FILE.exists() else Record(worlds={})


def write(worlds: Mapping[int, Meetings]) -> None:
    """Record what these worlds met."""
    found = {
        str(seed): {" ".join(site): count for site, count in sorted(meetings.met.items())}
        for seed, meetings in sorted(worlds.items())
    }
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode({"worlds": found}), indent=1) + b"\n")


def scheduled(turn: int) -> tuple[int, tuple[Crash, ...]] | None:
    """The world and the crashes of this turn; None where nothing is recorded.

    A lap over all of (sites, before and after) takes some of them together each turn, in a world that has the first and most of
    the others; the next lap begins with another of them, and dies at another repetition of the call.
    """
    record = recorded()
    wanted = [(site, kind) for site in record.sites() for kind in CRASHES]
    if not wanted:
        return None
    turns = -(-len(wanted) // TOGETHER)
    lap, place = divmod(turn, turns)
    together = [wanted[(place + turns * ((step + lap) % TOGETHER)) % len(wanted)] for step in range(TOGETHER)]
    world = _home_of([site for site, _ in together], record, turn)
    met = record.worlds[world]
    crashes = [
        Crash(site, kind, 1 + (lap + place) % min(met[" ".join(site)], DEEPEST))
        for site, kind in together
        if " ".join(site) in met
    ]
    return world, tuple(crashes)


def _home_of(sites: Sequence[Site], record: Record, turn: int) -> int:
    names = [" ".join(site) for site in sites]
    homes = {world: sum(name in met for name in names) for world, met in record.worlds.items() if names[0] in met}
    enough = min(max(homes.values()), len(sites) - 1)
    best = sorted(world for world, held in homes.items() if held >= enough)
    return best[turn % len(best)]


def _site(text: str) -> Site:
    function, _, call = text.partition(" ")
    return function, call
