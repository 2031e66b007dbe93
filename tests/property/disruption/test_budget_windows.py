"""Law: whenever a budget window opens or closes, a schedule wakes `disrupt`. Every minute is checked.

Both sides have a second implementation here: budgets by the definition of cron, schedules by EventBridge's documentation. A
single time, `at(...)`, counts if it is among the schedules that `reconcile` writes two minutes before it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import ceil
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest

from core.cron import MACROS
from core.disruption.budgets import allowed, next_change, next_edge, window_schedules
from core.model.node_pool import Budget, Disruption, NodePool
from core.reasons.code import BUDGETED
from tests.builders import a_pool

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
RECONCILED: Final = timedelta(minutes=2)
WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MINUTES_A_DAY: Final = 24 * 60
FIELDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))

Bools = npt.NDArray[np.bool_]


class Calendar:
    """Each minute of this many days. A cron expression matches some days, and on each of them the same minutes."""

    def __init__(self, days: int) -> None:
        dates = [START + timedelta(days=day) for day in range(days)]
        weekdays = [(date.weekday() + 1) % 7 for date in dates]
        self._days = [np.array(values) for values in ([d.day for d in dates], [d.month for d in dates], weekdays)]
        self.minutes = days * MINUTES_A_DAY

    def matches(self, fields: list[set[int] | None]) -> Bools:
        """The minutes that match all fields; if both day fields are given, one of them is enough."""
        either = self._among(0, fields[2]) | self._among(2, fields[4])
        both = self._among(0, fields[2]) & self._among(2, fields[4])
        days = (either if fields[2] is not None and fields[4] is not None else both) & self._among(1, fields[3])
        return self._times(days, fields)

    def _times(self, days: Bools, fields: list[set[int] | None]) -> Bools:
        """The minutes of these days that match the fields for minute and hour."""
        marked = np.zeros((len(days), MINUTES_A_DAY), bool)
        hours, minutes = (
            range(size) if fields[n] is None else sorted(fields[n] or ()) for n, size in ((1, 24), (0, 60))
        )
        marked[np.ix_(np.flatnonzero(days), [hour * 60 + minute for hour in hours for minute in minutes])] = True
        return marked.ravel()

    def _among(self, column: int, values: set[int] | None) -> Bools:
        if values is None:
            return np.ones(len(self._days[column]), bool)
        return np.isin(self._days[column], sorted(values))


def a_field(rng: Random, low: int, high: int) -> str:
    """A star, a value, a list, a range or a step."""
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    return rng.choice(("*", "*", str(first), f"{first},{last}", f"{first}-{last}", f"*/{rng.randint(2, 9)}"))


def a_budget(rng: Random) -> Budget:
    """A window of minutes, hours or days; one schedule in three names dates."""
    fields = [a_field(rng, low, high) for low, high in FIELDS]
    if rng.random() < 0.6:
        fields[0] = str(rng.randint(0, 59))
    if rng.random() < 2 / 3:
        fields[2:4] = ["*", "*"]
    duration = timedelta(minutes=rng.choice((1, 7, 30, 60, 90, 480, 1440, 1500, 4320, 10020)))
    return Budget("0", schedule=" ".join(fields), duration=duration)


def values_of(text: str, low: int, high: int) -> set[int] | None:
    """What a field of cron allows; None: everything, and it does not restrict the other day field.

    A star with a step is a list like others (robfig/cron from its third version on, which Karpenter uses).
    """
    if text.startswith("*"):
        return None if text == "*" else set(range(low, high + 1, int(text[2:])))
    values: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        values |= set(range(int(first), int(last or first) + 1))
    return values


def in_force(budget: Budget, calendar: Calendar) -> Bools:
    """Whether the budget is in force in each minute: some start lies less than the duration back."""
    assert budget.schedule is not None
    assert budget.duration is not None
    texts = budget.schedule.split()
    fields = [values_of(text, *bounds) for text, bounds in zip(texts, FIELDS, strict=True)]
    starts = calendar.matches(fields)
    lasting = budget.duration // timedelta(minutes=1)
    so_far = np.cumsum(starts, dtype=np.int32)
    before = np.zeros_like(so_far)  # [minute], the number of starts whose duration is over
    before[lasting:] = so_far[:-lasting]
    return so_far > before


def woken(expression: str, calendar: Calendar) -> Bools:
    """The minutes at which a recurring schedule of EventBridge fires."""
    kind, _, body = expression.rstrip(")").partition("(")
    if kind != "cron":
        return np.zeros(calendar.minutes, bool)
    texts = body.split()[:5]
    named = {name: str(number) for number, name in enumerate(WEEKDAYS)}
    for name, number in named.items():
        texts[4] = texts[4].replace(name, number)
    fields: list[set[int] | None] = [
        None if text == "?" else _listed(text, *bounds) for text, bounds in zip(texts, FIELDS, strict=True)
    ]
    return calendar.matches(fields)


def _listed(text: str, low: int, high: int) -> set[int] | None:
    if text == "*":
        return None
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if first == "*" else int(first)
        end = int(last) if last else high if step or first == "*" else begin
        values |= set(range(begin, end + 1, int(step or 1)))
    return values


def missed(rng: Random, calendar: Calendar) -> list[str]:
    """The edges of a random set of budgets that no schedule covers."""
    budgets = tuple(a_budget(rng) for _ in range(rng.randint(1, 3)))
    pools = [a_pool(disruption=Disruption(budgets=budgets))]
    covered = np.zeros(calendar.minutes, bool)
    for expression in window_schedules(pools, START).values():
        covered |= woken(expression, calendar)
    uncovered = []
    for budget in budgets:
        state = in_force(budget, calendar)
        edges = np.flatnonzero(state[1:] != state[:-1]) + 1
        for minute in edges[~covered[edges]]:
            moment = START + timedelta(minutes=int(minute))
            if f"at({moment:%Y-%m-%dT%H:%M:%S})" not in window_schedules(pools, moment - RECONCILED).values():
                uncovered.append(f"{budget.schedule} for {budget.duration}: {moment}")
    return uncovered


@pytest.mark.parametrize(
    ("sets", "days"), [(15, 40), pytest.param(500, 730, marks=pytest.mark.slow)], ids=["some", "two years of 500"]
)
def test_every_edge_of_every_window_wakes_disrupt(sets: int, days: int) -> None:
    """Otherwise, a window passes unused, or nodes continue to leave after it, until the next run."""
    rng, calendar = Random(17), Calendar(days)  # noqa: S311 - repeatable
    assert [edge for _ in range(sets) for edge in missed(rng, calendar)] == []


# Law: at every minute, budgets allow what a second implementation counts for that minute.
#
# The second implementation marks the minutes of fourteen months in which each budget is in force, and takes the lowest value.


MINUTE: Final = timedelta(minutes=1)
UNLIMITED: Final = 2**31
EDGES_MAX: Final = 500
CALENDAR: Final = Calendar(430)
FIRST: Final = 20 * 24 * 60
"""The first compared minute: windows that opened before the calendar begins are closed by then."""

Ints = npt.NDArray[np.int64]


def window(nodes: str, schedule: str, reasons: tuple[str, ...] | None = None, **lasting: int) -> Budget:
    """A budget with a window."""
    return Budget(nodes, reasons, schedule, timedelta(**lasting))


HOSTILE: Final = {
    "the nights in which clocks change": (
        window("0", "30 1,2 * 3,10 0", hours=1),
        window("50%", "0 2 29 3 *", hours=2),
    ),
    "the last days of months": (window("1", "0 12 28-31 * *", hours=13), window("0", "45 23 31 * *", minutes=30)),
    "into the next month and year": (window("0", "0 22 31 12 *", hours=50), window("2", "59 23 28 2 *", minutes=2)),
    "longer than its period": (window("10%", "@hourly", hours=3), window("0", "0 9 * * 1-5", hours=25)),
    "as long as its period": (window("1", "@daily", hours=24), window("3", "*/10 * * * *", minutes=10)),
    "a week that lasts eight days": (window("0", "@weekly", hours=192),),
    "nothing and everything": (window("0%", "0 8 * * *", hours=1), window("100%", "0 8 * * *", hours=2), Budget("40%")),
    "a budget for each reason": tuple(
        window(f"{number}", f"{number} {number} * * *", (reason,), hours=5) for number, reason in enumerate(BUDGETED)
    ),
    "no reason, an unknown one, one twice": (
        Budget("0", ()),
        window("0", "@daily", ("Tired",), hours=9),
        window("25%", "0 6 * * *", ("Drifted", "Drifted"), hours=9),
    ),
    "no duration": (window("0", "0 12 * * *", hours=0), Budget("7")),
    "either day field": (window("0", "0 0 13 * 5", hours=24), window("1", "15 0 */2 * 1", hours=1)),
    "many at once": tuple(window(f"{9 - n}", f"{7 * n} */{n + 1} * * *", minutes=13 * (n + 1)) for n in range(8)),
    **{macro: (window("0", macro, minutes=90), Budget("10%")) for macro in MACROS},
}


def counted(budgets: tuple[Budget, ...], nodes: int, reason: str) -> Ints:
    """How many nodes may go for a reason, in each minute."""
    lowest = np.full(CALENDAR.minutes, UNLIMITED, dtype=np.int64)
    for budget in budgets:
        if budget.reasons is not None and reason not in budget.reasons:
            continue
        percent = budget.nodes.removesuffix("%")
        value = int(percent) if percent == budget.nodes else ceil(nodes * int(percent) / 100)
        lowest[_minutes(budget)] = np.minimum(lowest[_minutes(budget)], value)
    return lowest


@lru_cache(64)
def _minutes(budget: Budget) -> npt.NDArray[np.bool_]:
    if budget.schedule is None:
        return np.ones(CALENDAR.minutes, bool)
    if not budget.duration:
        return np.zeros(CALENDAR.minutes, bool)
    written = Budget(budget.nodes, budget.reasons, MACROS.get(budget.schedule, budget.schedule), budget.duration)
    return in_force(written, CALENDAR)


def edges_of(pool: NodePool) -> list[int]:
    """The minutes at which a window may open or close, from the first on that is compared."""
    edges, moment = [FIRST], START + FIRST * MINUTE
    for _ in range(EDGES_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None or minute_of(edge) >= CALENDAR.minutes:
            return [*edges, CALENDAR.minutes]
        edges.append(minute_of(edge))
        moment = edge
    return edges


def minute_of(moment: datetime) -> int:
    """The number of a whole minute."""
    assert (moment - START) % MINUTE == timedelta(0)
    return (moment - START) // MINUTE


def differing(budgets: tuple[Budget, ...], nodes: int) -> list[str]:
    """The spans between two edges with a minute in which the count differs from what the budgets allow."""
    pool = a_pool(disruption=Disruption(budgets=budgets))
    spans = []
    edges = edges_of(pool)
    for reason in BUDGETED:
        by_minute = counted(budgets, nodes, reason)
        for begin, end in pairwise(edges):
            for minute in {begin, end - 1}:
                top = allowed(pool, nodes, reason, START + minute * MINUTE)
                value = UNLIMITED if top is None else top
                if (by_minute[begin:end] != value).any():
                    spans.append(f"{nodes} nodes, {reason}, from {START + begin * MINUTE}: {value}")
    return spans


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_odd_windows_allow_what_a_count_of_each_minute_says(name: str) -> None:
    for nodes in (1, 7, 99):
        assert differing(HOSTILE[name], nodes) == []


def test_random_sets_of_windows_allow_what_a_count_of_each_minute_says() -> None:
    rng = Random(220)  # noqa: S311 - repeatable
    for _ in range(12):
        budgets = tuple(
            Budget(
                rng.choice(("0", "1", "30%", "100%")),
                rng.choice((None, BUDGETED[:1], BUDGETED[1:])),
                budget.schedule,
                budget.duration,
            )
            for budget in (a_budget(rng) for _ in range(rng.randint(1, 4)))
        )
        assert differing(budgets, rng.randint(0, 20)) == []


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_the_next_change_is_the_first_minute_that_differs(name: str) -> None:
    """Refusals and reports name this time as the end of the wait."""
    pool = a_pool(disruption=Disruption(budgets=HOSTILE[name]))
    counts = np.stack([counted(HOSTILE[name], 10, reason) for reason in BUDGETED])
    for minute in range(FIRST, CALENDAR.minutes, 31 * 24 * 60 + 17):
        change = next_change(pool, 10, START + minute * MINUTE)
        later = np.flatnonzero((counts[:, minute:] != counts[:, minute, None]).any(axis=0))
        if change is not None and minute_of(change.at) >= CALENDAR.minutes:
            assert later.size == 0
        elif change is not None:
            assert minute_of(change.at) == minute + int(later[0])
            tops = [change.allowed[reason] for reason in BUDGETED]
            assert [UNLIMITED if top is None else top for top in tops] == list(counts[:, minute + int(later[0])])
        else:
            assert later.size == 0 or int(later[0]) > 24 * 60, "a change of the next day is found"
