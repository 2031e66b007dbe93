"""Call sites: every call that some function makes, and which of them a seed's functions die at, before or after.

A site is (function, call). `data/call_sites.json` says how often each was met in some worlds without faults; it is written
by `python -m simulator.campaign --record-sites`. The seeds take the sites in turn, each in a world that is known to have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from simulator import calls

FILE: Final = Path(__file__).parent.parent / "data" / "call_sites.json"
CRASHES: Final = (calls.CRASH_BEFORE, calls.CRASH_AFTER)
DEEPEST: Final = 6
"""The function dies at the so-manieth such call at most: later ones are like the earlier."""

TOGETHER: Final = 4
"""Crashes in one world: a lap over all sites is shorter than the hundred gentle worlds of two hundred seeds."""

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

    A lap takes all of (sites, before and after), some of them together each turn, in a world that has them; the next lap begins
    with others, in other worlds, and dies at another repetition of the call.
    """
    if not recorded().sites():
        return None
    number = 0
    while turn >= len(lap(number)):
        turn -= len(lap(number))
        number += 1
    return lap(number)[turn]


@cache
def lap(number: int) -> tuple[tuple[int, tuple[Crash, ...]], ...]:
    """The worlds and crashes of the turns of one lap."""
    record = recorded()
    wanted = [(site, kind) for site in record.sites() for kind in CRASHES]
    start = number * TOGETHER % len(wanted)
    left = wanted[start:] + wanted[:start]
    turns: list[tuple[int, tuple[Crash, ...]]] = []
    while left:
        homes = sorted(world for world, met in record.worlds.items() if " ".join(left[0][0]) in met)
        world = homes[(len(turns) + number) % len(homes)]
        met = record.worlds[world]
        together = _together(left, met)
        left = [found for found in left if found not in together]
        crashes = [Crash(site, kind, 1 + number % min(met[" ".join(site)], DEEPEST)) for site, kind in together]
        turns.append((world, tuple(crashes)))
    return tuple(turns)


def _together(left: Sequence[tuple[Site, str]], met: Mapping[str, int]) -> list[tuple[Site, str]]:
    """The first that is left, and others from all over the rest that this world has; no site twice."""
    taken = [left[0]]
    for step in range(1, TOGETHER):
        start = len(left) * step // TOGETHER
        sites = {site for site, _ in taken}
        others = (f for f in (*left[start:], *left[:start]) if " ".join(f[0]) in met and f[0] not in sites)
        taken.extend(islice(others, 1))
    return taken


def _site(text: str) -> Site:
    function, _, call = text.partition(" ")
    return function, call
