"""When a NodePool's breaker opens, tries again and closes."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.brakes import Action, BrakeKind
from core.breakers import (
    FIRST_PAUSE,
    FORGOTTEN_AFTER,
    LONGEST_PAUSE,
    OPENS_AFTER,
    Breaker,
    action_of_step,
    one_at_a_time,
)
from core.lifecycle import steps
from core.lifecycle.records import ClaimRecord
from core.model.plan import Command
from core.reasons.code import TerminationReason
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_leaving, a_record

CLOSED = Breaker(node_pool="a")


def failing(breaker: Breaker, times: int) -> Breaker:
    for _ in range(times):
        breaker = breaker.after_failure("did not join", NOW)
    return breaker


def test_it_opens_after_some_failures_in_a_row_and_not_before() -> None:
    assert failing(CLOSED, OPENS_AFTER - 1).brake(NOW) is None
    brake = failing(CLOSED, OPENS_AFTER).brake(NOW)
    assert brake is not None
    assert (brake.kind, brake.node_pool) == (BrakeKind.POOL_BREAKER, "a")


def test_three_failures_open_it() -> None:
    """One broken machine is chance."""
    assert failing(CLOSED, 2).brake(NOW) is None
    assert failing(CLOSED, 3).brake(NOW) is not None


def test_no_more_than_four_results_are_kept() -> None:
    """An older failure says nothing about today's image."""
    breaker = failing(CLOSED, 2).after_success().after_success()
    assert breaker.registers is False
    assert breaker.after_success().registers is True
    assert len(breaker.after_success().results) == 4


def test_when_the_pause_is_over_it_is_half_open() -> None:
    opened = failing(CLOSED, OPENS_AFTER)
    later = opened.brake(NOW + FIRST_PAUSE)
    assert later is not None
    assert later.kind is BrakeKind.POOL_PROBE


def test_one_failure_of_the_probe_opens_it_for_twice_as_long() -> None:
    opened = failing(CLOSED, OPENS_AFTER)
    again = opened.after_failure("did not join", NOW + FIRST_PAUSE)
    assert again.open_until == NOW + FIRST_PAUSE + 2 * FIRST_PAUSE
    assert again.openings == 2


def test_late_news_of_the_same_cause_does_not_prolong_the_pause() -> None:
    opened = failing(CLOSED, OPENS_AFTER)
    assert failing(opened, 20).open_until == opened.open_until


@given(st.lists(st.integers(min_value=0, max_value=10_000), max_size=40))
def test_no_pause_is_longer_than_the_longest(waits: list[int]) -> None:
    breaker, now = CLOSED, NOW
    for minutes in waits:
        now += timedelta(minutes=minutes)
        breaker = breaker.after_failure("did not join", now)
        assert breaker.open_until is None or breaker.open_until - now <= LONGEST_PAUSE


@given(st.lists(st.booleans(), max_size=12))
def test_registration_health_depends_on_the_last_four_results(results: list[bool]) -> None:
    """Two failures of four are too many, and one success is better than no result (Karpenter)."""
    breaker = CLOSED
    for joined in results:
        breaker = breaker.after_success() if joined else breaker.after_failure("did not join", NOW)
    last = results[-4:]
    expected = False if last.count(False) >= 2 else True if any(last) else None
    assert breaker.registers is expected
    assert breaker.at("2/1").registers is expected
    assert breaker.at("1/1").at("2/1").registers is None


def test_nodes_that_join_one_after_another_change_nothing_more() -> None:
    """Otherwise, a thousand nodes that join together all write one row."""
    breaker = CLOSED
    for _ in range(4):
        breaker = breaker.after_success()
    assert breaker.after_success() == breaker


def test_failures_a_day_apart_are_not_consecutive() -> None:
    later = failing(CLOSED, OPENS_AFTER - 1).after_failure("did not join", NOW + FORGOTTEN_AFTER)
    assert later.brake(NOW + FORGOTTEN_AFTER) is None
    assert later.failures == 1
    assert failing(CLOSED, OPENS_AFTER).brake(NOW + FIRST_PAUSE + FORGOTTEN_AFTER) is None


def test_the_first_pause_is_as_long_as_a_node_may_take_to_join() -> None:
    """A shorter one would try the next node before the failure of the last is known."""
    opened = failing(CLOSED, OPENS_AFTER)
    quarter = NOW + timedelta(minutes=15)
    kinds = [opened.brake(at).kind for at in (quarter - timedelta(seconds=1), quarter) if opened.brake(at) is not None]
    assert kinds == [BrakeKind.POOL_BREAKER, BrakeKind.POOL_PROBE]


