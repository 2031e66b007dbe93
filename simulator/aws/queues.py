"""SQS standard queues in virtual time: delays, visibility, receive counts, dead-letter queues.

Consumers are called when a message becomes visible, without polling.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from simulator.clock import VirtualClock
from simulator.invocation import faults
from simulator.invocation.faults import Call, Fault

# The errors that the embedded account answers with.


class AwsError(Exception):
    """An error that the embedded account answers with.

    Attributes:
        fields: What the answer holds besides code and message, such as `CancellationReasons`.
    """

    def __init__(self, code: str, message: str, status: int = 400, *, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.fields = dict(fields or {})


class UnansweredError(Exception):
    """A function makes a call that the embedded account does not implement: add an answer first."""


# AWS's answers to calls with a fault: status and error code by service, and partly executed batches.


_MESSAGE: Final = "embedded in a scenario"
_THROTTLED: Final = {"ec2": (503, "RequestLimitExceeded")}
_THROTTLED_ELSE: Final = (400, "ThrottlingException")
_FAILED: Final = (500, "InternalError")
DENIED_CODE: Final = "UnauthorizedOperation"
"""EC2's code for a missing permission."""

_DENIED: Final = {"ec2": (403, DENIED_CODE)}
_DENIED_ELSE: Final = (400, "AccessDeniedException")

_TRANSACTION_CONFLICT: Final = "TransactionConflict"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error answer; `more` has its members besides code and message."""

    status: int
    code: str
    message: str = _MESSAGE
    more: dict[str, Any] = {}


def refusal(call: Call, fault: Fault) -> Refusal | None:
    """Return the error that answers the attempt without any effect; None if the fault is of another kind."""
    if fault.kind == faults.THROTTLE:
        return _refusal(_THROTTLED.get(call.service, _THROTTLED_ELSE))
    if fault.kind == faults.ERROR:
        return _refusal(_FAILED)
    if fault.kind == faults.DENIED and fault.form == faults.EXCEPTION:
        status, code = _DENIED.get(call.service, _DENIED_ELSE)
        return Refusal(status=status, code=fault.code or code)
    return _conflict(call) if fault.kind == faults.CONFLICT else None


def in_part(call: Call, fault: Fault, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return the answer to an attempt; a `partial` fault executes only the first half of a batch.

    Raises:
        AwsError: As EC2 answers if it terminated only some instances: it names none of them.
    """
    if fault.kind == faults.PARTIAL and call.name == "sqs:SendMessageBatch":
        done, rejected = _halves(call.parameters["Entries"])
        answered = answer({**call.parameters, "Entries": done}) if done else {"Successful": []}
        failed = [
            {"Id": entry["Id"], "SenderFault": False, "Code": _FAILED[1], "Message": _MESSAGE} for entry in rejected
        ]
        return {**answered, "Failed": [*answered.get("Failed", ()), *failed]}
    if fault.kind == faults.PARTIAL and call.name == "ec2:TerminateInstances":
        done, _ = _halves(call.parameters["InstanceIds"])
        if done:
            answer({**call.parameters, "InstanceIds": done})
        raise AwsError(_FAILED[1], _MESSAGE, _FAILED[0])
    return answer(call.parameters)


