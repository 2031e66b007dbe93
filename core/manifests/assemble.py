"""Assembles a snapshot from decoded objects, in the same way for a live cluster and for files."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

from core import labels
from core.calendars import is_for, with_calendars
from core.containment import SetAside, SetAsideError, internal_error
from core.errors import InvalidInputError
from core.manifests import pods as policies
from core.manifests import storage
from core.manifests.admission import SETTINGS, PodAdmission, check_amounts, default_priority_class
from core.manifests.expected_pods import BufferTranslator, NotForUsError, Successors
from core.manifests.pods import PodTranslator
from core.manifests.wire import decoding, resources
from core.manifests.wire.objects import WireNode
from core.manifests.wire.pod import WirePod, WireWorkload
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.node_pool import Calendar, NodeClass, NodePool
from core.model.plan import NodeClaim, ObjectRef
from core.model.pod import (
    GroupObject,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import (
    ACCELERATED_HARDWARE,
    CapacityBuffer,
    DaemonSet,
    Node,
    NodeCondition,
    NodeOverlay,
    Options,
    PodDisruptionBudget,
    ProvisioningRequest,
    Snapshot,
    WorkloadSelector,
)
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.taints import EFFECTS, NO_SCHEDULE, Taint
from core.node_facts import with_trusted_nodes
from core.reasons.pods import PodReason
from core.reasons.runs import RunReason
from core.spending import with_spending

# Tells whose NodePool one is, by the class that it names: ours, EKS Auto Mode's, or another provider's.


AUTO_MODE_GROUP: Final = "eks.amazonaws.com"
AUTO_MODE_KIND: Final = "NodeClass"
_KIND: Final = "EC2NodeClass"
_DOMAIN: Final = "karpenter.k8s."
"""Several providers name their group this, followed by their cloud: `karpenter.k8s.gcp`, `karpenter.k8s.alibabacloud`."""
_ALIKE: Final = 0.8
"""From this similarity on, a kind or a group is a misspelling of ours."""


def owner_of(group: str, kind: str) -> str:
    """Return who launches the nodes of a NodePool with such a reference; empty if it is ours, or a misspelling of ours.

    Karpenter's core takes any provider's class: other providers have groups of their own, such as `karpenter.azure.com`.
    """
    if group == AUTO_MODE_GROUP:
        return f"EKS Auto Mode ({group})"
    is_nearly_ours = not kind or _is_like(kind, _KIND)
    is_misspelt = is_nearly_ours and (not kind or kind.lower().startswith(_KIND[:3].lower()))
    if (
        group in (labels.CORE_GROUP, labels.AWS_GROUP)
        or (is_nearly_ours and (not group or _is_misspelt(group)))
        or (is_misspelt and group.startswith("karpenter"))
    ):
        return ""
    return f"another provider ({group or 'no group'}, {kind or 'no kind'})"


def _is_misspelt(group: str) -> bool:
    """Whether a group is nearly ours. Where only the cloud differs, its name must be one edit away: `awz`, not `gcp`."""
    if group.startswith(_DOMAIN):
        return _is_like(group.removeprefix(_DOMAIN), labels.AWS_GROUP.removeprefix(_DOMAIN), alike=0.6)
    return _is_like(group, labels.AWS_GROUP)


def _is_like(word: str, right: str, alike: float = _ALIKE) -> bool:
    return difflib.SequenceMatcher(None, word, right).ratio() >= alike


# Translates Nodes and their CSINodes from wire to model.


_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


def node(written: WireNode, attach_limits: Mapping[str, int] | None = None) -> Node:
    """Translate a node. A cordoned node gets Kubernetes' taint even if it lacks it.

    Raises:
        InvalidInputError: If a quantity or a taint cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    status = written.status
    return msgspec.structs.replace(
        _node(written),
        taints=_taints(written),
        capacity=quantity.parse_resources(status.capacity, field="status.capacity"),
        allocatable=quantity.parse_resources(status.allocatable or status.capacity, field="status.allocatable"),
        attach_limits=dict(attach_limits or {}),
    )


