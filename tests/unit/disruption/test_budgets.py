"""How many nodes of a NodePool the budgets allow to go at one time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from core.cron import Schedule
from core.disruption.budgets import (
    UNNAMED,
    RemainingBudgets,
    allowed,
    counted_nodes,
    going_nodes,
    next_change,
    places,
    remaining,
    unreadable,
    window_schedules,
)
from core.labels import INITIALIZED
from core.model.node_pool import Budget, Disruption, NodePool
from core.model.plan import INSTANCE_TERMINATING, Condition
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.taints import DISRUPTED
from core.reasons.code import BUDGETED, NAMED_BY_BUDGETS, TerminationReason
from tests.builders import NOW, a_node_of, a_pool, a_snapshot, a_type

# The next moment at which a budget changes, as `status` shows it.


HOUR = timedelta(hours=1)
NODES = 20


def a_pool_with(*budgets: Budget) -> NodePool:
    return a_pool(disruption=Disruption(budgets=budgets))


@pytest.mark.parametrize(
    "budgets",
    [
        (Budget(nodes="0", schedule="30 3 * * *", duration=90 * timedelta(minutes=1)),),
        (Budget(nodes="10%"), Budget(nodes="0", schedule="0 9 * * mon-fri", duration=8 * HOUR)),
        (
            Budget(nodes="0", schedule="0 * * * *", duration=timedelta(minutes=50), reasons=("Drifted",)),
            Budget(nodes="3", schedule="15 6 * * *", duration=HOUR, reasons=("Empty", "Underutilized")),
        ),
        (Budget(nodes="2"), Budget(nodes="5", schedule="@hourly", duration=timedelta(minutes=10))),
        (Budget(nodes="0", schedule="0 0 * * *", duration=24 * HOUR),),
    ],
)
def test_it_is_the_first_minute_with_another_number(budgets: tuple[Budget, ...]) -> None:
    """A check of the budgets minute by minute gives the same."""
    pool = a_pool_with(*budgets)

    def let_go(minute: int) -> dict[str, int | None]:
        return {reason: allowed(pool, NODES, reason, NOW + timedelta(minutes=minute)) for reason in NAMED_BY_BUDGETS}

    now = let_go(0)
    first = next((minute for minute in range(1, 25 * 60) if let_go(minute) != now), None)
    found = next_change(pool, NODES, NOW)
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert (found.at, found.allowed) == (NOW + timedelta(minutes=first), let_go(first))


def test_an_unreadable_budget_has_no_next_change() -> None:
    assert next_change(a_pool_with(Budget(nodes="0", schedule="0 25 * * *", duration=HOUR)), NODES, NOW) is None
    assert next_change(a_pool_with(Budget(nodes="1")), NODES, NOW) is None


UNDERUTILIZED, EMPTY, DRIFTED = BUDGETED

TYPE = a_type()


def left(snapshot: Snapshot, reason: str = EMPTY) -> int | None:
    """What remains for the pool `default`."""
    return remaining(snapshot, state_nodes(snapshot))["default"][reason]


@pytest.mark.parametrize(
    ("nodes", "total", "expected"),
    [("10%", 1, 1), ("15%", 10, 2), ("34%", 3, 2), ("0", 9, 0), ("100%", 7, 7), ("5", 3, 5), ("0%", 9, 0)],
)
def test_percentages_round_up(nodes: str, total: int, expected: int) -> None:
    """10 % of one node is one node: otherwise small pools would never change."""
    assert allowed(a_pool_with(Budget(nodes)), total, EMPTY, NOW) == expected


def test_strictest_active_budget_counts() -> None:
    """Budgets are upper bounds, each of them."""
    assert allowed(a_pool_with(Budget("5"), Budget("2"), Budget("50%")), 10, EMPTY, NOW) == 2


def test_a_budget_outside_of_its_window_bounds_nothing_beside_others() -> None:
    """In whichever order they stand: a closed one neither replaces the others nor is compared with them."""
    at_night = Budget("0", schedule=f"{(NOW - timedelta(hours=3)):%M %H} * * *", duration=timedelta(hours=1))
    for budgets in ((Budget("5"), at_night), (at_night, Budget("5"))):
        assert allowed(a_pool_with(*budgets), 10, EMPTY, NOW) == 5
    assert allowed(a_pool_with(at_night), 10, EMPTY, NOW) is None


def test_budget_for_other_reasons_is_ignored() -> None:
    """A budget applies to the reasons that it names; an empty list applies to none."""
    node_pool = a_pool_with(Budget("1", reasons=(DRIFTED,)), Budget("0", reasons=()))
    assert [allowed(node_pool, 10, r, NOW) for r in (DRIFTED, EMPTY, UNDERUTILIZED)] == [1, None, None]


def test_no_budget_means_no_limit() -> None:
    """An explicitly empty list of budgets allows everything."""
    assert allowed(a_pool_with(), 10, EMPTY, NOW) is None


@pytest.mark.parametrize(
    "broken",
    [Budget("ten"), Budget("101%"), Budget("-1"), Budget("5", schedule="nonsense", duration=timedelta(hours=1))],
)
def test_unreadable_budget_closes_its_pool(broken: Budget) -> None:
    """A fault in one budget, even one for another reason, must not count as permission."""
    node_pool = a_pool_with(Budget("5"), msgspec.structs.replace(broken, reasons=(DRIFTED,)))
    assert allowed(node_pool, 10, EMPTY, NOW) == 0


def fleet(count: int) -> Snapshot:
    """That many ready nodes under a budget of three."""
    pairs = [a_node_of(TYPE, f"node-{index}") for index in range(count)]
    return a_snapshot(
        types=(TYPE,),
        node_pools=(a_pool_with(Budget("3")),),
        nodes=tuple(node for _, node in pairs),
        node_claims=tuple(claim for claim, _ in pairs),
    )


def test_nodes_that_are_going_use_up_places() -> None:
    """Two disruptions at one time are two disruptions, whatever started the first."""
    snapshot = fleet(5)
    assert left(snapshot) == 3
    assert left(msgspec.structs.replace(snapshot, marked_for_deletion=(snapshot.node_claims[0].name,))) == 2


def test_node_that_is_not_ready_uses_up_a_place() -> None:
    """A pool with unready nodes is not disrupted further."""
    snapshot = fleet(5)
    ailing = msgspec.structs.replace(snapshot.nodes[0], is_ready=False)
    assert left(msgspec.structs.replace(snapshot, nodes=(ailing, *snapshot.nodes[1:]))) == 2


def test_a_tainted_node_uses_up_a_place_whatever_its_claim_says() -> None:
    """A restored table knows nothing of a drain: as many nodes as the budgets allow would go besides those that drain."""
    snapshot = fleet(3)
    going = msgspec.structs.replace(snapshot.nodes[0], taints=(DISRUPTED,))
    snapshot = msgspec.structs.replace(snapshot, nodes=(going, *snapshot.nodes[1:]))
    assert left(snapshot) == 2
    states = state_nodes(snapshot)
    held = snapshot.node_claims[0].name
    assert [places(snapshot, states, [EMPTY], holding)["default"] for holding in ((), (held,))] == [2, 3]


def test_a_node_with_a_terminating_instance_is_not_counted() -> None:
    """A node whose instance is terminating is neither in the pool nor leaving."""
    snapshot = fleet(5)
    conditions = {**snapshot.node_claims[0].conditions, INSTANCE_TERMINATING: Condition("True")}
    gone = msgspec.structs.replace(snapshot.node_claims[0], conditions=conditions)
    assert left(msgspec.structs.replace(snapshot, node_claims=(gone, *snapshot.node_claims[1:]))) == 3


def test_nodes_of_others_and_nodes_that_are_not_initialized_are_not_counted() -> None:
    """Those that come would let more of those that run go; those of others cannot be disrupted at all."""
    snapshot = fleet(5)
    coming = msgspec.structs.replace(
        snapshot.nodes[0], labels={k: v for k, v in snapshot.nodes[0].labels.items() if k != INITIALIZED}
    )
    with_others = msgspec.structs.replace(
        snapshot, nodes=(coming, *snapshot.nodes[1:]), node_claims=snapshot.node_claims[:-1]
    )
    assert counted_nodes(with_others, state_nodes(with_others)) == {"default": 3}
    assert counted_nodes(snapshot, state_nodes(snapshot)) == {"default": 5}


def test_a_node_counts_for_every_reason() -> None:
    """A node that goes as Empty leaves one place less for Drifted too."""
    left = RemainingBudgets({"default": {EMPTY: 2, DRIFTED: 1, UNDERUTILIZED: None}})
    left.take("default")
    assert [left.allows("default", r) for r in (EMPTY, DRIFTED, UNDERUTILIZED)] == [True, False, True]


def test_a_budget_that_cannot_be_read_is_named() -> None:
    """It closes its pool for good; nobody would notice an hour 25."""
    good, bad = Budget("1"), Budget("1", schedule="0 25 * * *", duration=timedelta(hours=1))
    assert unreadable(a_pool_with(good)) == ""
    assert unreadable(a_pool_with(good, bad)).startswith("spec.disruption.budgets[1]: '25' in the hour")
    assert allowed(a_pool_with(good, bad), 10, EMPTY, NOW) == 0


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([Budget("3")], 3),
        ([Budget("0")], 0),
        ([Budget("3"), Budget("0", reasons=("Underutilized",))], 3),
        ([Budget("0", reasons=("Underutilized",))], 5),
        ([Budget("0", reasons=("Underutilized", "Empty")), Budget("1", reasons=("Drifted",))], 1),
        ([Budget("0", reasons=BUDGETED)], 0),
        ([], None),
    ],
)
@pytest.mark.parametrize("reason", UNNAMED)
def test_reasons_that_budgets_cannot_name(reason: str, budgets: list[Budget], expected: int | None) -> None:
    """Otherwise, a budget against consolidation disables expireAfter for good, or a fleet of one age goes at once."""
    assert allowed(a_pool(disruption=Disruption(budgets=tuple(budgets))), 50, reason, NOW) == expected


def test_each_pool_with_a_budget_has_places_less_those_that_hold_none() -> None:
    """A claim that holds a place is in its counter already; a pool without a limit needs no counter."""
    kinds = {
        "b": Disruption(budgets=(Budget("3"),)),
        "a": Disruption(budgets=(Budget("50%"),)),
        "c": Disruption(budgets=()),
    }
    pairs = [a_node_of(TYPE, f"{name}-{n}", pool=name) for name in kinds for n in range(4)]
    going = tuple(claim.name for claim, _ in pairs if claim.name in ("b-b-0", "b-b-1", "a-a-0"))
    assert len(going) == 3
    snapshot = a_snapshot(
        node_pools=tuple(a_pool(name, disruption=disruption) for name, disruption in kinds.items()),
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        marked_for_deletion=going,
    )
    states = state_nodes(snapshot)
    assert places(snapshot, states, BUDGETED, ()) == {"a": 1, "b": 1}
    assert places(snapshot, states, BUDGETED, going[:2]) == {"a": 1, "b": 3}
    assert counted_nodes(snapshot, states) == dict.fromkeys("abc", 4)
    assert {name: left[EMPTY] for name, left in remaining(snapshot, states).items()} == {"a": 1, "b": 1, "c": None}
    assert going_nodes(snapshot, states, EMPTY) == {"a": ["a-0"], "b": ["b-0", "b-1"], "c": []}


def test_a_node_that_is_not_ready_counts_for_every_reason_but_unhealthy() -> None:
    """A wave of unhealthy nodes would use up the budget that repairs them; a node that leaves always counts (Karpenter)."""
    cluster = fleet(5)
    sick, leaving = cluster.nodes[0], cluster.node_claims[1]
    cluster = msgspec.structs.replace(
        cluster,
        nodes=(msgspec.structs.replace(sick, is_ready=False), *cluster.nodes[1:]),
        marked_for_deletion=(leaving.name,),
    )
    states = state_nodes(cluster)
    assert remaining(cluster, states)["default"] == {
        UNDERUTILIZED: 1,
        EMPTY: 1,
        DRIFTED: 1,
        TerminationReason.UNHEALTHY: 2,
    }
    assert going_nodes(cluster, states, EMPTY) == {"default": ["node-0", "node-1"]}
    assert going_nodes(cluster, states, TerminationReason.UNHEALTHY) == {"default": ["node-1"]}


def test_a_budget_of_its_own_bounds_repair_alone() -> None:
    pool = a_pool_with(Budget("3"), Budget("1", reasons=(TerminationReason.UNHEALTHY,)))
    cluster = msgspec.structs.replace(fleet(5), node_pools=(pool,))
    assert left(cluster, TerminationReason.UNHEALTHY) == 1
    assert [left(cluster, reason) for reason in BUDGETED] == [3, 3, 3]


@pytest.mark.parametrize(
    ("since", "expected"),
    [(timedelta(minutes=-1), None), (timedelta(0), 0), (timedelta(minutes=59), 0), (timedelta(hours=1), None)],
)
def test_a_window_closes_a_budget_from_its_first_minute_to_its_last(since: timedelta, expected: int | None) -> None:
    """A node that goes in the minute in which a window begins goes against it."""
    window = Budget("0", schedule=f"{NOW.minute} {NOW.hour} * * *", duration=timedelta(hours=1))
    assert allowed(a_pool_with(window), 10, EMPTY, NOW + since) == expected


def test_a_claim_whose_node_has_not_joined_is_not_counted_leaving_or_not() -> None:
    """It has no node that could be Ready or not."""
    snapshot = fleet(5)
    unjoined = msgspec.structs.replace(snapshot, nodes=snapshot.nodes[1:])
    assert left(unjoined) == 3
    assert left(msgspec.structs.replace(unjoined, marked_for_deletion=(snapshot.node_claims[0].name,))) == 3


# Schedules that wake `disrupt` when budget windows open and close.


OBSERVED_AT = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)  # a Monday


def pool(schedule: str, duration: timedelta, name: str = "default") -> NodePool:
    """A pool with one window."""
    return a_pool(name, disruption=Disruption(budgets=(Budget("0", schedule=schedule, duration=duration),)))


def expressions(schedule: str, **duration: float) -> list[str]:
    """The expressions of one window."""
    return sorted(window_schedules([pool(schedule, timedelta(**duration))], OBSERVED_AT).values())


@pytest.mark.parametrize(
    ("schedule", "hours", "expected"),
    [
        ("0 9 * * *", 8, ["cron(0 17 * * ? *)", "cron(0 9 * * ? *)"]),
        ("@hourly", 1, ["cron(0 * * * ? *)"]),
        ("0 22 * * *", 4, ["cron(0 2 * * ? *)", "cron(0 22 * * ? *)"]),
        ("0 22 * * MON-FRI", 4, ["cron(0 2 ? * TUE,WED,THU,FRI,SAT *)", "cron(0 22 ? * MON,TUE,WED,THU,FRI *)"]),
        ("0 22 * * sat", 4, ["cron(0 2 ? * SUN *)", "cron(0 22 ? * SAT *)"]),
        ("0 9 1 * *", 8, ["cron(0 17 1 * ? *)", "cron(0 9 1 * ? *)"]),
        ("0 9 1 * 1", 1, ["cron(0 10 1 * ? *)", "cron(0 10 ? * MON *)", "cron(0 9 1 * ? *)", "cron(0 9 ? * MON *)"]),
        ("30 6 * * 0", 0.5, ["cron(0 7 ? * SUN *)", "cron(30 6 ? * SUN *)"]),
        ("0 20,23 * * *", 2, ["cron(0 1,22 * * ? *)", "cron(0 20,23 * * ? *)"]),
        ("0 1,2,3,7 * * *", 0.5, ["cron(0 1-3,7 * * ? *)", "cron(30 1-3,7 * * ? *)"]),
        ("0 12 * * *", 72, ["cron(0 12 * * ? *)"]),
    ],
)
def test_opening_and_closing(schedule: str, hours: float, expected: list[str]) -> None:
    """The end recurs like the start, later by the duration, also past midnight and the end of the week."""
    assert expressions(schedule, hours=hours) == expected


@pytest.mark.parametrize(
    ("schedule", "end", "start"),
    [
        ("0 22 1 * *", "at(2026-04-02T02:00:00)", "cron(0 22 1 * ? *)"),
        ("0 22 * 3 *", "at(2026-03-03T02:00:00)", "cron(0 22 * 3 ? *)"),
        ("0 22 * 3 MON", "at(2026-03-03T02:00:00)", "cron(0 22 ? 3 MON *)"),
    ],
    ids=["a date", "a month", "a weekday of a month"],
)
def test_an_end_that_cron_cannot_express_is_a_single_time(schedule: str, end: str, start: str) -> None:
    """From 22:00 for four hours: the last window of March ends in April, on a day that no field can name with the others."""
    assert expressions(schedule, hours=4) == [end, start]


def test_a_start_at_the_end_of_a_window_prolongs_it() -> None:
    """From 20 to 23 and from 23 to 2: nothing opens or closes at 23."""
    assert expressions("0 20,23 1 * *", hours=3) == ["at(2026-04-02T02:00:00)", "cron(0 20,23 1 * ? *)"]


def test_end_of_a_window_that_is_open_now() -> None:
    """Inside a window, the next end is that window's."""
    assert "at(2026-03-03T20:00:00)" in expressions("0 20 1 * *", hours=48)


