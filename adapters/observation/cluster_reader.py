"""Reads the Kubernetes objects of an observation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import msgspec

from adapters.observability import logger
from adapters.ports import (
    Clock,
    DeniedError,
    Instance,
    JsonObject,
    Kubernetes,
    ListChanges,
    Listing,
    NotFoundError,
    PortError,
)
from core import api, labels
from core.api.objects import name_of
from core.api.status import is_stale, readiness
from core.catalogue.capacity import EFA
from core.errors import InvalidInputError
from core.launch.denials import revision_of
from core.launch.template import tenancy
from core.lifecycle.records import Machine
from core.manifests.assemble import ObjectProblem
from core.manifests.expected_pods import needed_kinds
from core.manifests.pods import PodTranslator
from core.manifests.wire import decoding, resources
from core.manifests.wire.pod import WirePod, names_group
from core.manifests.wire.resources import LEASES, Resource
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import PlannedClaim
from core.model.pod import Pod
from installation.settings import Settings

# Provides EC2NodeClasses whose status matches their current spec.
#
# After an edit and until `reconcile` has resolved the class again, its status names images, subnets and security groups of the
# old spec, and nodes of the new hash would be launched from them. A new class has none, and EC2 was not asked about it.


KEPT_FOR: Final = timedelta(minutes=1)
"""How long this sandbox's own resolution of a class is used; `reconcile` writes it into the status after a round or two."""

_STALE: Final = "the spec has changed since it was resolved"
_NEW: Final = "it was not resolved yet"

Resolve = Callable[[JsonObject, Sequence[NodePool]], JsonObject]
"""Returns the status of a class with these NodePools (`CloudProvider.resolve`)."""


class CurrentNodeClasses:
    """Resolves edited and new classes itself if it may; without that, edited ones are not ready.

    Args:
        resolve: Looks up the status of a class and raises PortError; None for functions that may not.
    """

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve
        self._known: dict[tuple[str, str], tuple[datetime, JsonObject]] = {}

    @property
    def resolves(self) -> bool:
        """Whether edited and new classes are resolved here."""
        return self._resolve is not None

    def all(
        self, manifests: Iterable[JsonObject], now: datetime, node_pools: Sequence[JsonObject] = ()
    ) -> tuple[JsonObject, ...]:
        """Return the classes, each with a status of its current spec, or not ready; `node_pools` are those of the cluster."""
        return tuple(
            self._current(manifest, now, node_pools) if self._is_needed(manifest) else manifest
            for manifest in manifests
        )

    def _is_needed(self, manifest: JsonObject) -> bool:
        return is_stale(manifest) or (self._resolve is not None and readiness(manifest) is None)

    def _current(self, manifest: JsonObject, now: datetime, node_pools: Sequence[JsonObject]) -> JsonObject:
        key = (str(manifest["metadata"].get("name", "")), revision_of(manifest))
        cached = self._known.get(key)
        if cached is not None and now < cached[0] + KEPT_FOR:
            return {**manifest, "status": cached[1]}
        try:
            pools = _pools_of(key[0], node_pools)
            status = self._resolve(manifest, pools) if self._resolve is not None else _not_ready(_STALE)
        except PortError:
            return {**manifest, "status": _not_ready(_STALE if is_stale(manifest) else _NEW)}
        self._known[key] = now, status
        return {**manifest, "status": status}


CURRENT_ONLY: Final = CurrentNodeClasses()
"""For functions that do not resolve classes."""


def _pools_of(node_class: str, manifests: Iterable[JsonObject]) -> list[NodePool]:
    """Return the NodePools of a class, without unreadable ones, which launch nothing."""
    pools = []
    for manifest in manifests:
        with suppress(InvalidInputError):
            pools.append(api.node_pool(manifest))
    return [pool for pool in pools if pool.node_class.name == node_class]


def _not_ready(why: str) -> JsonObject:
    return {"conditions": [{"type": "Ready", "status": "False", "reason": "Stale", "message": why}]}


