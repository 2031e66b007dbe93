"""The application of a sandbox is kept, unless its clock was set back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
from botocore.retries.standard import ExponentialBackoff

from adapters.brakes import Panel
from core.brakes import Action, Brake, BrakeKind
from infra.packaging.start import ENVIRONMENT
from lambdas import bootstrap
from lambdas.application.controllers import Application
from tests.fakes.lab import Lab, LabAdapters


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A sandbox of its own, which asks its brakes itself."""
    lab = Lab()

    class Source:
        name = "kill switch"

        def read(self) -> tuple[Brake, ...]:
            return lab.brakes.engaged().brakes

    def started() -> Application:
        adapters = LabAdapters(lab)
        adapters.brakes = Panel([Source()], lab.clock)
        return Application(adapters)

    for name, value in (("factory", started), ("current", None), ("used_at", None)):
        monkeypatch.setattr(bootstrap._Sandbox, name, value)
    return lab


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


@pytest.fixture
def snapshot() -> Iterator[object]:
    """The state of the generator that all sandboxes of one snapshot have, and that is put back afterwards."""
    before = random.getstate()
    yield before
    random.setstate(before)


def test_sandboxes_of_one_snapshot_pause_for_different_times(snapshot: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, all of them would repeat a throttled call at the same moments."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    seen = set[tuple[float, ...]]()
    for _ in range(3):
        random.setstate(snapshot)  # type: ignore[arg-type]
        for name in ("factory", "current", "used_at"):
            monkeypatch.setattr(bootstrap._Sandbox, name, None)
        bootstrap.application()
        pauses = ExponentialBackoff()
        attempts = (SimpleNamespace(attempt_number=number, http_response=None) for number in (1, 2, 1, 2))
        seen.add(tuple(map(pauses.delay_amount, attempts)))
    assert len(seen) == 3