def test_an_end_that_later_starts_put_off_is_the_last_one() -> None:
    """Minutes 20 to 37 of each hour of a date, an hour each: one window, which ends at 00:37 of the next day."""
    inside = datetime(2026, 3, 2, 23, 59, tzinfo=UTC)
    found = window_schedules([pool("20-37 * 2 * *", timedelta(hours=1))], inside).values()
    assert [one for one in found if one.startswith("at")] == ["at(2026-03-03T00:37:00)"]


def test_hourly_on_one_weekday_spills_over() -> None:
    """Every hour of Monday, two hours each: the last one ends on Tuesday."""
    cron_expressions = expressions("0 * * * 1", hours=2)
    assert "cron(0 0,1 ? * TUE *)" in cron_expressions


def test_same_window_of_two_pools_is_one_schedule() -> None:
    """Two wake-ups for one moment would cost twice."""
    pools = [pool("@daily", timedelta(hours=1), name) for name in ("a", "b")]
    assert window_schedules(pools, OBSERVED_AT) == window_schedules(pools[:1], OBSERVED_AT)


def test_names_are_short_and_follow_from_the_expression() -> None:
    """EventBridge takes 64 characters; an unchanged window keeps its name, so its schedule is not replaced."""
    first = window_schedules([pool("*/7 1-5 * * *", timedelta(minutes=3))], OBSERVED_AT)
    assert all(len(name) <= 64 for name in first)
    assert first == window_schedules([pool("*/7 1-5 * * *", timedelta(minutes=3))], OBSERVED_AT + timedelta(days=2))


