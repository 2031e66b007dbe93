"""Evaluates disruption budgets of NodePools: how many nodes may go at a moment, for each reason.

Karpenter's rules: the strictest active budget counts; percentages round up; a node that is leaving or rebooting counts against
the budgets of every reason, one that is not Ready against all but those for repair; one unreadable budget closes its pool.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.calendars import boundaries
from core.cron import WEEKDAYS, Schedule, Values
from core.errors import InvalidInputError
from core.model import plan
from core.model.node_pool import Budget, NodePool
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.model.values.taints import DISRUPTED
from core.reasons.code import BUDGETED, NAMED_BY_BUDGETS, TerminationReason

_NODES: Final = re.compile(r"(100|\d{1,2})%|(\d+)")

UNNAMED: Final = (TerminationReason.EXPIRED, TerminationReason.SCHEDULED_CHANGE, TerminationReason.OUTSIDE_HOURS)
"""Reasons that budgets limit although they cannot name them."""

_DEFAULT: Final = Budget("10%")

Remaining = dict[str, dict[str, int | None]]
"""Pool → reason → how many more nodes may go; None for no limit."""


def is_active(budget: Budget, now: datetime) -> bool:
    """Whether the budget is in force: a window includes its start and excludes its end.

    Raises:
        InvalidInputError: If the schedule cannot be read, or only one of schedule and duration is set.
    """
    window = _window(budget)
    if window is None:
        return True
    schedule, duration = window
    hit = schedule.next_after(now - duration)
    return hit is not None and hit <= now


def next_edge(budgets: Iterable[Budget], now: datetime) -> datetime | None:
    """Return when a window of these budgets next opens or closes; None where none ever does.

    Unreadable budgets have no edge: one of them closes its pool at every moment.
    """
    return min((edge for budget in budgets if (edge := _edge(budget, now)) is not None), default=None)


def _edge(budget: Budget, now: datetime) -> datetime | None:
    try:
        window = _window(budget)
    except InvalidInputError:
        return None
    if window is None:
        return None
    schedule, duration = window
    hit = schedule.next_after(now - duration)
    return hit if hit is None or hit > now else hit + duration


def _window(budget: Budget) -> tuple[Schedule, timedelta] | None:
    """When the budget is in force, None for one that always is."""
    if budget.schedule is None and budget.duration is None:
        return None
    if budget.schedule is None or budget.duration is None:
        raise InvalidInputError("a budget has schedule and duration together or neither")
    return Schedule.parse(budget.schedule), budget.duration


def limit(budget: Budget, nodes: int) -> int:
    """Return how many of `nodes` the budget allows, whatever the time.

    Raises:
        InvalidInputError: If `nodes` is neither a number nor a percentage up to 100%.
    """
    match = _NODES.fullmatch(budget.nodes)
    if match is None:
        raise InvalidInputError(f"{budget.nodes!r} is neither a number nor a percentage", field="nodes")
    percent, number = match.groups()
    return int(number) if percent is None else -(-nodes * int(percent) // 100)


def concerns(budget: Budget, reason: str) -> bool:
    """Whether the budget limits nodes that go for this reason: it names the reason, or no reason at all."""
    return budget.reasons is None or reason in budget.reasons


def allowed(pool: NodePool, nodes: int, reason: str, now: datetime) -> int | None:
    """Return how many of the pool's `nodes` may be gone at once for `reason`; None for no limit.

    Budgets cannot name expiry and maintenance (Karpenter). For them the budgets that name no reason count; where there are
    none, the limit is that of the most permissive reason, so that a NodePool that only forbids consolidation does not keep its
    nodes indefinitely. An unlimited reason counts as the default budget there, so a fleet of one age is not replaced at once.
    """
    named = _named(pool, nodes, reason, now)
    if named is not None or reason not in UNNAMED or not pool.disruption.budgets:
        return named
    others = (_named(pool, nodes, other, now) for other in BUDGETED)
    return max(limit(_DEFAULT, nodes) if top is None else top for top in others)


def _named(pool: NodePool, nodes: int, reason: str, now: datetime) -> int | None:
    lowest: int | None = None
    try:
        for budget in pool.disruption.budgets:
            value = limit(budget, nodes) if is_active(budget, now) else None
            if concerns(budget, reason) and value is not None and (lowest is None or value < lowest):
                lowest = value
    except InvalidInputError:
        return 0
    return lowest


def unreadable(pool: NodePool) -> str:
    """Return the problem of the first unreadable budget, which closes the pool; empty if all are readable."""
    for index, budget in enumerate(pool.disruption.budgets):
        try:
            limit(budget, 0)
            _window(budget)
        except InvalidInputError as error:
            return f"spec.disruption.budgets[{index}]: {error.problem}"
    return ""


def remaining(snapshot: Snapshot, states: Iterable[StateNode]) -> Remaining:
    """Return how many more nodes of each pool may go now, after those that are away already.

    A node that is not Ready is away for every reason but Unhealthy (Karpenter).
    """
    states = tuple(states)
    away, leaving = _counted(snapshot, states), _counted(snapshot, states, ready_only=False)
    result: Remaining = {}
    for pool in sorted(snapshot.node_pools, key=lambda p: p.name):
        by_reason: dict[str, int | None] = {}
        for reason in NAMED_BY_BUDGETS:
            nodes = (leaving if reason == TerminationReason.UNHEALTHY else away).get(pool.name, ())
            top = allowed(pool, len(nodes), reason, snapshot.now)
            by_reason[reason] = None if top is None else max(0, top - sum(is_going for _, _, is_going in nodes))
        result[pool.name] = by_reason
    return result


def places(
    snapshot: Snapshot, states: Iterable[StateNode], reasons: Iterable[str], holding: Collection[str]
) -> dict[str, int]:
    """Return how many claims of each pool may hold a place in its count of leaving nodes.

    See docs/engineering/handbook/draining.md.

    Args:
        snapshot: The cluster at one moment.
        states: Its nodes.
        reasons: Why nodes are to go; the most restrictive reason decides.
        holding: Names of the claims that held a place at that moment.

    Returns:
        Pool → the bound of its counter: what its budgets allow, less the nodes that hold no place and go or, for any
        reason but Unhealthy, are not Ready; pools without any limit are missing.
    """
    if snapshot.options.ignore_budgets:
        return {}
    wanted = sorted(set(reasons))
    counted = _counted(snapshot, states, ready_only=wanted != [TerminationReason.UNHEALTHY])
    result: dict[str, int] = {}
    for pool in sorted(snapshot.node_pools, key=lambda p: p.name):
        nodes = counted.get(pool.name, ())
        tops = [top for r in wanted if (top := allowed(pool, len(nodes), r, snapshot.now)) is not None]
        if tops:
            result[pool.name] = min(tops) - sum(is_going and claim not in holding for claim, _, is_going in nodes)
    return result


def counted_nodes(snapshot: Snapshot, states: Iterable[StateNode]) -> dict[str, int]:
    """Return pool → number of nodes to which its budgets apply."""
    return {pool: len(nodes) for pool, nodes in sorted(_counted(snapshot, states).items())}


def going_nodes(snapshot: Snapshot, states: Iterable[StateNode], reason: str) -> dict[str, list[str]]:
    """Return pool → names of the nodes that use up a place: they are leaving or, for any reason but Unhealthy, not Ready."""
    counted = sorted(_counted(snapshot, states, ready_only=reason != TerminationReason.UNHEALTHY).items())
    return {pool: sorted(node for _, node, is_going in nodes if is_going) for pool, nodes in counted}


def _counted(
    snapshot: Snapshot, states: Iterable[StateNode], *, ready_only: bool = True
) -> dict[str, list[tuple[str, str, bool]]]:
    """Return pool → the nodes to which its budgets apply: claim, node, and whether it is away.

    With `ready_only`, a node that is not Ready is away like one that is leaving. The budgets for repair do not count it:
    nodes that wait for repair would use up what the first of them needs.
    """
    by_pool: dict[str, list[tuple[str, str, bool]]] = {}
    for state in states:
        claim = state.claim
        is_counted = state.is_initialized or state.is_rebooting
        if claim is None or not is_counted or claim.is_true(plan.INSTANCE_TERMINATING):
            continue
        is_unready = ready_only and state.node is not None and not state.node.is_ready
        by_pool.setdefault(state.node_pool, []).append(
            (claim.name, state.name, is_unready or _is_going(state, snapshot))
        )
    return by_pool


def _is_going(state: StateNode, snapshot: Snapshot) -> bool:
    """Whether the node is leaving or rebooting. Its taint alone is enough: the claim in a restored table may be out of date."""
    is_tainted = state.node is not None and DISRUPTED in state.node.taints
    return is_tainted or state.is_rebooting or state.is_marked_for_deletion(snapshot)


class RemainingBudgets:
    """Tracks the remaining budgets of a plan: a leaving node counts against the budgets of every reason."""

    def __init__(self, nodes_left: Mapping[str, Mapping[str, int | None]], *, ignored: bool = False) -> None:
        self._left = {} if ignored else {pool: dict(by_reason) for pool, by_reason in nodes_left.items()}

    def copy(self) -> RemainingBudgets:
        """Return an independent copy."""
        return RemainingBudgets(self._left)

    def left(self, pool: str, reason: str) -> int | None:
        """Return how many more nodes of the pool may go for this reason; None for any number."""
        return self._left.get(pool, {}).get(reason)

    def allows(self, pool: str, reason: str, nodes: int = 1) -> bool:
        """Whether that many more nodes of the pool may go for this reason."""
        nodes_left = self.left(pool, reason)
        return nodes_left is None or nodes_left >= nodes

    def take(self, pool: str, reasons: Collection[str] = NAMED_BY_BUDGETS) -> None:
        """Count one node of the pool as going, against the budgets of these reasons."""
        by_reason = self._left.get(pool, {})
        for reason, nodes_left in by_reason.items():
            if nodes_left is not None and reason in reasons:
                by_reason[reason] = max(0, nodes_left - 1)


# Finds when a NodePool's budgets next allow a different number of nodes: the next edge of a window that counts.


EDGES_MAX: Final = 200
"""The most window edges that are checked: more than a week of a window that opens each hour and changes nothing."""


class BudgetChange(msgspec.Struct, frozen=True):
    """What the budgets allow from a moment on, leaving nodes not subtracted: reason → nodes, None for any number."""

    at: datetime
    allowed: dict[str, int | None]


def next_change(pool: NodePool, nodes: int, now: datetime) -> BudgetChange | None:
    """Return the next change for a pool of this size; None where no window changes anything, or a budget cannot be read."""
    before, moment = _allowed(pool, nodes, now), now
    for _ in range(EDGES_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None:
            return None
        after = _allowed(pool, nodes, edge)
        if after != before:
            return BudgetChange(edge, after)
        moment = edge
    return None


def _allowed(pool: NodePool, nodes: int, now: datetime) -> dict[str, int | None]:
    return {reason: allowed(pool, nodes, reason, now) for reason in NAMED_BY_BUDGETS}


# Expresses the openings and closings of budget windows, at which disruption may begin or end, for EventBridge Scheduler.
#
# EventBridge's cron has six fields, requires `?` in one of its day fields, and names weekdays; times are UTC.


PROLONGED_MAX: Final = 1500
"""The most starts that prolong one window: one each minute for a day. The end of a longer window is found when it is nearer."""

_MINUTE: Final = timedelta(minutes=1)
_MINUTES_A_DAY: Final = 24 * 60


CALENDAR_AHEAD: Final = timedelta(days=2)
"""How far ahead calendars' boundaries become schedules; `reconcile` renews them every few minutes."""

