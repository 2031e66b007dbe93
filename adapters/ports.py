"""The ports to the world: their interfaces, their data, and the errors that they raise.

The errors that a port may raise.

    PortError
    ├── TransientError               throttled, timed out, 5xx: fail this item, the queue tries again
    │   ├── LostReplyError           it may have happened: check before doing it again
    │   ├── ThrottledError           asked too often: wait as long as it says
    │   ├── ExpiredError             the version of a list that the request names is too old: list again
    │   └── UnfulfilledError         a launch ended without an instance, for a cause that passes: order again with a new token
    ├── InsufficientCapacityError    no capacity in these offerings: remember them, plan again without them
    ├── NotFoundError                already gone: success when deleting
    ├── ConflictError                another writer won: drop the work, the next run decides again
    ├── EvictionBlockedError         a PodDisruptionBudget says not now
    └── DeniedError                  permission, quota or a broken reference: alarm, do not retry
        ├── LaunchDeniedError        of a launch: remember what was asked for, and for how long to keep away from it
        ├── TooLargeError            of a write: leave it out, and write the others
        └── SeveralBudgetsError      more than one PodDisruptionBudget selects the pod: only a user can help

Adapters translate at the boundary and chain the cause; no code above them sees botocore or urllib3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from core.api.objects import JsonObject
from core.errors import FleetwrightError
from core.model.catalogue import OfferingKey
from core.reasons.runs import FailureReason

if TYPE_CHECKING:
    from core.catalogue.build import MarketFacts
    from core.manifests.wire.resources import Resource
    from core.model.catalogue import Catalogue
    from core.model.node_pool import NodePool
    from core.model.plan import LaunchOrder
    from core.model.values.quotas import InstanceEnd, QuotaReading


# The port of one AWS service, for calls that no port names.


class AwsCalls(Protocol):
    """Calls the operations of one AWS service by their names."""

    def call(self, operation: str, **arguments: Any) -> JsonObject:
        """Call `operation`, by the service's name for it. Raises PortError."""
        ...

    def items(self, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Yield every item of a paged listing. Raises PortError."""
        ...


# The port of the clock.


class Clock(Protocol):
    """Provides the time; the simulator's is virtual."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC."""
        ...

    def worked(self) -> timedelta:
        """Return the processor time of the process since its start."""
        ...


class PortError(FleetwrightError):
    """Base class of the errors that a port may raise.

    Attributes:
        call: The call, as `service:Operation` or `kube:VERB RESOURCE`.
        detail: The other side's message.
    """

    reason: ClassVar[FailureReason] = FailureReason.UNEXPECTED

    def __init__(self, call: str, detail: str) -> None:
        self.call = call
        self.detail = detail
        super().__init__(call, detail)

    def __str__(self) -> str:
        return f"{self.call}: {self.detail}"


class TransientError(PortError):
    """Throttled, timed out or a fault on the other side.

    `answers`: how many attempts of the SDK the other side answered so; none if it was not reached, or its answer was lost.
    """

    reason: ClassVar[FailureReason] = FailureReason.TRANSIENT

    def __init__(self, call: str, detail: str, *, answers: int = 0) -> None:
        super().__init__(call, detail)
        self.answers = answers


class LostReplyError(TransientError):
    """The request was sent but got no answer: it may or may not have been applied."""

    reason: ClassVar[FailureReason] = FailureReason.LOST_REPLY


class ThrottledError(TransientError):
    """The other side is overloaded, and did nothing. `retry_after` is the delay that it requests, zero if it requests none."""

    reason: ClassVar[FailureReason] = FailureReason.THROTTLED

    def __init__(self, call: str, detail: str, retry_after: timedelta = timedelta(0), *, answers: int = 1) -> None:
        super().__init__(call, detail, answers=answers)
        self.retry_after = retry_after


class ExpiredError(TransientError):
    """The version of a list that the request names is too old: list again."""


class SilentError(TransientError):
    """EC2 answered a launch without an instance or a cause: an earlier request with its token may have launched."""


class UnfulfilledError(TransientError):
    """EC2 launched nothing for a cause that passes, or was silent until instances would be listed.

    It repeats the answer to the same token.
    """

    def __init__(self, call: str, detail: str, *, answers: int = 0, is_silent: bool = False) -> None:
        super().__init__(call, detail, answers=answers)
        self.is_silent = is_silent


class NotFoundError(PortError):
    """The object does not exist."""

    reason: ClassVar[FailureReason] = FailureReason.NOT_FOUND


class ConflictError(PortError):
    """Another writer changed it first."""

    reason: ClassVar[FailureReason] = FailureReason.CONFLICT


class EvictionBlockedError(PortError):
    """The eviction would violate a PodDisruptionBudget. `detail` names it if the server does."""

    reason: ClassVar[FailureReason] = FailureReason.EVICTION_BLOCKED


class DeniedError(PortError):
    """Not permitted, over quota, or impossible. `code` and `message` are the other side's; the code is empty if it has none."""

    reason: ClassVar[FailureReason] = FailureReason.DENIED

    def __init__(self, call: str, detail: str, *, code: str = "", message: str = "") -> None:
        super().__init__(call, detail)
        self.code = code
        self.message = message or detail


class TooLargeError(DeniedError):
    """What is to be written is larger than the other side stores; smaller writes succeed."""


class SeveralBudgetsError(DeniedError):
    """More than one PodDisruptionBudget selects the pod, which Kubernetes' eviction API does not support."""

    reason: ClassVar[FailureReason] = FailureReason.SEVERAL_BUDGETS


class RefusedOffering(msgspec.Struct, frozen=True, order=True):
    """An offering that EC2 did not launch, with its error code and message, and the intended subnet."""

    offering: OfferingKey
    code: str
    message: str = ""
    subnet: str = ""


class LaunchDeniedError(DeniedError):
    """EC2 does not launch what was requested in any offering.

    `refused` names the requested offerings with their error codes.
    """

    def __init__(self, call: str, detail: str, refused: Sequence[RefusedOffering]) -> None:
        super().__init__(call, detail)
        self.refused = tuple(refused)


class InsufficientCapacityError(PortError):
    """Nothing could be launched. `refused` has the requested offerings with EC2's error code for each."""

    reason: ClassVar[FailureReason] = FailureReason.INSUFFICIENT_CAPACITY

    def __init__(self, call: str, detail: str, refused: Sequence[RefusedOffering]) -> None:
        super().__init__(call, detail)
        self.refused = tuple(refused)


def reason_of(error: Exception) -> FailureReason:
    """Return the reason code of an error."""
    return error.reason if isinstance(error, PortError) else FailureReason.UNEXPECTED


# EC2's instances and node classes, as controllers use them.


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An EC2 instance that carries our cluster's tag.

    Attributes:
        state: EC2's state of the instance, such as running or terminated.
        reservation_id, reservation_type, interruptible: As in an offering; set for capacity type `reserved`.
        efa_interfaces: Network interfaces that carry EFA traffic; a type that supports them has none unless requested.
        placement_group, partition: Id of the placement group, and its partition; empty and 0 if there is none or EC2 has not
            reported it yet.
        security_groups: The ids of its interfaces' security groups.
    """

    instance_id: str
    instance_type: str
    zone: str
    capacity_type: str
    state: str
    launched_at: datetime
    reservation_id: str = ""
    reservation_type: str = ""
    interruptible: bool = False
    private_dns_name: str = ""
    image_id: str = ""
    efa_interfaces: int = 0
    subnet_id: str = ""
    placement_group: str = ""
    partition: int = 0
    security_groups: tuple[str, ...] = ()
    tags: dict[str, str] = {}

    @property
    def provider_id(self) -> str:
        """The instance's id in the form that a kubelet on EC2 reports."""
        return f"aws:///{self.zone}/{self.instance_id}"

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is about to."""
        return self.state in ("pending", "running")


class Impairment(msgspec.Struct, frozen=True, order=True):
    """An instance that fails one of EC2's own status checks. `check` is `system` (the host) or `instance` (its software)."""

    instance_id: str
    check: str
    since: datetime


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a launch: at least one instance, in the order of EC2's answer, and the offerings that were refused."""

    instances: tuple[Instance, ...]
    refused: tuple[RefusedOffering, ...] = ()


class CloudProvider(Protocol):
    """The EC2 operations on instances and node classes."""

    def launch(self, order: LaunchOrder) -> Launched:
        """Launch the ordered instances (CreateFleet, type instant), or some of them.

        Raises InsufficientCapacityError, LaunchDeniedError, TransientError; ConflictError if the token was used for another
        request that left no instance, so that a new token is needed.
        """
        ...

    def instances(self, ids: Sequence[str] = ()) -> tuple[Instance, ...]:
        """Return all instances of this cluster that are not terminated, by id; with `ids` only those (a cheaper call)."""
        ...

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        """Return why an instance ended or was stopped, None where EC2 does not know it any more.

        Raises ConflictError where it runs or is about to.
        """
        ...

    def impaired(self) -> tuple[Impairment, ...]:
        """Return the region's instances, of any owner, that fail a status check now and since when that is known; by id."""
        ...

    def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate the instances; no error for those already gone."""
        ...

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance. Raises NotFoundError."""
        ...

    def prune_templates(self) -> int:
        """Delete launch templates that have long been unused, and return how many: an account may have 5,000."""
        ...

    def prune_profiles(self, node_classes: Sequence[JsonObject]) -> int:
        """Delete our instance profiles that no instance and none of these classes, which are all, needs.

        Return how many.
        """
        ...

    def resolve(self, node_class: JsonObject, node_pools: Sequence[NodePool] = ()) -> JsonObject:
        """Return the status that the EC2NodeClass resolves to: subnets, securityGroups, amis, instanceProfile, conditions.

        `node_pools` are those of the class: their launches are validated with EC2.
        """
        ...

    def user_data_problem(self, node_class: JsonObject, node_pool: NodePool) -> str:
        """Return why EC2 would not accept the user data of the NodePool's nodes, empty if it would. Raises PortError."""
        ...


# The part of the cluster's API that controllers use.


class Listing(msgspec.Struct, frozen=True):
    """All objects of one kind: decoded ones (structs of `core.manifests.wire`), and the undecodable ones with the reason.

    Attributes:
        version: From here, `Kubernetes.changes` can continue the list; empty if it cannot, or if that saves nothing.
        held: Namespace → bytes that its objects make a run hold (`decoding.NamespaceRoom`).
    """

    items: tuple[Any, ...]
    rejected: tuple[tuple[str, str], ...] = ()
    version: str = ""
    held: Mapping[str, int] = {}


class ListChanges(msgspec.Struct, frozen=True):
    """What has happened to the objects of a kind.

    Attributes:
        events: `namespace/name` of an object, and the object as it was then, None once it is gone; in order.
        version: The version of the list that includes these events and no others.
        objects: How many objects that list has; None if the server does not say.
    """

    events: tuple[tuple[str, Any | None], ...]
    version: str
    objects: int | None = None


class Kubernetes(Protocol):
    """The part of the cluster's API that we need.

    Every method raises PortError subclasses only. Writes are single attempts; the caller decides about retries.
    """

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """Every object of the kind in all namespaces, page by page; `fields` and `labels` are Kubernetes' selectors."""
        ...

    def count(self, resource: Resource) -> int | None:
        """Return how many objects of the kind there are, for the cost of one; None if the server does not report it."""
        ...

    def changes(self, resource: Resource, since: str) -> ListChanges | None:
        """Return what has happened from a version of the whole list until now, of a kind in `decoding.KEPT_IN_PART`.

        None if it is not known for certain that nothing is missing: the caller must list again.
        """
        ...

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """One object as its wire struct. Raises NotFoundError."""
        ...

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        """Create an object. Raises ConflictError if it exists."""
        ...

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        """Apply a JSON merge patch. A `metadata.resourceVersion` in the body makes it conditional (ConflictError)."""
        ...

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete an object, with a UID precondition if one is given. Raises NotFoundError, ConflictError."""
        ...

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod to a node. Raises NotFoundError; ConflictError if it has a node, or is another pod by now."""
        ...

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict a pod through the eviction API.

        Raises EvictionBlockedError, SeveralBudgetsError, ThrottledError, NotFoundError, ConflictError.
        """
        ...


# Ports of the market: sources and stores of the catalogue and the vCPU quotas.


class CatalogueSource(Protocol):
    """The source of shapes, zones and prices: EC2 and the Pricing service."""

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:
        """Return the current facts. What cannot be read, and what was read a short while ago, is kept from `previous`.

        `is_used`: Whether spot prices are read in any case. If none has changed, the facts are those of `previous`.

        Raises PortError where a part fails that has no previous value.
        """
        ...


class CatalogueStore(Protocol):
    """Storage for the last reading between runs."""

    def facts(self) -> MarketFacts | None:
        """Return the last reading, None before the first."""
        ...

    def save(self, facts: MarketFacts) -> None:
        """Replace the last reading."""
        ...

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:
        """Return the whole catalogue for these EC2NodeClass manifests. Raises NotFoundError before the first reading."""
        ...


class QuotaSource(Protocol):
    """The source of EC2's vCPU quotas: Service Quotas, and the account's instances."""

    def read(self, previous: QuotaReading | None) -> QuotaReading:
        """Return the current reading. What cannot be read, or was read a short while ago, is kept from `previous`.

        Raises PortError where a part fails that has no previous value.
        """
        ...


class QuotaStore(Protocol):
    """Storage for the last reading of quotas between runs."""

    def reading(self) -> QuotaReading | None:
        """Return the last reading, None before the first. Raises PortError."""
        ...

    def save(self, reading: QuotaReading) -> None:
        """Replace the last reading. Raises PortError."""
        ...


# The port of the object store.


class ObjectStore(Protocol):
    """Whole objects by name, for documents that are written once and rarely read."""

    def put(self, key: str, body: bytes) -> None:
        """Write an object, replacing an existing one. Raises PortError."""
        ...

    def get(self, key: str) -> bytes:
        """Read an object. Raises NotFoundError, PortError."""
        ...


class ListedObjects(ObjectStore, Protocol):
    """Objects that can also be listed."""

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yield the names with this prefix behind `after`, in order. Raises PortError."""
        ...


# Ports that wake functions and notify people: queues, schedules and a topic.


class Queue(Protocol):
    """A queue of small JSON messages."""

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        """Send all messages; each may arrive more than once, late, or out of order. Delays over 15 minutes are cut to that."""
        ...


class StateMachine(Protocol):
    """A state machine of Step Functions."""

    def start(self, name: str, execution_input: JsonObject) -> None:
        """Start an execution of this name; nothing happens if there is one already. Raises PortError."""
        ...

    def has_ended(self, name: str) -> bool:
        """Whether the execution of this name has ended, well or badly. Raises PortError."""
        ...


class FunctionQueues(msgspec.Struct, frozen=True, kw_only=True):
    """The queues that wake `provision`, `execute` and `disrupt`."""

    wake_ups: Queue
    work: Queue
    run_requests: Queue


class WindowSchedules(Protocol):
    """EventBridge Scheduler entries that wake `disrupt` when a budget window opens or closes."""

    def replace(self, wanted: Mapping[str, str]) -> None:
        """Make the group contain exactly these: name → schedule expression."""
        ...


class Topic(Protocol):
    """Messages to the people who subscribe."""

    def publish(self, subject: str, text: str) -> None:
        """Send one message to all subscribers; `subject` is one line of at most 100 ASCII characters. Raises PortError."""
        ...


# The port of AWS sessions, which have credentials, a region, and clients.


class Session(Protocol):
    """The part of `boto3.Session` that the adapters use."""

    @property
    def region_name(self) -> Any:
        """The region; None if none is set."""

    @property
    def events(self) -> Any:
        """The event hooks of requests."""

    def client(self, service_name: str, **options: Any) -> Any:
        """Create a client."""

    def get_credentials(self) -> Any:
        """Return the credentials; None if there are none."""


# Ports: what controllers need from the outside, and the errors that a port may raise.


__all__ = [
    "AwsCalls",
    "CatalogueSource",
    "CatalogueStore",
    "Clock",
    "CloudProvider",
    "ConflictError",
    "DeniedError",
    "EvictionBlockedError",
    "FunctionQueues",
    "Impairment",
    "Instance",
    "InsufficientCapacityError",
    "JsonObject",
    "Kubernetes",
    "LaunchDeniedError",
    "Launched",
    "ListedObjects",
    "Listing",
    "LostReplyError",
    "NotFoundError",
    "ObjectStore",
    "PortError",
    "Queue",
    "QuotaSource",
    "QuotaStore",
    "RefusedOffering",
    "Session",
    "SeveralBudgetsError",
    "ThrottledError",
    "TooLargeError",
    "Topic",
    "TransientError",
    "UnfulfilledError",
    "WindowSchedules",
    "reason_of",
]