def unreadable_node(written: WireNode, error: InvalidInputError) -> Node:
    """Translate a node for which `node` raised: it keeps its pods and has room for no more."""
    fault = ": ".join(part for part in (error.field, error.problem) if part)
    taints = tuple(
        Taint(taint.key, taint.effect, taint.value) for taint in written.spec.taints if taint.effect in EFFECTS
    )
    return msgspec.structs.replace(_node(written), taints=(*taints, _CORDONED), unreadable=fault)


def _node(written: WireNode) -> Node:
    metadata = written.metadata
    ready = next((condition for condition in written.status.conditions if condition.type == "Ready"), None)
    return Node(
        name=metadata.name,
        uid=metadata.uid,
        provider_id=written.spec.provider_id,
        labels=metadata.labels,
        annotations=metadata.annotations,
        created_at=_moment(metadata.creation_timestamp),
        deleted_at=_moment(metadata.deletion_timestamp),
        finalizers=metadata.finalizers,
        is_ready=ready is not None and ready.status == "True",
        ready_changed_at=_moment(ready.last_transition_time) if ready is not None else None,
        conditions=tuple(
            NodeCondition(
                condition.type,
                condition.status,
                _moment(condition.last_transition_time),
                condition.reason if condition.type == ACCELERATED_HARDWARE else "",
            )
            for condition in sorted(written.status.conditions, key=lambda condition: condition.type)
        ),
    )


def _moment(written: datetime | None) -> datetime | None:
    return None if written is None else quantity.in_calendar(written)


def _taints(written: WireNode) -> tuple[Taint, ...]:
    taints = []
    for i, taint in enumerate(written.spec.taints):
        if taint.effect not in EFFECTS:
            problem = f"unknown effect {taint.effect!r}, use one of {', '.join(EFFECTS)}"
            raise InvalidInputError(problem, field=f"spec.taints[{i}].effect")
        taints.append(Taint(taint.key, taint.effect, taint.value))
    if written.spec.unschedulable and not any(taint.key == _CORDONED.key for taint in taints):
        taints.append(_CORDONED)
    return tuple(taints)


# Replaces requirements for zone ids by requirements for zones.
#
# Offerings have zone names, and each zone of an account has one id. Nodes get their id label from the cloud controller when
# they join, so nothing else has it before that.


StructT = TypeVar("StructT", bound=msgspec.Struct)
replace = msgspec.structs.replace


def zones_by_id(node_classes: Iterable[NodeClass], nodes: Iterable[Node]) -> dict[str, str]:
    """Return zone id → zone, from the subnets of EC2NodeClasses and the labels of nodes."""
    zones = {
        node.labels[labels.ZONE_ID]: node.labels[labels.ZONE]
        for node in sorted(nodes, key=lambda node: node.name)
        if labels.ZONE_ID in node.labels and labels.ZONE in node.labels
    }
    for node_class in sorted(node_classes, key=lambda node_class: node_class.name):
        zones |= node_class.zone_ids
    return zones


