"""NodePools whose budgets stay closed are reported, so that a budget closed for a migration is not forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from core.disruption.budget_openings import AHEAD, PoolNodes, budget_explanation, closed_for_long, may_any_go, wakes_at
from core.disruption.budgets import allowed
from core.model.node_pool import Budget, Disruption, NodePool
from core.reasons.code import BUDGETED, TerminationReason
from tests.builders import NOW, a_pool

# Who took the places of a budget, and when a window gives more.


UNDERUTILIZED = TerminationReason.UNDERUTILIZED


def told(*budgets: Budget, going: tuple[str, ...] = ()) -> str:
    pool = a_pool("default", disruption=Disruption(budgets=budgets))
    return budget_explanation(pool, 40, UNDERUTILIZED, going, NOW)


def test_a_node_that_leaves_and_is_not_ready_is_named_once() -> None:
    text = told(Budget("3"), going=("a", "a", "b"))
    assert text.endswith("their places are taken by a (two places), b")


def test_nodes_that_take_the_places_are_named() -> None:
    """`No more nodes may go now` left open whether a command, a node that is not Ready or the budget itself was the cause."""
    text = told(Budget("10%"), going=("a", "b", "c", "d"))
    assert text == (
        "the disruption budgets of NodePool default let 4 of 40 nodes go for Underutilized now; "
        "their places are taken by a, b, c and 1 more"
    )


def test_all_are_named_as_long_as_they_are_few() -> None:
    assert told(Budget("10%"), going=("a", "b", "c")).endswith("; their places are taken by a, b, c")


def test_where_nobody_took_a_place_none_is_named() -> None:
    """Nor where the budget gives none: whoever goes just now did not take it."""
    assert told(Budget("10%")).endswith("let 4 of 40 nodes go for Underutilized now")
    assert told(Budget("0"), going=("a",)).endswith("let none of 40 nodes go for Underutilized now")


def test_the_next_window_that_lets_more_go_is_named() -> None:
    """Windows that allow as little as now, or something for another reason, are passed over."""
    lasting = timedelta(hours=1)
    closed = Budget("0", schedule="0 0 * * *", duration=timedelta(hours=23))
    drift = Budget("0", schedule="15 * * * *", duration=lasting, reasons=(TerminationReason.DRIFTED,))
    text = told(Budget("10%"), closed, drift)
    assert NOW.hour < 23
    assert text.startswith("the disruption budgets of NodePool default let none of 40 nodes go for Underutilized now; ")
    assert text.endswith(f"from {NOW:%Y-%m-%d}T23:00:00Z they let more go")


def test_a_budget_that_cannot_be_read_is_the_reason() -> None:
    assert "until this is corrected: spec.disruption.budgets[0]" in told(Budget("most"))


# When closed budgets open next, so that `disrupt` neither runs for nothing all week nor misses a window.


SATURDAY = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CLOSED_BUT_SUNDAYS = Budget("0", schedule="0 8 * * sun", duration=165 * HOUR)
"""Open on Sundays from five to eight."""

TEN = {"default": PoolNodes(10, 0)}


def pool(*budgets: Budget, after: timedelta | None = None) -> NodePool:
    return a_pool(disruption=Disruption(budgets=budgets, consolidate_after=after))


def test_a_closed_window_allows_no_disruption_and_its_end_is_known() -> None:
    """With an hour of consolidateAfter, pods are looked at an hour before the window opens."""
    closed = [pool(CLOSED_BUT_SUNDAYS, after=HOUR)]
    assert not may_any_go(closed, TEN, BUDGETED, SATURDAY)
    sunday_five = SATURDAY.replace(day=22, hour=5)
    assert wakes_at(closed, TEN, BUDGETED, SATURDAY) == sunday_five - HOUR - AHEAD
    assert may_any_go(closed, TEN, BUDGETED, sunday_five)


def test_budgets_that_are_used_up_allow_no_disruption() -> None:
    tenth = [pool(Budget("10%"))]
    assert may_any_go(tenth, TEN, BUDGETED, SATURDAY)
    assert not may_any_go(tenth, {"default": PoolNodes(10, 1)}, BUDGETED, SATURDAY)
    assert wakes_at(tenth, TEN, BUDGETED, SATURDAY) is None


def test_one_open_reason_is_enough() -> None:
    assert may_any_go([pool(Budget("0", reasons=("Underutilized",)))], TEN, BUDGETED, SATURDAY)


def test_a_pool_without_nodes_needs_no_run() -> None:
    assert not may_any_go([pool(Budget("100%"))], {}, BUDGETED, SATURDAY)


def test_an_unreadable_budget_stays_closed() -> None:
    odd = [pool(Budget("all"))]
    assert not may_any_go(odd, TEN, BUDGETED, SATURDAY)
    assert wakes_at(odd, TEN, BUDGETED, SATURDAY) is None


@pytest.mark.parametrize(
    "budgets",
    [
        (CLOSED_BUT_SUNDAYS,),
        (
            Budget("0", schedule="30 9 * * mon-fri", duration=8 * HOUR),
            Budget("0", schedule="0 17 * * *", duration=HOUR),
        ),
        (Budget("0", schedule="* * * * *", duration=HOUR / 60),),
        (Budget("0", schedule="5-10 0 1,22 * *", duration=30 * HOUR), Budget("3", schedule="@daily", duration=HOUR)),
    ],
)
def test_no_moment_is_missed_at_which_a_node_may_go(budgets: tuple[Budget, ...]) -> None:
    """Law: between any moment and the next opening that the function returns for it, no budget allows a disruption."""
    pools, moment, end = [pool(*budgets)], SATURDAY, SATURDAY + timedelta(days=9)
    while moment < end:
        if may_any_go(pools, TEN, BUDGETED, moment):
            moment += timedelta(minutes=7)
            continue
        until = wakes_at(pools, TEN, BUDGETED, moment)
        assert until is not None
        until = min(until + AHEAD, end)
        assert until > moment
        while moment < until:
            assert all(allowed(pools[0], 10, reason, moment) == 0 for reason in BUDGETED), moment
            moment += timedelta(minutes=11)
        moment = until


@pytest.mark.parametrize(
    ("budgets", "is_closed"),
    [
        ((Budget(nodes="0"),), True),
        ((Budget(nodes="nonsense"),), True),
        ((Budget(nodes="10%"),), False),
        ((), False),
        ((Budget(nodes="0", reasons=("Underutilized", "Empty")),), False),
        ((Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=24)),), True),
        ((Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=23)),), False),
        ((Budget(nodes="0", schedule="0 8 * * mon-fri", duration=timedelta(hours=12)),), False),
        ((Budget(nodes="0", schedule="0 0 * * *"),), True),
        ((Budget(nodes="0", schedule="* * * * *", duration=timedelta(hours=1)),), True),
        (
            (
                Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=13)),
                Budget(nodes="0", schedule="0 13 * * *", duration=timedelta(hours=11)),
            ),
            True,
        ),
        (
            (
                Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=13)),
                Budget(nodes="0", schedule="0 14 * * *", duration=timedelta(hours=10)),
            ),
            False,
        ),
        ((Budget(nodes="0", schedule="0 0 25 11 *", duration=timedelta(days=20)),), False),
    ],
)
def test_a_pool_is_closed_when_its_budgets_allow_nothing_for_a_week(
    budgets: tuple[Budget, ...], is_closed: bool
) -> None:
    pool = a_pool("frozen", disruption=Disruption(budgets=budgets))
    assert closed_for_long([pool], NOW) == (("frozen",) if is_closed else ())


@pytest.mark.parametrize(("open_for", "is_closed"), [(timedelta(minutes=20), False), (timedelta(0), True)])
def test_a_pool_that_was_open_for_a_while_days_ago_is_not_closed(open_for: timedelta, is_closed: bool) -> None:
    """Otherwise, an alarm fires for a pool whose nodes were replaced three days ago."""
    since = NOW - timedelta(days=3)
    yearly = f"{since.minute} {since.hour} {since.day} {since.month} *"
    closed = Budget(nodes="0", schedule=yearly, duration=timedelta(days=365) - open_for)
    assert closed_for_long([a_pool("p", disruption=Disruption(budgets=(closed,)))], NOW) == (
        ("p",) if is_closed else ()
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_result_equals_a_check_every_quarter_of_an_hour(seed: int) -> None:
    """Otherwise, moments are skipped at which a node may go."""
    dice = Random(seed)  # noqa: S311 - a test's dice
    budgets = tuple(
        Budget(
            nodes=dice.choice(("0", "0", "1%")),
            schedule=f"{15 * dice.randrange(4)} {dice.choice(('*', '0', '8,16', '*/2'))} * * {dice.choice(('*', '1-5'))}",
            duration=timedelta(minutes=15 * dice.choice((3, 4, 8, 32, 96))),
            reasons=dice.choice((None, ("Drifted",), ("Empty", "Underutilized"))),
        )
        for _ in range(3)
    )
    pool = a_pool("p", disruption=Disruption(budgets=budgets))
    moments = [NOW - timedelta(minutes=15) * back for back in range(7 * 96 + 1)]
    naive = all(allowed(pool, 100, reason, moment) == 0 for moment in moments for reason in BUDGETED)
    for late in (timedelta(0), timedelta(minutes=7)):
        assert closed_for_long([pool], NOW + late) == (("p",) if naive else ())


UNTIL_NOW = Budget(nodes="0", schedule="0 0 10 11 *", duration=timedelta(days=10))
FROM_FIVE_PAST = Budget(nodes="0", schedule="5 0 20 11 *", duration=timedelta(hours=1))
FROM_FORTY_PAST = Budget(nodes="0", schedule="40 0 20 11 *", duration=timedelta(hours=1))


@pytest.mark.parametrize(
    ("budgets", "minutes", "is_closed"),
    [
        ((UNTIL_NOW,), 5, False),
        ((UNTIL_NOW, FROM_FIVE_PAST), 5, True),
        ((UNTIL_NOW, FROM_FORTY_PAST), 50, False),
    ],
)
def test_what_is_closed_is_so_now_and_was_open_for_a_quarter_of_an_hour_at_most(
    budgets: tuple[Budget, ...], minutes: int, is_closed: bool
) -> None:
    pool = a_pool("p", disruption=Disruption(budgets=budgets))
    assert closed_for_long([pool], NOW + timedelta(minutes=minutes)) == (("p",) if is_closed else ())