def test_unreadable_budgets_and_budgets_without_window_have_none() -> None:
    """They neither open nor close, and keep no other window from doing so."""
    assert not window_schedules([pool("nonsense", timedelta(hours=1)), a_pool()], OBSERVED_AT)
    hour = timedelta(hours=1)
    odd = Budget("10%"), Budget("0", schedule="nonsense", duration=hour)
    daily = Budget("0", schedule="@daily", duration=hour)
    both = a_pool(disruption=Disruption(budgets=(*odd, daily)))
    assert window_schedules([both], OBSERVED_AT) == window_schedules([pool("@daily", hour)], OBSERVED_AT) != {}


@pytest.mark.parametrize("schedule", ["1-59 0-22 * 1-11 1-5", "0-58 1-23 1-30 1-11 *", "*/2 */2 */2 */2 *"])
def test_expressions_are_valid_for_eventbridge(schedule: str) -> None:
    """One refused schedule would keep the schedules of all other NodePools from being created."""
    cron_expressions = expressions(schedule, minutes=1) + expressions(schedule, hours=7, minutes=13)
    assert max(map(len, cron_expressions)) <= 256


def moments(expression: str, first_day: datetime, days: int) -> set[datetime]:
    """The minutes of some days that an expression of EventBridge names, read as its manual says."""
    minutes, hours, dates, months, weekdays, years = expression.removeprefix("cron(").removesuffix(")").split()
    assert (dates == "?", weekdays == "?", years) in ((True, False, "*"), (False, True, "*"))
    names = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")

    def named(field: str, value: int) -> bool:
        spans = (part.partition("-") for part in field.split(","))
        return field in "*?" or any(int(low) <= value <= int(high or low) for low, _, high in spans)

    return {
        first_day + timedelta(days=day, hours=hour, minutes=minute)
        for day in range(days)
        if (today := first_day + timedelta(days=day))
        and (weekdays == "?" or names[today.weekday()] in weekdays.split(","))
        if named(dates, today.day) and named(months, today.month)
        for hour in range(24)
        if named(hours, hour)
        for minute in range(60)
        if named(minutes, minute)
    }


