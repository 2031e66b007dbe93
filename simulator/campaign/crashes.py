"""Chooses where functions crash: at every call that some function makes, before and after the call is done.

Gentle seeds take the recorded call sites in turn, each in a world that is known to have it. Heavy seeds aim at sites that few
worlds have. Sites that only faults lead to are not recorded; functions crash there wherever they occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from simulator.clock import VirtualClock
from simulator.invocation import faults
from simulator.invocation.faults import Fault

# Records call sites, each a function and a call, in worlds without faults.
#
# `data/call_sites.json` has how often each site occurred in some worlds; `python -m simulator.campaign --record-sites` writes
# it.


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
    sites = {
        str(seed): {" ".join(site): met for site, met in sorted(worlds[seed].met.items())}
        for seed in sorted(_kept({seed: meetings.met for seed, meetings in worlds.items()}))
    }
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode({"worlds": sites}), indent=1) + b"\n")


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


CRASHES: Final[tuple[str, str]] = (faults.CRASH_BEFORE, faults.CRASH_AFTER)
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

    def __init__(
        self, crashes: Iterable[Crash], known_sites: frozenset[Site], kinds: tuple[str, str] = CRASHES
    ) -> None:
        self._crashes = {crash.site: crash for crash in crashes}
        self._known = known_sites
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
    crashes = []
    for number, (site, worlds_with) in enumerate(seldom()):
        round_, is_other = divmod(turn + number, max(1, worlds_with // MET_TOGETHER))
        if not is_other:
            crashes.append(Crash(site, 1, CRASHES if round_ % 2 == 0 else CRASHES[::-1]))
    return tuple(crashes)


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
    seldom_sites = sorted((worlds_with, site) for site, worlds_with in seldom() if worlds_with < most)
    return _turns(number, [site for _, site in seldom_sites])


def _in_turn(turns: Sequence[Turn], turn: int) -> Turn:
    return turns[turn % len(turns)]


def _turns(number: int, wanted: Sequence[Site]) -> tuple[Turn, ...]:
    """Return the turns of one cycle over these sites."""
    record, unmet = recorded(), list(wanted)
    turns: list[Turn] = []
    while unmet:
        worlds_with = _worlds_with(unmet[0], record)
        world = worlds_with[(len(turns) + number) % len(worlds_with)]
        together = _together(unmet, record.worlds[world])
        unmet = [site for site in unmet if site not in together]
        turns.append((world, tuple(_crash(site, number, record.worlds[world]) for site in together)))
    return tuple(turns)


def _worlds_with(site: Site, record: Record) -> list[int]:
    """Return the cheapest worlds that have the site often; in others, earlier faults could prevent it."""
    counts = {world: met.get(" ".join(site), 0) for world, met in record.worlds.items()}
    enough = min(PLENTY, max(counts.values()) / 2)
    candidates = [world for world, met in counts.items() if met > 0 and met >= enough]
    return sorted(candidates, key=lambda world: (sum(record.worlds[world].values()), world))[:WORLDS_PER_SITE]


def _together(remaining: Sequence[Site], met: Mapping[str, int]) -> list[Site]:
    """Return the first remaining site, and others that this world has in other functions: a crash ends its function's calls."""
    taken = [remaining[0]]
    for site in remaining[1:]:
        if len(taken) < TOGETHER and " ".join(site) in met and site[0] not in {function for function, _ in taken}:
            taken.append(site)
    return taken