UNBOUND: Final = "spec.nodeName=,status.phase=Pending"
"""Field selector: pods without a node."""

_ALWAYS: Final = (
    resources.NODES,
    resources.NODE_POOLS,
    resources.EC2_NODE_CLASSES,
    resources.DAEMON_SETS,
    resources.POD_DISRUPTION_BUDGETS,
    resources.NAMESPACES,
    resources.PRIORITY_CLASSES,
)
_MARKET: Final = (resources.NODE_POOLS, resources.EC2_NODE_CLASSES)
ABSENT_ASKED_EVERY: Final = timedelta(minutes=15)
"""How often an installation without Calendars, or without the kind ProvisioningRequest, is asked for it."""

_FOR_VOLUMES: Final = (
    resources.PERSISTENT_VOLUMES,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.STORAGE_CLASSES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    resources.VOLUME_ATTACHMENTS,
)
_FOR_DEFAULT_SPREADS: Final = (
    resources.SERVICES,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.REPLICATION_CONTROLLERS,
)
"""The kinds that determine which pods a default constraint selects."""

_FOR_ADMISSION: Final = (resources.LIMIT_RANGES, resources.RUNTIME_CLASSES)
"""The kinds by which the API server changes pods that it creates, besides PriorityClasses and namespaces."""

_CONTINUED: Final = (resources.NODES, resources.PODS)
"""The kinds that make up nearly all of an observation; their unreadable objects are kept in part, never left out."""

_GROUP_VERSIONS: Final = {resources.POD_GROUPS: ("v1beta1", "v1alpha3")}
"""The versions under which Kubernetes 1.36 and 1.37 serve PodGroups; what is read of them is the same."""

_OTHER_VERSIONS: Final = {
    resources.PROVISIONING_REQUESTS: (msgspec.structs.replace(resources.PROVISIONING_REQUESTS, version="v1beta1"),)
}
"""Versions of definitions that older Cluster Autoscalers install alone; what is read of them is the same."""

ObjectsByKind = dict[Resource, tuple[Any, ...]]


@dataclass(frozen=True)
class ClusterObjects:
    """Objects that were read for one observation.

    Attributes:
        by_kind: The objects of each kind; each EC2NodeClass has a status that matches its current spec.
        node_classes: The EC2NodeClasses, for callers that launch from them or write their status.
        rejected: What is wrong with objects that could not be decoded.
    """

    by_kind: ObjectsByKind
    node_classes: tuple[JsonObject, ...]
    rejected: tuple[ObjectProblem, ...] = ()

    def node_pools(self) -> dict[str, JsonObject]:
        """Return the NodePools by name."""
        return _by_name(self.by_kind[resources.NODE_POOLS])

    def node_overlays(self) -> dict[str, JsonObject]:
        """Return the NodeOverlays by name; none while their feature gate is off."""
        return _by_name(self.by_kind.get(resources.NODE_OVERLAYS, ()))

    def node_classes_by_name(self) -> dict[str, JsonObject]:
        """Return the EC2NodeClasses by name."""
        return _by_name(self.node_classes)


class OptionalKind:
    """Lists a kind that a cluster may not serve. That it does not is remembered, so that who uses none does not pay each time.

    Args:
        kind: The kind; other versions that may be served instead are in `_OTHER_VERSIONS`.
        is_rare: Whether no object counts as none served: new ones may wait.
    """

    def __init__(self, kubernetes: Kubernetes, clock: Clock, kind: Resource, *, is_rare: bool = False) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._versions = (kind, *_OTHER_VERSIONS.get(kind, ()))
        self._is_rare = is_rare
        self._none_since: datetime | None = None

    def all(self, rejected: list[ObjectProblem]) -> tuple[Any, ...]:
        """Return the objects; none where the kind is not installed, or where the function may not list it yet.

        Both are the state of an installation before `kubectl apply` of this release's manifests, and must stop nothing. The
        latter is named in `rejected`, as are unreadable objects. Raises PortError.
        """
        now, since = self._clock.now(), self._none_since
        if since is not None and now - since < ABSENT_ASKED_EVERY:
            return ()
        objects = self._listed(rejected)
        is_absent = objects is None or (self._is_rare and not objects)
        self._none_since = now if is_absent else None
        return objects or ()

    def _listed(self, rejected: list[ObjectProblem]) -> tuple[Any, ...] | None:
        """Return the objects of the first version that is served; None if none is, or none may be listed."""
        for kind in self._versions:
            try:
                listing = self._kubernetes.list(kind)
            except NotFoundError:
                continue
            except DeniedError as error:
                problem = f"cannot be listed, so none counts: apply this release's ClusterRoles ({error})"
                rejected.append(_warning_about(self._versions[0], f"{kind.kind}s", problem))
                return None
            rejected += [
                _warning_about(self._versions[0], f"{kind.kind} {name}", why) for name, why in listing.rejected
            ]
            return listing.items
        return None


