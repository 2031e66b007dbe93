"""FunctionQueues in SQS."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import translate
from adapters.ports import JsonObject, TransientError

_BATCH: Final = 10
_LONGEST_DELAY: Final = timedelta(minutes=15)


class SqsQueue:
    """One queue (`adapters.ports.Queue`)."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        """Send all messages, ten per call. Raises TransientError if SQS did not accept one of them."""
        bodies = [msgspec.json.encode(message).decode() for message in messages]
        seconds = int(min(_LONGEST_DELAY, max(timedelta(0), delay)).total_seconds() + 0.999)
        for start in range(0, len(bodies), _BATCH):
            self._send(bodies[start : start + _BATCH], seconds)

    def _send(self, bodies: list[str], seconds: int) -> None:
        entries = [{"Id": str(i), "MessageBody": body, "DelaySeconds": seconds} for i, body in enumerate(bodies)]
        try:
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        except (ClientError, BotoCoreError) as error:
            raise translate("sqs:SendMessageBatch", error) from error
        if answer.get("Failed"):
            raise TransientError("sqs:SendMessageBatch", f"{len(answer['Failed'])} of {len(entries)} not accepted")
