"""ProvisioningRequests (`autoscaling.x-k8s.io`): the room that they ask for, and their conditions as Kueue reads them.

| class | what happens | Provisioned is True |
| --- | --- | --- |
| `check-capacity` | nothing is bought | once nodes that run have room for all pods |
| `best-effort-atomic-scale-up` | nodes are bought for all pods, or for none | likewise, or once its own nodes are ready |
| `capacity-block` (ours) | the same, in the capacity block or reservation that it names, from its start on | likewise |

Then the room is booked for ten minutes: no plan gives it away, and no node of it is consolidated. Its pods take it over: each
that names the request (`consume-provisioning-request`) leaves one place less to book.

Nodes that are bought carry a label with a value of their own for each request. It is also a `provisioningClassDetails`, from
which Kueue makes a node selector, so that the pods land on what was bought for them.

Reasons and times are those of the Cluster Autoscaler (provisioningrequest/conditions, processors/provreq).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import SERVES_LEAST, InstanceType
from core.model.plan import PlannedGroup
from core.model.pod import GroupSource, Pod
from core.model.snapshot import ProvisioningRequest, RequestedPods, Snapshot
from core.model.values.requirements import Requirement
from core.pods import COMING_MAX, beyond_bound
from core.reasons.groups import RequestReason
from core.reasons.pods import PodReason

CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
ATOMIC_SCALE_UP: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CAPACITY_BLOCK: Final = "capacity-block.fleetwright.dev"
CLASSES: Final = (CHECK_CAPACITY, ATOMIC_SCALE_UP, CAPACITY_BLOCK)
OWN_DOMAIN: Final = ".fleetwright.dev"

BOOKED_FOR: Final = timedelta(minutes=10)
"""How long room is kept for pods that have still to come (Cluster Autoscaler)."""

VALID_FOR: Final = timedelta(days=7)
"""How long room is looked for without ValidUntilSeconds (Cluster Autoscaler)."""

REVOKED_AFTER: Final = timedelta(minutes=10)
"""How long lost nodes are tried to be replaced. CapacityRevoked stops the workload for good, so it comes last."""

BOOT: Final = timedelta(seconds=60)
"""How long a node takes from its launch until it is ready, where no node has shown it."""

ROUNDED_TO: Final = timedelta(seconds=30)
"""Expected times are rounded up: each new message becomes an event on the user's Job."""

DETAIL: Final = "ProvisioningRequest"
"""The key of `provisioningClassDetails` with the value of the nodes' label."""

RESERVATION: Final = "CapacityReservationID"
"""The parameter that names a capacity block or reservation, and the key of `provisioningClassDetails` that repeats it."""

RESOLVED_WITHIN: Final = timedelta(minutes=10)
"""How long a block may be unknown before its request fails: its EC2NodeClass may be written later, and is read every minute."""

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)

_NAME_MAX: Final = 54
"""Of the 63 characters of a label's value, a hyphen and eight are the digest."""


def is_served(request: ProvisioningRequest) -> bool:
    """Whether its class is one that we answer; others belong to other programs."""
    return request.provisioning_class in CLASSES or request.provisioning_class.endswith(OWN_DOMAIN)


def is_open(request: ProvisioningRequest) -> bool:
    """Whether its room has still to be found."""
    is_over = request.is_failed or request.is_expired or request.provisioned_at is not None
    return is_served(request) and not is_over


def is_booked(request: ProvisioningRequest, now: datetime) -> bool:
    """Whether its room is kept."""
    since = request.provisioned_at
    is_over = request.is_failed or request.is_expired or since is None or now - since >= BOOKED_FOR
    return is_served(request) and not is_over


def may_change(request: ProvisioningRequest) -> bool:
    """Whether time alone may change its conditions, so that runs have to look at it."""
    return is_served(request) and not (request.is_failed or request.is_expired)