def _warning_about(kind: Resource, subject: str, problem: str) -> ObjectProblem:
    return ObjectProblem(resource=kind, position=-1, subject=subject, field="", problem=problem, is_warning=True)


# Keeps long lists of this sandbox's last run, decoded, and continues them by what has happened since.
#
# A run beside 75,000 pods would otherwise read and decode all of them for one new pod. A kept list is used only where the
# server has said which version is the present one, and has sent all events up to it. Otherwise, all objects are listed.


LISTED_AGAIN_EVERY: Final = timedelta(minutes=10)
"""How often a kept list is compared with a new one."""

KEPT_MAX: Final = 400_000
"""The most objects of a kept list; a run beside more of them needs the memory itself."""

_MARK_BYTES: Final = 8
_packed: Final = msgspec.msgpack.Encoder().encode


class _KeptList:
    """The objects of one kind at one version.

    Attributes:
        version: The version.
        listed_at: When all of them were last listed.
    """

    def __init__(self, resource: Resource, listing: Listing, now: datetime) -> None:
        self.version = listing.version
        self.listed_at = now
        self._resource = resource
        self._items = {_name_of(item): item for item in listing.items}
        self._held = dict(listing.held)

    def listing(self) -> Listing:
        """Return the objects in the server's order."""
        return Listing(tuple(self._items.values()))

    def continued(self, changes: ListChanges) -> bool:
        """Apply the changes; return whether the result is what the server would list.

        It is not if an event is missing, or if a namespace has more than there is room for: a list leaves parts out then.
        """
        is_ordered = True
        for name, item in changes.events:
            if item is None:
                self._items.pop(name, None)
                continue
            is_ordered &= name in self._items
            self._items[name] = item
            if self._resource.namespaced:
                namespace = item.metadata.namespace
                self._held[namespace] = self._held.get(namespace, 0) + decoding.held_by(self._resource, item)
        if not is_ordered:
            self._items = {name: self._items[name] for name in sorted(self._items)}
        self.version = changes.version
        if changes.objects not in (None, len(self._items)):
            facts = {"kind": self._resource.kind, "kept": len(self._items), "objects": changes.objects}
            logger.warning("a continued list lacks objects, or has too many: all are listed", extra=facts)
            return False
        return max(self._held.values(), default=0) <= decoding.HELD_MAX

    def marks(self) -> dict[str, bytes]:
        """Return a mark of each object's content, by its name."""
        return _marks(self._items.values())


def _marks(items: Iterable[Any]) -> dict[str, bytes]:
    return {_name_of(item): blake2b(_packed(item), digest_size=_MARK_BYTES).digest() for item in items}


def _name_of(item: Any) -> str:
    """Return `namespace/name`, by which the server orders a list."""
    metadata = item.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


