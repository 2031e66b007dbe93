"""What the conditions of a ProvisioningRequest say: Kueue stops, retries and admits workloads by them."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.gangs import gangs_of
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodeClass
from core.model.plan import NodeClaim, PlannedGroup
from core.model.pod import GroupSource, Pod, PodSpec
from core.model.snapshot import ProvisioningRequest, RequestedPods, Snapshot
from core.pods import COMING_MAX
from core.provisioning_requests import (
    ATOMIC_SCALE_UP,
    BOOKED_FOR,
    CAPACITY_BLOCK,
    RESOLVED_WITHIN,
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


def test_a_request_beyond_the_bound_of_its_namespace_says_so() -> None:
    """It was skipped in silence, and waited seven days to be planned for."""

    def sized(name: str, places: int) -> ProvisioningRequest:
        age, pods = timedelta(minutes=len(name)), (RequestedPods(pods=places, spec=SMALL),)
        return msgspec.structs.replace(REQUEST, name=name, created_at=NOW - age, pod_sets=pods)

    older, late, huge = sized("older", COMING_MAX), sized("late", 1), sized("h", COMING_MAX + 1)
    snapshot = Snapshot(now=NOW, provisioning_requests=(late, older, huge))
    assert outcome(snapshot, older)[2] == "CapacityIsNotFound"
    assert outcome(snapshot, late) == (
        *("Provisioned", "False", "TooManyPlaces"),
        "the ProvisioningRequests of namespace team ask for more than 10000 places, and older ones come first",
    )
    assert outcome(snapshot, huge) == (
        *("Failed", "True", "TooManyPlaces"),
        "it asks for 10001 places, and the requests of one namespace may ask for 10000",
    )


# The class for capacity blocks.


MACHINE = InstanceType(
    name="p5.48xlarge",
    labels={},
    capacity={"cpu": 10_000, "pods": 20},
    overhead={"cpu": 1_000},
    offerings=(Offering("p5.48xlarge", "zone-a", "reserved", 1, reservation_id="cr-1", reservation_capacity=2),),
)
IN_BLOCK = msgspec.structs.replace(
    REQUEST,
    provisioning_class=CAPACITY_BLOCK,
    reservation="cr-1",
    valid_until=None,
    pod_sets=(RequestedPods(pods=2, spec=LARGE),),
)


def a_block(places: int | None = 2, begins: int | None = None, leaves: int | None = 600, **fields: object) -> Snapshot:
    """A cluster one of whose classes selects a block, with the minutes from now when it begins and nodes leave it."""
    node_class = NodeClass(
        name="gpu",
        reservations=("cr-1",),
        reservation_begins={} if begins is None else {"cr-1": NOW + timedelta(minutes=begins)},
        reservation_ends={} if leaves is None else {"cr-1": NOW + timedelta(minutes=leaves)},
        reservation_places={} if places is None else {"cr-1": places},
    )
    snapshot = Snapshot(now=NOW, node_classes=(node_class,), catalogue=Catalogue(default=(MACHINE,)))
    return msgspec.structs.replace(snapshot, **fields)


def outcome(snapshot: Snapshot, request: ProvisioningRequest = IN_BLOCK) -> tuple[str, str, str, str]:
    """Type, status, reason and message of the condition besides Accepted."""
    found = answer(request, snapshot, None, Starting())
    assert found is not None
    last = found.conditions[-1]
    return last.type, last.status, last.reason, last.message


def test_a_request_waits_until_its_block_begins() -> None:
    before = a_block(begins=90)
    text = f"capacity reservation cr-1 begins at {NOW + timedelta(minutes=90):%Y-%m-%d %H:%M} UTC; its nodes are launched then"
    assert outcome(before) == ("Provisioned", "False", "CapacityBlockNotBegun", text)
    planned = msgspec.structs.replace(before, provisioning_requests=(IN_BLOCK,))
    assert gangs_of(planned) == ()
    begun = msgspec.structs.replace(planned, now=NOW + timedelta(minutes=90))
    assert [gang.minimum for gang in gangs_of(begun)] == [2]


def test_a_request_fails_where_no_class_selects_its_block_for_ten_minutes() -> None:
    """A class that is written together with the request is resolved in the next minutes."""
    assert outcome(Snapshot(now=NOW))[:3] == ("Provisioned", "False", "CapacityBlockNotFound")
    later = Snapshot(now=NOW + RESOLVED_WITHIN)
    assert outcome(later)[:3] == ("Failed", "True", "CapacityBlockNotFound")


def test_a_block_that_ends_too_early_fails_the_request() -> None:
    """Kueue's `maxRunDurationSeconds` says for how long the pods need it, from its start on or from now on."""
    hour = msgspec.structs.replace(IN_BLOCK, runs_for=timedelta(hours=1))
    assert outcome(a_block(begins=30, leaves=89), hour)[:3] == ("Failed", "True", "CapacityBlockTooShort")
    assert outcome(a_block(begins=30, leaves=90), hour)[2] == "CapacityBlockNotBegun"
    assert outcome(a_block(leaves=59), hour)[:3] == ("Failed", "True", "CapacityBlockTooShort")
    assert outcome(a_block(leaves=9))[:3] == ("Failed", "True", "CapacityBlockTooShort")
    assert "9 minutes from" in outcome(a_block(leaves=9))[3]
    assert outcome(a_block(leaves=None), hour)[2] == "CapacityIsNotFound"