def _halves(batch: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    half = len(batch) // 2
    return list(batch[:half]), list(batch[half:])


def _refusal(answer: tuple[int, str]) -> Refusal:
    status, code = answer
    return Refusal(status=status, code=code)


def _conflict(call: Call) -> Refusal | None:
    """Return the conflict error of a concurrent write; None for a call that has none."""
    if call.operation == "TransactWriteItems":
        reasons = [
            {"Code": _TRANSACTION_CONFLICT, "Message": _MESSAGE} for _ in call.parameters.get("TransactItems", ())
        ]
        return Refusal(status=400, code="TransactionCanceledException", more={"CancellationReasons": reasons})
    if call.operation in ("PutItem", "UpdateItem", "DeleteItem"):
        conditional = "ConditionExpression" in call.parameters
        code = "ConditionalCheckFailedException" if conditional else "TransactionConflictException"
        return Refusal(status=400, code=code)
    if call.service == "s3" and call.operation == "PutObject":
        return Refusal(status=412, code="PreconditionFailed")
    return None


DELAY_MAX: Final = timedelta(minutes=15)
"""SQS' longest delay."""

Carry = Callable[[str, Callable[[], None]], None]


Lineage = Mapping[str, int]
"""Function → how many of its invocations lie in the chain that led here, as Lambda counts them in its trace header."""


class Message(msgspec.Struct, kw_only=True):
    """One message; `receives` counts deliveries, `lineage` is that of the invocation that sent it."""

    id: str
    body: str
    sent_at: datetime
    visible_at: datetime
    receives: int = 0
    lineage: Lineage = {}


DONE_KEPT: Final = 10_000
"""Messages of a queue that can be replayed."""


class Queue:
    """One queue with its dead-letter queue."""

    def __init__(self, name: str, max_receives: int) -> None:
        self.name = name
        self.max_receives = max_receives
        self.messages: dict[str, Message] = {}
        self.dead: list[Message] = []
        self.done: deque[tuple[datetime, Message]] = deque(maxlen=DONE_KEPT)
        self.lag = timedelta(0)
        self.lags_until: datetime | None = None
        self.down_until: datetime | None = None

    def receive(self, now: datetime, at_most: int, visibility: timedelta, order: Random | None = None) -> list[Message]:
        """Receive visible messages, oldest first or in a drawn order; those received too often become dead letters."""
        if self.is_down(now):
            return []
        taken: list[Message] = []
        messages = list(self.messages.values())
        if order is not None:
            order.shuffle(messages)
        for message in messages:
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

    def delete(self, ids: Iterable[str], now: datetime | None = None) -> None:
        """Forget messages that were dealt with; those that are gone already are fine. A queue that is down keeps them."""
        if now is not None and self.is_down(now):
            return
        for message_id in ids:
            message = self.messages.pop(message_id, None)
            if message is not None and now is not None:
                self.done.append((now, message))

    def next_visible_at(self) -> datetime | None:
        """When the next message can be received, None for an empty queue."""
        first = min((message.visible_at for message in self.messages.values()), default=None)
        return first if first is None or self.down_until is None else max(first, self.down_until)

    def is_down(self, now: datetime) -> bool:
        """Whether nothing passes now."""
        return self.down_until is not None and now < self.down_until


class Queues:
    """Answers SQS' calls. Messages pass `carry` on their way, where they may be doubled, delayed or lost.

    Attributes:
        order: Draws the order in which messages are received; None: the oldest first.
    """

    def __init__(self, clock: VirtualClock, rng: Random, carry: Carry, account: str, region: str) -> None:
        self._clock = clock
        self._rng = rng
        self._carry = carry
        self._prefix = f"https://sqs.{region}.amazonaws.com/{account}/"
        self.order: Random | None = None
        self._queues: dict[str, Queue] = {}
        self._on_message: Callable[[str], None] = lambda _: None
        self._on_delay: Callable[[str, timedelta], None] = lambda _name, _lag: None
        self._lineage: Callable[[], Lineage] = dict

    def create(self, name: str, max_receives: int) -> str:
        """Make a queue; returns its URL."""
        self._queues[name] = Queue(name, max_receives)
        return self._prefix + name

    def on_message(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the queue's name when a message has arrived in it."""
        self._on_message = listener

    def on_delay(self, listener: Callable[[str, timedelta], None]) -> None:
        """Call `listener` with the queue's name and the time by which a message of it is late."""
        self._on_delay = listener

    def trace(self, lineage: Callable[[], Lineage]) -> None:
        """Ask `lineage` with each message for the chain of the invocation that sends it."""
        self._lineage = lineage

    def slow(self, name: str | None, lag: timedelta, until: datetime) -> None:
        """Let messages that are sent before `until` become visible that much later."""
        for queue in self._chosen(name):
            queue.lag, queue.lags_until = lag, until

    def cut(self, name: str | None, until: datetime) -> None:
        """Let nothing pass before `until`: sending fails, and nothing is received."""
        for queue in self._chosen(name):
            queue.down_until = until
            self._clock.at(until, partial(self._on_message, queue.name))

    def replay(self, name: str | None, since: datetime) -> None:
        """Deliver the messages that were dealt with since then once more."""
        now = self._clock.now()
        for queue in self._chosen(name):
            for _, message in [entry for entry in queue.done if entry[0] >= since]:
                again = Message(
                    id=self._new_id(), body=message.body, sent_at=now, visible_at=now, lineage=message.lineage
                )
                queue.messages[again.id] = again
            self._on_message(queue.name)

    def _chosen(self, name: str | None) -> list[Queue]:
        return list(self._queues.values()) if name is None else [self.get(name)]

    def get(self, name: str) -> Queue:
        """The queue with this name.

        Raises:
            AwsError: If it does not exist.
        """
        queue = self._queues.get(name)
        if queue is None:
            raise AwsError("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
        return queue

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
        if queue.is_down(now):
            raise AwsError("ServiceUnavailable", "The service cannot answer now.", 503)
        visible_at = now + min(timedelta(seconds=entry.get("DelaySeconds") or 0), DELAY_MAX)
        if queue.lags_until is not None and now < queue.lags_until:
            visible_at += queue.lag
            self._on_delay(queue.name, queue.lag)
        answered_id, lineage = self._new_id(), dict(self._lineage())

        def arrive() -> None:
            message_id = answered_id if answered_id not in queue.messages else self._new_id()
            arrived = max(visible_at, self._clock.now())
            queue.messages[message_id] = Message(
                id=message_id, body=body, sent_at=now, visible_at=arrived, lineage=lineage
            )
            self._on_message(queue.name)

        self._carry(f"queue {queue.name}", arrive)
        digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
        return {"MessageId": answered_id, "MD5OfMessageBody": digest}

    def _new_id(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
