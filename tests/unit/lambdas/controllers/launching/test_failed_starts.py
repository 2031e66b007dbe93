"""Instances that EC2 ends before their nodes join: their claims end with EC2's reason, and launches avoid the cause."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.run_report import RunReport
from core.launch.denials.denial import FIRST_PAUSE, PROBE
from core.launch.denials.instance_ends import rule_of_end
from core.lifecycle.facts import INSTANCE_CHECK_AFTER
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import OfferingKey
from core.reasons.claim import ClaimReason
from core.reasons.termination import TerminationReason
from tests.builders import a_class_manifest
from tests.fakes.lab import Lab, a_pending_pod

STATE = "EC2 Instance State-change Notification"
KEY = "Client.InternalError"
CAPACITY = "Server.InsufficientInstanceCapacity"


@pytest.fixture
def lab() -> Lab:
    """Three pods that need a node each; their instances are launched and have not joined."""
    found = Lab()
    for name in ("a", "b", "c"):
        found.kubernetes.put(a_pending_pod(name, cpu="3"))
    found.provision()
    found.work.take()
    assert len(found.claims) == 3
    return found


def end(lab: Lab, code: str, *, count: int = 1) -> RunReport:
    """Let EC2 end instances of claims for this reason, say so, and have the functions do what follows."""
    for record in lab.claims[:count]:
        lab.cloud.end(record.instance_id, code, "because")
        event = {"source": "aws.ec2", "detail-type": STATE}
        detail = {"instance-id": record.instance_id, "state": "shutting-down"}
        lab.app.interruptions.run({**event, "detail": detail}, RunReport())
    return lab.execute()


def test_the_claim_ends_at_once_with_ecs_code(lab: Lab) -> None:
    """It waited for its registration to time out, or was replaced at once by one that ended like it."""
    name = lab.claims[0].name
    report = end(lab, KEY)
    removed = next(found for found in report.decisions if found.reason == TerminationReason.START_FAILED)
    assert removed.subject == name
    assert f"{KEY}: because" in removed.message
    assert ("default", KEY) in lab.rows.denials
    assert rule_of_end(KEY).advice in lab.rows.denials["default", KEY].explanation()  # type: ignore[union-attr]  # it has one


def test_its_pods_wait_and_are_told_why(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick()
    launched = len(lab.cloud.orders)
    lab.provision()
    assert len(lab.cloud.orders) == launched
    told = [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]
    assert any(KEY in event["message"] and event["involvedObject"]["kind"] == "Pod" for event in told)


def test_when_the_pause_ends_one_instance_is_launched_and_the_others_wait_until_its_node_joins(lab: Lab) -> None:
    """CreateFleet succeeds for instances that end: its success says nothing."""
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    orders = len(lab.cloud.orders)
    lab.provision()
    lab.provision()
    assert [order.count for order in lab.cloud.orders[orders:]] == [1]
    lab.boot()
    lab.tick(2)
    assert lab.rows.denials == {}
    assert {"wakeUp": "a node joined"} in [message for message, _ in lab.wake_ups.sent]
    lab.provision()
    assert sum(order.count for order in lab.cloud.orders[orders:]) == 3


def test_an_instance_that_ends_like_the_others_pauses_launches_for_longer(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    end(lab, KEY)
    denial = lab.rows.denials["default", KEY]
    assert denial.until == lab.clock.now() + 2 * FIRST_PAUSE
    assert denial.probing_until is None


def test_a_node_that_takes_long_does_not_hold_the_others_for_ever(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    orders = len(lab.cloud.orders)
    lab.clock.advance(seconds=PROBE.total_seconds())
    lab.provision()
    assert len(lab.cloud.orders) == orders + 1


def test_an_end_for_want_of_capacity_closes_the_offering_alone(lab: Lab) -> None:
    machine = lab.claims[0].machine
    assert machine is not None
    offering = machine.offering
    report = end(lab, CAPACITY)
    assert TerminationReason.INSTANCE_WITHDRAWN in [found.reason for found in report.decisions]
    assert OfferingKey(offering.instance_type, offering.zone, offering.capacity_type) in lab.rows.refused
    assert not lab.rows.denials["default", CAPACITY].is_engaged
    orders = len(lab.cloud.orders)
    lab.tick()
    lab.provision()
    assert len(lab.cloud.orders) == orders + 1


def test_an_instance_that_somebody_ended_closes_nothing(lab: Lab) -> None:
    report = end(lab, "Client.UserInitiatedShutdown")
    ended = next(found for found in report.decisions if found.reason == TerminationReason.INSTANCE_TERMINATED)
    assert "Client.UserInitiatedShutdown: because" in ended.message
    assert lab.rows.denials == {}


def test_the_end_of_an_instance_of_an_older_class_closes_nothing(lab: Lab) -> None:
    """Whoever has just corrected the key must not wait for a pause that the old one earned."""
    edited = a_class_manifest(metadata={"generation": 2})
    edited["spec"]["tags"] = {"key": "edited"}
    lab.kubernetes.put(edited)
    report = end(lab, KEY)
    assert TerminationReason.START_FAILED in [found.reason for found in report.decisions]
    assert lab.rows.denials == {}


def test_ec2_is_asked_again_while_it_does_not_know_of_the_end(lab: Lab) -> None:
    """Its descriptions may be older than its events."""
    record = lab.claims[0]
    detail = {"instance-id": record.instance_id, "state": "shutting-down"}
    lab.app.interruptions.run({"source": "aws.ec2", "detail-type": STATE, "detail": detail}, RunReport())
    lab.execute()
    assert lab.app.adapters.stores.claims.get(record.name) == record
    lab.cloud.end(record.instance_id, KEY)
    lab.tick(2)
    assert ("default", KEY) in lab.rows.denials


def test_an_end_whose_event_was_lost_is_noticed_by_the_check_of_the_claim(lab: Lab) -> None:
    record = lab.claims[0]
    lab.cloud.end(record.instance_id, KEY)
    lab.clock.advance(seconds=(INSTANCE_CHECK_AFTER + timedelta(seconds=1)).total_seconds())
    report = lab.execute({"claim": record.name})
    assert TerminationReason.START_FAILED in [found.reason for found in report.decisions]
    assert ("default", KEY) in lab.rows.denials


def test_a_node_disproves_nothing_that_was_denied_after_its_launch(lab: Lab) -> None:
    """It started before the cause, so that another instance would still end."""
    end(lab, KEY, count=2)
    lab.tick(2)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    trying = next(found for found in lab.claims if found.tries)
    lab.clock.advance(seconds=1)
    others = [found for found in lab.claims if not found.tries and found.deletion is None]
    lab.cloud.end(others[0].instance_id, KEY)
    detail = {"instance-id": others[0].instance_id, "state": "shutting-down"}
    lab.app.interruptions.run({"source": "aws.ec2", "detail-type": STATE, "detail": detail}, RunReport())
    lab.execute()
    lab.boot()
    lab.tick(2)
    assert lab.app.adapters.stores.claims.get(trying.name).is_registered  # type: ignore[union-attr]  # it is there
    assert ("default", KEY) in lab.rows.denials


def test_a_launch_that_was_released_says_so(lab: Lab) -> None:
    end(lab, KEY, count=3)
    lab.tick(3)
    lab.clock.advance(seconds=FIRST_PAUSE.total_seconds())
    lab.provision()
    lab.boot()
    released = [found for report in lab.tick(2) for found in report.decisions if found.kind == "release"]
    assert (released[0].reason, released[0].message) == (ClaimReason.NODE_JOINED, f"no longer {KEY}")
