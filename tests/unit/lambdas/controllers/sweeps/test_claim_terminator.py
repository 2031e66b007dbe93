"""A sweep ends a claim by its current row, within brakes and budgets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.run_report import RunReport
from core.brakes.brake import Brake, BrakeKind
from core.lifecycle.draining.deletion import leaving
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from tests.fakes.lab import Lab
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend

EXPIRED, GONE, EMPTY = TerminationReason.EXPIRED, TerminationReason.INSTANCE_GONE, TerminationReason.EMPTY


@pytest.fixture
def lab() -> Lab:
    found = a_working_node()
    found.work.take()
    return found


def terminator(lab: Lab) -> ClaimTerminator:
    claims = lab.app.adapters.stores.claims
    return ClaimTerminator(claims, lab.app.shared.claim_deletion, lab.brakes, lab.work, lab.clock)


def reason(lab: Lab) -> str:
    deletion = lab.claim.deletion
    return deletion.reason if deletion is not None else ""


def asked(lab: Lab) -> list[str]:
    return [message["claim"] for message, _ in lab.work.sent]


def leave(lab: Lab, why: TerminationReason) -> None:
    amend(lab, deletion=leaving(lab.claim, why, "", lab.clock.now(), None).deletion)


def test_a_claim_is_stored_as_leaving_and_its_step_requested(lab: Lab) -> None:
    ends_at = lab.clock.now() + timedelta(minutes=3)
    terminator(lab).begin(lab.claim.name, GONE, "it is gone", RunReport(), ends_at=ends_at)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert (deletion.reason, deletion.message, deletion.ends_at) == (GONE, "it is gone", ends_at)
    assert asked(lab) == [lab.claim.name]


def test_a_claim_that_is_gone_is_no_error(lab: Lab) -> None:
    terminator(lab).begin("gone", GONE, "", RunReport())
    assert terminator(lab).begin_within("gone", EXPIRED, "", dict, RunReport())
    assert asked(lab) == []


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        (EMPTY, GONE, GONE),
        (EMPTY, EXPIRED, EMPTY),
        (GONE, EXPIRED, GONE),
        (GONE, TerminationReason.NODE_POOL_DELETED, GONE),
    ],
)
def test_a_claim_that_leaves_is_ended_for_another_reason_only_if_it_might_have_stayed(
    lab: Lab, before: TerminationReason, now: TerminationReason, after: TerminationReason
) -> None:
    leave(lab, before)
    terminator(lab).begin(lab.claim.name, now, "", RunReport())
    assert reason(lab) == after
    assert asked(lab) == ([lab.claim.name] if before != after else [])


@pytest.mark.parametrize(("kind", "why"), [(BrakeKind.POOL_PROBE, EXPIRED), (BrakeKind.STOP, GONE)])
@pytest.mark.parametrize(("pool", "goes"), [("default", False), ("other", True)])
def test_a_brake_of_its_pool_keeps_it(
    lab: Lab, kind: BrakeKind, why: TerminationReason, pool: str, *, goes: bool
) -> None:
    lab.brakes.hold(Brake(kind, "a test", node_pool=pool), lab.clock.now())
    report = RunReport()
    terminator(lab).begin(lab.claim.name, why, "", report)
    assert (reason(lab) == why) == goes
    assert ("skip" in {decision.kind for decision in report.decisions}) != goes


@pytest.mark.parametrize(("places", "goes"), [(0, False), (1, True)])
def test_within_budgets_it_goes_where_there_is_a_place(lab: Lab, places: int, *, goes: bool) -> None:
    ends_at = lab.clock.now() + timedelta(minutes=3)
    name, report = lab.claim.name, RunReport()
    goes_now = terminator(lab).begin_within(name, EXPIRED, "old", lambda: {"default": places}, report, ends_at=ends_at)
    assert goes_now == goes
    deletion = lab.claim.deletion
    assert (deletion is not None) == goes
    assert deletion is None or (deletion.message, deletion.ends_at) == ("old", ends_at)
    assert asked(lab) == [name] * goes