def test_a_request_whose_nodes_start_is_not_failed_for_the_minutes_that_they_take() -> None:
    exactly = msgspec.structs.replace(IN_BLOCK, runs_for=timedelta(hours=1))
    claim = NodeClaim(name="c", labels={labels.PROVISIONING_REQUEST: own_value(exactly)})
    assert outcome(a_block(leaves=59, node_claims=(claim,)), exactly)[2] == "CapacityIsNotFound"


def test_a_block_that_is_too_small_fails_the_request() -> None:
    assert outcome(a_block(places=1)) == (
        *("Failed", "True", "CapacityBlockTooSmall"),
        "capacity reservation cr-1 holds 1 p5.48xlarge of this cluster, and 2 are needed",
    )
    assert outcome(a_block(places=2))[2] == outcome(a_block(places=None))[2] == "CapacityIsNotFound"
    mixed = msgspec.structs.replace(
        IN_BLOCK, pod_sets=(RequestedPods(pods=1, spec=LARGE), RequestedPods(pods=11, spec=SMALL))
    )
    assert outcome(a_block(places=2), mixed)[2] == "CapacityBlockTooSmall"  # 19 CPUs, and two nodes have 18
    huge = msgspec.structs.replace(IN_BLOCK, pod_sets=(RequestedPods(pods=1, spec=PodSpec(requests={"cpu": 9_001})),))
    assert "one pod requests more cpu than such a node has" in outcome(a_block(), huge)[3]


def test_the_details_name_the_block_also_where_no_node_was_bought() -> None:
    """Without its node selector, the pods of the job might go elsewhere and leave the block empty."""
    group = PlannedGroup(name="team/train-1", source=GroupSource.PROVISIONING_REQUEST, members=2, minimum=2, placed=2)
    ready = msgspec.structs.replace(group, ready=2)
    own = msgspec.structs.replace(ready, domain={labels.PROVISIONING_REQUEST: "train-1-abc"})
    for planned, details in (
        (ready, {"CapacityReservationID": "cr-1"}),
        (own, {"CapacityReservationID": "cr-1", "ProvisioningRequest": "train-1-abc"}),
    ):
        found = answer(IN_BLOCK, a_block(), planned, Starting())
        assert found is not None
        assert (found.conditions[-1].status, found.details) == ("True", details)


def test_pods_that_wait_for_a_block_that_has_ended_are_given_up_at_once() -> None:
    """Nothing else can take them, so Kueue need not wait for ten minutes."""
    provisioned = msgspec.structs.replace(IN_BLOCK, provisioned_at=NOW - timedelta(hours=9), is_expired=True)
    waits = Snapshot(now=NOW, pods=(a_consumer("a"),))
    assert outcome(waits, provisioned)[:3] == ("CapacityRevoked", "True", "CapacityBlockEnded")
    left = a_block(leaves=0, pods=(a_consumer("a"),))  # EC2 has it for some minutes more
    assert outcome(left, provisioned)[2] == "CapacityBlockEnded"
    assert answer(provisioned, a_block(pods=(a_consumer("a"),)), None, Starting()) is None
    assert answer(provisioned, Snapshot(now=NOW), None, Starting()) is None
