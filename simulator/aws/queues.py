"""SQS standard queues in virtual time: delays, visibility, receive counts, dead-letter queues.

Consumers are called when a message becomes visible, without polling.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import msgspec

from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock

DELAY_MAX: Final = timedelta(minutes=15)
"""SQS' longest delay."""

Carry = Callable[[str, Callable[[], None]], None]


class Message(msgspec.Struct, kw_only=True):
    """One message; `receives` counts deliveries."""

    id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    receives: int = 0


class Queue:
    """One queue with its dead-letter queue."""

    def __init__(self, name: str, max_receives: int) -> None:
        self.name = name
        self.max_receives = max_receives
        self.messages: dict[str, Message] = {}
        self.dead: list[Message] = []

    def receive(self, now: datetime, at_most: int, visibility: timedelta) -> list[Message]:
        """Receive visible messages, oldest first; those received too often go to the dead-letter queue."""
        taken: list[Message] = []
        for message in list(self.messages.values()):
            if len(taken) == at_most:
                break
            if message.visible_at > now:
                continue
            if message.receives >= self.max_receives:
                self.dead.append(self.messages.pop(message.id))
                continue
            message.receives += 1
            message.visible_at = now + visibility
            taken.append(message)
        return taken

    def delete(self, ids: Iterable[str]) -> None:
        """Forget messages that were dealt with; those that are gone already are fine."""
        for message_id in ids:
            self.messages.pop(message_id, None)

    def next_visible_at(self) -> datetime | None:
        """When the next message can be received, None for an empty queue."""
        return min((message.visible_at for message in self.messages.values()), default=None)


class Queues:
    """Answers SQS' calls. Messages pass `carry` on their way, where they may be doubled, delayed or lost."""

    def __init__(self, clock: VirtualClock, rng: Random, carry: Carry, account: str, region: str) -> None:
        self._clock = clock
        self._rng = rng
        self._carry = carry
        self._prefix = f"https://sqs.{region}.amazonaws.com/{account}/"
        self._queues: dict[str, Queue] = {}
        self._on_message: Callable[[str], None] = lambda _: None

    def create(self, name: str, max_receives: int) -> str:
        """Make a queue; returns its URL."""
        self._queues[name] = Queue(name, max_receives)
        return self._prefix + name

    def on_message(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the queue's name when a message has arrived in it."""
        self._on_message = listener

    def get(self, name: str) -> Queue:
        """The queue with this name.

        Raises:
            AwsError: If it does not exist.
        """
        found = self._queues.get(name)
        if found is None:
            raise AwsError("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
        return found

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer sqs:SendMessage."""
        queue = self._by_url(request["QueueUrl"])
        return self._take_in(queue, request)

    def send_batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer sqs:SendMessageBatch.

        Raises:
            AwsError: For more than ten entries.
        """
        queue, entries = self._by_url(request["QueueUrl"]), request["Entries"]
        if len(entries) > 10:
            raise AwsError("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", "Maximum number of entries is 10.")
        return {"Successful": [{"Id": e["Id"], **self._take_in(queue, e)} for e in entries], "Failed": []}

    def get_url(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer sqs:GetQueueUrl."""
        return {"QueueUrl": self._prefix + self.get(request["QueueName"]).name}

    def attributes(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer sqs:GetQueueAttributes."""
        queue, now = self._by_url(request["QueueUrl"]), self._clock.now()
        waiting = sum(1 for message in queue.messages.values() if message.visible_at <= now)
        hidden = len(queue.messages) - waiting
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(waiting),
                "ApproximateNumberOfMessagesNotVisible": str(hidden),
            }
        }

    def _by_url(self, url: str) -> Queue:
        return self.get(url.rpartition("/")[2])

    def _take_in(self, queue: Queue, entry: dict[str, Any]) -> dict[str, Any]:
        body, now = entry["MessageBody"], self._clock.now()
        visible_at = now + min(timedelta(seconds=entry.get("DelaySeconds") or 0), DELAY_MAX)
        answered_id = self._new_id()

        def arrive() -> None:
            message_id = answered_id if answered_id not in queue.messages else self._new_id()
            arrived = max(visible_at, self._clock.now())
            queue.messages[message_id] = Message(id=message_id, body=body, sent_at=now, visible_at=arrived)
            self._on_message(queue.name)

        self._carry(f"queue {queue.name}", arrive)
        digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
        return {"MessageId": answered_id, "MD5OfMessageBody": digest}

    def _new_id(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