CALENDAR_SCHEDULES_MAX: Final = 50
"""The most schedules of calendars: the nearest boundaries."""


def all_schedules(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the schedules of budget windows, and one `at(…)` in UTC for each of the next boundaries of calendars.

    A recurring schedule in the rule's zone could express neither excepted dates nor lead times, and EventBridge Scheduler
    leaves out a local time that does not exist. A moment is right whatever the zone's clocks do.
    """
    moments = boundaries(snapshot, snapshot.now + CALENDAR_AHEAD, at_most=CALENDAR_SCHEDULES_MAX)
    schedules = dict(window_schedules(snapshot.node_pools, snapshot.now))
    for moment in moments:
        rounded_up = moment if not moment.microsecond else moment + timedelta(seconds=1)
        expression = f"at({rounded_up:%Y-%m-%dT%H:%M:%S})"
        schedules[_name(expression)] = expression
    return schedules


def window_schedules(node_pools: Iterable[NodePool], now: datetime) -> Mapping[str, str]:
    """Return name → expression for every moment at which a window opens or closes; names follow from the expressions alone.

    A window's end recurs like its start, shifted by the duration, if cron can express that. If not (the shift crosses a day
    that the schedule restricts), the end of the window that is open or opens next is a single `at(...)`; call again after it.
    Unreadable budgets have no windows: their pools are closed.
    """
    expressions: set[str] = set()
    for pool in node_pools:
        for budget in pool.disruption.budgets:
            if budget.schedule is None or budget.duration is None:
                continue
            try:
                schedule = Schedule.parse(budget.schedule)
            except InvalidInputError:
                continue
            expressions.update(_expressions(schedule, timedelta(0), now))
            expressions.update(_expressions(schedule, budget.duration, now))
    return {_name(expression): expression for expression in sorted(expressions)}


def _name(expression: str) -> str:
    return f"budget-window-{hashlib.sha256(expression.encode()).hexdigest()[:24]}"


def _expressions(schedule: Schedule, shift: timedelta, now: datetime) -> Iterator[str]:
    """Return the schedule's moments, each later by `shift`."""
    times = _shifted_times(schedule, shift)
    picks_dates = schedule.days is not None or schedule.months is not None
    if shift % _MINUTE or (picks_dates and any(days for days, _, _ in times)):
        yield from _next_end(schedule, shift, now)
        return
    months = _listed(schedule.months)
    for days, minutes, hours in times:
        time = f"{_listed(minutes)} {_listed(hours)}"
        if schedule.days is not None or schedule.weekdays is None:
            yield f"cron({time} {_listed(schedule.days)} {months} ? *)"
        if schedule.weekdays is not None:
            weekdays = sorted((weekday + days) % 7 for weekday in schedule.weekdays)
            yield f"cron({time} ? {months} {','.join(WEEKDAYS[weekday].upper() for weekday in weekdays)} *)"


