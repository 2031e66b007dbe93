"""Each queue of the wiring, with a dead-letter queue."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.wiring import QUEUES, QueueSpec

DEAD_LETTER_RETENTION = cdk.Duration.days(14)


@dataclass(frozen=True, slots=True)
class QueuePair:
    """A queue and where its failures end."""

    queue: sqs.Queue
    dead_letters: sqs.Queue


class Queues(Construct):
    """All queues, by the names that the wiring gives them; `failures` takes undeliverable events and failed invocations."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.by_name = {spec.name: self._pair(spec) for spec in QUEUES}
        self.failures = self._dead_letter_queue("failures")

    def _pair(self, spec: QueueSpec) -> QueuePair:
        dead_letters = self._dead_letter_queue(f"{spec.name}-dead-letters")
        queue = sqs.Queue(
            self,
            spec.name,
            visibility_timeout=cdk.Duration.seconds(int(spec.visibility.total_seconds())),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=spec.max_receives),
        )
        return QueuePair(queue, dead_letters)

    def _dead_letter_queue(self, name: str) -> sqs.Queue:
        return sqs.Queue(
            self,
            name,
            retention_period=DEAD_LETTER_RETENTION,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