@pytest.mark.parametrize("duration", [timedelta(minutes=30), timedelta(hours=2), timedelta(hours=25, minutes=1)])
@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "* 9 * * *", "15 * * * *", "0 23 * * *", "50 23 * * SUN", "*/25 22,23 * * SAT,SUN", "5 0 * * 1-3"],
)
def test_expressions_name_each_start_of_two_weeks_and_each_start_put_off_by_the_duration(
    schedule: str, duration: timedelta
) -> None:
    """Nothing wakes `disrupt` for a moment that is missing, and one too many wakes it for nothing."""
    first, days = datetime(2026, 3, 2, tzinfo=UTC), 14
    parsed, starts = Schedule.parse(schedule), set[datetime]()
    start = parsed.next_after(first - timedelta(days=3))
    while start is not None and start < first + timedelta(days=days):
        starts.add(start)
        start = parsed.next_after(start)
    wanted = {moment for moment in starts | {start + duration for start in starts} if moment >= first}
    found = set[datetime]().union(
        *(moments(expression, first, days) for expression in expressions_of(schedule, duration))
    )
    assert found == {moment for moment in wanted if moment < first + timedelta(days=days)}


def expressions_of(schedule: str, duration: timedelta) -> list[str]:
    return list(window_schedules([pool(schedule, duration)], OBSERVED_AT).values())


@pytest.mark.parametrize("half", [Budget("0", schedule="@daily"), Budget("0", duration=timedelta(hours=1))])
def test_a_budget_with_half_a_window_has_none(half: Budget) -> None:
    """The API server refuses it; what was written before it did must not end the pass for all NodePools."""
    assert not window_schedules([a_pool(disruption=Disruption(budgets=(half,)))], OBSERVED_AT)