def with_zones(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with each requirement for a zone id replaced by one for its zone; unknown ids stay."""
    zones = zones_by_id(snapshot.node_classes, snapshot.nodes)
    return _Translation(zones).snapshot(snapshot) if zones else snapshot


def requirements_with_zones(requirements: Iterable[Requirement], zones: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Return requirements outside of a snapshot, likewise replaced; `zones` maps zone ids to zones."""
    return _Translation(zones).all_of(tuple(requirements))


class _Translation:
    def __init__(self, zones: Mapping[str, str]) -> None:
        self._zones = zones
        self._specs: dict[int, PodSpec] = {}

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        coming = tuple(pod.successor for pod in snapshot.pods if pod.successor is not None)
        requested = tuple(pod_set for request in snapshot.provisioning_requests for pod_set in request.pod_sets)
        owners: tuple[Any, ...] = (*snapshot.pods, *snapshot.daemon_sets, *snapshot.buffers, *coming, *requested)
        specs = {id(owner.spec): owner.spec for owner in owners}
        changed = {identity: self._spec(spec) for identity, spec in specs.items()}
        self._specs = {identity: spec for identity, spec in changed.items() if spec != specs[identity]}
        return replace(
            snapshot,
            options=_changed(snapshot.options, default_spreads=_spread(snapshot.options.default_spreads)),
            pods=self._with_successors(self._owners(snapshot.pods)),
            daemon_sets=self._owners(snapshot.daemon_sets),
            buffers=self._owners(snapshot.buffers),
            provisioning_requests=tuple(
                _changed(request, pod_sets=self._owners(request.pod_sets)) for request in snapshot.provisioning_requests
            ),
            node_pools=tuple(_changed(p, requirements=self.all_of(p.requirements)) for p in snapshot.node_pools),
            overlays=tuple(_changed(o, requirements=self.all_of(o.requirements)) for o in snapshot.overlays),
            volumes=tuple(_changed(v, node_terms=self._terms(v.node_terms)) for v in snapshot.volumes),
            storage_classes=tuple(
                _changed(c, allowed_topologies=self._terms(c.allowed_topologies)) for c in snapshot.storage_classes
            ),
        )

    def _owners(self, owners: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._specs:
            return owners
        return tuple(replace(o, spec=self._specs[id(o.spec)]) if id(o.spec) in self._specs else o for o in owners)

    def _with_successors(self, pods: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._specs or not any(pod.successor is not None for pod in pods):
            return pods
        return tuple(
            pod if pod.successor is None else replace(pod, successor=self._owners((pod.successor,))[0]) for pod in pods
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        return _changed(
            spec,
            node_selector=self.all_of(spec.node_selector),
            required_terms=self._terms(spec.required_terms),
            preferred_terms=tuple(PreferredTerm(p.weight, self._term(p.term)) for p in spec.preferred_terms),
            spreads=_spread(spec.spreads),
            affinity=tuple(map(_near, spec.affinity)),
            anti_affinity=tuple(map(_near, spec.anti_affinity)),
            preferred_affinity=tuple(WeightedPodAffinityTerm(w.weight, _near(w.term)) for w in spec.preferred_affinity),
            preferred_anti_affinity=tuple(
                WeightedPodAffinityTerm(w.weight, _near(w.term)) for w in spec.preferred_anti_affinity
            ),
        )

    def _terms(self, terms: tuple[NodeSelectorTerm, ...]) -> tuple[NodeSelectorTerm, ...]:
        return tuple(map(self._term, terms))

    def _term(self, term: NodeSelectorTerm) -> NodeSelectorTerm:
        return _changed(term, requirements=self.all_of(term.requirements))

    def all_of(self, requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        return tuple(map(self._requirement, requirements))

    def _requirement(self, requirement: Requirement) -> Requirement:
        if requirement.key != labels.ZONE_ID or (requirement.gte, requirement.lte) != (None, None):
            return requirement
        zones = {self._zones[value] for value in requirement.values if value in self._zones}
        if requirement.operator == "In" and not zones:
            return requirement
        return replace(requirement, key=labels.ZONE, values=tuple(sorted(zones)))


def _spread(spreads: Iterable[TopologySpread]) -> tuple[TopologySpread, ...]:
    return tuple(_changed(spread, topology_key=_key(spread.topology_key)) for spread in spreads)


def _near(term: PodAffinityTerm) -> PodAffinityTerm:
    return _changed(term, topology_key=_key(term.topology_key))


def _key(key: str) -> str:
    return labels.ZONE if key == labels.ZONE_ID else key


def _changed(old: StructT, **fields: object) -> StructT:
    """Return the struct with these fields; the same object if they are equal."""
    return old if all(getattr(old, name) == value for name, value in fields.items()) else replace(old, **fields)


T = TypeVar("T")

_DEFAULTS: Final = Options()


class ObjectReaders(Protocol):
    """Readers of Karpenter's objects: `core.api`, or a cache of its results. Each raises InvalidInputError."""

    def node_pool(self, obj: Any, /) -> NodePool:
        """Read a NodePool."""
        ...

    def node_class(self, obj: Any, /) -> NodeClass:
        """Read an EC2NodeClass."""
        ...

    def node_claim(self, obj: Any, /) -> NodeClaim:
        """Read a NodeClaim."""
        ...

    def node_overlay(self, obj: Any, /) -> NodeOverlay:
        """Read a NodeOverlay."""
        ...

    def calendar(self, obj: Any, /) -> Calendar:
        """Read a Calendar."""
        ...


class ObjectProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An object that could not be used, or is used with a warning.

    Attributes:
        resource, position: Its kind, and its index among the given objects of that kind; -1 for an object that was not given.
        subject: The object for people, such as `Pod shop/cart-0`.
        field: Path of the field, empty for the object as a whole.
        problem: What is wrong, as the end of a sentence.
        is_warning: Whether the other objects may be used regardless, and this one too if possible.
        set_aside: Set if reading the object raised: it is set aside, and everything else is decided as if it were not there.
    """

    resource: Resource
    position: int
    subject: str
    field: str
    problem: str
    is_warning: bool = False
    set_aside: SetAside | None = None

    def __str__(self) -> str:
        return ": ".join(part for part in (self.subject, self.field, self.problem) if part)


def assemble(
    objects: Mapping[Resource, Iterable[Any]],
    *,
    now: datetime,
    catalogue: Catalogue,
    options: Options = _DEFAULTS,
    cluster: str = "",
    is_live: bool = False,
    readers: ObjectReaders | None = None,
    forecast: tuple[Calendar, ...] = (),
) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
    """Translate objects, as `core.manifests.wire.decoding` decodes them, into a snapshot.

    The second result names the objects that cannot be understood. Those that decide about nodes remain in a form that protects
    nodes: a NodePool or EC2NodeClass marked with its problem, a pod or node with its identity and place, a PodDisruptionBudget
    that protects its whole namespace, a DaemonSet as its newest pod. All others are left out. A NodePool without a class is not
    ready in a live cluster; for files it is planned with the catalogue, with a warning. `readers` replace `core.api`, whose
    models take long to load. `forecast` are Calendars beside those of objects.
    """
    return _Assembly(objects, is_live=is_live, readers=readers).snapshot(
        now=now, catalogue=catalogue, options=options, cluster=cluster, forecast=forecast
    )


class _Assembly:
    """Translates the objects once and collects the problems."""

    def __init__(
        self, objects: Mapping[Resource, Iterable[Any]], *, is_live: bool, readers: ObjectReaders | None
    ) -> None:
        self._objects = {resource: tuple(objects_of_kind) for resource, objects_of_kind in objects.items()}
        self._is_live = is_live
        self._readers = readers
        self._problems: list[ObjectProblem] = []
        for resource in (kind for kind in SETTINGS if self._objects.get(kind)):
            self._objects[resource] = self._each(resource, _with_amounts)
        self._pods = self._translator()
        self._admission = PodAdmission(self._objects)
        self._successors = Successors(self._objects, self._admission, self._pods)

    def snapshot(
        self, *, now: datetime, catalogue: Catalogue, options: Options, cluster: str, forecast: tuple[Calendar, ...]
    ) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
        read = self._readers or _models()
        pods = self._each(resources.PODS, self._pod, self._pods.unreadable)
        node_classes = self._each(resources.EC2_NODE_CLASSES, read.node_class, _unusable_class)
        node_pools = self._each(resources.NODE_POOLS, read.node_pool, _unusable_pool)
        classes = self._each(resources.STORAGE_CLASSES, storage.storage_class)
        claims = self._each(resources.PERSISTENT_VOLUME_CLAIMS, storage.volume_claim)
        snapshot = Snapshot(
            now=now,
            cluster=cluster,
            pods=pods,
            nodes=self._nodes(now),
            node_claims=self._each(resources.NODE_CLAIMS, read.node_claim),
            node_pools=self._with_readiness(node_pools, node_classes),
            node_classes=node_classes,
            overlays=self._each(resources.NODE_OVERLAYS, read.node_overlay),
            calendars=(*forecast, *self._each(resources.CALENDARS, read.calendar)),
            buffers=self._buffers(),
            provisioning_requests=self._provisioning_requests(),
            group_objects=self._group_objects(),
            daemon_sets=self._daemon_sets(pods),
            volumes=self._each(resources.PERSISTENT_VOLUMES, storage.volume),
            volume_claims=storage.with_default_class(claims, classes),
            storage_classes=classes,
            attachments=self._each(resources.VOLUME_ATTACHMENTS, storage.attachment),
            budgets=self._each(resources.POD_DISRUPTION_BUDGETS, policies.pod_disruption_budget, _unusable_budget),
            namespaces=self._each(resources.NAMESPACES, policies.namespace),
            services=self._each(resources.SERVICES, policies.service),
            workload_selectors=self._selectors(),
            catalogue=catalogue,
            options=options,
        )
        trusted = with_trusted_nodes(self._with_calendars(snapshot))
        self._problems += (_doubtful_node(doubt.node, doubt.message) for doubt in trusted.doubts)
        return with_zones(trusted.snapshot), tuple(self._problems)

    def _with_calendars(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot as calendars have it; a NodePool whose calendars cannot be followed is not ready."""
        try:
            return _with_hours_and_caps(snapshot)
        except Exception:  # noqa: BLE001 - whatever one object causes costs only that object
            pools, followed = (
                tuple(_with_readable_rules(pool, snapshot) for pool in snapshot.node_pools),
                list[Calendar](),
            )
        for calendar in snapshot.calendars:
            try:
                _with_hours_and_caps(msgspec.structs.replace(snapshot, calendars=(calendar,), node_pools=pools))
            except Exception as error:  # noqa: BLE001
                pools = tuple(_unfollowed(pool, error) if is_for(calendar, pool) else pool for pool in pools)
                self._note_calendar(calendar, error)
            else:
                followed.append(calendar)
        return _with_hours_and_caps(msgspec.structs.replace(snapshot, calendars=tuple(followed), node_pools=pools))

    def _note_calendar(self, calendar: Calendar, error: Exception) -> None:
        for position, obj in enumerate(self._objects.get(resources.CALENDARS, ())):
            if _name(obj) == calendar.name:
                self._set_aside(resources.CALENDARS, position, obj, error, None)

    def _translator(self) -> PodTranslator:
        classes = self._objects.get(resources.PRIORITY_CLASSES, ())
        default = default_priority_class(classes)
        return PodTranslator(
            {priority_class.metadata.name: priority_class.value for priority_class in classes},
            0 if default is None else default.value,
        )

    def _each(
        self,
        resource: Resource,
        translate: Callable[[Any], T],
        unusable: Callable[[Any, InvalidInputError], T] | None = None,
    ) -> tuple[T, ...]:
        translated: list[T] = []
        for position, obj in enumerate(self._objects.get(resource, ())):
            try:
                translated.append(translate(obj))
            except InvalidInputError as error:
                self._problems.append(
                    ObjectProblem(
                        resource=resource,
                        position=position,
                        subject=_subject(resource, obj),
                        field=error.field,
                        problem=error.problem,
                        is_warning=isinstance(error, NotForUsError),
                    )
                )
                if unusable is not None:
                    translated.append(unusable(obj, error))
            except Exception as error:  # noqa: BLE001 - whatever one object causes costs only that object
                translated += self._set_aside(resource, position, obj, error, unusable)
        return tuple(translated)

    def _pod(self, written: WirePod) -> Pod:
        pod = self._pods.pod(written)
        coming = self._successors.of(written, pod) if pod.node_name else None
        return pod if coming is None else msgspec.structs.replace(pod, successor=coming)

    def _set_aside(
        self,
        resource: Resource,
        position: int,
        obj: Any,
        error: Exception,
        unusable: Callable[[Any, InvalidInputError], T] | None,
    ) -> tuple[T, ...]:
        """Note that an object is set aside; return its form that protects, none for kinds that are left out.

        Raises:
            Exception: The given one, if the object has not even a form that protects: leaving it out would be unsafe.
        """
        subject = _subject(resource, obj)
        kind, _, name = subject.partition(" ")
        aside = internal_error(f"{kind}/{name}", error)
        self._problems.append(
            ObjectProblem(
                resource=resource,
                position=position,
                subject=subject,
                field="",
                problem=f"{RunReason.INTERNAL_ERROR}: {aside.message}",
                is_warning=True,
                set_aside=aside,
            )
        )
        if unusable is None:
            return ()
        try:
            return (unusable(obj, SetAsideError(aside.message)),)
        except Exception:  # noqa: BLE001 - what is unreadable may be what even this form reads
            bare = _BARE.get(resource)
            if bare is None:
                raise error from None
            return (bare(obj, aside.message),)

    def _buffers(self) -> tuple[CapacityBuffer, ...]:
        """Return the buffers whose references can be resolved."""
        return self._each(
            resources.CAPACITY_BUFFERS, BufferTranslator(self._objects, self._pods, self._admission).buffer
        )

    def _provisioning_requests(self) -> tuple[ProvisioningRequest, ...]:
        """Return the requests; those whose templates or fields cannot be used say why."""
        if not self._objects.get(resources.PROVISIONING_REQUESTS):
            return ()
        from core.manifests.groups import RequestTranslator, unusable_request  # most clusters have none

        translator = RequestTranslator(self._objects, self._pods, self._admission)
        return self._each(resources.PROVISIONING_REQUESTS, translator.request, unusable_request)

    def _group_objects(self) -> tuple[GroupObject, ...]:
        """Return what objects say about pods that start together; pods of one that cannot be read have an unknown group."""
        kinds = [kind for kind in resources.GROUP_KINDS if self._objects.get(kind)]
        if not kinds:
            return ()
        from core.manifests.groups import GroupTranslator  # most clusters have none

        translator = GroupTranslator(self._pods, self._admission)
        groups_of_kinds = (self._each(kind, partial(translator.groups, kind)) for kind in kinds)
        return tuple(group for of_kind in groups_of_kinds for groups in of_kind for group in groups)

    def _nodes(self, now: datetime) -> tuple[Node, ...]:
        drivers, csi_nodes = self._objects.get(resources.CSI_DRIVERS, ()), self._objects.get(resources.CSI_NODES, ())
        limits = storage.VolumeLimits(csi_nodes, drivers, now)
        return self._each(resources.NODES, lambda written: node(written, limits.of(written)), unreadable_node)

    def _daemon_sets(self, pods: tuple[Pod, ...]) -> tuple[DaemonSet, ...]:
        """Return DaemonSets with the spec of their newest pod: admission may have changed the template (Karpenter)."""
        newest: dict[tuple[str, str], Pod] = {}
        for pod in pods:
            for owner in pod.owners if pod.is_daemon and pod.is_active else ():
                present = newest.get((pod.namespace, owner.name))
                if present is None or _age(present) < _age(pod):
                    newest[pod.namespace, owner.name] = pod

        def live(daemon: DaemonSet) -> DaemonSet:
            pod = newest.get((daemon.namespace, daemon.name))
            if pod is None:
                return daemon
            spec = msgspec.structs.replace(
                pod.spec, required_terms=daemon.spec.required_terms, problem=daemon.spec.problem
            )
            return msgspec.structs.replace(daemon, spec=spec)

        templates: tuple[DaemonSet | None, ...] = self._each(
            resources.DAEMON_SETS, self._daemon_set, policies.unreadable_daemon_set
        )
        return tuple(live(daemon) for daemon in templates if daemon is not None)

    def _daemon_set(self, written: WireWorkload) -> DaemonSet | None:
        """Return a DaemonSet with the pod that the API server would store; None if new nodes get none."""
        if written.unreadable:
            raise InvalidInputError(written.unreadable)
        namespace = written.metadata.namespace or "default"
        admitted = self._admission.admit(namespace, written.spec.template.spec)
        if admitted.refusal is not None or written.metadata.deletion_timestamp is not None:
            return None
        return policies.daemon_set(written, self._pods, admitted.spec)

    def _selectors(self) -> tuple[WorkloadSelector, ...]:
        return (
            *self._each(resources.REPLICA_SETS, lambda workload: policies.workload_selector(workload, "ReplicaSet")),
            *self._each(resources.STATEFUL_SETS, lambda workload: policies.workload_selector(workload, "StatefulSet")),
            *self._each(resources.DEPLOYMENTS, lambda workload: policies.workload_selector(workload, "Deployment")),
            *self._each(resources.REPLICATION_CONTROLLERS, policies.controller_selector),
        )

    def _with_readiness(self, pools: tuple[NodePool, ...], classes: tuple[NodeClass, ...]) -> tuple[NodePool, ...]:
        class_names = {node_class.name for node_class in classes}
        ready = []
        for position, pool in enumerate(pools):
            if pool.problem or (pool.node_class.name in class_names and _is_ours(pool.node_class)):
                ready.append(pool)
                continue
            owner = owner_of(pool.node_class.group, pool.node_class.kind)
            kind = pool.node_class.kind or "EC2NodeClass"
            outcome = "not ready" if self._is_live else "planned with the catalogue; on a cluster it would not be ready"
            self._problems.append(
                ObjectProblem(
                    resource=resources.NODE_POOLS,
                    position=position,
                    subject=f"NodePool {pool.name}",
                    field="spec.template.spec.nodeClassRef",
                    problem=f"belongs to {owner}: left out of the plan"
                    if owner and not self._is_live
                    else f"there is no {kind} {pool.node_class.name!r}: {outcome}",
                    is_warning=True,
                )
            )
            ready.append(msgspec.structs.replace(pool, is_ready=False) if self._is_live or owner else pool)
        return tuple(ready)


def _with_amounts(written: Any) -> Any:
    """Return an object by which admission changes or refuses pods, if its amounts can be read; InvalidInputError otherwise."""
    check_amounts(written)
    return written


def _doubtful_node(name: str, message: str) -> ObjectProblem:
    return ObjectProblem(
        resource=resources.NODES, position=-1, subject=f"Node {name}", field="", problem=message, is_warning=True
    )


def _bare_pod(written: Any, problem: str) -> Pod:
    """Return a pod of which only the place is read."""
    spec = PodSpec(requests={"pods": 1}, problem=problem, problem_reason=PodReason.SET_ASIDE)
    metadata = written.metadata
    return Pod(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        spec=spec,
        node_name=written.node_name,
        phase=str(written.status.phase or "Pending"),
        unreadable=problem,
    )


def _bare_node(written: Any, problem: str) -> Node:
    """Return a node of which only the instance is read: it takes no pods, and stays."""
    provider_id = written.spec.provider_id
    return Node(name=written.metadata.name, provider_id=provider_id, taints=(_CORDONED,), unreadable=problem)


_BARE: Final[Mapping[Resource, Callable[[Any, str], Any]]] = {
    resources.PODS: _bare_pod,
    resources.NODES: _bare_node,
    resources.NODE_POOLS: lambda obj, problem: NodePool(name=_name(obj), problem=problem),
    resources.EC2_NODE_CLASSES: lambda obj, problem: NodeClass(name=_name(obj), problem=problem),
}


def _models() -> ObjectReaders:
    from core import api

    return api


def _is_ours(reference: ObjectRef) -> bool:
    """Whether a class is an EC2NodeClass: EKS Auto Mode has NodeClasses of its own, also named `default`."""
    return reference.group in ("", labels.AWS_GROUP) and reference.kind in ("", "EC2NodeClass")


def _unusable_pool(obj: Any, error: InvalidInputError) -> NodePool:
    from core.api.status import annotations_of

    return NodePool(name=_name(obj), problem=_reason(error), own_annotations=annotations_of(obj))


def _with_hours_and_caps(snapshot: Snapshot) -> Snapshot:
    return with_spending(with_calendars(snapshot))


def _with_readable_rules(pool: NodePool, snapshot: Snapshot) -> NodePool:
    """Return the NodePool, not ready and without the rules of its annotation if these cannot be followed."""
    try:
        _with_hours_and_caps(msgspec.structs.replace(snapshot, calendars=(), node_pools=(pool,)))
    except Exception as error:  # noqa: BLE001 - its rules are its own
        return _unfollowed(pool, error)
    return pool


def _unfollowed(pool: NodePool, error: Exception) -> NodePool:
    return msgspec.structs.replace(pool, calendar=None, problem=internal_error("its Calendar", error).message)


def _unusable_class(obj: Any, error: InvalidInputError) -> NodeClass:
    return NodeClass(name=_name(obj), problem=_reason(error))


def _unusable_budget(obj: Any, _: InvalidInputError) -> PodDisruptionBudget:
    return policies.unreadable_budget(obj)


def _reason(error: InvalidInputError) -> str:
    return ": ".join(part for part in (error.field, error.problem) if part)


def _name(obj: Any) -> str:
    return decoding.name_of(obj) if isinstance(obj, dict) else obj.metadata.name


def _subject(resource: Resource, obj: Any) -> str:
    name = _name(obj) or "without a name"
    namespace = "" if isinstance(obj, dict) or not resource.namespaced else obj.metadata.namespace or "default"
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def _age(pod: Pod) -> tuple[float, str]:
    return (pod.created_at.timestamp() if pod.created_at is not None else 0.0, pod.name)
