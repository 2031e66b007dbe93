"""Static NodePools have as many nodes as their replicas say."""

from __future__ import annotations

import msgspec

from core.lifecycle.draining.deletion import leaving
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.pools.static_capacity import WAKE_UP
from lambdas.controllers.sweeps.sweep import ReconcileRound
from tests.fakes.lab import Lab, a_node_pool
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, sweep


def static(replicas: int, *, gate: bool = True) -> Lab:
    """A static NodePool with two working nodes."""
    lab = Lab(feature_gates="StaticCapacity=true")
    lab.kubernetes.put(a_node_pool(replicas=2))
    lab.provision({"wakeUp": WAKE_UP})
    lab.boot()
    lab.tick(4)
    assert len(lab.claims) == 2
    lab.kubernetes.put(a_node_pool(replicas=replicas))
    if not gate:
        lab.settings = msgspec.structs.replace(lab.settings, feature_gates="StaticCapacity=false")
        lab.restart()
    lab.wake_ups.take()
    lab.work.take()
    return lab


def going(lab: Lab, round_: ReconcileRound | None = None) -> list[str]:
    """The claims that leave after the sweep."""
    sweep(lab, "staticCapacity", round_)
    return [claim.name for claim in lab.claims if claim.deletion is not None]


def test_missing_nodes_are_requested_from_provision() -> None:
    lab = static(3)
    assert going(lab) == []
    assert lab.wake_ups.take() == [{"wakeUp": WAKE_UP}]


def test_the_right_number_needs_nothing() -> None:
    lab = static(2)
    assert (going(lab), lab.wake_ups.take()) == ([], [])


def test_surplus_nodes_go_and_say_why() -> None:
    lab = static(1)
    first = min(claim.name for claim in lab.claims)
    assert going(lab) == [first]
    (deletion,) = [claim.deletion for claim in lab.claims if claim.deletion is not None]
    assert (deletion.reason, deletion.message) == (TerminationReason.SCALED_DOWN, "NodePool default wants 1 nodes")
    assert lab.wake_ups.take() == [{"wakeUp": TerminationReason.SCALED_DOWN}]


def test_of_a_surplus_that_has_gone_since_the_observation_nothing_more_goes() -> None:
    """A node that was interrupted in the meantime makes up the number."""
    lab = static(1)
    round_ = a_round(lab)
    other = max(lab.claims, key=lambda claim: claim.name)
    gone = leaving(other, TerminationReason.SPOT_INTERRUPTED, "", lab.clock.now())
    lab.app.adapters.stores.claims.change(other, gone)
    assert going(lab, round_) == [other.name]


def test_without_the_gate_nothing_is_kept_at_a_number() -> None:
    lab = static(1, gate=False)
    assert (going(lab), lab.wake_ups.take()) == ([], [])