def test_a_success_leaves_nothing_of_failures_but_their_results() -> None:
    """Otherwise, the next failures open it earlier, or for longer, than those of a pool that never failed."""
    again = failing(CLOSED, 2 * OPENS_AFTER).after_success()
    assert again == Breaker(node_pool="a", results=again.results)


def test_pauses_double_up_to_four_hours() -> None:
    breaker, now, pauses = failing(CLOSED, OPENS_AFTER), NOW, []
    for _ in range(6):
        assert breaker.open_until is not None
        pauses.append((breaker.open_until - now) / timedelta(minutes=1))
        now = breaker.open_until
        breaker = breaker.after_failure("did not join", now)
    assert pauses == [15, 30, 60, 120, 240, 240]


def test_an_open_breaker_is_forgotten_a_day_after_its_pause() -> None:
    """A pool that launches nothing for a day is tried as any other."""
    opened = failing(CLOSED, OPENS_AFTER)
    forgotten = NOW + FIRST_PAUSE + timedelta(days=1)
    assert opened.brake(forgotten - timedelta(seconds=1)) is not None
    assert opened.brake(forgotten) is None


def test_the_brake_says_how_many_failed_and_of_what_the_last() -> None:
    brake = failing(CLOSED, 2).after_failure("the role is missing", NOW).brake(NOW)
    assert brake is not None
    assert brake.message.startswith(
        "3 new nodes of NodePool a failed in a row, the last: the role is missing; tried again at"
    )


# A NodePool whose breaker is half open tries one command at a time, the others as many as are decided.


POOLS = {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b"}


def command(*claims: str) -> Command:
    return Command(reason="Underutilized", method="single", nodes=claims, claims=claims)


def begun(*commands: Command, under_way: tuple[Command, ...] = (), probed: tuple[str, ...] = ("a",)) -> list[str]:
    return [found.claims[0] for found in one_at_a_time(commands, under_way, POOLS, probed)]


def test_one_command_of_a_probed_pool_begins_and_all_of_others() -> None:
    assert begun(command("a-1"), command("b-1"), command("a-2"), command("b-2")) == ["a-1", "b-1", "b-2"]


def test_none_begins_while_one_is_under_way() -> None:
    assert begun(command("a-2"), command("b-1"), under_way=(command("a-1"),)) == ["b-1"]


def test_a_command_of_several_pools_takes_the_turn_of_each() -> None:
    both = command("b-1", "a-1")
    assert begun(both, command("a-2"), command("b-2"), probed=("a", "b")) == ["b-1"]
    assert begun(command("a-1"), both, probed=("a", "b")) == ["a-1"]


# Which brake may stop a claim's next step: a wrong answer ends a node under a brake, or leaves one half drained.


TAINT = steps.TaintNode("node-1", {}, {}, ())
DRAIN = steps.Drain((), ())
TERMINATE = steps.TerminateInstance()
REMOVING = (TAINT, DRAIN, TERMINATE)


def leaving(**changes: datetime) -> ClaimRecord:
    record = a_leaving(tainted=None)
    assert record.deletion is not None
    deletion = msgspec.structs.replace(record.deletion, reason=TerminationReason.EXPIRED, **changes)
    return msgspec.structs.replace(record, deletion=deletion)


def test_a_launch_and_the_begin_of_a_removal_have_their_own_actions() -> None:
    assert action_of_step(a_record(), steps.Launch()) is Action.LAUNCH
    begins = steps.BeginTermination(TerminationReason.UNHEALTHY, "")
    assert action_of_step(a_record(), begins) is Action.REPAIR


@pytest.mark.parametrize("step", REMOVING)
def test_what_has_not_begun_is_stopped_by_the_brakes_of_its_reason(step: steps.ClaimStep) -> None:
    assert action_of_step(leaving(), step) is Action.EXPIRE


@pytest.mark.parametrize("began", ["tainted_at", "terminated_at"])
@pytest.mark.parametrize("step", REMOVING)
def test_a_drain_that_has_begun_goes_on_under_all_brakes_but_those_of_drains(step: steps.ClaimStep, began: str) -> None:
    assert action_of_step(leaving(**{began: NOW}), step) is Action.DRAIN


@pytest.mark.parametrize(
    "step", [steps.DeleteNode("node-1"), steps.NoStep(), steps.NoteUsable("node-1"), steps.NoteEmpty("node-1")]
)
def test_steps_that_complete_something_are_never_stopped(step: steps.ClaimStep) -> None:
    assert action_of_step(leaving(), step) is None
    assert action_of_step(a_record(), step) is None
    assert action_of_step(a_record(), TAINT) is None
