"""What each brake stops, and what it does not stop."""

from __future__ import annotations

import pytest

from core.brakes.brake import ACTIONS, STOPS, Action, Brake, BrakeKind, EngagedBrakes, action_of
from core.reasons.termination import TerminationReason


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


@pytest.mark.parametrize("kind", [kind for kind in BrakeKind if kind not in WHOLE])
def test_no_other_brake_stops_launches_evacuations_and_drains(kind: BrakeKind) -> None:
    brakes = EngagedBrakes((Brake(kind, "because"),))
    assert not any(brakes.stopping(action) for action in (Action.LAUNCH, Action.EVACUATE, Action.DRAIN))
    assert all(brakes.stopping(action) for action in (Action.EXPIRE, Action.REPAIR))
    assert (brakes.stopping(Action.DISRUPT) is None) == (kind is BrakeKind.POOL_PROBE)


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