def own_value(request: ProvisioningRequest) -> str:
    """Return the value of the label of nodes that are bought for the request; requests of one name have different ones."""
    identity = f"{request.namespace}/{request.name}/{request.uid}"
    return f"{request.name[:_NAME_MAX]}-{blake2b(identity.encode(), digest_size=4).hexdigest()}"


def own_nodes(request: ProvisioningRequest, snapshot: Snapshot) -> frozenset[str]:
    """Return the names of nodes bought for it, and of claims whose node has not joined."""
    value = own_value(request)
    nodes = {node.name for node in snapshot.nodes if node.labels.get(labels.PROVISIONING_REQUEST) == value}
    claims = (claim for claim in snapshot.node_claims if claim.labels.get(labels.PROVISIONING_REQUEST) == value)
    return frozenset(nodes | {claim.node_name or claim.name for claim in claims})


def state_of(request: ProvisioningRequest, snapshot: Snapshot) -> tuple[str, ...]:
    """Return in words what becomes of a request that looks for no room, and details."""
    if not is_served(request):
        return (f"is left to others: its class is {request.provisioning_class}",)
    if request.is_failed:
        return ("is over: its conditions say why",)
    since = request.provisioned_at
    if since is None:
        return ("looks for room",)
    places = len(places_to_come(request, snapshot))
    pods = f"{len(consumers(request, snapshot.pods))} pods have taken over their room"
    bought_nodes = (
        f"its nodes: {', '.join(sorted(own_nodes(request, snapshot))) or 'none is left'}"
        if request.has_own_nodes
        else ""
    )
    kept = (
        f"{places} places are kept until {since + BOOKED_FOR:%H:%M:%S} UTC" if is_booked(request, snapshot.now) else ""
    )
    outcome = "has booked its room" if kept else "no longer keeps room"
    return (outcome, *filter(None, (kept, pods, bought_nodes)))


