"""Logs the functions' decisions without repeats.

Each run reports again that a pod still has no place. The log contains that once, and again only after another decision about
the same subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simulator.clock import VirtualClock
from simulator.record import Event

_NEW_CHAPTERS: Final = ("podBound", "podDeleted")
"""After one of these decisions, any decision about the pod counts as new."""


class DecisionLog:
    """Collects decisions: at, function, kind, subject, reason, message.

    Attributes:
        entries: The decisions, in order, without repeats.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[str, str]] = {}
        self.entries: list[dict[str, Any]] = []

    def write(self, function: str, decision: Mapping[str, Any]) -> None:
        """Add a decision, unless the last one about its subject had the same kind and reason."""
        subject, outcome = decision["subject"], (decision["kind"], decision["reason"])
        if self._last.get(subject) != outcome:
            self._last[subject] = outcome
            self.entries.append({"at": self._clock.now(), "function": function, **decision})

    def see(self, event: Event) -> None:
        """Listen to the record."""
        if event.event in _NEW_CHAPTERS:
            self._last.pop(event.fields["pod"], None)
