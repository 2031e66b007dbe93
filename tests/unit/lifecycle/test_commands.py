"""When nodes go that a scheduled change ends: spread over time, and before their date."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.lifecycle import steps
from core.lifecycle.commands import (
    BEGINS_BEFORE,
    DUE_BEFORE,
    REPLACEMENTS_RECHECKED,
    SPREAD,
    STALE_AFTER,
    VERIFY_AFTER,
    approaching,
    begins_at,
    first_check_at,
    is_due,
    names_of_replacements,
    next_command_step,
    time_limit,
)
from core.lifecycle.records import ClaimPhase, CommandPhase, Deletion
from core.lifecycle.steps import CommandFacts
from core.model.plan import Command, Hold
from tests.builders import NOW, a_stored_target
from tests.unit.lifecycle.records_for_tests import a_command, a_leaving, a_plan, a_record

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
CANDIDATE = {"c": a_record()}


def test_a_command_waits_for_its_validation() -> None:
    """Karpenter's 15 seconds: pods that were about to be bound are visible then."""
    step = next_command_step(a_command(age=5 * SECOND), CommandFacts(claims=CANDIDATE), NOW)
    assert isinstance(step, steps.Wait)
    assert step.delay == 10 * SECOND
    assert next_command_step(a_command(age=15 * SECOND), CommandFacts(claims=CANDIDATE), NOW) == steps.Verify()


@pytest.mark.parametrize(
    ("reason", "node", "age", "wait"),
    [
        ("Drifted", "other", None, 0 * SECOND),
        ("Underutilized", "n", None, VERIFY_AFTER),
        ("Underutilized", "n", 4 * SECOND, VERIFY_AFTER - 4 * SECOND),
        ("Underutilized", "n", MINUTE, 0 * SECOND),
        ("Underutilized", "other", MINUTE, VERIFY_AFTER),
    ],
)
def test_a_wave_of_a_target_that_stands_does_not_wait_again(
    reason: str, node: str, age: timedelta | None, wait: timedelta
) -> None:
    command = Command(reason=reason, method="repack", nodes=(node,), claims=("c",))
    continued = age and a_stored_target("n", made_at=NOW - age)
    assert first_check_at(command, continued or None, NOW) == NOW + wait


def test_an_outdated_command_is_dropped() -> None:
    step = next_command_step(a_command(age=6 * MINUTE), CommandFacts(claims=CANDIDATE), NOW)
    assert isinstance(step, steps.Abandon)
    assert step.reason == "Stale"


@pytest.mark.parametrize(("over", "is_over"), [(timedelta(0), False), (timedelta(microseconds=1), True)])
def test_a_limit_is_over_after_its_moment(over: timedelta, is_over: bool) -> None:
    facts = CommandFacts(claims=CANDIDATE)
    assert isinstance(next_command_step(a_command(age=STALE_AFTER + over), facts, NOW), steps.Abandon) == is_over
    ahead = next_command_step(a_command(age=-STALE_AFTER - over), facts, NOW)
    assert isinstance(ahead, steps.Abandon) == is_over
    late = a_command(CommandPhase.STARTING, age=time_limit(0) + over)
    assert isinstance(next_command_step(late, facts, NOW), steps.Abandon) == is_over


def test_a_command_for_nodes_that_are_gone_does_nothing() -> None:
    step = next_command_step(a_command(CommandPhase.REPLACING), CommandFacts(), NOW)
    assert isinstance(step, steps.Abandon)
    assert step.reason == "CandidatesGone"


def test_candidates_stay_until_every_replacement_is_initialized() -> None:
    """Otherwise, pods lose their node before the next one can take them."""
    record = a_command(CommandPhase.REPLACING, replacements=("r",))
    facts = CommandFacts(claims={**CANDIDATE, "r": a_record(ClaimPhase.REGISTERED)})
    step = next_command_step(record, facts, NOW)
    assert isinstance(step, steps.Wait)
    assert (
        step.delay >= REPLACEMENTS_RECHECKED == 5 * SECOND
    )  # a dozen commands read the table 700 times a minute (seed 177)
    facts = CommandFacts(claims={**CANDIDATE, "r": a_record(ClaimPhase.INITIALIZED)})
    assert next_command_step(record, facts, NOW) == steps.RemoveCandidates(("c",))


