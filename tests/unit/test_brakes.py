"""What each brake stops, and what it does not stop."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adapters.brakes import FRESH_FOR, Panel, skipped
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.brakes import ACTIONS, STOPS, Action, Brake, BrakeKind, EngagedBrakes, action_of, kill_switch
from core.reasons.code import TerminationReason
from installation.metric_names import STOPPED, stopped_by
from tests.fakes.world import FakeClock


def test_every_brake_and_action_is_in_the_tables() -> None:
    assert set(STOPS) == set(BrakeKind)
    assert set(ACTIONS) == set(Action)


def test_brakes_have_one_order_whatever_engaged_them_first() -> None:
    """Otherwise, two runs that read the same brakes tell of another one first."""
    ordered = [
        Brake(BrakeKind.POOL_BREAKER, "a", node_pool="x"),
        Brake(BrakeKind.POOL_BREAKER, "a", node_pool="y"),
        Brake(BrakeKind.POOL_BREAKER, "b", node_pool="x"),
    ]
    assert sorted([ordered[2], ordered[0], ordered[1]]) == ordered


WHOLE = (BrakeKind.STOP, BrakeKind.OBSERVED)
NARROW = (BrakeKind.FOREIGN_INSTANCES, BrakeKind.SHRINKING)
"""Brakes that stop a single action."""


@pytest.mark.parametrize("kind", [kind for kind in BrakeKind if kind not in (*WHOLE, *NARROW)])
def test_no_other_brake_stops_launches_evacuations_and_drains(kind: BrakeKind) -> None:
    brakes = EngagedBrakes((Brake(kind, "because"),))
    assert not any(brakes.stopping(action) for action in (Action.LAUNCH, Action.EVACUATE, Action.DRAIN))
    assert all(brakes.stopping(action) for action in (Action.EXPIRE, Action.REPAIR))
    assert (brakes.stopping(Action.DISRUPT) is None) == (kind is BrakeKind.POOL_PROBE)


@pytest.mark.parametrize(("kind", "action"), [*zip(NARROW, (Action.END_UNKNOWN, Action.DISRUPT), strict=True)])
def test_a_narrow_brake_stops_one_action(kind: BrakeKind, action: Action) -> None:
    assert [stopped for stopped in Action if EngagedBrakes((Brake(kind, "x"),)).stopping(stopped)] == [action]


@pytest.mark.parametrize("kind", WHOLE)
def test_the_kill_switch_and_an_observed_pool_stop_everything(kind: BrakeKind) -> None:
    brakes = EngagedBrakes((Brake(kind, "because", node_pool="a"),))
    assert all(brakes.stopping(action, "a") for action in Action)
    assert brakes.without(kind) == EngagedBrakes()


def test_a_pools_brake_stops_no_other_pool_and_not_the_cluster() -> None:
    brakes = EngagedBrakes((Brake(BrakeKind.POOL_BREAKER, "because", node_pool="a"),))
    assert brakes.stopping(Action.DISRUPT, "a") is not None
    assert brakes.stopping(Action.DISRUPT, "b") is None
    assert brakes.stopping(Action.DISRUPT) is None


def test_zones_are_reported_once_each() -> None:
    shifts = [Brake(BrakeKind.ZONAL_SHIFT, f"shift {n}", zone="use1-az1") for n in range(2)]
    assert EngagedBrakes((*shifts, Brake(BrakeKind.ALARM, "x"))).zones == ("use1-az1",)


@pytest.mark.parametrize(
    ("reason", "action"),
    [
        (TerminationReason.EMPTY, Action.DISRUPT),
        (TerminationReason.UNDERUTILIZED, Action.DISRUPT),
        (TerminationReason.DRIFTED, Action.DISRUPT),
        ("Expired", Action.EXPIRE),
        ("Unhealthy", Action.REPAIR),
        ("SpotInterruption", Action.EVACUATE),
        ("InstanceGone", Action.EVACUATE),
    ],
)
def test_each_termination_reason_is_one_action(reason: str, action: Action) -> None:
    assert action_of(reason) is action


def test_only_pools_whose_breaker_is_half_open_are_probed() -> None:
    brakes = [Brake(BrakeKind.POOL_PROBE, "x", node_pool="a"), Brake(BrakeKind.POOL_BREAKER, "x", node_pool="b")]
    assert EngagedBrakes(tuple(brakes)).probed_pools == {"a"}


# The text of the kill switch parameter.


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("run", None),
        (" RUN\n", None),
        ("pause-disruption", BrakeKind.PAUSE),
        ("stop", BrakeKind.STOP),
        ("", BrakeKind.UNREADABLE),
        ("halt", BrakeKind.UNREADABLE),
    ],
)
def test_the_kill_switch_says_run_or_holds_back(text: str, kind: BrakeKind | None) -> None:
    brake = kill_switch(text, "/fleetwright/prod/mode")
    assert (brake.kind if brake else None) == kind


# What functions read of the brakes while one source does not answer.


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
