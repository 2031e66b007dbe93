"""What the ledger keeps of an instance, from which reports count its hours."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from lambdas.controllers.launching.instance_outcomes import end_outcome, launch_outcome
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

LAUNCHED_AT = NOW - timedelta(minutes=3)


def a_claim() -> ClaimRecord:
    """A claim of a decision, requested ten minutes ago, whose instance EC2 gave three minutes ago."""
    plan = a_plan(annotations={labels.DECISION: "7f3a"})
    moments = Moments(launched_at=LAUNCHED_AT)
    return a_record(plan=plan, moments=moments, requested_at=NOW - timedelta(minutes=10))


LIFE = InstanceLife(
    instance="i-1",
    claim="c",
    node_pool="default",
    instance_type="m5.large",
    zone="us-east-1a",
    capacity_type=labels.SPOT,
    price=1,
    launched_at=LAUNCHED_AT,
)


def test_a_launch_is_kept_under_the_instance_with_its_price_and_no_end() -> None:
    assert launch_outcome(a_claim(), LAUNCHED_AT) == [
        DecisionOutcome(
            decision="7f3a",
            part="i-1",
            state=OutcomeState.DONE,
            at=LAUNCHED_AT,
            reason="Launched",
            instance=LIFE,
        )
    ]


def test_an_end_has_its_reason_and_the_launch_of_the_claim() -> None:
    assert end_outcome(a_claim(), "Empty", NOW) == [
        DecisionOutcome(
            decision="7f3a",
            part="i-1",
            state=OutcomeState.DONE,
            at=NOW,
            reason="Empty",
            instance=msgspec.structs.replace(LIFE, ended_at=NOW),
        )
    ]


def test_hours_count_from_the_request_where_no_launch_is_known() -> None:
    """A row of an older release has no moment of its launch."""
    record = msgspec.structs.replace(a_claim(), moments=Moments())
    (found,) = end_outcome(record, "Empty", NOW)
    assert found.instance is not None
    assert found.instance.launched_at == record.requested_at


UNLAUNCHED = a_record(ClaimPhase.REQUESTED)


@pytest.mark.parametrize("outcomes", [launch_outcome(UNLAUNCHED, NOW), end_outcome(UNLAUNCHED, "Empty", NOW)])
def test_a_claim_without_an_instance_has_cost_nothing(outcomes: list[DecisionOutcome]) -> None:
    assert outcomes == []