def places_to_come(request: ProvisioningRequest, snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return a pod for each place that no pod has taken over; those whose launch is in progress are among them."""
    taken = _taken_over(request, consumers(request, snapshot.pods))
    return tuple(
        Pod(
            namespace=request.namespace,
            name=f"{request.name}-room-{index}-{number}",
            spec=pod_set.spec,
            created_at=request.created_at,
            labels=pod_set.labels,
            annotations={**pod_set.annotations, labels.MEMBER_TO_COME: "true"},
            is_marked_unschedulable=True,
        )
        for index, pod_set in enumerate(request.pod_sets)
        for number in range(taken[index] + 1, pod_set.pods + 1)
    )


def consumers(request: ProvisioningRequest, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that name the request and have not failed: a successor takes the part of one that did."""
    return [
        pod
        for pod in pods
        if pod.annotations.get(labels.CONSUMES_REQUEST) == request.name
        and pod.namespace == request.namespace
        and pod.phase != "Failed"
    ]


def _taken_over(request: ProvisioningRequest, pods: Iterable[Pod]) -> Counter[int]:
    """Return how many places of each pod set have been taken over: of equal pods first, then of any."""
    taken: Counter[int] = Counter()
    for pod in pods:
        is_open = [index for index, pod_set in enumerate(request.pod_sets) if taken[index] < pod_set.pods]
        alike = [index for index in is_open if request.pod_sets[index].spec.requests == pod.spec.requests]
        for index in (alike or is_open)[:1]:
            taken[index] += 1
    return taken


def booked_places(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return a pod for each booked place. Its own nodes may be replaced; other room is kept only where it is.

    Once all of its own nodes are gone, nothing is bought for it: its pods, where they still come, ask for nodes themselves.
    """
    booked = []
    for request in snapshot.provisioning_requests:
        is_gone = request.has_own_nodes and not own_nodes(request, snapshot)
        if is_gone or not is_booked(request, snapshot.now):
            continue
        kept = msgspec.structs.replace(
            request, pod_sets=tuple(_bound_to_room(pod_set, request) for pod_set in request.pod_sets)
        )
        booked += [
            msgspec.structs.replace(pod, annotations={**pod.annotations, labels.BOOKED_ROOM: "true"})
            for pod in places_to_come(kept, snapshot)
            if pod.key not in snapshot.requested_members
        ]
    return tuple(booked)


def _bound_to_room(pod_set: RequestedPods, request: ProvisioningRequest) -> RequestedPods:
    operator, values = ("In", (own_value(request),)) if request.has_own_nodes else ("DoesNotExist", ())
    room = Requirement.of(labels.PROVISIONING_REQUEST, operator, values)
    spec = msgspec.structs.replace(pod_set.spec, node_selector=(*pod_set.spec.node_selector, room))
    return msgspec.structs.replace(pod_set, spec=spec)


# What prevents a request from being planned for: a mistake, the bound of its namespace, or its capacity block.


RequestKey = tuple[str, str, str]
"""Namespace, source and name, as of a group."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why no room is looked for now; one that is `final` fails the request."""

    reason: RequestReason
    message: str
    is_final: bool = False


def obstacle_to(
    request: ProvisioningRequest, snapshot: Snapshot, late: Collection[RequestKey] | None = None
) -> Obstacle | None:
    """Return what prevents an open request from being planned for, None if nothing does.

    `late`: `late_requests`, from callers that ask about several requests.
    """
    obstacle = _obstacle_of_its_own(request, snapshot)
    if obstacle is not None or not is_open(request):
        return obstacle
    if _key(request) not in (late_requests(snapshot) if late is None else late):
        return None
    excess = f"the ProvisioningRequests of namespace {request.namespace} ask for more than {COMING_MAX} places"
    return Obstacle(RequestReason.TOO_MANY_PLACES, f"{excess}, and older ones come first")


def late_requests(snapshot: Snapshot) -> frozenset[RequestKey]:
    """Return the requests whose places do not fit within the bound of their namespace beside those of older ones.

    A request that is not planned for takes nothing of the bound. Those that are booked or have nodes come before all others:
    a block that begins must not end what younger ones have begun.
    """
    marks = (*(node.labels for node in snapshot.nodes), *(claim.labels for claim in snapshot.node_claims))
    values = frozenset(own_labels.get(labels.PROVISIONING_REQUEST, "") for own_labels in marks)

    def since(request: ProvisioningRequest) -> datetime:
        is_begun = is_booked(request, snapshot.now) or own_value(request) in values
        return _FIRST if is_begun else request.created_at or _LAST

    return beyond_bound(
        (since(request), *_key(request), _places(request))
        for request in snapshot.provisioning_requests
        if is_booked(request, snapshot.now) or (is_open(request) and _obstacle_of_its_own(request, snapshot) is None)
    )


def _key(request: ProvisioningRequest) -> RequestKey:
    return request.namespace, GroupSource.PROVISIONING_REQUEST, request.name


def _places(request: ProvisioningRequest) -> int:
    return sum(pod_set.pods for pod_set in request.pod_sets)


def _obstacle_of_its_own(request: ProvisioningRequest, snapshot: Snapshot) -> Obstacle | None:
    """Return what prevents an open request from being planned for whatever the others ask for."""
    if request.reason:
        reason = RequestReason.of(request.reason)
        return Obstacle(reason, request.message, reason in (RequestReason.INVALID, RequestReason.UNKNOWN_CLASS))
    if not is_open(request):
        return None
    if (places := _places(request)) > COMING_MAX:
        text = f"it asks for {places} places, and the requests of one namespace may ask for {COMING_MAX}"
        return Obstacle(RequestReason.TOO_MANY_PLACES, text, is_final=True)
    if not request.reservation:
        return None
    block, what = _Block.of(request.reservation, snapshot), f"capacity reservation {request.reservation}"
    if block is None:
        since = request.created_at or snapshot.now
        text = f"no EC2NodeClass selects {what}, or it has ended"
        return Obstacle(RequestReason.BLOCK_NOT_FOUND, text, snapshot.now - since >= RESOLVED_WITHIN)
    if (short := _why_too_short(request, snapshot, block)) is not None:
        return Obstacle(RequestReason.BLOCK_TOO_SHORT, f"{what}: {short}", is_final=True)
    if (small := _why_too_small(request, block)) is not None:
        return Obstacle(RequestReason.BLOCK_TOO_SMALL, f"{what} {small}", is_final=True)
    if block.begins_at is not None and block.begins_at > snapshot.now:
        text = f"{what} begins at {_minute(block.begins_at)}; its nodes are launched then"
        return Obstacle(RequestReason.BLOCK_NOT_BEGUN, text)
    return None


class _Block(msgspec.Struct, frozen=True):
    """A capacity block or reservation as the EC2NodeClasses that select it have it.

    Attributes:
        begins_at: None once it has begun.
        leaves_at: When nodes leave it, earlier than its end in a block; None without an end.
        places: How many nodes of this cluster it can hold, None where unknown.
        machine: Its instance type, None if the catalogue has none.
    """

    begins_at: datetime | None
    leaves_at: datetime | None
    places: int | None
    machine: InstanceType | None

    @classmethod
    def of(cls, identity: str, snapshot: Snapshot) -> _Block | None:
        """The reservation of this id; None if no class selects it."""
        for node_class in sorted(snapshot.node_classes, key=lambda node_class: node_class.name):
            if identity not in (node_class.reservations or ()):
                continue
            machines = snapshot.catalogue.types_for(node_class.name)
            return cls(
                begins_at=node_class.reservation_begins.get(identity),
                leaves_at=node_class.reservation_ends.get(identity),
                places=node_class.reservation_places.get(identity),
                machine=next((m for m in machines if any(o.reservation_id == identity for o in m.offerings)), None),
            )
        return None


def _why_too_short(request: ProvisioningRequest, snapshot: Snapshot, block: _Block) -> str | None:
    """Return why the block ends before its pods could run; once nodes are bought for them, only its end counts."""
    if block.leaves_at is None:
        return None
    begins = max(snapshot.now, block.begins_at or snapshot.now)
    serves = block.leaves_at - begins
    needed = SERVES_LEAST if own_nodes(request, snapshot) else max(SERVES_LEAST, request.runs_for)
    if serves >= needed:
        return None
    minutes = max(0, int(serves.total_seconds())) // 60
    return (
        f"nodes leave it at {_minute(block.leaves_at)}, {minutes} minutes from {_minute(begins)},"
        f" and {math.ceil(needed.total_seconds() / 60)} are needed"
    )


def _why_too_small(request: ProvisioningRequest, block: _Block) -> str | None:
    """Return why no plan can place all pods on the nodes that the block can hold; daemons would only need more."""
    if block.places is None or block.machine is None:
        return None
    machine, room = block.machine.name, block.machine.allocatable()
    total: Counter[str] = Counter()
    needed = 0
    for pod_set in request.pod_sets:
        requests = {name: amount for name, amount in pod_set.spec.requests.items() if amount}
        for name, amount in sorted(requests.items()):
            total[name] += amount * pod_set.pods
            if amount > room.get(name, 0):
                return f"has {machine}, and one pod requests more {name} than such a node has"
        on_each = min((room[name] // amount for name, amount in requests.items()), default=pod_set.pods)
        needed = max(needed, -(-pod_set.pods // max(1, on_each)))
    needed = max([needed, *(-(-amount // room[name]) for name, amount in total.items())])
    if needed <= block.places:
        return None
    return f"holds {block.places} {machine} of this cluster, and {needed} are needed"


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


# The conditions.


class RequestCondition(msgspec.Struct, frozen=True):
    """One condition of a request; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: RequestReason
    message: str


class RequestAnswer(msgspec.Struct, frozen=True):
    """What the status of a request should say now; conditions that it does not name stay as they are.

    Details and Provisioned belong in one write: Kueue reads the details once, when Provisioned is True.
    """

    conditions: tuple[RequestCondition, ...]
    details: dict[str, str] = {}


class Starting(msgspec.Struct, frozen=True):
    """The request's own nodes that are not ready, and when the last of them should be; None before it is launched."""

    nodes: int = 0
    ready_at: datetime | None = None


def answer(
    request: ProvisioningRequest,
    snapshot: Snapshot,
    group: PlannedGroup | None,
    starting: Starting,
    late: Collection[RequestKey] | None = None,
) -> RequestAnswer | None:
    """Return what to write about a request; None if it is not ours, or nothing is to be said of it.

    Args:
        request: One of the snapshot's.
        snapshot: The cluster.
        group: Its group in the plan; None without a plan for it.
        starting: Its nodes under way.
        late: As for `obstacle_to`.
    """
    now = snapshot.now
    if not is_served(request) or request.is_failed:
        return None
    if request.provisioned_at is not None:
        return _of_booking(request, snapshot, request.provisioned_at)
    if request.is_expired:
        return None
    obstacle = obstacle_to(request, snapshot, late)
    if obstacle is not None and obstacle.is_final:
        return RequestAnswer((RequestCondition(FAILED, "True", obstacle.reason, obstacle.message),))
    if request.valid_until is not None and now >= request.valid_until:
        text = f"its room was not there by {request.valid_until:%Y-%m-%d %H:%M:%S} UTC"
        return RequestAnswer((RequestCondition(FAILED, "True", RequestReason.EXPIRED, text),))
    accepted = RequestCondition(ACCEPTED, "True", RequestReason.ACCEPTED, "Fleetwright answers this request")
    if obstacle is not None:
        waits = RequestCondition(PROVISIONED, "False", obstacle.reason, obstacle.message)
        return RequestAnswer((accepted, waits))
    outcome, details = _outcome(request, group, starting)
    return RequestAnswer((accepted, outcome), details)


def _outcome(
    request: ProvisioningRequest, group: PlannedGroup | None, starting: Starting
) -> tuple[RequestCondition, dict[str, str]]:
    """Return the condition that says whether its room is there, and the details that belong to it."""
    if group is None:
        text = "it has not been planned for yet"
        return RequestCondition(PROVISIONED, "False", RequestReason.CAPACITY_NOT_FOUND, text), {}
    if group.reason:
        kind = (FAILED, "True") if request.fails_at_once and _has_no_room(group) else (PROVISIONED, "False")
        return RequestCondition(*kind, RequestReason.CAPACITY_NOT_FOUND, group.message), {}
    if group.awaits_nodes:
        return RequestCondition(PROVISIONED, "False", RequestReason.NODES_STARTING, _waiting(group, starting)), {}
    bought_for = group.domain.get(labels.PROVISIONING_REQUEST, "")
    block = {RESERVATION: request.reservation} if request.reservation else {}
    if not bought_for:
        text = f"nodes that run have room for its {group.members} pods, kept for {BOOKED_FOR.seconds // 60} minutes"
        return RequestCondition(PROVISIONED, "True", RequestReason.CAPACITY_FOUND, text), block
    text = f"nodes with label {labels.PROVISIONING_REQUEST}={bought_for} are ready for its {group.members} pods"
    return RequestCondition(PROVISIONED, "True", RequestReason.CAPACITY_PROVISIONED, text), {
        DETAIL: bought_for,
        **block,
    }


def _has_no_room(group: PlannedGroup) -> bool:
    return group.reason == PodReason.GROUP_INCOMPLETE


def _waiting(group: PlannedGroup, starting: Starting) -> str:
    """Say what the pods wait for, in a text that stays the same while nothing changes."""
    if not starting.nodes:
        return f"{group.members - group.ready} of {group.members} pods have a place on nodes that are not ready yet"
    nodes = "1 node is" if starting.nodes == 1 else f"{starting.nodes} nodes are"
    if starting.ready_at is None:
        return f"{nodes} being launched; ready about {BOOT.seconds} s after that"
    return f"{nodes} starting; ready at about {_rounded(starting.ready_at):%H:%M:%S} UTC"


def _rounded(at: datetime) -> datetime:
    since_epoch = at.timestamp()
    step = ROUNDED_TO.total_seconds()
    return at + timedelta(seconds=-since_epoch % step)


def _of_booking(request: ProvisioningRequest, snapshot: Snapshot, since: datetime) -> RequestAnswer | None:
    """Return the end of a booking, and what is to be said of nodes that are gone; None if nothing has changed."""
    conditions = [] if request.is_expired else _end_of_booking(request, snapshot, since)
    loss = _loss(request, snapshot)
    if loss is not None:
        conditions.append(loss)
    return RequestAnswer(tuple(conditions)) if conditions else None


def _end_of_booking(request: ProvisioningRequest, snapshot: Snapshot, since: datetime) -> list[RequestCondition]:
    """Return the condition that ends a booking, if it ends: after its time, or once a pod has had each place.

    Room that a finished pod leaves would otherwise be kept, and bought again if its node goes. Kueue then ignores this.
    """
    if snapshot.now - since >= BOOKED_FOR:
        minutes = BOOKED_FOR.seconds // 60
        text = f"its room was there at {since:%Y-%m-%d %H:%M:%S} UTC and was kept for {minutes} minutes"
        return [RequestCondition(BOOKING_EXPIRED, "True", RequestReason.BOOKING_EXPIRED, text)]
    have_places = all(pod.node_name or pod.is_terminal for pod in consumers(request, snapshot.pods))
    if have_places and not places_to_come(request, snapshot):
        text = "all its pods have had their nodes"
        return [RequestCondition(BOOKING_EXPIRED, "True", RequestReason.ROOM_USED, text)]
    return []


def _loss(request: ProvisioningRequest, snapshot: Snapshot) -> RequestCondition | None:
    """Return what to say of nodes that were bought for a request whose pods still need them, if all of them are gone."""
    if request.reservation and _is_over(request.reservation, snapshot):
        return _end_of_block(request, snapshot)
    if not request.has_own_nodes:
        return None
    if own_nodes(request, snapshot):
        text = "other nodes were bought for it"
        return (
            RequestCondition(CAPACITY_REVOKED, "False", RequestReason.NODES_REPLACED, text) if request.lost_at else None
        )
    waiting = _waiting_consumers(request, snapshot)
    if not waiting:
        return None
    lost_at = request.lost_at or snapshot.now
    if snapshot.now - lost_at < REVOKED_AFTER:
        text = (
            f"its nodes are gone, and {len(waiting)} pods wait for others until {lost_at + REVOKED_AFTER:%H:%M:%S} UTC"
        )
        return RequestCondition(CAPACITY_REVOKED, "Unknown", RequestReason.NODES_LOST, text)
    text = f"its nodes are gone since {lost_at:%H:%M:%S} UTC, and no others could be bought for {len(waiting)} pods"
    return RequestCondition(CAPACITY_REVOKED, "True", RequestReason.CAPACITY_GONE, text)


def _is_over(reservation: str, snapshot: Snapshot) -> bool:
    """Whether nodes have had to leave the reservation, or no EC2NodeClass selects it any more."""
    block = _Block.of(reservation, snapshot)
    return block is None or (block.leaves_at is not None and block.leaves_at <= snapshot.now)


def _end_of_block(request: ProvisioningRequest, snapshot: Snapshot) -> RequestCondition | None:
    """Return that pods wait for a block that is over: no other node can take them, so there is nothing to wait for."""
    waiting = _waiting_consumers(request, snapshot)
    if not waiting:
        return None
    text = f"nodes have left capacity reservation {request.reservation}, and {len(waiting)} pods wait for room in it"
    return RequestCondition(CAPACITY_REVOKED, "True", RequestReason.BLOCK_ENDED, text)


def _waiting_consumers(request: ProvisioningRequest, snapshot: Snapshot) -> list[str]:
    return [pod.key for pod in consumers(request, snapshot.pods) if not pod.is_terminal and not pod.node_name]
