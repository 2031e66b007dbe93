"""A pod's protection, ports and volumes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core import labels
from core.model.pod import HostPort, Owner, VolumeUse
from core.model.values.duration import parse_duration
from tests.builders import NOW, a_pod

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("written", "age", "is_protected"),
    [
        (None, MINUTE, False),
        ("true", MINUTE, True),
        ("false", MINUTE, False),
        ("5m", MINUTE, True),
        ("5m", 5 * MINUTE, False),
        ("-5m", MINUTE, False),
        ("soon", MINUTE, False),
    ],
)
def test_do_not_disrupt_holds_forever_or_for_a_duration(
    written: str | None, age: timedelta, is_protected: bool
) -> None:
    """Karpenter: "true", or a duration since the pod started; any other value is ignored."""
    notes = {labels.DO_NOT_DISRUPT: written} if written is not None else {}
    assert a_pod(annotations=notes, started_at=NOW - age).blocks_disruption(NOW) is is_protected


def test_a_pod_that_has_not_started_is_protected_from_its_start_on() -> None:
    assert parse_duration("5m") == 5 * MINUTE
    notes = {labels.DO_NOT_DISRUPT: "5m"}
    assert a_pod(annotations=notes).blocks_disruption(NOW)
    assert not a_pod(annotations=notes, phase="Succeeded").blocks_disruption(NOW)


def test_ports_conflict_on_one_address_only() -> None:
    here, there = HostPort(80, host_ip="10.0.0.1"), HostPort(80, host_ip="10.0.0.2")
    assert not here.conflicts(there)
    assert here.conflicts(HostPort(80))
    assert not here.conflicts(HostPort(80, "UDP"))


def test_an_ephemeral_volume_has_a_claim_of_the_pods_own() -> None:
    pod = a_pod("web-0", volumes=(VolumeUse("data"), VolumeUse("", "cache")))
    assert pod.claim_names() == ("data", "web-0-cache")


def test_only_pods_of_a_deployment_may_surge() -> None:
    notes = {labels.SURGE: "true"}
    mine = (Owner("ReplicaSet", "web-1", is_controller=True),)
    assert a_pod(annotations=notes, owners=mine).may_surge
    assert not a_pod(owners=mine).may_surge
    assert not a_pod(annotations=notes, owners=(Owner("StatefulSet", "db", is_controller=True),)).may_surge