def _crash(site: Site, number: int, met: Mapping[str, int]) -> Crash:
    # Leave a margin of calls, since an earlier crash may prevent some of them.
    last = max(1, min(met[" ".join(site)] // 3, DEEPEST))
    return Crash(site, 1 + number % last, CRASHES if number % 2 == 0 else CRASHES[::-1])


# Draws the faults of one world by its seed: at attempts of calls, at messages, for a period, and at call sites.


class Intensity(msgspec.Struct, frozen=True, kw_only=True):
    """How often faults strike.

    Attributes:
        calls: Share of attempts with a fault.
        messages: Share of messages with a fault.
        outages: Maximum number of periods in which all calls of one service fail.
        skew: Maximum offset of a sandbox's clock.
    """

    name: str
    calls: float = 0.0
    messages: float = 0.0
    outages: int = 0
    skew: timedelta = timedelta(0)


NONE: Final = Intensity(name="none")
LIGHT: Final = Intensity(name="light", calls=0.01, messages=0.03)
MID: Final = Intensity(name="mid", calls=0.03, messages=0.1, outages=1, skew=timedelta(milliseconds=100))
HEAVY: Final = Intensity(name="heavy", calls=0.08, messages=0.2, outages=3, skew=timedelta(milliseconds=500))

_ALWAYS: Final = (
    faults.THROTTLE,
    faults.ERROR,
    faults.LOST_REPLY,
    faults.CRASH_BEFORE,
    faults.CRASH_AFTER,
    faults.DELAY,
)
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "dynamodb:TransactWriteItems": (faults.CONFLICT, faults.CONFLICT),
    "dynamodb:PutItem": (faults.CONFLICT,),
    "dynamodb:UpdateItem": (faults.CONFLICT,),
    "dynamodb:DeleteItem": (faults.CONFLICT,),
    "ec2:DescribeInstances": (faults.STALE, faults.STALE),
    "ec2:TerminateInstances": (faults.PARTIAL,),
    "ec2:CreateFleet": (faults.DENIED,),
    "sqs:SendMessageBatch": (faults.PARTIAL, faults.PARTIAL),
    "kube:list": (faults.STALE, faults.DENIED),
    "kube:patch": (faults.CONFLICT, faults.DENIED),
    "kube:create": (faults.CONFLICT, faults.DENIED),
    "kube:delete": (faults.CONFLICT, faults.DENIED),
    "kube:get": (faults.DENIED,),
}
LATE: Final = timedelta(minutes=12)
"""How long after all other faults functions still crash at call sites. Budgets open four minutes after those faults, and only
the decisions after that reach some calls."""

_DELAYS: Final = (1, 5, 20, 70, 130, 900)
"""Seconds of delay. The longest exceeds every function's time-out, so the function is killed during the call."""
_AGES: Final = (1, 3, 8, 20)
_KUBE_CODES: Final = ("401", "403", "409", "410", "429")
_SERVICES: Final = ("kube:*", "kube:list *", "dynamodb:*", "ec2:*", "sqs:*", "*")
_OUTAGES: Final = (30, 60, 120)
_MESSAGE_DELAYS: Final = (0.2, 2, 30, 90, 300)
_MEMORY_BOUND: Final = ("provision", "disrupt", "execute", "reconcile")
"""Functions that read the whole cluster and so may exceed their memory."""


class FaultPeriod(msgspec.Struct, frozen=True):
    """A period in which a fault affects all calls that match a pattern, of one function if named."""

    after: timedelta
    lasting: timedelta
    call: str
    fault: Fault
    function: str = ""


class Chances:
    """Draws the faults of a world.

    Attributes:
        meetings: The call sites that occurred, and where functions crashed.
        injected: How many faults were injected.

    Args:
        crashes: The crashes at call sites; None for none.
    """

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        intensity: Intensity,
        until: datetime,
        crashes: WorldCrashes | None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._intensity = intensity
        self._until = until
        self._crashes = crashes
        self.meetings = Meetings()
        self.injected = 0

    def fault_of(self, function: str, call: str) -> Fault | None:
        """Return the fault on this attempt (`simulator.invocation.faults.Draw`)."""
        now = self._clock.now()
        if now >= self._until + LATE:
            return None
        nth = self.meetings.meet(function, call)
        kind = self._crashes.at((function, call), nth) if self._crashes is not None else ""
        if not kind and now < self._until and self._rng.random() < self._intensity.calls:
            kind = self._rng.choice(_ALWAYS + _ALSO.get(call, _ALSO.get(call.partition(" ")[0], ())))
        if not kind:
            return None
        self.injected += 1
        if kind in (faults.CRASH_BEFORE, faults.CRASH_AFTER):
            self.meetings.crashed.add(((function, call), kind))
        return self._fault(kind, call)

    def fault_of_message(self, what: str) -> tuple[str, timedelta] | None:  # noqa: ARG002 - all fare alike
        """Return the fault on this message (`simulator.invocation.faults.DrawMessage`)."""
        if self._clock.now() >= self._until or self._rng.random() >= self._intensity.messages:
            return None
        self.injected += 1
        kind = self._rng.choice(faults.EVENT_KINDS)
        return kind, timedelta(seconds=self._rng.choice(_MESSAGE_DELAYS))

    def skew(self) -> timedelta:
        """Return the clock offset of a new sandbox."""
        return self._intensity.skew * (2 * self._rng.random() - 1)

    def _fault(self, kind: str, call: str) -> Fault:
        rng = self._rng
        if kind == faults.DELAY:
            return Fault(kind=kind, delay=timedelta(seconds=rng.choice(_DELAYS)))
        if kind == faults.STALE:
            return Fault(kind=kind, delay=timedelta(seconds=rng.choice(_AGES)))
        if kind == faults.DENIED and call.startswith("kube:"):
            return Fault(kind=kind, code=rng.choice(_KUBE_CODES))
        if kind == faults.DENIED:
            return Fault(kind=kind, form=rng.choice(faults.FORMS))
        return Fault(kind=kind)


def draw_fault_periods(rng: Random, intensity: Intensity, fault_time: timedelta) -> list[FaultPeriod]:
    """Outages of a service, and functions that run out of memory, within the time of trouble."""
    periods: list[FaultPeriod] = []
    for _ in range(rng.randint(0, intensity.outages)):
        after = fault_time * rng.random()
        lasting = min(timedelta(seconds=rng.choice(_OUTAGES)), fault_time - after)
        if rng.random() < 0.25:
            killed = Fault(kind=faults.CRASH_AFTER)
            periods.append(FaultPeriod(after, lasting, "kube:list pods", killed, rng.choice(_MEMORY_BOUND)))
        else:
            kind = rng.choice((faults.ERROR, faults.THROTTLE))
            periods.append(FaultPeriod(after, lasting, rng.choice(_SERVICES), Fault(kind=kind)))
    return periods
