"""Carries messages from a queue to its function as Lambda's event source mapping does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from installation.wiring import FunctionSpec, QueueSpec
from simulator.aws.queues import Message, Queue
from simulator.clock import VirtualClock
from simulator.events.event_shapes import QueuedMessage, queue_event
from simulator.invocation.sandbox import OK, Sandboxes


class Poller:
    """One queue and the function that consumes it: batches, the gathering window, partial failures."""

    def __init__(
        self,
        clock: VirtualClock,
        sandboxes: Sandboxes,
        function: FunctionSpec,
        spec: QueueSpec,
        queue: Queue,
        ended: Callable[[FunctionSpec, dict[str, Any] | None], None],
    ) -> None:
        self._clock = clock
        self._sandboxes = sandboxes
        self._function = function
        self._spec = spec
        self._queue = queue
        self._ended = ended
        self._due: datetime | None = None

    def schedule_delivery(self) -> None:
        """React to a possible change: compute when the next batch is due."""
        visible_at = self._queue.next_visible_at()
        if visible_at is None or not self._sandboxes.has_room(self._function):
            return
        due = max(visible_at, self._clock.now()) + self._spec.batch_window
        if self._due is None or due < self._due:
            self._due = due
            self._clock.at(due, lambda: self._deliver(due))

    def _deliver(self, due: datetime) -> None:
        if self._due != due:
            return
        self._due = None
        if not self._sandboxes.has_room(self._function):
            return
        batch = self._queue.receive(self._clock.now(), self._spec.batch_size, self._spec.visibility)
        if batch:
            event = queue_event(self._queue.name, [self._record(message) for message in batch])
            trigger = f"queue:{self._spec.name}"
            self._sandboxes.invoke(self._function, event, trigger, lambda o, r: self._done(batch, o, r))
        self.schedule_delivery()

    def _done(self, batch: Sequence[Message], outcome: str, response: dict[str, Any] | None) -> None:
        if outcome == OK:
            failures = (response or {}).get("batchItemFailures") or []
            kept = {failure["itemIdentifier"] for failure in failures}
            self._queue.delete(message.id for message in batch if message.id not in kept)
        self._ended(self._function, response)

    def _record(self, message: Message) -> QueuedMessage:
        return QueuedMessage(
            id=message.id,
            receipt=f"{message.id}#{message.receives}",
            body=message.body,
            receives=message.receives,
            sent_at=message.sent_at,
            first_received_at=self._clock.now(),
        )
