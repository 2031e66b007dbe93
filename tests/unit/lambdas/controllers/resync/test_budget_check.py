"""Whether budgets let any node go is known from NodePools and claims alone; nothing else is listed for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.disruption.budgets.budget_openings import AHEAD
from core.lifecycle.records import ClaimPhase, ClaimRecord
from lambdas.controllers.resync.budget_check import BudgetCheck
from tests.builders import NOW
from tests.fakes.lab import SETTINGS, a_node_pool
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

CLOSED = {"nodes": "0"}


class World:
    """NodePools, and the check of one sandbox."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock(NOW)
        self.kubernetes = FakeKubernetes(self.clock)
        self.check = BudgetCheck(self.kubernetes, msgspec.structs.replace(SETTINGS, **settings), self.clock)

    def budgets(self, *budgets: dict[str, Any], after: str = "0s") -> None:
        self.kubernetes.put(a_node_pool(disruption={"consolidateAfter": after, "budgets": list(budgets)}))


def claims(count: int, **changes: Any) -> list[ClaimRecord]:
    return [msgspec.structs.replace(a_record(**changes), name=f"c{number}") for number in range(count)]


@pytest.fixture
def world() -> World:
    return World()


def test_closed_budgets_need_no_run_and_open_ones_do(world: World) -> None:
    for budget, needs in ((CLOSED, False), ({"nodes": "1"}, True), (CLOSED, False)):
        world.budgets(budget)
        assert world.check.needs_run(claims(1)) is needs
        assert world.check.are_closed is not needs


def test_nothing_but_node_pools_is_listed(world: World) -> None:
    calls: list[str] = []
    world.budgets(CLOSED)
    world.kubernetes.before_call = calls.append
    world.check.needs_run(claims(1))
    assert calls == ["list nodepools"]


@pytest.mark.parametrize(
    ("going", "needs"),
    [
        ([], True),
        ([a_record(is_disrupting=True)], False),
        ([msgspec.structs.replace(a_leaving(), is_disrupting=True)], False),
        ([msgspec.structs.replace(a_leaving(), is_disrupting=False)], True),
        ([msgspec.structs.replace(a_leaving(terminated_at=NOW), is_disrupting=True)], True),
        ([a_record(ClaimPhase.REGISTERED, is_disrupting=True)], True),
        ([a_record(plan=a_plan(node_pool="other"), is_disrupting=True)], True),
    ],
    ids=["none", "by command", "leaving", "leaving uncounted", "terminated", "never initialized", "of another pool"],
)
def test_a_node_that_goes_takes_the_place_of_another(world: World, going: list[ClaimRecord], *, needs: bool) -> None:
    world.budgets({"nodes": "1"})
    assert world.check.needs_run([*claims(1), *going]) is needs


def test_shares_count_initialized_nodes_only(world: World) -> None:
    """Ten per cent of nine nodes is one, rounded up; of none it is none."""
    world.budgets({"nodes": "10%"})
    assert not world.check.needs_run(claims(9, phase=ClaimPhase.REGISTERED))
    assert world.check.needs_run(claims(9))


@pytest.mark.parametrize(("gates", "needs"), [("NodeRepair=true", True), ("NodeRepair=false", False)])
def test_a_budget_for_repair_counts_if_nodes_are_repaired(gates: str, *, needs: bool) -> None:
    """A budget without reasons is for all of them; the voluntary ones are closed here."""
    world = World(feature_gates=gates)
    world.budgets({"nodes": "0", "reasons": ["Empty", "Drifted", "Underutilized"]})
    assert world.check.needs_run(claims(1)) is needs


@pytest.mark.parametrize(("before", "needs"), [(timedelta(seconds=1), False), (timedelta(0), True)])
def test_a_window_that_opens_soon_needs_runs_before_it(before: timedelta, *, needs: bool) -> None:
    """ConsolidateAfter counts from the pods that a pass has seen."""
    world = World()
    world.budgets({"nodes": "0", "schedule": "0 0 * * *", "duration": "10h"}, after="1h")
    world.clock.advance(seconds=(timedelta(hours=9) - AHEAD - before).total_seconds())
    assert world.check.needs_run(claims(1)) is needs


def test_the_node_pools_of_a_pass_say_whether_the_next_run_must_ask(world: World) -> None:
    assert not world.check.are_closed
    world.check.note((), claims(1))
    assert world.check.are_closed
