"""What the conditions of a ProvisioningRequest say: Kueue stops, retries and admits workloads by them."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.model.plan import NodeClaim, PlannedGroup
from core.model.pod import GroupSource, Pod, PodSpec
from core.model.snapshot import ProvisioningRequest, RequestedPods, Snapshot
from core.provisioning_requests import (
    ATOMIC_SCALE_UP,
    BOOKED_FOR,
    REVOKED_AFTER,
    Starting,
    answer,
    booked_places,
    own_value,
    places_to_come,
)
from tests.builders import NOW

SMALL, LARGE = PodSpec(requests={"cpu": 1000}), PodSpec(requests={"cpu": 8000})
REQUEST = ProvisioningRequest(
    namespace="team",
    name="train-1",
    created_at=NOW,
    provisioning_class=ATOMIC_SCALE_UP,
    pod_sets=(RequestedPods(pods=1, spec=LARGE), RequestedPods(pods=2, spec=SMALL)),
    valid_until=NOW + timedelta(hours=1),
)
BOUGHT = msgspec.structs.replace(REQUEST, provisioned_at=NOW - timedelta(hours=1), has_own_nodes=True, is_expired=True)


def a_consumer(name: str, spec: PodSpec = SMALL, **fields: object) -> Pod:
    notes = {labels.CONSUMES_REQUEST: "train-1"}
    return msgspec.structs.replace(Pod(namespace="team", name=name, spec=spec, annotations=notes), **fields)


def conditions(request: ProvisioningRequest, snapshot: Snapshot) -> list[tuple[str, str]]:
    found = answer(request, snapshot, None, Starting())
    return [(each.type, each.status) for each in found.conditions] if found is not None else []


def test_each_pod_takes_over_a_place_of_its_own_size() -> None:
    pods = (a_consumer("a"), a_consumer("b", phase="Failed"), a_consumer("c", LARGE, phase="Succeeded"))
    left = places_to_come(REQUEST, Snapshot(now=NOW, pods=pods))
    assert [pod.name for pod in left] == ["train-1-room-1-2"]


def test_requests_of_one_name_in_two_namespaces_have_different_nodes() -> None:
    other = msgspec.structs.replace(REQUEST, namespace="other")
    long = msgspec.structs.replace(REQUEST, name="n" * 200)
    assert own_value(REQUEST) != own_value(other)
    assert len(own_value(long)) == 63


def test_capacity_is_revoked_only_once_lost_nodes_could_not_be_replaced_for_ten_minutes() -> None:
    """Kueue then suspends the Job, and only a person starts it again."""
    running = (a_consumer("a", node_name="n"), a_consumer("b"))
    lost = Snapshot(now=NOW, pods=running)
    assert conditions(BOUGHT, lost) == [("CapacityRevoked", "Unknown")]
    since = msgspec.structs.replace(BOUGHT, lost_at=NOW - REVOKED_AFTER)
    assert conditions(since, lost) == [("CapacityRevoked", "True")]
    claim = NodeClaim(name="c", labels={labels.PROVISIONING_REQUEST: own_value(BOUGHT)})
    replaced = msgspec.structs.replace(lost, node_claims=(claim,))
    assert conditions(since, replaced) == [("CapacityRevoked", "False")]
    ended = Snapshot(now=NOW, pods=(a_consumer("a", phase="Succeeded"),))
    assert conditions(BOUGHT, ended) == []


def test_a_booking_ends_after_ten_minutes_and_is_kept_where_it_is_until_then() -> None:
    booked = msgspec.structs.replace(REQUEST, provisioned_at=NOW)
    before, after = (Snapshot(now=NOW + t, provisioning_requests=(booked,)) for t in (timedelta(0), BOOKED_FOR))
    assert len(booked_places(before)) == 3
    assert {r.operator for pod in booked_places(before) for r in pod.spec.node_selector} == {"DoesNotExist"}
    assert booked_places(after) == ()
    assert conditions(booked, after) == [("BookingExpired", "True")]


def test_a_booking_ends_once_each_place_has_had_its_pod() -> None:
    """The nodes of a Job that has ended would otherwise be kept, and bought again when they go, until ten minutes are over."""
    booked = msgspec.structs.replace(REQUEST, provisioned_at=NOW, has_own_nodes=True)
    ended = [a_consumer(name, phase="Succeeded") for name in "ab"]
    runs, waits = a_consumer("c", LARGE, node_name="n"), a_consumer("c", LARGE)
    assert conditions(booked, Snapshot(now=NOW, pods=(*ended, runs))) == [("BookingExpired", "True")]
    assert conditions(booked, Snapshot(now=NOW, pods=tuple(ended))) == []
    assert ("BookingExpired", "True") not in conditions(booked, Snapshot(now=NOW, pods=(*ended, waits)))


def test_nothing_is_bought_for_a_booking_whose_nodes_are_all_gone() -> None:
    """The pods of a Job that ended went with its node before anyone looked: nobody can tell that they had their places."""
    booked = msgspec.structs.replace(REQUEST, provisioned_at=NOW, has_own_nodes=True)
    claim = NodeClaim(name="c", labels={labels.PROVISIONING_REQUEST: own_value(booked)})
    gone = Snapshot(now=NOW, provisioning_requests=(booked,))
    assert booked_places(gone) == ()
    assert len(booked_places(msgspec.structs.replace(gone, node_claims=(claim,)))) == 3


def test_the_expected_time_stays_the_same_from_run_to_run() -> None:
    """Each new message becomes an event on the user's Job."""
    group = PlannedGroup(name="team/train-1", source=GroupSource.PROVISIONING_REQUEST, members=3, minimum=3, placed=3)
    messages = set()
    for seconds in (1, 5, 20):
        starting = Starting(2, NOW.replace(microsecond=0) + timedelta(seconds=61))
        found = answer(REQUEST, Snapshot(now=NOW + timedelta(seconds=seconds)), group, starting)
        assert found is not None
        messages.add(found.conditions[1].message)
    assert len(messages) == 1
    assert "2 nodes are starting; ready at about" in messages.pop()