def test_a_node_is_drained_as_soon_as_the_new_nodes_of_its_own_pods_are_ready() -> None:
    """Otherwise, one slow instance keeps all nodes of a wave running."""
    command = a_command(CommandPhase.REPLACING).command
    planned = tuple(a_plan(name=name) for name in ("x", "y"))
    awaits = {"n": ("x",), "m": ("x", "y")}
    command = msgspec.structs.replace(command, nodes=("n", "m"), claims=("c", "d"), replacements=planned, awaits=awaits)
    record = a_command(CommandPhase.REPLACING, command=command, replacements=("r-0", "r-1"))
    claims = {"c": a_record(), "d": a_record(), "r-0": a_record(ClaimPhase.REGISTERED), "r-1": a_record()}
    assert isinstance(next_command_step(record, CommandFacts(claims=claims), NOW), steps.Wait)
    claims |= {"r-0": a_record(), "r-1": a_record(ClaimPhase.REGISTERED)}
    assert next_command_step(record, CommandFacts(claims=claims), NOW) == steps.RemoveCandidates(("c",), is_last=False)
    claims |= {"c": a_leaving()}
    assert isinstance(next_command_step(record, CommandFacts(claims=claims), NOW), steps.Wait)
    claims |= {"r-1": a_record()}
    assert next_command_step(record, CommandFacts(claims=claims), NOW) == steps.RemoveCandidates(("c", "d"))


def test_nodes_that_do_not_wait_for_a_lost_replacement_leave_all_the_same() -> None:
    """Otherwise, one machine that EC2 does not have keeps every node that goes with it, and the new nodes of the others go."""
    planned, awaits = (a_plan(name="p-0"), a_plan(name="p-1")), {"n": ("p-0",), "m": ("p-0", "p-1")}
    command = a_command().command
    command = msgspec.structs.replace(command, nodes=("n", "m"), claims=("c", "d"), replacements=planned, awaits=awaits)
    record = a_command(CommandPhase.REPLACING, command=command, replacements=("r-0", "r-1"))
    claims = {"c": a_record(), "d": a_record(), "r-0": a_record(ClaimPhase.REGISTERED)}
    assert isinstance(next_command_step(record, CommandFacts(claims=claims), NOW), steps.Wait)
    claims |= {"r-0": a_record()}
    assert next_command_step(record, CommandFacts(claims=claims), NOW) == steps.RemoveCandidates(("c",), is_last=False)
    claims |= {"c": a_leaving()}
    step = next_command_step(record, CommandFacts(claims=claims), NOW)
    assert isinstance(step, steps.Abandon)
    assert step.reason == "ReplacementLost"


@pytest.mark.parametrize("replacement", [None, a_record(deletion=Deletion(reason="InstanceGone", asked_at=NOW))])
def test_a_lost_replacement_ends_the_command(replacement: object) -> None:
    claims = CANDIDATE | ({"r": replacement} if replacement else {})
    step = next_command_step(a_command(CommandPhase.REPLACING, replacements=("r",)), CommandFacts(claims=claims), NOW)
    assert isinstance(step, steps.Abandon)
    assert step.reason == "ReplacementLost"


def test_a_command_without_replacements_starts_at_once() -> None:
    step = next_command_step(a_command(CommandPhase.REPLACING), CommandFacts(claims=CANDIDATE), NOW)
    assert step == steps.RemoveCandidates(("c",))


def test_a_replacement_keeps_its_name_if_the_command_loses_others() -> None:
    """The stored target places pods of later waves on it by that name; it was numbered by its position in the command."""
    claims = tuple(msgspec.structs.replace(a_plan(), name=f"default-{number}") for number in (3, 7))
    command = Command(reason="Drifted", method="drift", nodes=("n",), claims=("c",), replacements=claims)
    assert names_of_replacements("abc", command) == ("default-abc-3", "default-abc-7")
    rest = msgspec.structs.replace(command, replacements=claims[1:])
    assert names_of_replacements("abc", rest) == ("default-abc-7",)