def _shifted_times(schedule: Schedule, shift: timedelta) -> list[tuple[int, Values, Values]]:
    """Return the times of day later by `shift`, in as few groups (days carried, minutes, hours) as lists can express."""
    later = shift // _MINUTE
    is_daily = schedule.days is None and schedule.months is None and schedule.weekdays is None
    if is_daily and schedule.hours is None and later % 60 == 0:
        return [(0, schedule.minutes, None)]
    hours_by_minute: dict[tuple[int, int], list[int]] = {}
    for hour in range(24) if schedule.hours is None else schedule.hours:
        for minute in range(60) if schedule.minutes is None else schedule.minutes:
            days, rest = divmod(hour * 60 + minute + later, _MINUTES_A_DAY)
            hours_by_minute.setdefault((0 if is_daily else days, rest % 60), []).append(rest // 60)
    minutes_by_hours: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for (days, minute), hours in sorted(hours_by_minute.items()):
        minutes_by_hours.setdefault((days, tuple(sorted(set(hours)))), []).append(minute)
    return [(days, tuple(minutes), hours) for (days, hours), minutes in sorted(minutes_by_hours.items())]


def _next_end(schedule: Schedule, shift: timedelta, now: datetime) -> Iterator[str]:
    """Return when the window that is open or opens next ends: a start before its end prolongs it."""
    start = schedule.next_after(now - shift)
    if start is None:
        return
    for _ in range(PROLONGED_MAX):
        later = schedule.next_after(start)
        if later is None or later - start > shift:
            break
        start = later
    yield f"at({start + shift:%Y-%m-%dT%H:%M:%S})"


def _listed(values: Values) -> str:
    """Return the values in cron notation, runs of three and more as ranges: EventBridge limits expressions to 256 signs."""
    if values is None:
        return "*"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
