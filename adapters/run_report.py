"""The report of a run's decisions and counts: the handlers' answer, which the simulator and the logs show too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from core.ledger.outcome import DecisionOutcome
from core.reasons.code import DecisionKind, ReasonCode


class Decision(msgspec.Struct, frozen=True, order=True):
    """One decision of a run.

    Attributes:
        subject: The pod, claim, node, instance or object concerned.
        message: One sentence for people.
        decision_id: Its id in the ledger, empty if it is not stored.
    """

    kind: DecisionKind
    subject: str
    reason: ReasonCode
    message: str = ""
    decision_id: str = ""


class RunReport:
    """Collects the decisions of one invocation. Controllers write it, and it is reported whether the run succeeds or fails.

    Args:
        on_decision: Called with each decision when it is made, so that it is logged even if the run is cut off.

    Attributes:
        decision_id: Id of the decision that is being carried out, for everything that is reported from now on.
        outcomes: Outcomes of decisions, of this run or an earlier one.
        refused: Launches that stay refused, as `call: code: message`; no decision of this run reports them.
    """

    def __init__(self, on_decision: Callable[[Decision], None] | None = None) -> None:
        self._on_decision = on_decision
        self.decisions: list[Decision] = []
        self.counts: dict[str, int] = {}
        self.failed_messages: list[str] = []
        self.decision_id = ""
        self.outcomes: list[DecisionOutcome] = []
        self.refused: list[str] = []

    def decide(self, kind: DecisionKind, subject: str, reason: ReasonCode, message: str = "") -> None:
        """Record a decision."""
        decision = Decision(kind, subject, reason, message, self.decision_id)
        self.decisions.append(decision)
        if self._on_decision is not None:
            self._on_decision(decision)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a count of the response, named in camel case."""
        self.counts[name] = self.counts.get(name, 0) + by

    def part(self) -> RunReport:
        """Return an empty report for a part of the same run; pass it to `add` when the part is done."""
        part = RunReport(self._on_decision)
        part.decision_id = self.decision_id
        return part

    def add(self, other: RunReport) -> None:
        """Merge another report."""
        self.decisions += other.decisions
        self.failed_messages += other.failed_messages
        self.outcomes += other.outcomes
        self.refused += other.refused
        for name, number in other.counts.items():
            self.count(name, number)

    def to_response(self) -> dict[str, Any]:
        """Return the handler's answer; `batchItemFailures` makes SQS deliver just those messages again."""
        response: dict[str, Any] = {"decisions": [msgspec.to_builtins(d) for d in self.decisions], **self.counts}
        response["batchItemFailures"] = [{"itemIdentifier": identifier} for identifier in self.failed_messages]
        return response
