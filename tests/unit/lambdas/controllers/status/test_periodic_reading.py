"""Readings that are repeated where they are due."""

from __future__ import annotations

import pytest

from adapters.ports import TransientError
from lambdas.controllers.status.periodic_reading import READ_EVERY, PeriodicReading
from tests.builders import NOW
from tests.fakes.world import FakeClock


class Source:
    """Counts up with each reading, unless it is broken."""

    def __init__(self) -> None:
        self.value, self.is_broken = 0, False

    def read(self) -> int:
        """The next number."""
        if self.is_broken:
            raise TransientError("source", "throttled")
        self.value += 1
        return self.value


def test_a_source_is_read_at_once_and_then_when_it_is_due() -> None:
    """Rounds come each minute; reading in each of them would cost calls for what hardly changes."""
    clock, source = FakeClock(NOW), Source()
    reading: PeriodicReading[int] = PeriodicReading(clock)
    assert reading.latest is None
    reading.refresh(source.read)
    clock.advance(seconds=READ_EVERY.total_seconds() - 1)
    reading.refresh(source.read)
    assert reading.latest == 1
    clock.advance(seconds=1)
    reading.refresh(source.read)
    assert reading.latest == 2


def test_a_failed_reading_keeps_the_last_and_is_repeated_at_the_next_round() -> None:
    clock, source = FakeClock(NOW), Source()
    reading: PeriodicReading[int] = PeriodicReading(clock)
    reading.refresh(source.read)
    clock.advance(seconds=READ_EVERY.total_seconds())
    source.is_broken = True
    with pytest.raises(TransientError):
        reading.refresh(source.read)
    assert reading.latest == 1
    source.is_broken = False
    reading.refresh(source.read)
    assert reading.latest == 2
