"""Reads all brakes of a cluster from their sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from adapters.ports import Clock, PortError
from core.brakes.brake import Brake, BrakeKind, EngagedBrakes

FRESH_FOR: Final = timedelta(seconds=15)
"""How long a sandbox reuses a reading: as long as a command waits before its check.

An engaged brake is noticed within that time, and a busy cluster calls SSM less than once a second (its quota is 40).
"""


class Source(Protocol):
    """One source of brakes."""

    @property
    def name(self) -> str:
        """The source's name, for people."""
        ...

    def read(self) -> tuple[Brake, ...]:
        """Return the engaged brakes. Raises PortError."""
        ...


class Panel:
    """`adapters.brakes.ports.Brakes` over all sources of a function; `on_unreadable` gets the error of each that fails."""

    def __init__(
        self, sources: Sequence[Source], clock: Clock, on_unreadable: Callable[[PortError], None] = lambda _: None
    ) -> None:
        self._sources = tuple(sources)
        self._clock = clock
        self._on_unreadable = on_unreadable
        self._last: dict[str, tuple[Brake, ...]] = {}
        self._read: tuple[datetime, EngagedBrakes] | None = None

    def engaged(self) -> EngagedBrakes:
        """Return the brakes engaged now, from a reading at most `FRESH_FOR` old."""
        if self._read is None or self._clock.now() - self._read[0] >= FRESH_FOR:
            brakes = [brake for source in self._sources for brake in self._ask(source)]
            # Counted from the end of the reading: one that timed out would otherwise be outdated at once and repeated
            # at each call.
            self._read = (self._clock.now(), EngagedBrakes(tuple(sorted(brakes, key=_order))))
        return self._read[1]

    def forget_reading(self) -> None:
        """Discard the last reading, so that the next call reads again."""
        self._read = None

    def _ask(self, source: Source) -> tuple[Brake, ...]:
        """Return a source's brakes. While it does not answer, its last answer is used, and voluntary disruption stops."""
        try:
            self._last[source.name] = source.read()
        except PortError as error:
            self._on_unreadable(error)
            unreadable = Brake(BrakeKind.UNREADABLE, f"{source.name} cannot be read: {error}")
            return (*self._last.get(source.name, ()), unreadable)
        return self._last[source.name]


_ORDER: Final = {kind: place for place, kind in enumerate(BrakeKind)}


def _order(brake: Brake) -> tuple[int, Brake]:
    return _ORDER[brake.kind], brake
