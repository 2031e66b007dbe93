"""What a run decided and did, for people and programs: handlers answer with it, the simulator and the logs show it."""

from __future__ import annotations

from typing import Any

import msgspec


class Decision(msgspec.Struct, frozen=True, order=True):
    """One thing that was decided.

    Attributes:
        kind: launch, bind, unschedulable, disrupt, register, initialize, drain, terminate, interrupt, adopt, expire, drift,
            abandon, forget, repair, skip.
        subject: The pod, claim, node, instance or object that it is about.
        reason: A short code.
        message: One sentence for people.
    """

    kind: str
    subject: str
    reason: str = ""
    message: str = ""


class Outcome:
    """Collects what one invocation decided. Written by controllers, read by the handler at the end."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.counts: dict[str, int] = {}
        self.failed_messages: list[str] = []

    def decide(self, kind: str, subject: str, reason: str = "", message: str = "") -> None:
        """Note a decision."""
        self.decisions.append(Decision(kind, subject, reason, message))

    def count(self, name: str, by: int = 1) -> None:
        """Add to a count of the response, named in camel case."""
        self.counts[name] = self.counts.get(name, 0) + by

    def add(self, other: Outcome) -> None:
        """Take over what another collected."""
        self.decisions += other.decisions
        self.failed_messages += other.failed_messages
        for name, number in other.counts.items():
            self.count(name, number)

    def to_response(self) -> dict[str, Any]:
        """The handler's answer; `batchItemFailures` makes SQS deliver just those messages again."""
        response: dict[str, Any] = {"decisions": [msgspec.to_builtins(d) for d in self.decisions], **self.counts}
        response["batchItemFailures"] = [{"itemIdentifier": identifier} for identifier in self.failed_messages]
        return response