class KeptLists:
    """Lists pods and nodes. A long list of an earlier run is continued, and compared with a new list now and then."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._kept: dict[Resource, _KeptList] = {}
        self._is_trusted = True

    def list(self, resource: Resource) -> Listing:
        """Return the list as it is now. Raises PortError."""
        kept = self._kept.pop(resource, None)  # if anything fails below, the next run lists
        if kept is None:
            return self._listed(resource)
        if self._clock.now() - kept.listed_at >= LISTED_AGAIN_EVERY:
            version, marks = kept.version, kept.marks()
            del kept  # there is no room for both lists
            return self._compared(resource, version, marks)
        changes = self._changes(resource, kept.version)
        if changes is None or not kept.continued(changes):
            del kept
            return self._listed(resource)
        self._kept[resource] = kept
        return kept.listing()

    def _listed(self, resource: Resource) -> Listing:
        listing = self._kubernetes.list(resource)
        if self._is_trusted and listing.version and len(listing.items) <= KEPT_MAX:
            self._kept[resource] = _KeptList(resource, listing, self._clock.now())
        return listing

    def _compared(self, resource: Resource, version: str, marks: dict[str, bytes]) -> Listing:
        """Return a new list. If an object differs that has not changed since `version`, no list is kept from now on."""
        listing = self._listed(resource)
        changes = self._changes(resource, version)
        if changes is None:
            return listing
        listed, changed = _marks(listing.items), {name for name, _ in changes.events}
        names = (marks.keys() | listed.keys()) - changed
        differing = sorted(name for name in names if marks.get(name) != listed.get(name))
        if differing:
            self._is_trusted = False
            self._kept.clear()
            facts = {"kind": resource.kind, "objects": len(differing), "first": differing[0]}
            logger.error("a continued list differs from a new one: from now on, all objects are listed", extra=facts)
        return listing

    def _changes(self, resource: Resource, version: str) -> ListChanges | None:
        try:
            return self._kubernetes.changes(resource, version)
        except DeniedError as error:  # an earlier release's ClusterRole
            self._is_trusted = False
            logger.warning("all objects are listed in each run", extra={"problem": str(error)})
            return None


class ClusterReader:
    """Reads the objects that an observation needs.

    Args:
        current: Gives edited EC2NodeClasses a status of their current spec.
    """

    def __init__(self, kubernetes: Kubernetes, settings: Settings, clock: Clock, current: CurrentNodeClasses) -> None:
        self._kubernetes = kubernetes
        self._settings = settings
        self._clock = clock
        self._current = current
        self._calendars = OptionalKind(kubernetes, clock, resources.CALENDARS, is_rare=True)
        self._requests = OptionalKind(kubernetes, clock, resources.PROVISIONING_REQUESTS)
        self._kept = KeptLists(kubernetes, clock)

    def without_pods(self) -> ClusterObjects:
        """Read nodes, and what decides about NodePools and their prices. Raises PortError."""
        rejected: list[ObjectProblem] = []
        objects = {kind: self._read(kind, rejected) for kind in (resources.NODES, *_MARKET)}
        objects[resources.CALENDARS] = self._calendars.all(rejected)
        if self._settings.options().feature_gates.node_overlay:  # limits in dollars count them
            objects[resources.NODE_OVERLAYS] = self._read(resources.NODE_OVERLAYS, rejected)
        node_classes = self._with_current_classes(objects)
        return ClusterObjects(objects, node_classes, tuple(rejected))

    def complete(self) -> ClusterObjects:
        """Read all kinds that decisions need under the current options and pods. Raises PortError.

        Nodes are read before pods, so that pods which are bound in between count. Kinds that only volumes need are skipped if
        no pod has one.
        """
        rejected: list[ObjectProblem] = []
        options = self._settings.options()
        objects = {kind: self._read(kind, rejected) for kind in _ALWAYS}
        objects[resources.CALENDARS] = self._calendars.all(rejected)
        if requests := self._requests.all(rejected):
            objects[resources.PROVISIONING_REQUESTS] = requests
        node_classes = self._with_current_classes(objects)
        objects[resources.PODS] = self._read(resources.PODS, rejected)
        if _have_volumes(objects[resources.PODS]):
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_VOLUMES}
        if self._settings.is_shadow:
            objects[resources.NODE_CLAIMS] = self._read(resources.NODE_CLAIMS, rejected)
        if options.feature_gates.node_overlay:
            objects[resources.NODE_OVERLAYS] = self._read(resources.NODE_OVERLAYS, rejected)
        if options.feature_gates.capacity_buffer:
            objects[resources.CAPACITY_BUFFERS] = self._read(resources.CAPACITY_BUFFERS, rejected)
            objects |= {kind: self._read(kind, rejected) for kind in needed_kinds(objects[resources.CAPACITY_BUFFERS])}
        if objects.get(resources.PROVISIONING_REQUESTS) and resources.POD_TEMPLATES not in objects:
            objects[resources.POD_TEMPLATES] = self._read(resources.POD_TEMPLATES, rejected)
        if options.default_spreads:
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_DEFAULT_SPREADS if kind not in objects}
        objects |= self._groups(objects[resources.PODS], rejected)
        needed = _kinds_for_templates(objects)
        objects |= {kind: self._read(kind, rejected) for kind in needed if kind not in objects}
        return ClusterObjects(objects, node_classes, tuple(rejected))

    def for_launches(self) -> ClusterObjects:
        """Read what decides about offerings: NodePools, EC2NodeClasses and NodeOverlays. Raises PortError."""
        objects = {kind: self._list(kind) for kind in _MARKET}
        objects[resources.CALENDARS] = self._calendars.all([])
        node_classes = self._with_current_classes(objects)
        if self._settings.options().feature_gates.node_overlay:
            objects[resources.NODE_OVERLAYS] = self._list(resources.NODE_OVERLAYS)
        return ClusterObjects(objects, node_classes)

    def hours(self) -> ObjectsByKind:
        """Read what decides about the hours of NodePools. Raises PortError."""
        return {resources.NODE_POOLS: self._list(resources.NODE_POOLS), resources.CALENDARS: self._calendars.all([])}

    def for_default_spreads(self) -> ObjectsByKind:
        """Read what determines which pods a default constraint selects. Raises PortError."""
        return {kind: self._list(kind) for kind in _FOR_DEFAULT_SPREADS}

    def pods(self, fields: str) -> tuple[Pod, ...]:
        """Return the pods that a field selector selects.

        PriorityClasses are not read, so pods have only their own priorities.
        """
        translator = PodTranslator()
        return tuple(map(translator.readable_or_not, self._kubernetes.list(resources.PODS, fields=fields).items))

    def has_buffers(self) -> bool:
        """Whether there are capacity buffers, and their gate is on."""
        return self._settings.options().feature_gates.capacity_buffer and bool(self._list(resources.CAPACITY_BUFFERS))

    def awaits_requests(self) -> bool:
        """Whether a ProvisioningRequest waits for room, or for the end of its booking. Raises PortError."""
        requests = self._requests.all([])
        if not requests:
            return False
        from core.manifests.groups import state_of_request  # most clusters have none
        from core.provisioning_requests import may_change

        return any(may_change(state_of_request(written)) for written in requests)

    def node_class(self, name: str) -> JsonObject:
        """Return one EC2NodeClass manifest. Raises NotFoundError."""
        manifest: JsonObject = self._kubernetes.get(resources.EC2_NODE_CLASSES, name)
        return manifest

    def _with_current_classes(self, objects: ObjectsByKind) -> tuple[JsonObject, ...]:
        """Give each EC2NodeClass a status that matches its current spec.

        Returns:
            The classes, for callers that launch from them or write their status.
        """
        written = objects[resources.EC2_NODE_CLASSES]
        current = objects[resources.EC2_NODE_CLASSES] = self._current.all(
            written, self._clock.now(), objects[resources.NODE_POOLS]
        )
        return current if self._current.resolves else written

    def _groups(self, pods: Sequence[WirePod], rejected: list[ObjectProblem]) -> ObjectsByKind:
        """Read the objects that say how these pods start together; a cluster may not serve a kind, or not to us.

        Without its object, a group's size is unknown: its pods say so, and nothing is bought for them.
        """
        if not any(names_group(pod) for pod in pods):
            return {}
        from core.manifests.groups import needed_kinds  # most clusters have none

        by_kind: ObjectsByKind = {}
        for kind in needed_kinds(pods):
            for version in _GROUP_VERSIONS.get(kind, (kind.version,)):
                try:
                    by_kind[kind] = self._read(msgspec.structs.replace(kind, version=version), rejected)
                    break
                except DeniedError as error:
                    logger.info("groups cannot be read", extra={"kind": kind.kind, "problem": str(error)})
        return by_kind

    def _list(self, kind: Resource) -> tuple[Any, ...]:
        return self._kubernetes.list(kind).items

    def _read(self, kind: Resource, rejected: list[ObjectProblem]) -> tuple[Any, ...]:
        """Return the objects of a kind; unreadable ones are named in `rejected`."""
        listing = self._kept.list(kind) if kind in _CONTINUED else self._kubernetes.list(kind)
        rejected += [
            ObjectProblem(resource=kind, position=-1, subject=f"{kind.kind} {name}", field="", problem=why)
            for name, why in listing.rejected
        ]
        return listing.items


def _have_volumes(pods: Iterable[Any]) -> bool:
    return any(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.aws_elastic_block_store is not None
        for pod in pods
        for volume in pod.spec.volumes
    )


def _kinds_for_templates(objects: ObjectsByKind) -> tuple[Resource, ...]:
    """Return the kinds by which templates become pods: those of successors, of young DaemonSets and of buffers.

    Pods of a StatefulSet may be followed by another revision, and pods that were resized by their first size. What admission
    adds is seen in running pods, so its kinds are read only if a template has none.
    """
    owned = {
        (o.kind, p.metadata.namespace, o.name) for p in objects[resources.PODS] for o in p.metadata.owner_references
    }
    kinds = {kind for kind, _, _ in owned}
    template_kinds = [resources.STATEFUL_SETS] if "StatefulSet" in kinds else []
    if "ReplicaSet" in kinds and any(pod.metadata.generation > 1 for pod in objects[resources.PODS]):
        template_kinds.append(resources.REPLICA_SETS)
    makes_pods = (
        template_kinds
        or objects.get(resources.LEADER_WORKER_SETS)
        or objects.get(resources.JOB_SETS)
        or objects.get(resources.CAPACITY_BUFFERS)
        or objects.get(resources.PROVISIONING_REQUESTS)
        or any(
            ("DaemonSet", daemon.metadata.namespace, daemon.metadata.name) not in owned
            for daemon in objects[resources.DAEMON_SETS]
        )
    )
    return (*template_kinds, *_FOR_ADMISSION) if makes_pods else ()


def _by_name(manifests: Iterable[JsonObject]) -> dict[str, JsonObject]:
    return {name_of(manifest): manifest for manifest in sorted(manifests, key=name_of)}


# Describes an EC2 instance as a claim's machine: the labels and shape that follow from type, zone and capacity type.


def machine_of(instance: Instance, plan: PlannedClaim, catalogue: Catalogue) -> Machine:
    """Describe `instance`. For a type that is not in the catalogue, shape and labels come from what the node reports."""
    types = catalogue.types_for(plan.node_class.name)
    instance_type = next((listed_type for listed_type in types if listed_type.name == instance.instance_type), None)
    offering = offering_of(instance, instance_type)
    known_labels = {
        labels.INSTANCE_TYPE: instance.instance_type,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
        labels.TENANCY: tenancy(plan.requirements),
        **offering.reservation_labels(),
        **_placement_labels(instance),
    }
    return Machine(
        instance_id=instance.instance_id,
        provider_id=instance.provider_id,
        offering=offering,
        image_id=instance.image_id,
        subnet_id=instance.subnet_id,
        security_groups=instance.security_groups,
        labels=(_unknown_partition(instance_type) | _type_labels(instance_type, plan) if instance_type else {})
        | known_labels,
        capacity=_attached(instance_type.capacity, instance) if instance_type else {},
        allocatable=_attached(instance_type.allocatable(), instance) if instance_type else {},
    )


def offering_of(instance: Instance, instance_type: InstanceType | None) -> Offering:
    """Return the offering of the instance, with the price of its type if known."""
    return Offering(
        instance_type=instance.instance_type,
        zone=instance.zone,
        capacity_type=instance.capacity_type,
        price=_price(instance_type, instance) if instance_type else 0,
        reservation_id=instance.reservation_id,
        reservation_type=instance.reservation_type,
        interruptible=instance.interruptible,
    )


def with_partition(machine: Machine, instance: Instance) -> Machine:
    """Return the machine with the placement group and the partition that EC2 chose for the instance."""
    return msgspec.structs.replace(machine, labels={**machine.labels, **_placement_labels(instance)})


def lacks_partition(machine: Machine) -> bool:
    """Whether the machine is in a partition that EC2 has not reported yet."""
    return machine.labels.get(labels.PLACEMENT_GROUP_PARTITION) == ""


def _unknown_partition(instance_type: InstanceType) -> dict[str, str]:
    return {labels.PLACEMENT_GROUP_PARTITION: ""} if labels.PLACEMENT_GROUP_PARTITION in instance_type.labels else {}


def _placement_labels(instance: Instance) -> dict[str, str]:
    """Return the instance's own placement labels; others follow from the type's labels and the claim's requirements."""
    partition = str(instance.partition) if instance.partition else ""
    placement = {labels.PLACEMENT_GROUP_ID: instance.placement_group, labels.PLACEMENT_GROUP_PARTITION: partition}
    return {key: value for key, value in placement.items() if value}


