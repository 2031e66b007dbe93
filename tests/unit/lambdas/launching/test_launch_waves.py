"""Many launches at once, and the result of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from core.lifecycle.records import ClaimPhase
from lambdas.ports import DeniedError, JsonObject, TransientError
from lambdas.side_by_side import Task, TaskRunners, in_turn
from tests.fakes.lab import Lab, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(6)))
    return lab


def runs(lab: Lab) -> list[int]:
    """How many launches run at once, wave by wave."""
    found: list[int] = []

    def noted(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        found.append(len(tasks))
        return in_turn(tasks, patience)

    lab.app.adapters.run_tasks = TaskRunners(in_turn, noted)
    return found


def test_the_first_launch_of_a_class_goes_ahead_and_the_others_follow_at_once(lab: Lab) -> None:
    """Otherwise, thirty launches at once are denied thirty times."""
    found = runs(lab)
    lab.provision()
    assert found == [1, 5]
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}


def test_a_launch_denied_to_the_first_is_not_tried_by_the_others(lab: Lab) -> None:
    asked: list[str] = []

    def deny(_: str) -> None:
        asked.append("launch")
        raise DeniedError("ec2:CreateFleet", "UnauthorizedOperation: no", code="UnauthorizedOperation")

    lab.cloud.before_call = lambda call: deny(call) if call == "launch" else None
    lab.provision()
    assert asked == ["launch"]
    assert lab.claims == ()
    ((_, denial),) = lab.rows.denials.items()
    assert denial.is_engaged


def test_a_launch_that_does_not_end_in_time_is_left_to_another_run(lab: Lab) -> None:
    """Its instance may exist; a claim without follow-up would lose it."""

    def hang(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        in_turn(tasks[:-1], patience)
        return (*(True for _ in tasks[:-1]), False)

    lab.app.adapters.run_tasks = TaskRunners(in_turn, hang)
    report = lab.provision()
    assert report.counts["unfinishedLaunches"] == 2
    messages: list[JsonObject] = lab.work.take()
    assert all(claim.name in str(messages) for claim in lab.claims)


def test_a_failing_launch_affects_no_other(lab: Lab) -> None:
    left = [TransientError("ec2:CreateFleet", "503")]

    def fail_once(call: str) -> None:
        if call == "launch" and left:
            raise left.pop()

    lab.cloud.before_call = fail_once
    lab.provision()
    assert sorted(claim.phase for claim in lab.claims) == [ClaimPhase.LAUNCHED] * 5 + [ClaimPhase.REQUESTED]
