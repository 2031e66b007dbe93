"""The API server's audit log as CloudWatch Logs hands it to a subscriber: filtered, delayed, in batches, packed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from installation.wiring import AUDIT_LOG_FILTER
from simulator.events import compile_filter, control_delivery, log_delivery

BATCH_BYTES: Final = 1024 * 1024
BATCH_EVENTS: Final = 10_000
"""The most that CloudWatch Logs takes, and so passes on, in one batch."""

POLL_INTERVAL: Final = 0.1
CONTROL_EVERY: Final = 60.0

Deliver = Callable[[dict[str, Any]], None]


class AuditTail:
    """Follows the file and calls `deliver` with each delivery.

    Args:
        log: The API server's audit log, one JSON object a line.
        log_group: What EKS calls it in CloudWatch Logs.
        deliver: Takes a delivery, as the function gets it.
        delay: Seconds from the event to its delivery. AWS states none; a few are usual.
        gather: How many seconds events are gathered before they travel together.
    """

    def __init__(self, log: Path, log_group: str, deliver: Deliver, *, delay: float = 5.0, gather: float = 1.0) -> None:
        self._log = log
        self._log_group = log_group
        self._deliver = deliver
        self._delay = delay
        self._gather = gather
        self._matches = compile_filter(AUDIT_LOG_FILTER)
        self._is_open = True
        self._is_on = True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin with what is written from now on."""
        self._at = self._log.stat().st_size if self._log.exists() else 0
        self._thread.start()

    def turn(self, *, on: bool) -> None:
        """Switch the subscription on or off; what is written while it is off is never delivered."""
        self._is_on = on

    def close(self) -> None:
        """Follow no further."""
        self._is_open = False
        self._thread.join()

    def _run(self) -> None:
        held: list[tuple[datetime, str]] = []
        due = 0.0
        control_at = time.monotonic()
        while self._is_open:
            if self._is_on and time.monotonic() >= control_at:
                control_at += CONTROL_EVERY
                self._deliver(control_delivery(datetime.now(UTC)))
            found = [(datetime.now(UTC), line) for line in self._lines() if self._is_on and self._is_wanted(line)]
            if found and not held:
                due = time.monotonic() + self._gather + self._delay
            held += found
            if held and time.monotonic() >= due:
                for batch in split(held):
                    self._deliver(log_delivery(self._log_group, batch))
                held = []
            time.sleep(POLL_INTERVAL)

    def _lines(self) -> list[str]:
        """The whole lines that are new."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.decode().splitlines()

    def _is_wanted(self, line: str) -> bool:
        try:
            entry = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return False
        return isinstance(entry, Mapping) and self._matches(entry)


def split(entries: list[tuple[datetime, str]]) -> list[list[tuple[datetime, str]]]:
    """Batches that CloudWatch Logs would pass on as one each."""
    batches: list[list[tuple[datetime, str]]] = []
    size = 0
    for entry in entries:
        length = len(entry[1].encode()) + 26  # what PutLogEvents counts besides the message
        if not batches or size + length > BATCH_BYTES or len(batches[-1]) == BATCH_EVENTS:
            batches.append([])
            size = 0
        batches[-1].append(entry)
        size += length
    return batches
