"""A node that does not start in time goes, unless pods run on it."""

from __future__ import annotations

from core.lifecycle.claims import INITIALIZATION_TIMEOUT
from core.lifecycle.records import ClaimPhase
from tests.fakes.lab import Lab, a_joining_node, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import NOT_READY, event_objects


def a_node_that_does_not_start() -> Lab:
    """It has joined for a pod, and is not ready."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    (instance,) = lab.cloud.instances()
    lab.kubernetes.put({**a_joining_node("node", instance.provider_id), **NOT_READY})
    lab.tick(4)
    lab.work.take()
    assert lab.claim.phase is ClaimPhase.REGISTERED
    return lab


def test_a_node_that_does_not_start_in_time_goes_and_its_pods_are_planned_again() -> None:
    """Otherwise, they wait for it forever, without any report."""
    lab = a_node_that_does_not_start()
    first = lab.claim
    lab.provision()
    assert lab.claims == (first,)
    lab.clock.advance(seconds=INITIALIZATION_TIMEOUT.total_seconds())
    lab.provision()
    assert len(lab.claims) == 2
    report = lab.reconcile()
    told = next(d for d in report.decisions if d.reason == "InitializationTimeout")
    assert (told.subject, "not ready" in told.message) == ("node", True)
    lab.tick(4)
    assert first.instance_id not in {found.instance_id for found in lab.cloud.instances()}
    assert first.name not in {claim.name for claim in lab.claims}


def test_a_node_that_does_not_start_stays_for_its_running_pods() -> None:
    """Otherwise, healthy pods are evicted for a device that only others need."""
    lab = a_node_that_does_not_start()
    (instance,) = lab.cloud.instances()
    lab.bind("p")
    lab.clock.advance(seconds=INITIALIZATION_TIMEOUT.total_seconds())
    for _ in range(3):
        lab.clock.advance(minutes=2)
        lab.reconcile()
        lab.tick(3)
    assert lab.claim.instance_id == instance.instance_id
    assert lab.claim.deletion is None
    assert lab.kubernetes.evicted == []


def test_a_node_that_does_not_start_in_time_gets_one_event_on_it_and_on_its_pods() -> None:
    """Otherwise, their owner sees a pending pod and a launched node, without any connection."""
    lab = a_node_that_does_not_start()
    lab.clock.advance(seconds=INITIALIZATION_TIMEOUT.total_seconds() - 60)
    lab.reconcile()
    lab.tick(2)
    assert event_objects(lab, "InitializationTimeout") == []
    lab.clock.advance(minutes=1)
    lab.reconcile()
    lab.tick(4)
    assert event_objects(lab, "InitializationTimeout") == [("Node", "node"), ("Pod", "p")]
