"""What the ledger keeps of the end of a command."""

from __future__ import annotations

from core.ledger.outcome import DecisionOutcome, OutcomeState
from lambdas.controllers.disruption.execution.outcomes import abandoned, done
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_command

RECORD = a_command(decision="7f3a")


def test_a_command_that_is_done_has_its_own_reason() -> None:
    expected = DecisionOutcome(decision="7f3a", part="x", state=OutcomeState.DONE, at=NOW, reason="Empty")
    assert done(RECORD, NOW) == expected


def test_an_abandoned_command_has_the_reason_for_which_its_nodes_stay() -> None:
    assert abandoned(RECORD, "PodsArrived", "two pods", NOW) == DecisionOutcome(
        decision="7f3a", part="x", state=OutcomeState.ABANDONED, at=NOW, reason="PodsArrived", message="two pods"
    )
