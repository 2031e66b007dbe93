"""A pod's protection, ports and volumes."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from core import labels
from core.model.pod import HostPort, Owner, StorageClass, VolumeUse, any_conflict, default_class
from core.model.values.quantity import parse_duration
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


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed", "Unknown"])
@pytest.mark.parametrize("deleted_at", [None, NOW])
def test_a_pod_is_active_until_it_has_finished_or_is_being_deleted(phase: str, deleted_at: datetime | None) -> None:
    pod = a_pod(phase=phase, deleted_at=deleted_at)
    is_done = phase in {"Succeeded", "Failed"}
    assert (pod.is_terminal, pod.is_terminating) == (is_done, deleted_at is not None)
    assert pod.is_active is (not is_done and deleted_at is None)
    assert pod.key == "default/p"


OWNERS = {
    kind: Owner(kind, f"{kind}-1", is_controller=True) for kind in ("ReplicaSet", "StatefulSet", "DaemonSet", "Node")
}
OTHER = Owner("Thing", "thing-1")


@pytest.mark.parametrize("kind", sorted(OWNERS))
@pytest.mark.parametrize("others", [(), (OTHER,)])
def test_a_pod_is_what_any_of_its_owners_makes_it(kind: str, others: tuple[Owner, ...]) -> None:
    """Its controller creates its successor; a further owner changes nothing."""
    for owners in ((OWNERS[kind], *others), (*others, OWNERS[kind])):
        pod = a_pod(owners=owners, annotations={labels.SURGE: "true"})
        traits = (pod.may_surge, pod.is_stateful, pod.is_daemon, pod.is_static)
        assert traits == tuple(kind == owner_kind for owner_kind in ("ReplicaSet", "StatefulSet", "DaemonSet", "Node"))
        assert (pod.controller, pod.workload) == (f"{kind}-1", f"default/{kind}/{kind}-1")


def test_a_pod_that_nobody_controls_is_its_own_workload() -> None:
    assert (a_pod().controller, a_pod().workload) == ("", "default/Pod/p")
    assert (a_pod(owners=(OTHER,)).controller, a_pod(owners=(OTHER,)).workload) == ("", "default/Thing/thing-1")
    uncontrolled = a_pod(owners=(Owner("ReplicaSet", "r"),), annotations={labels.SURGE: "true"})
    assert not uncontrolled.may_surge


@pytest.mark.parametrize("one", ["0.0.0.0", "10.0.0.1", "10.0.0.2"])  # noqa: S104 - Kubernetes' notation
@pytest.mark.parametrize("other", ["0.0.0.0", "10.0.0.1", "10.0.0.2"])  # noqa: S104
def test_all_pairs_of_ports(one: str, other: str) -> None:
    shares = one == other or "0.0.0.0" in {one, other}  # noqa: S104
    for port, protocol in ((80, "TCP"), (80, "UDP"), (81, "TCP")):
        found = HostPort(80, "TCP", one).conflicts(HostPort(port, protocol, other))
        assert found is (shares and (port, protocol) == (80, "TCP"))


def test_a_pod_is_of_the_kinds_of_its_owners() -> None:
    """Whichever of them is first; an owner that is no controller counts, too."""
    other = Owner("Database", "d")
    for kind, flags in (
        ("DaemonSet", (True, False, False)),
        ("Node", (False, True, False)),
        ("StatefulSet", (False, False, True)),
        ("ReplicaSet", (False, False, False)),
    ):
        pod = a_pod(owners=(other, Owner(kind, "x")))
        assert (pod.is_daemon, pod.is_static, pod.is_stateful) == flags
    assert (a_pod().is_daemon, a_pod().is_static, a_pod().is_stateful) == (False, False, False)


def test_a_pods_workload_is_its_controller_else_its_first_owner_else_itself() -> None:
    first, second = Owner("Database", "d"), Owner("ReplicaSet", "web-1", is_controller=True)
    workload_pods = [a_pod("p", owners=owners) for owners in ((first, second), (first,), ())]
    assert [pod.workload for pod in workload_pods] == [
        "default/ReplicaSet/web-1",
        "default/Database/d",
        "default/Pod/p",
    ]
    assert [pod.controller for pod in workload_pods] == ["web-1", "", ""]


@pytest.mark.parametrize(
    ("owners", "notes"),
    [
        ((Owner("StatefulSet", "db", is_controller=True),), {labels.SURGE: "true"}),
        ((Owner("ReplicaSet", "web-1"),), {labels.SURGE: "true"}),
        ((Owner("ReplicaSet", "web-1", is_controller=True),), {labels.SURGE: "yes"}),
    ],
)
def test_a_surge_needs_a_replica_set_and_consent(owners: tuple[Owner, ...], notes: dict[str, str]) -> None:
    assert not a_pod(owners=owners, annotations=notes).may_surge


def test_ports_of_all_addresses_conflict_with_each() -> None:
    everywhere, here = HostPort(80), HostPort(80, host_ip="10.0.0.1")
    assert everywhere.conflicts(here)
    assert here.conflicts(everywhere)
    assert here.conflicts(here)
    assert not here.conflicts(HostPort(81, host_ip="10.0.0.1"))


# The default StorageClass.


def a_class(name: str, *, age: int = 0, is_default: bool = True) -> StorageClass:
    return StorageClass(name=name, is_default=is_default, created_at=NOW - timedelta(days=age))


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ((), False),
        ((HostPort(80),), True),
        ((HostPort(81),), False),
        ((HostPort(443), HostPort(80)), True),
        ((HostPort(80, "UDP"),), False),
    ],
)
def test_a_port_is_used_once(taken: tuple[HostPort, ...], expected: bool) -> None:
    """Otherwise, the kubelet refuses the second pod."""
    assert any_conflict((HostPort(80),), taken) is expected


def test_thousands_of_host_ports_are_compared_in_one_pass() -> None:
    """Pair by pair, these would be a billion comparisons: one pod in any namespace may list that many."""
    wanted, taken = ([HostPort(number + shift) for number in range(1, 60_000, 2)] for shift in (0, 1))
    assert not any_conflict(wanted, taken)
    assert any_conflict(wanted, [*taken, HostPort(59_999, host_ip="10.0.0.1")])


def test_of_several_defaults_the_newest_counts_then_the_first_by_name() -> None:
    assert default_class([a_class("old", age=2), a_class("new", age=1)]) == "new"
    assert default_class([a_class("b"), a_class("a")]) == "a"
    assert default_class([a_class("plain", is_default=False)]) is None
