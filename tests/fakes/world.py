"""A small world behind the ports: stateful and scarce, with a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pytest

from adapters.ports import (
    ConflictError,
    EvictionBlockedError,
    Impairment,
    Instance,
    InsufficientCapacityError,
    JsonObject,
    Launched,
    ListChanges,
    Listing,
    NotFoundError,
    PortError,
    RefusedOffering,
    TransientError,
)
from core.catalogue.build import MarketFacts
from core.catalogue.document import Market
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.plan import LaunchOrder
from core.model.values.quotas import InstanceEnd
from installation.cluster_roles import RULES_FOR_STEERING, RULES_FOR_SURGE, RULES_OF, verbs
from simulator.clock import VirtualClock
from simulator.cluster.api import selection
from tests.builders import NOW


class CrashError(BaseException):
    """The process dies: nothing may catch it."""


class FakeClock(VirtualClock):
    """Time moves only when a test moves it, back as well; the process counts as busy except in its pauses."""

    def __init__(self, now: datetime) -> None:
        super().__init__(now)
        self._worked = timedelta(0)

    def worked(self) -> timedelta:
        return self._worked

    def advance(self, **span: float) -> None:
        until = self._now + timedelta(**span)
        self._worked += timedelta(**span)
        if until >= self._now:
            self.run_until(until)
        self._now = until

    def pause(self, duration: timedelta) -> None:
        self._now += duration


class FakeKubernetes:
    """Objects by kind and name. Nothing runs by itself: tests act as the kubelet and the controllers.

    What the ClusterRole does not permit fails the test: the real API server would refuse it.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._objects: dict[tuple[str, str, str], JsonObject] = {}
        self._version = 0
        self.protected: set[str] = set()
        self.refusing: dict[str, PortError] = {}
        self.undeletable: set[str] = set()
        self.evicted: list[str] = []
        self.before_call: Callable[[str], None] = lambda _: None
        self.after_call: Callable[[str], None] = lambda _: None

    def put(self, *manifests: JsonObject) -> None:
        """Apply objects as a user or a kubelet would."""
        for manifest in manifests:
            self._store(resources.BY_KIND[manifest["kind"]], _identified(manifest))

    def amend(self, kind: Resource, name: str, body: JsonObject, namespace: str = "") -> None:
        """Change an object as a user, a kubelet or the scheduler would."""
        self._store(kind, _merged(self._found(kind, name, namespace), body))

    def drop(self, kind: Resource, name: str, namespace: str = "") -> None:
        """Remove an object at once."""
        self._objects.pop((kind.kind, namespace, name), None)

    def raw(self, kind: Resource, name: str, namespace: str = "") -> JsonObject:
        """An object as it is stored."""
        return self._objects[kind.kind, namespace, name]

    def names(self, kind: Resource) -> list[str]:
        """Names of the objects of a kind."""
        return sorted(name for found, _, name in self._objects if found == kind.kind)

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        _permitted("list", resource)
        self.before_call(f"list {resource.plural}" + f" {fields}{labels}".rstrip())
        is_selected = selection(resource, fields, labels)
        of_kind = [self._objects[key] for key in sorted(self._objects) if key[0] == resource.kind]
        if resource.kind == resources.PROVISIONING_REQUESTS.kind and (not of_kind or resource.version != "v1"):
            raise NotFoundError(f"list {resource.plural}", "the server serves no such kind")
        found = [obj for obj in of_kind if is_selected(obj)]
        page = decoding.decode_page(resource, msgspec.json.encode({"items": list(found)}))
        return Listing(page.items, page.rejected)

    def changes(self, resource: Resource, since: str) -> ListChanges | None:
        raise AssertionError(f"no list of {resource.plural} has a version to continue from")

    def count(self, resource: Resource) -> int | None:
        _permitted("list", resource)
        self.before_call(f"count {resource.plural}")
        return len(self.names(resource))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        _permitted("get", resource)
        self.before_call(f"get {resource.plural}")
        return decoding.from_object(resource, self._found(resource, name, namespace))

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        _permitted("create", resource)
        self.before_call(f"create {resource.plural}")
        if (resource.kind, namespace, body["metadata"]["name"]) in self._objects:
            raise ConflictError(f"kube:create {resource.plural}", "already exists")
        self._store(resource, _identified(body))
        self.after_call(f"create {resource.plural}")

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        _permitted("patch", resource, subresource)
        self.before_call(f"patch {resource.plural}")
        present = self._found(resource, name, namespace)
        expected = body.get("metadata", {}).get("resourceVersion")
        if expected is not None and expected != present["metadata"]["resourceVersion"]:
            raise ConflictError(f"kube:patch {resource.plural}", "the object has been modified")
        after = _merged(present, body)
        self._store(resource, after)
        held = present["metadata"].get("finalizers")
        if held and after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self.drop(resource, name, namespace)
        self.after_call(f"patch {resource.plural}")

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        _permitted("delete", resource)
        self.before_call(f"delete {resource.plural}")
        present = self._found(resource, name, namespace)
        if uid and uid != present["metadata"].get("uid"):
            raise ConflictError(f"kube:delete {resource.plural}", "another object of this name")
        if f"{namespace}/{name}" in self.undeletable:
            raise TransientError(f"kube:delete {resource.plural}", "500")
        if present["metadata"].get("finalizers"):
            self.amend(resource, name, {"metadata": {"deletionTimestamp": self._clock.now().isoformat()}}, namespace)
        else:
            self.drop(resource, name, namespace)
        self.after_call(f"delete {resource.plural}")

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        _permitted("create", resources.PODS, "eviction")
        self.before_call("create pods/eviction")
        self._found(resources.PODS, name, namespace)
        if f"{namespace}/{name}" in self.protected:
            raise EvictionBlockedError("kube:create pods/eviction", "disruption budget says no")
        if f"{namespace}/{name}" in self.refusing:
            raise self.refusing[f"{namespace}/{name}"]
        self.evicted.append(f"{namespace}/{name}")
        self.drop(resources.PODS, name, namespace)
        self.after_call("create pods/eviction")

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        _permitted("create", resources.PODS, "binding")
        self.before_call("create pods/binding")
        pod = self._found(resources.PODS, name, namespace)
        if pod["spec"].get("nodeName") or uid != pod["metadata"].get("uid"):
            raise ConflictError("kube:create pods/binding", "already assigned, or another pod of this name")
        self.amend(resources.PODS, name, {"spec": {"nodeName": node}}, namespace)
        self.after_call("create pods/binding")

    def _found(self, resource: Resource, name: str, namespace: str) -> JsonObject:
        try:
            return self._objects[resource.kind, namespace, name]
        except KeyError:
            raise NotFoundError(f"kube:get {resource.plural}", f"{namespace}/{name}") from None

    def _store(self, resource: Resource, manifest: JsonObject) -> None:
        self._version += 1
        metadata = {**manifest["metadata"], "resourceVersion": str(self._version)}
        key = (resource.kind, metadata.get("namespace", ""), metadata["name"])
        self._objects[key] = {**manifest, "metadata": metadata}


