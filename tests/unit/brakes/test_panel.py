"""What functions read of the brakes while one source does not answer."""

from __future__ import annotations

from datetime import UTC, datetime

from adapters.brakes.brake_reader import FRESH_FOR, Panel
from adapters.brakes.ports import skipped
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.brakes.brake import Action, Brake, BrakeKind
from installation.metric_names import STOPPED, stopped_by
from tests.fakes.world import FakeClock


class Silent:
    """A source that stays silent for longer than a reading is valid."""

    name = "a parameter"

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.asked = 0

    def read(self) -> tuple[Brake, ...]:
        self.asked += 1
        self._clock.advance(seconds=2 * FRESH_FOR.total_seconds())
        raise TransientError("ssm:GetParameter", "timed out")


def test_a_source_that_does_not_answer_is_not_waited_for_each_time() -> None:
    """Otherwise, launches and drains, which the source does not control, wait until the function's time-out."""
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    source = Silent(clock)
    panel = Panel([source], clock)
    for _ in range(3):
        assert panel.engaged().stopping(Action.EXPIRE) is not None
        assert panel.engaged().stopping(Action.LAUNCH) is None
    assert source.asked == 1
    clock.advance(seconds=FRESH_FOR.total_seconds())
    panel.engaged()
    assert source.asked == 2


def test_a_brake_that_cannot_be_read_is_not_counted_as_engaged() -> None:
    """Otherwise, one failure of SSM pages as an engaged brake; the alarm on unreadable brakes waits for a second one."""
    report = RunReport()
    skipped(Brake(BrakeKind.UNREADABLE, "m"), "s", report)
    assert report.counts == {stopped_by(BrakeKind.UNREADABLE): 1}
    skipped(Brake(BrakeKind.PAUSE, "m"), "s", report)
    assert report.counts[STOPPED] == 1
