"""Which brake may stop a claim's next step: a wrong answer ends a node under a brake, or leaves one half drained."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from core.brakes.brake import Action
from core.brakes.steps import action_of_step
from core.lifecycle import steps
from core.lifecycle.records import ClaimRecord
from core.reasons.termination import TerminationReason
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_leaving, a_record

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