def _attached(resources: dict[str, int], instance: Instance) -> dict[str, int]:
    """Remove EFA if no such interface was launched, although the type supports it (Karpenter)."""
    return {name: amount for name, amount in resources.items() if name != EFA or instance.efa_interfaces}


def _type_labels(instance_type: InstanceType, plan: PlannedClaim) -> dict[str, str]:
    """Return labels with one value unchanged; of several values, the one that the claim's requirements leave (Karpenter)."""
    allowed = {requirement.key: requirement for requirement in plan.requirements}
    chosen: dict[str, str] = {}
    for key, values in sorted(instance_type.labels.items()):
        allowed_values = [value for value in values if key not in allowed or allowed[key].has(value)]
        if len(allowed_values) == 1:
            chosen[key] = allowed_values[0]
    return chosen


def _price(instance_type: InstanceType, instance: Instance) -> int:
    where = (instance.zone, instance.capacity_type, instance.reservation_id)
    return next((o.price for o in instance_type.offerings if (o.zone, o.capacity_type, o.reservation_id) == where), 0)


# Detects whether Karpenter's own controller runs in the cluster, which launches a node for every NodeClaim.


LEASE: Final = "karpenter-leader-election"
"""Name of Karpenter's leader election lease, in any namespace."""

HELD_FOR: Final = timedelta(minutes=1)
"""A lease that was not renewed for this long is free: Karpenter renews it every few seconds."""

ASKED_EVERY: Final = timedelta(seconds=30)


class KarpenterPresence:
    """Reads the lease, at most once per interval."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._asked_at: datetime | None = None
        self._namespace = ""

    def is_there(self) -> bool:
        """Whether Karpenter's lease is held. Raises PortError."""
        return bool(self.namespace())

    def namespace(self) -> str:
        """Return the namespace in which Karpenter's lease is held, empty if it is not held. Raises PortError."""
        now = self._clock.now()
        if self._asked_at is None or now - self._asked_at >= ASKED_EVERY:
            leases = self._kubernetes.list(LEASES, fields=f"metadata.name={LEASE}").items
            current = (lease for lease in leases if _is_held(lease, now))
            self._namespace = min(
                (str(lease["metadata"].get("namespace") or "default") for lease in current), default=""
            )
            self._asked_at = now
        return self._namespace


def _is_held(lease: dict[str, Any], now: datetime) -> bool:
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity"):
        return False
    try:
        renewed = datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return True
    return renewed.tzinfo is None or now - renewed < HELD_FOR
