"""What a run decided and did, for people and programs: handlers answer with it, the simulator and the logs show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from core.ledger.outcome import DecisionOutcome
from core.reasons.code import ReasonCode
from core.reasons.decision import DecisionKind


class Decision(msgspec.Struct, frozen=True, order=True):
    """One thing that was decided.

    Attributes:
        subject: The pod, claim, node, instance or object that it is about.
        message: One sentence for people.
        decision_id: Under which it is in the ledger, empty where it is not.
    """

    kind: DecisionKind
    subject: str
    reason: ReasonCode
    message: str = ""
    decision_id: str = ""


class RunReport:
    """Collects what one invocation decided. Written by controllers, told whether the run succeeds or fails.

    Args:
        hear: Told of each decision when it is made, so that it is in the log even where the run is cut off.

    Attributes:
        decision_id: Of the decision that is being carried out, for all that is reported from here on.
        outcomes: What became of decisions, of this run or an earlier one.
    """

    def __init__(self, hear: Callable[[Decision], None] | None = None) -> None:
        self._hear = hear
        self.decisions: list[Decision] = []
        self.counts: dict[str, int] = {}
        self.failed_messages: list[str] = []
        self.decision_id = ""
        self.outcomes: list[DecisionOutcome] = []

    def decide(self, kind: DecisionKind, subject: str, reason: ReasonCode, message: str = "") -> None:
        """Note a decision."""
        decision = Decision(kind, subject, reason, message, self.decision_id)
        self.decisions.append(decision)
        if self._hear is not None:
            self._hear(decision)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a count of the response, named in camel case."""
        self.counts[name] = self.counts.get(name, 0) + by

    def part(self) -> RunReport:
        """An empty one for a piece of the same run, to be given to `add` when the piece is done."""
        part = RunReport(self._hear)
        part.decision_id = self.decision_id
        return part

    def add(self, other: RunReport) -> None:
        """Take over what another collected."""
        self.decisions += other.decisions
        self.failed_messages += other.failed_messages
        self.outcomes += other.outcomes
        for name, number in other.counts.items():
            self.count(name, number)

    def to_response(self) -> dict[str, Any]:
        """The handler's answer; `batchItemFailures` makes SQS deliver just those messages again."""
        response: dict[str, Any] = {"decisions": [msgspec.to_builtins(d) for d in self.decisions], **self.counts}
        response["batchItemFailures"] = [{"itemIdentifier": identifier} for identifier in self.failed_messages]
        return response