def test_replacements_have_ten_minutes_and_long_queues_up_to_an_hour() -> None:
    assert time_limit(1) == 10 * MINUTE
    assert time_limit(15_000) == 20 * MINUTE
    assert time_limit(1_000_000) == 60 * MINUTE
    record = a_command(CommandPhase.REPLACING, age=11 * MINUTE, replacements=("r",))
    step = next_command_step(record, CommandFacts(claims={**CANDIDATE, "r": a_record(ClaimPhase.LAUNCHED)}), NOW)
    assert isinstance(step, steps.Abandon)
    assert step.reason == "Timeout"


def test_a_command_of_a_clock_that_is_ahead_blocks_its_nodes_no_longer_than_others() -> None:
    """It would be validated when that moment comes, hours later; until then, its nodes would be in no other command."""
    for ahead, expected in ((2 * SECOND, steps.Wait), (180 * MINUTE, steps.Abandon)):
        record = a_command(age=-ahead)
        assert isinstance(next_command_step(record, CommandFacts(claims=CANDIDATE), NOW), expected)


# When nodes go that a scheduled change ends: spread over time, and before their date.


HOUR = timedelta(hours=1)
NEAR = NOW + BEGINS_BEFORE - SPREAD
"""A date for which every claim may go now."""


def going(reason: str) -> Deletion:
    return Deletion(reason=reason, asked_at=NOW)


@given(name=st.text(max_size=40), days=st.integers(0, 30))
def test_each_claim_begins_within_the_spread_and_long_before_it_must(name: str, days: int) -> None:
    date = NOW + timedelta(days=days)
    assert date - BEGINS_BEFORE <= begins_at(name, date) < date - BEGINS_BEFORE + SPREAD < date - DUE_BEFORE


def test_claims_of_one_date_start_at_different_times() -> None:
    assert len({begins_at(f"claim-{number}", NOW) for number in range(100)}) == 100


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"retires_at": NEAR}, ("c",)),
        ({"retires_at": NOW + timedelta(days=14)}, ()),
        ({"retires_at": None}, ()),
        ({"retires_at": NOW + DUE_BEFORE}, ()),
        ({"retires_at": NEAR, "deletion": going("Empty")}, ()),
        ({"retires_at": NEAR, "hold": Hold(NOW + HOUR, "DrainBlocked", "")}, ()),
        ({"retires_at": NEAR, "hold": Hold(NOW, "DrainBlocked", "")}, ("c",)),
    ],
)
def test_claims_that_may_go_within_budgets(changes: dict[str, object], expected: tuple[str, ...]) -> None:
    assert approaching((a_record(**changes),), (), NOW) == expected


def test_the_window_begins_with_its_first_moment_and_ends_before_its_last() -> None:
    record, tick = a_record(retires_at=NEAR), timedelta(microseconds=1)
    first = begins_at("c", NEAR)
    found = [
        bool(approaching((record,), (), at))
        for at in (first - tick, first, NEAR - DUE_BEFORE - tick, NEAR - DUE_BEFORE)
    ]
    assert found == [False, True, True, False]
    assert [is_due(record, at) for at in (NEAR - DUE_BEFORE - tick, NEAR - DUE_BEFORE)] == [False, True]


def test_a_claim_of_a_command_goes_with_the_command() -> None:
    assert approaching((a_record(retires_at=NEAR),), ("c",), NOW) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"retires_at": NOW + DUE_BEFORE}, True),
        ({"retires_at": NOW - HOUR}, True),
        ({"retires_at": NOW + DUE_BEFORE + timedelta(seconds=1)}, False),
        ({"retires_at": None}, False),
        ({"retires_at": NOW, "deletion": going("ScheduledChange")}, True),
        ({"retires_at": NOW, "deletion": going("SpotInterrupted")}, False),
    ],
)
def test_claims_that_must_go(changes: dict[str, object], expected: bool) -> None:
    """This includes voluntary disruptions: brakes stop those, and pods may block them."""
    assert is_due(a_record(**changes), NOW) == expected
