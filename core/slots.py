"""How many pods NodePools gain and lose in the slots of a day, and when pods leave again each week.

Nodes that a ramp filled empty over an hour or so. Consolidation in the middle of it moves pods of which many leave minutes
later, and moves the others again. So nodes with pods stay until a recurring fall is over; empty ones go at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from core.model.node_pool import CalendarRule, CalendarSettings, CalendarWindow

PODS, CPU, MEMORY = "pods", "cpu", "memory"
RESOURCES: Final = (PODS, CPU, MEMORY)


class SlotGrowth(msgspec.Struct, frozen=True, array_like=True):
    """By how much a NodePool grew, or became smaller, in one slot of a day.

    Attributes:
        slot: Its number from midnight.
        pods, cpu, memory: By how much it grew at most.
        waited: The median wait of the pods that came, in seconds.
        pods_after, cpu_after, memory_after: By how much it had grown in the end; negative if it became smaller.
        cpu_most, memory_most: The largest requests of one of the pods that came.

    Rows of earlier releases end after `waited`.
    """

    slot: int
    pods: int
    cpu: int
    memory: int
    waited: int
    pods_after: int | None = None
    cpu_after: int | None = None
    memory_after: int | None = None
    cpu_most: int | None = None
    memory_most: int | None = None

    @property
    def has_grown(self) -> bool:
        """Whether it grew at all; other slots are kept because it became smaller."""
        return max(self.pods, self.cpu, self.memory) > 0

    @property
    def most_pods(self) -> int:
        """By how many pods it grew or became smaller, whichever is more."""
        return max(self.pods, -self.in_the_end()[PODS])

    def in_the_end(self) -> dict[str, int]:
        """Return by how much it had grown in the end; without a record, as if all that came had stayed."""
        ends = {PODS: (self.pods_after, self.pods), CPU: (self.cpu_after, self.cpu)}
        ends[MEMORY] = (self.memory_after, self.memory)
        return {name: most if after is None else after for name, (after, most) in ends.items()}

    def largest_requests(self) -> dict[str, int]:
        """Return the largest requests of a pod that came; without a record, the mean."""
        largest = {CPU: (self.cpu_most, self.cpu), MEMORY: (self.memory_most, self.memory)}
        pods = max(1, self.pods)
        return {name: -(-grown // pods) if most is None else most for name, (most, grown) in largest.items()}


Growths = Mapping[str, Mapping[str, Sequence[SlotGrowth]]]
"""Date (ISO) → NodePool → its slots with growth."""


# Falls that recur.


PART: Final = timedelta(minutes=30)
"""Falls begin and end with half hours: the minutes in which pods leave differ from day to day."""

LONGEST_FALL: Final = timedelta(hours=2)
"""Pods that leave for longer than this are no fall: nodes would be kept for too long."""

PODS_MIN: Final = 3
"""A fall by fewer pods keeps no nodes."""


SETTLES_IN: Final = timedelta(minutes=10)
"""How long nodes with pods stay after a fall: its last pods have just left, so some nodes wait for consolidateAfter yet. Those
that do not would be emptied first, with more pods on them."""


class Fall(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of a NodePool that leave at the same time of some weekdays.

    Attributes:
        weekdays: From 0, Monday.
        starts: When it begins, from the wall clock's midnight.
        pods: By how many pods the NodePool becomes smaller, on the median day.
    """

    pool: str
    weekdays: tuple[int, ...]
    starts: timedelta
    lasts: timedelta
    pods: int


def recurring_falls(recorded: Growths, dates: Sequence[date], slot: timedelta, days_min: int) -> tuple[Fall, ...]:
    """Return the falls that recur on these days: half hours in which pods mostly left, as long as they follow each other."""
    by_part: dict[str, dict[int, dict[date, int]]] = defaultdict(lambda: defaultdict(dict))
    for day in dates:
        for pool, slots in recorded.get(day.isoformat(), {}).items():
            for growth in slots:
                on_day = by_part[pool][growth.slot * slot // PART]
                on_day[day] = on_day.get(day, 0) - growth.in_the_end()[PODS]
    return tuple(
        fall
        for pool in sorted(by_part)
        for run in _runs(by_part[pool], dates, days_min)
        if (fall := _fall(pool, run, by_part[pool], dates)) is not None
    )


_Part = tuple[int, tuple[int, ...]]
"""A half hour, and the weekdays on which pods mostly leave in it."""


def _runs(parts: Mapping[int, Mapping[date, int]], dates: Sequence[date], days_min: int) -> list[list[_Part]]:
    """Return the half hours of falls that follow each other on the same weekdays."""
    falling = [(part, _weekdays(parts[part], dates, days_min)) for part in sorted(parts)]
    falling = [(part, weekdays) for part, weekdays in falling if weekdays]
    runs = [[falling[0]]] if falling else []
    for before, here in pairwise(falling):
        if here[0] == before[0] + 1 and here[1] == before[1]:
            runs[-1].append(here)
        else:
            runs.append([here])
    return runs


def _weekdays(left: Mapping[date, int], dates: Sequence[date], days_min: int) -> tuple[int, ...]:
    fell = [day.weekday() for day in dates if left.get(day, 0) > 0]
    present = [day.weekday() for day in dates]
    return tuple(day for day in range(7) if present.count(day) >= days_min and 2 * fell.count(day) > present.count(day))


def _fall(
    pool: str, run: Sequence[_Part], parts: Mapping[int, Mapping[date, int]], dates: Collection[date]
) -> Fall | None:
    (first, weekdays), (last, _) = run[0], run[-1]
    lasts = (last + 1 - first) * PART
    totals = sorted(sum(parts[part].get(day, 0) for part, _ in run) for day in dates if day.weekday() in weekdays)
    pods = totals[len(totals) // 2]
    if lasts > LONGEST_FALL or pods < PODS_MIN:
        return None
    return Fall(pool=pool, weekdays=weekdays, starts=first * PART, lasts=lasts, pods=pods)


def fall_rule(fall: Fall, time_zone: str, valid_until: str) -> CalendarRule:
    """Return the rule that keeps the NodePool's nodes with pods until the fall is over, and they have settled."""
    minutes = fall.starts // timedelta(minutes=1)
    days = ",".join(str((weekday + 1) % 7) for weekday in fall.weekdays)
    return CalendarRule(
        name=f"forecast/{fall.pods} pods leave",
        time_zone=time_zone,
        windows=(
            CalendarWindow(schedule=f"{minutes % 60} {minutes // 60} * * {days}", duration=fall.lasts + SETTLES_IN),
        ),
        valid_until=valid_until,
        settings=CalendarSettings(keeps_occupied=True),
    )
