"""Chooses where functions crash: at every call that some function makes, before and after the call is done.

Gentle seeds take the recorded call sites in turn, each in a world that is known to have it. Heavy seeds aim at sites that few
worlds have. Sites that only faults lead to are not recorded; functions crash there wherever they occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final

import msgspec

from simulator.campaign.call_sites import Record, Site, recorded, seldom
from simulator.invocation import calls

CRASHES: Final[tuple[str, str]] = (calls.CRASH_BEFORE, calls.CRASH_AFTER)
PLENTY: Final = 12
"""With this many calls at a site in a world, a crash there is certain in spite of other faults."""

WORLDS_PER_SITE: Final = 4
"""How many worlds take turns for a site: those with the fewest calls, since the time of a seed grows with its calls."""

DEEPEST: Final = 6
"""The highest number of a call at which a function crashes; later calls at a site are like earlier ones."""

TOGETHER: Final = 4
"""Sites per turn: few, since each crash may keep the world from reaching the next. A cycle takes some 62 turns, and two hundred
seeds have 75: a site that a fault keeps from its only turn waits for later seeds."""

RARE: Final = 0.25
"""Separate gentle seeds aim at sites that a smaller share of the recorded worlds has."""

MET_TOGETHER: Final = 3
"""Of the heavy seeds, one in n aims at a site, with n = recorded worlds with the site / this number: chances are equal."""

CYCLES: Final = 60
"""The number of cycles after which they repeat: the least common multiple of 1 … `DEEPEST`. Apart from its first site, a cycle
depends only on its number modulo these."""


class Crash(msgspec.Struct, frozen=True):
    """A function crashes at its `nth` call at this site in a world and again at the next, before or after the call."""

    site: Site
    nth: int
    kinds: tuple[str, str]


Turn = tuple[int, tuple[Crash, ...]]
"""A world to play, and its crashes."""


class WorldCrashes:
    """The crashes of one world: the planned ones, and those at the first two calls at each site that is not `known`.

    `kinds` are the kinds of crash at these two calls, in order: some worlds have only the first.
    """

    def __init__(self, crashes: Iterable[Crash], known: frozenset[Site], kinds: tuple[str, str] = CRASHES) -> None:
        self._crashes = {crash.site: crash for crash in crashes}
        self._known = known
        self._kinds = kinds

    def at(self, site: Site, nth: int) -> str:
        """Return the kind of crash at the `nth` call at this site, empty for none."""
        crash = self._crashes.get(site)
        if crash is None and site in self._known:
            return ""
        first, kinds = (1, self._kinds) if crash is None else (crash.nth, crash.kinds)
        return kinds[nth - first] if 0 <= nth - first < len(kinds) else ""


def scheduled(turn: int) -> Turn:
    """Return the world and the crashes of this turn.

    A cycle covers all sites, several per turn, each in a world that has them. The next cycle begins with other sites, takes
    other worlds, and crashes at another repetition of each call.
    """
    return _in_turn(turns(), turn)


def aimed(turn: int) -> Turn:
    """Return the world and the crashes of this turn at rare sites, the rarest first.

    Until its first crash, the world takes its recorded course, so that crash is certain.
    """
    return _in_turn(rare_turns(), turn)


def attempted(turn: int) -> tuple[Crash, ...]:
    """Return the crashes of a heavy seed at rare sites, which its world may not reach; rarer sites come more often."""
    found = []
    for number, (site, worlds_with) in enumerate(seldom()):
        round_, is_other = divmod(turn + number, max(1, worlds_with // MET_TOGETHER))
        if not is_other:
            found.append(Crash(site, 1, CRASHES if round_ % 2 == 0 else CRASHES[::-1]))
    return tuple(found)


@cache
def turns() -> tuple[Turn, ...]:
    """Return the turns of all cycles."""
    return tuple(chain.from_iterable(map(cycle, range(CYCLES))))


@cache
def rare_turns() -> tuple[Turn, ...]:
    """Return the turns of all cycles over the rare sites."""
    return tuple(chain.from_iterable(map(rare_cycle, range(CYCLES))))


@cache
def cycle(number: int) -> tuple[Turn, ...]:
    """Return the turns of one cycle."""
    wanted = sorted(recorded().sites())
    start = number * TOGETHER % len(wanted)
    return _turns(number, wanted[start:] + wanted[:start])


@cache
def rare_cycle(number: int) -> tuple[Turn, ...]:
    """Return the turns of one cycle over the sites that fewer than `RARE` of the recorded worlds have, rarest first."""
    most = RARE * len(recorded().worlds)
    found = sorted((worlds_with, site) for site, worlds_with in seldom() if worlds_with < most)
    return _turns(number, [site for _, site in found])


def _in_turn(found: Sequence[Turn], turn: int) -> Turn:
    return found[turn % len(found)]


def _turns(number: int, wanted: Sequence[Site]) -> tuple[Turn, ...]:
    """Return the turns of one cycle over these sites."""
    record, left = recorded(), list(wanted)
    found: list[Turn] = []
    while left:
        worlds_with = _worlds_with(left[0], record)
        world = worlds_with[(len(found) + number) % len(worlds_with)]
        together = _together(left, record.worlds[world])
        left = [site for site in left if site not in together]
        found.append((world, tuple(_crash(site, number, record.worlds[world]) for site in together)))
    return tuple(found)


def _worlds_with(site: Site, record: Record) -> list[int]:
    """Return the cheapest worlds that have the site often; in others, earlier faults could prevent it."""
    counts = {world: met.get(" ".join(site), 0) for world, met in record.worlds.items()}
    enough = min(PLENTY, max(counts.values()) / 2)
    found = [world for world, met in counts.items() if met > 0 and met >= enough]
    return sorted(found, key=lambda world: (sum(record.worlds[world].values()), world))[:WORLDS_PER_SITE]


def _together(left: Sequence[Site], met: Mapping[str, int]) -> list[Site]:
    """Return the first remaining site, and others that this world has in other functions: a crash ends its function's calls."""
    taken = [left[0]]
    for site in left[1:]:
        if len(taken) < TOGETHER and " ".join(site) in met and site[0] not in {function for function, _ in taken}:
            taken.append(site)
    return taken


def _crash(site: Site, number: int, met: Mapping[str, int]) -> Crash:
    # Leave a margin of calls, since an earlier crash may prevent some of them.
    last = max(1, min(met[" ".join(site)] // 3, DEEPEST))
    return Crash(site, 1 + number % last, CRASHES if number % 2 == 0 else CRASHES[::-1])
