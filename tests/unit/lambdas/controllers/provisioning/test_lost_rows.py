"""An observation for a plan: rows that were just read serve it, and claims whose rows are lost are rebuilt first."""

from __future__ import annotations

import pytest

from adapters.observation.stores import OwnRows
from adapters.run_report import RunReport
from core.reasons.decision import DecisionKind
from tests.fakes.lab import Lab, a_pending_pod

NONE = OwnRows((), ())


@pytest.fixture
def fleet(lab: Lab) -> Lab:
    """One node with its claim."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    return lab


def observed(lab: Lab, rows: OwnRows | None) -> tuple[list[str], list[str]]:
    """Return the observed claims, and the kinds of the decisions."""
    report = RunReport()
    view = lab.app.provisioning.lost_rows.observe(report, rows)
    return sorted(view.claims), [decision.kind for decision in report.decisions]


def test_rows_that_were_just_read_are_not_read_again(fleet: Lab) -> None:
    rows = fleet.app.adapters.stores.own_rows()
    reads: list[str] = []
    fleet.rows.before_call = reads.append
    observed(fleet, rows)
    with_rows = len(reads)
    observed(fleet, None)
    assert with_rows + 2 == len(reads) - with_rows


def test_a_claim_that_was_stored_after_the_rows_were_read_is_not_rebuilt(fleet: Lab) -> None:
    """Its instance is listed and its row is there: a second claim for it would be paid and removed for nothing."""
    (claim,) = fleet.claims
    assert observed(fleet, NONE) == ([claim.name], [])
    assert fleet.claims == (claim,)


def test_a_lost_claim_is_rebuilt_before_the_plan(fleet: Lab) -> None:
    (claim,) = fleet.claims
    fleet.rows.claims.clear()
    assert observed(fleet, NONE) == ([claim.name], [DecisionKind.ADOPT, DecisionKind.REPAIR])
