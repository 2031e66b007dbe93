"""Claims whose instance AWS retires go within budgets days before the date, and without budgets in its last hours."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.run_report import RunReport
from core.lifecycle.draining.replacing import REPLACED_WITHIN
from core.lifecycle.records import Deletion
from core.lifecycle.scheduled_changes import DUE_BEFORE
from core.manifests.wire import api_resources as kinds
from core.reasons.claim import ClaimReason
from core.reasons.termination import TerminationReason
from tests.fakes.lab import Lab, a_node_pool
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, amend, sweep

DAYS = timedelta(days=1)


def retiring(within: timedelta, *, budget: str = "1") -> Lab:
    """One node whose instance is retired within this time."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": budget}]}))
    amend(lab, retires_at=lab.clock.now() + within)
    return lab


def swept(lab: Lab) -> tuple[Deletion | None, RunReport]:
    report = sweep(lab, "scheduledChanges")
    return lab.claim.deletion, report


def test_days_before_the_date_a_node_goes_within_budgets() -> None:
    lab = retiring(DAYS)
    deletion, report = swept(lab)
    assert deletion is not None
    assert (deletion.reason, deletion.ends_at) == (
        TerminationReason.SCHEDULED_CHANGE,
        lab.clock.now() + REPLACED_WITHIN,
    )
    date = lab.claim.retires_at
    assert deletion.message == (
        f"AWS announced a change of instance {lab.claim.instance_id} for {date:%Y-%m-%dT%H:%M:%SZ}"
    )
    assert (lab.claim.is_disrupting, report.counts) == (True, {})


def test_weeks_before_it_nothing_goes() -> None:
    deletion, report = swept(retiring(7 * DAYS))
    assert (deletion, report.counts, report.decisions) == (None, {}, [])


def test_without_a_date_nothing_goes() -> None:
    assert swept(a_working_node())[0] is None


def test_a_spent_budget_keeps_it_and_is_counted() -> None:
    deletion, report = swept(retiring(DAYS, budget="0"))
    assert (deletion, report.counts) == (None, {"scheduledChangesBlocked": 1})


def test_a_pod_that_must_not_be_disrupted_keeps_it_and_is_named() -> None:
    lab = retiring(DAYS)
    lab.kubernetes.amend(
        kinds.PODS, "p", {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}, "default"
    )
    deletion, report = swept(lab)
    assert (deletion, report.counts) == (None, {"scheduledChangesBlocked": 1})
    (decision,) = report.decisions
    assert (decision.subject, decision.reason) == (lab.claim.name, ClaimReason.SCHEDULED_CHANGE_BLOCKED)
    assert "default/p" in decision.message


@pytest.mark.parametrize(
    ("within", "left"),
    [(DUE_BEFORE, REPLACED_WITHIN), (timedelta(minutes=1), timedelta(minutes=1)), (-DAYS, -DAYS)],
    ids=["hours", "a minute", "past"],
)
def test_in_its_last_hours_it_goes_without_budgets(within: timedelta, left: timedelta) -> None:
    """Its pods wait for replacements no longer than the date allows."""
    lab = retiring(within, budget="0")
    deletion, report = swept(lab)
    assert deletion is not None
    assert (deletion.reason, deletion.ends_at) == (TerminationReason.SCHEDULED_CHANGE_DUE, lab.clock.now() + left)
    assert report.counts == {}
