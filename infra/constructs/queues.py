"""The queues of the wiring, each with a dead-letter queue."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from installation.wiring import QUEUES, QueueSpec

DEAD_LETTER_RETENTION = cdk.Duration.days(14)


class Queues(Construct):
    """All queues, by the names that the wiring gives them.

    Attributes:
        failures: The destination of everything that could not be handled: messages, undeliverable events, failed invocations.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.failures = self._dead_letter_queue("failures")
        self.by_name = {spec.name: self._queue(spec) for spec in QUEUES}

    def _queue(self, spec: QueueSpec) -> sqs.Queue:
        return sqs.Queue(
            self,
            spec.name,
            visibility_timeout=cdk.Duration.seconds(int(spec.visibility.total_seconds())),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.failures, max_receive_count=spec.max_receives),
        )

    def _dead_letter_queue(self, name: str) -> sqs.Queue:
        return sqs.Queue(
            self,
            name,
            retention_period=DEAD_LETTER_RETENTION,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