def _identified(manifest: JsonObject) -> JsonObject:
    """The object with the UID that the API server gives it."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {"uid": f"uid-{metadata['name']}", **metadata}}


RULES: Final = (*RULES_OF.values(), *RULES_FOR_SURGE.values(), *RULES_FOR_STEERING.values())
PERMITTED: Final = frozenset(permission for rules in RULES for permission in verbs(rules))


def _permitted(verb: str, resource: Resource, subresource: str = "") -> None:
    """Fail the test where the functions' ClusterRole has no such rule."""
    named = f"{resource.plural}/{subresource}" if subresource else resource.plural
    if (resource.group, named, verb) not in PERMITTED:
        pytest.fail(f"the ClusterRole lets nobody {verb} {named} of {resource.group or 'the core group'}")


class FakeCloud:
    """EC2 with the capacity that `scarce` leaves; one instance for each launch token."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._by_token: dict[str, tuple[str, ...]] = {}
        self._launches = 0
        self._instances: dict[str, Instance] = {}
        self.failing: list[Impairment] = []
        self.ends: dict[str, InstanceEnd] = {}
        """Instance → why it ended, while EC2 still describes it."""
        self.scarce: set[tuple[str, str, str]] = set()
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        self.resolution: JsonObject = {"amis": [], "conditions": [ready]}
        self.orders: list[LaunchOrder] = []
        self.room = 1000
        """The most instances that one order gets."""
        self.before_call: Callable[[str], None] = lambda _: None
        self.after_call: Callable[[str], None] = lambda _: None

    def put(self, instance: Instance) -> None:
        """Add an instance as given, or replace it."""
        self._instances[instance.instance_id] = instance

    def launch(self, order: LaunchOrder) -> Launched:
        self.before_call("launch")
        self.orders.append(order)
        launched = self._by_token.get(order.token)
        if launched is None:
            launched = self._by_token[order.token] = tuple(self._new(order) for _ in range(min(order.count, self.room)))
        self.after_call("launch")
        return Launched(instances=tuple(self._instances[instance_id] for instance_id in launched))

    def instances(self, ids: Sequence[str] = ()) -> tuple[Instance, ...]:
        self.before_call("instances")
        wanted = sorted(self._instances) if not ids else sorted(ids)
        return tuple(self._instances[i] for i in wanted if i in self._instances)

    def end(self, instance_id: str, code: str, message: str = "") -> None:
        """Let EC2 end an instance for this reason."""
        self._instances.pop(instance_id, None)
        self.ends[instance_id] = InstanceEnd(code, message)

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        self.before_call("end_of")
        if instance_id in self._instances:
            raise ConflictError("ec2:DescribeInstances", f"instance {instance_id} has not ended yet")
        return self.ends.get(instance_id)

    def impaired(self) -> tuple[Impairment, ...]:
        self.before_call("impaired")
        return tuple(sorted(self.failing))

    def terminate(self, instance_ids: Sequence[str]) -> None:
        self.before_call("terminate")
        for instance_id in instance_ids:
            self._instances.pop(instance_id, None)
        self.after_call("terminate")

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        self.before_call("tag")
        if instance_id not in self._instances:
            raise NotFoundError("ec2:CreateTags", instance_id)
        found = self._instances[instance_id]
        self._instances[instance_id] = msgspec.structs.replace(found, tags={**found.tags, **tags})
        self.after_call("tag")

    def prune_templates(self) -> int:
        self.before_call("prune_templates")
        return 0

    def prune_profiles(self, node_classes: Sequence[JsonObject]) -> int:
        self.before_call("prune_profiles")
        return 0

    def resolve(self, node_class: JsonObject, node_pools: Sequence[NodePool] = ()) -> JsonObject:
        self.before_call("resolve")
        return self.resolution

    def user_data_problem(self, node_class: JsonObject, node_pool: NodePool) -> str:
        return ""

    def _new(self, order: LaunchOrder) -> str:
        usable = [o for o in order.offerings if (o.instance_type, o.zone, o.capacity_type) not in self.scarce]
        if not usable:
            refused = [RefusedOffering(o.key, "InsufficientInstanceCapacity") for o in order.offerings]
            raise InsufficientCapacityError("ec2:CreateFleet", "no capacity", refused)
        offering = usable[0]
        instance_id = f"i-{self._launches:04d}"
        self._launches += 1
        self._instances[instance_id] = Instance(
            instance_id=instance_id,
            instance_type=offering.instance_type,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            state="running",
            launched_at=self._clock.now(),
            image_id="ami-1",
            tags=dict(order.tags),
        )
        return instance_id


class FakeQueue:
    """Keeps messages with their delays until a test takes them."""

    def __init__(self) -> None:
        self.sent: list[tuple[JsonObject, timedelta]] = []

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        self.sent += [(message, delay) for message in messages]

    def take(self) -> list[JsonObject]:
        """Everything that was sent, whatever its delay."""
        taken, self.sent = [message for message, _ in self.sent], []
        return taken


class FakeCatalogues:
    """A market that does not change by itself."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.present = catalogue
        self.kept: MarketFacts | None = MarketFacts(
            shapes=(), market=Market(region="us-east-1"), shapes_read_at=NOW, prices_read_at=NOW
        )

    def facts(self) -> MarketFacts | None:
        return self.kept

    def save(self, facts: MarketFacts) -> None:
        self.kept = facts

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:
        return self.present


class MemoryObjects:
    """A bucket; while `broken` is set nothing can be written."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.broken: PortError | None = None

    def put(self, key: str, body: bytes) -> None:
        if self.broken is not None:
            raise self.broken
        self.objects[key] = body

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFoundError("s3:GetObject", key)
        return self.objects[key]

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        return iter(sorted(key for key in self.objects if key.startswith(prefix) and key > after))


class FakeTopic:
    """Keeps the published messages; while `broken` is set, publishing fails."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.broken: PortError | None = None

    def publish(self, subject: str, text: str) -> None:
        if self.broken is not None:
            raise self.broken
        self.told.append((subject, text))


class FakeWindows:
    """The schedules that exist."""

    def __init__(self) -> None:
        self.present: dict[str, str] = {}

    def replace(self, wanted: Mapping[str, str]) -> None:
        self.present = dict(wanted)


def _merged(present: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict) or not isinstance(present, dict):
        return patch
    merged = dict(present)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key, {}), value)
    return merged
