"""What the functions hear of the brakes while one of them cannot be asked."""

from __future__ import annotations

from datetime import UTC, datetime

from core.brakes.brake import Action, Brake, BrakeKind
from lambdas.brakes.brake_reader import FRESH_FOR, Panel
from lambdas.brakes.ports import skipped
from lambdas.metric_names import STOPPED, stopped_by
from lambdas.ports import TransientError
from lambdas.run_report import RunReport
from tests.fakes.world import FakeClock


class Silent:
    """A source that answers nothing for longer than a reading serves."""

    name = "a parameter"

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.asked = 0

    def read(self) -> tuple[Brake, ...]:
        self.asked += 1
        self._clock.advance(seconds=2 * FRESH_FOR.total_seconds())
        raise TransientError("ssm:GetParameter", "timed out")


def test_a_source_that_does_not_answer_is_not_waited_for_at_each_question() -> None:
    """Else launches and drains, which it does not stop, come to nothing until their function's time-out."""
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


def test_a_brake_that_cannot_be_read_is_not_counted_with_those_that_are_engaged() -> None:
    """Else one hiccup of SSM pages as an engaged brake, although the alarm on unreadable ones waits for a second."""
    report = RunReport()
    skipped(Brake(BrakeKind.UNREADABLE, "m"), "s", report)
    assert report.counts == {stopped_by(BrakeKind.UNREADABLE): 1}
    skipped(Brake(BrakeKind.PAUSE, "m"), "s", report)
    assert report.counts[STOPPED] == 1
