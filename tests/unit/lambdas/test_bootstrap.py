"""The application of a sandbox is kept, unless its clock was set back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.brakes.brake_reader import Panel
from core.brakes.brake import Action, Brake, BrakeKind
from lambdas import bootstrap
from lambdas.application.controllers import Application
from tests.fakes.lab import Lab, LabAdapters


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A sandbox of its own, which asks its brakes itself."""
    found = Lab()

    class Source:
        name = "kill switch"

        def read(self) -> tuple[Brake, ...]:
            return found.brakes.engaged().brakes

    def started() -> Application:
        adapters = LabAdapters(found)
        adapters.brakes = Panel([Source()], found.clock)
        return Application(adapters)

    for name, value in (("factory", started), ("current", None), ("used_at", None)):
        monkeypatch.setattr(bootstrap._Sandbox, name, value)
    return found


def test_it_is_kept_while_time_goes_on(lab: Lab) -> None:
    """A correction of milliseconds is usual."""
    first = bootstrap.application()
    for seconds in (0, 60, -1):
        lab.clock.advance(seconds=seconds)
        assert bootstrap.application() is first


def test_a_clock_that_was_set_back_keeps_no_reading_alive(lab: Lab) -> None:
    """If this failed, a sandbox would not notice the kill switch until its clock has caught up, for an hour or for good."""
    lab.clock.advance(hours=1)
    assert bootstrap.application().adapters.brakes.engaged().brakes == ()
    lab.brakes.hold(Brake(BrakeKind.STOP, "stopped by a test"), lab.clock.now())
    lab.clock.advance(hours=-1)
    app = bootstrap.application()
    assert app.adapters.brakes.engaged().stopping(Action.DRAIN) is not None
    assert bootstrap.application() is app
    lab.clock.advance(seconds=-(bootstrap.WENT_BACK + timedelta(milliseconds=1)).total_seconds())
    assert bootstrap.application() is not app
