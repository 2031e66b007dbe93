"""NodePools whose budgets stay closed are reported, so that a budget closed for a migration is not forgotten."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from core.disruption.budgets.closed_budgets import closed_for_long
from core.disruption.budgets.node_pool_budgets import allowed
from core.model.node_pool import Budget, Disruption
from core.reasons.termination import BUDGETED
from tests.builders import NOW, a_pool


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
