"""What the functions decided, as a story: nothing is told twice in a row.

Functions begin anew each time they are woken, so they say every minute that a pod still has no place. Here that is told once,
and again only after something else has become of its subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simulator.clock import VirtualClock
from simulator.record import Event

_NEW_CHAPTERS: Final = ("podBound", "podDeleted")
"""What is said of a pod after these is news, whatever was said before."""


class DecisionLog:
    """Collects decisions: at, function, kind, subject, reason, message.

    Attributes:
        told: The decisions, in order, less the repeats.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[str, str]] = {}
        self.told: list[dict[str, Any]] = []

    def hear(self, function: str, decision: Mapping[str, Any]) -> None:
        """Take a decision, unless the last one about its subject was of the same kind and for the same reason."""
        subject, gist = decision["subject"], (decision["kind"], decision["reason"])
        if self._last.get(subject) != gist:
            self._last[subject] = gist
            self.told.append({"at": self._clock.now(), "function": function, **decision})

    def see(self, event: Event) -> None:
        """Listen to the record."""
        if event.event in _NEW_CHAPTERS:
            self._last.pop(event.fields["pod"], None)
