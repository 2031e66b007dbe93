"""Pods on the wire. Pods of one workload share one `WirePodSpec` object."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from sys import intern
from typing import Any, Final, TypeVar

import msgspec
from msgspec import field

from core import labels
from core.errors import InvalidInputError
from core.manifests.wire.objects import (
    IntOrString,
    NodeSelector,
    Quantities,
    SelectorExpression,
    Timestamp,
    Volume,
    Wire,
    WireClaimTemplate,
    WireCondition,
    WireLabelSelector,
    WireMetadata,
    WireNodeSelectorTerm,
)
from core.model.values import quantity

# Node affinity and pod affinity on the wire.


class PreferredSchedulingTerm(Wire):
    """A weighted node affinity."""

    weight: int
    preference: WireNodeSelectorTerm


class NodeAffinity(Wire):
    """`affinity.nodeAffinity`."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class WirePodAffinityTerm(Wire):
    """One term of a pod affinity or anti-affinity."""

    topology_key: str
    label_selector: WireLabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: WireLabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WireWeightedPodAffinityTerm(Wire):
    """A weighted pod affinity term."""

    weight: int
    pod_affinity_term: WirePodAffinityTerm


class PodAffinity(Wire):
    """`affinity.podAffinity` or `affinity.podAntiAffinity`."""

    required: tuple[WirePodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WireWeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


# Keeps one object for equal values: most memory of a large cluster would be copies.


SHARED_MAX: Final = 16_384
"""The most shared values, a kilobyte or less each; when there are more, all are dropped."""

SHARED_BYTES_MAX: Final = 32 << 20
"""The most bytes of all their contents together: an API server takes a megabyte of labels, and they outlive the run."""

T = TypeVar("T")

_canonical: Final = msgspec.msgpack.Encoder().encode


class SharedValues:
    """One object for each content. When the contents grow too many or too large, all are dropped."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, bytes], Any] = {}
        self.held = 0
        """Bytes of all contents."""

    def of(self, value: T) -> T:
        """Return the first value seen with the same content."""
        key = (type(value), _canonical(value))
        first_seen: T | None = self._known.get(key)
        if first_seen is not None:
            return first_seen
        size = len(key[1])
        if len(self._known) >= SHARED_MAX or self.held + size > SHARED_BYTES_MAX:
            self._known.clear()
            self.held = 0
        if size <= SHARED_BYTES_MAX:
            self._known[key] = value
            self.held += size
        return value


shared: Final = SharedValues().of
"""Returns the first value seen with the same content, so that equal values are one object."""


class Resources(Wire):
    """Requests and limits of a container or of a pod."""

    requests: Quantities = {}
    limits: Quantities = {}


class ContainerPort(Wire):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire):
    """A container; `restart_policy` Always makes an init container a sidecar."""

    name: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = field(default_factory=Resources)
    restart_policy: str = ""


class TopologySpreadConstraint(Wire):
    """One entry of `spec.topologySpreadConstraints`."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: WireLabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class WireToleration(Wire):
    """One entry of `spec.tolerations`."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Named(Wire):
    """An object of which we only read the name."""

    name: str


class WorkloadReference(Wire):
    """`spec.workloadRef` (Kubernetes 1.35): a group of a Workload, and which copy of it."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class SchedulingGroup(Wire):
    """`spec.schedulingGroup` (Kubernetes 1.36 and later)."""

    pod_group_name: str = ""


class WirePodSpec(Wire):
    """`spec` of a pod or of a pod template.

    Attributes:
        bound_to: `nodeName` as written. In a decoded Pod it is moved to `Pod.node_name`, so that specs can be shared.
        excess: Set in place of the rules that a run has no room for: why it has none.
    """

    bound_to: str = field(default="", name="nodeName")
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources | None = None
    overhead: Quantities = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[WireToleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[Named, ...] = ()
    resource_claims: tuple[Named, ...] = ()
    workload_ref: WorkloadReference | None = None
    scheduling_group: SchedulingGroup | None = None
    termination_grace_period_seconds: int = 30
    host_network: bool = False
    runtime_class_name: str = ""
    active_deadline_seconds: int | None = None
    excess: str = ""


class ContainerStatus(Wire):
    """The actual resources of a container: after an in-place resize they differ from the spec."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: Resources | None = None


class PodStatus(Wire):
    """`status` of a pod; `allocated_resources` and `resources` are those of the pod as a whole."""

    phase: str = "Pending"
    conditions: tuple[WireCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: Timestamp | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Quantities | None = None
    resources: Resources | None = None

    def condition(self, type_: str) -> WireCondition | None:
        """Return the condition of this type, if there is one."""
        return next((condition for condition in self.conditions if condition.type == type_), None)


class WirePod(Wire):
    """The fields of a pod that decisions read. Parts that equal those of other pods are shared: never modify them.

    A cluster may have a hundred thousand pods; without sharing each would take four kilobytes.

    Attributes:
        unreadable: Field and problem if a part is left out because it cannot be read.
    """

    metadata: WireMetadata
    spec: WirePodSpec = field(default_factory=WirePodSpec)
    status: PodStatus = field(default_factory=PodStatus)
    node_name: str = field(default="", name="boundTo")
    unreadable: str = ""

    def __post_init__(self) -> None:
        if self.spec.bound_to:
            self.node_name = self.spec.bound_to
            self.spec.bound_to = ""
        if self.spec.affinity is not None and any(
            owner.kind == "DaemonSet" for owner in self.metadata.owner_references
        ):
            _forget_node_name(self.spec.affinity)
        self.spec.volumes = tuple(
            v for v in self.spec.volumes if v.persistent_volume_claim or v.ephemeral or v.aws_elastic_block_store
        )
        self.spec = shared(self.spec)
        self.node_name = intern(self.node_name)
        self.metadata = _lean_metadata(self.metadata)
        self.status = _lean_status(self.status, is_bound=bool(self.node_name))


def parts_of(pod: WirePod) -> tuple[Any, ...]:
    """Return the parts of a pod whose size its author chooses."""
    metadata, status = pod.metadata, pod.status
    of_status = (status.conditions, status.container_statuses, status.init_container_statuses)
    return (pod.spec, metadata.labels, metadata.annotations, metadata.owner_references, metadata.finalizers, *of_status)


def without_parts(pod: WirePod, excess: str) -> WirePod:
    """Return a pod with its identity, its place and what its containers request together of a node; no node is planned for it.

    Init containers count as if they ran beside the others: too much room is safe.
    """
    spec, metadata = pod.spec, pod.metadata
    requests: dict[str, int] = {}
    for container in (*spec.containers, *spec.init_containers):
        with suppress(InvalidInputError):
            stated = {name: container.resources.requests.get(name, 0) for name in _KEPT_RESOURCES}
            requests = quantity.add(requests, quantity.parse_resources(stated, field="spec.containers"))
    room: Quantities = {
        name: f"{amount}m" if name == quantity.CPU else str(amount) for name, amount in requests.items()
    }
    pod.spec = shared(
        WirePodSpec(
            containers=(Container(resources=Resources(requests=room)),),
            scheduler_name=spec.scheduler_name,
            priority=spec.priority,
            excess=excess,
        )
    )
    controllers = (owner for owner in metadata.owner_references if owner.controller)
    pod.metadata = WireMetadata(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        owner_references=tuple(islice(controllers, 1)),
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
    )
    by_type = {condition.type: condition for condition in pod.status.conditions}
    conditions = (by_type[name] for name in _CONDITIONS_READ if name in by_type)
    pod.status = PodStatus(
        phase=pod.status.phase,
        conditions=tuple(
            WireCondition(
                condition.type, condition.status, condition.reason[:_REASON_MAX], "", condition.last_transition_time
            )
            for condition in conditions
        ),
    )
    return pod


_KEPT_RESOURCES: Final = (quantity.CPU, quantity.MEMORY, quantity.EPHEMERAL_STORAGE)
_REASON_MAX: Final = 100

_SOME_NODE: Final = SelectorExpression("metadata.name", "In")


def _forget_node_name(affinity: Affinity) -> None:
    """Drop the node's name, by which each pod of a DaemonSet is bound: its pods would not share one spec."""
    node = affinity.node_affinity
    for term in node.required.node_selector_terms if node is not None and node.required is not None else ():
        term.match_fields = (_SOME_NODE,) if term.match_fields else ()


class PodTemplate(Wire):
    """`spec.template` of a workload."""

    metadata: WireMetadata = field(default_factory=WireMetadata)
    spec: WirePodSpec = field(default_factory=WirePodSpec)


_ANNOTATIONS_READ: Final = (
    labels.DO_NOT_DISRUPT,
    labels.DISRUPTION_COST,
    labels.POD_DELETION_COST,
    labels.STEERED,
    labels.SURGE,
    labels.VPA_UPDATES,
    labels.START_BEFORE,
    labels.WAITS_FOR,
    *labels.GROUP_ANNOTATIONS,
)
_CONDITIONS_READ: Final = ("PodScheduled", "Ready", "PodResizePending")


def _lean_metadata(metadata: WireMetadata) -> WireMetadata:
    written = metadata.annotations
    metadata.annotations = shared({key: written[key] for key in _ANNOTATIONS_READ if key in written} if written else {})
    metadata.labels = shared(metadata.labels)
    metadata.owner_references = shared(metadata.owner_references)
    metadata.namespace = intern(metadata.namespace)
    metadata.resource_version = ""
    return metadata


def _lean_status(status: PodStatus, *, is_bound: bool) -> PodStatus:
    """Return the fields of the status that are read. Bound pods keep no times of conditions, and no true PodScheduled."""
    kept = tuple(condition for condition in status.conditions if condition.type in _CONDITIONS_READ)
    if is_bound:
        for condition in kept:
            condition.last_transition_time = None
        kept = tuple(c for c in kept if c.type != "PodScheduled" or c.status != "True")
    status.conditions = shared(kept)
    status.container_statuses = _stating_resources(status.container_statuses)
    status.init_container_statuses = _stating_resources(status.init_container_statuses)
    if status.resources is not None or status.allocated_resources is not None:
        status.resources, status.allocated_resources = shared(status.resources), shared(status.allocated_resources)
    status.phase = intern(status.phase)
    return status


def _stating_resources(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    """Return the statuses that state their container's resources."""
    return shared(tuple(status for status in statuses if status.resources is not None or status.allocated_resources))


# Workloads on the wire: the kinds that create pods.


class Ordinals(Wire):
    """`spec.ordinals` of a StatefulSet: the first number of its pods."""

    start: int = 0


class RollingUpdate(Wire):
    """`spec.strategy.rollingUpdate` of a Deployment, with Kubernetes' defaults."""

    max_surge: IntOrString = "25%"
    max_unavailable: IntOrString = "25%"


class Strategy(Wire):
    """`spec.strategy` of a Deployment."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = field(default_factory=RollingUpdate)


class PartitionedUpdate(Wire):
    """`spec.updateStrategy.rollingUpdate` of a StatefulSet: pods below the partition keep the current revision."""

    partition: int = 0


class UpdateStrategy(Wire):
    """`spec.updateStrategy` of a StatefulSet or DaemonSet; the partition is a StatefulSet's."""

    type: str = "RollingUpdate"
    rolling_update: PartitionedUpdate = field(default_factory=PartitionedUpdate)


class WorkloadSpec(Wire):
    """`spec` of a Deployment, ReplicaSet, DaemonSet or StatefulSet; only Deployments have a strategy and can be paused."""

    replicas: int = 1
    selector: WireLabelSelector | None = None
    template: PodTemplate = field(default_factory=PodTemplate)
    volume_claim_templates: tuple[WireClaimTemplate, ...] = ()
    ordinals: Ordinals = field(default_factory=Ordinals)
    strategy: Strategy = field(default_factory=Strategy)
    update_strategy: UpdateStrategy = field(default_factory=UpdateStrategy)
    paused: bool = False


class WorkloadStatus(Wire):
    """The fields of a workload's `status` that describe a rollout."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class WireWorkload(Wire):
    """A Deployment, ReplicaSet, DaemonSet or StatefulSet.

    Attributes:
        unreadable: Field and problem if a part of a DaemonSet is left out because it cannot be read.
    """

    metadata: WireMetadata
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
    unreadable: str = ""


class ReplicationControllerSpec(Wire):
    """`spec` of a ReplicationController: its selector is a plain mapping."""

    replicas: int = 1
    selector: dict[str, str] = {}
    template: PodTemplate = field(default_factory=PodTemplate)


class ReplicationController(Wire):
    """A ReplicationController."""

    metadata: WireMetadata
    spec: ReplicationControllerSpec = field(default_factory=ReplicationControllerSpec)


class JobSpec(Wire):
    """`spec` of a Job."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    managed_by: str = ""
    backoff_limit: int | None = None
    template: PodTemplate = field(default_factory=PodTemplate)


class JobStatus(Wire):
    """`status` of a Job."""

    succeeded: int = 0
    failed: int = 0
    conditions: tuple[WireCondition, ...] = ()


class Job(Wire):
    """A Job."""

    metadata: WireMetadata
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class PodTemplateObject(Wire):
    """A PodTemplate, the object that a CapacityBuffer may name."""

    metadata: WireMetadata
    template: PodTemplate = field(default_factory=PodTemplate)


# Objects that say how pods start together: the few fields that are read, whoever's the kind is.


class GangPolicy(Wire):
    """`gang` of a policy: as many pods must start together."""

    min_count: int = 1


class StartPolicy(Wire):
    """How the pods of a group start: one by one (`basic`), or together (`gang`)."""

    gang: GangPolicy | None = None


class TopologyConstraint(Wire):
    """A node label. All pods of a group need the same value of it."""

    key: str = ""


class TopologyConstraints(Wire):
    """`schedulingConstraints` of a PodGroup."""

    topology: tuple[TopologyConstraint, ...] = ()


class Chosen(Wire):
    """A choice without settings of its own, such as `all: {}`."""


class DisruptionMode(Wire):
    """Whether the pods of a group stop together; the default is that one may stop alone."""

    all: Chosen | None = None


class PodGroupSpec(Wire):
    """`spec` of the PodGroups of Kubernetes (v1alpha3, v1beta1), of Volcano, and of the coscheduling plugin (`minMember`)."""

    scheduling_policy: StartPolicy = field(default_factory=StartPolicy)
    scheduling_constraints: TopologyConstraints = field(default_factory=TopologyConstraints)
    disruption_mode: DisruptionMode = field(default_factory=DisruptionMode)
    priority: int | None = None
    min_member: int = 1


class WirePodGroup(Wire):
    """A PodGroup of Kubernetes, of Volcano, or of the coscheduling plugin."""

    metadata: WireMetadata
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)


class WorkloadGroup(Wire):
    """One group of a Workload."""

    name: str = ""
    policy: StartPolicy = field(default_factory=StartPolicy)


class GroupWorkloadSpec(Wire):
    """`spec` of a Workload of `scheduling.k8s.io/v1alpha1`; later versions have templates of PodGroups instead."""

    pod_groups: tuple[WorkloadGroup, ...] = ()


class WireGroupWorkload(Wire):
    """A Workload of `scheduling.k8s.io/v1alpha1` (Kubernetes 1.35)."""

    metadata: WireMetadata
    spec: GroupWorkloadSpec = field(default_factory=GroupWorkloadSpec)


class LeaderWorkerTemplate(Wire):
    """The pods of one group of a LeaderWorkerSet; the leader is like the workers where it has no template of its own."""

    size: int = 1
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate = field(default_factory=PodTemplate)


class LeaderWorkerSetSpec(Wire):
    """`spec` of a LeaderWorkerSet: how many groups, and what each of them is."""

    replicas: int = 1
    leader_worker_template: LeaderWorkerTemplate = field(default_factory=LeaderWorkerTemplate)


class LeaderWorkerSet(Wire):
    """A LeaderWorkerSet (`leaderworkerset.x-k8s.io/v1`)."""

    metadata: WireMetadata
    spec: LeaderWorkerSetSpec = field(default_factory=LeaderWorkerSetSpec)


class ReplicatedJobSpec(Wire):
    """`spec` of a Job in a JobSet."""

    parallelism: int = 1
    completions: int | None = None
    template: PodTemplate = field(default_factory=PodTemplate)


class ReplicatedJobTemplate(Wire):
    """The template of a JobSet's Jobs."""

    spec: ReplicatedJobSpec = field(default_factory=ReplicatedJobSpec)


class ReplicatedJob(Wire):
    """One entry of `spec.replicatedJobs`."""

    name: str = ""
    replicas: int = 1
    template: ReplicatedJobTemplate = field(default_factory=ReplicatedJobTemplate)


class StartupPolicy(Wire):
    """In which order a JobSet starts its parts: `InOrder`, or all at once."""

    startup_policy_order: str = ""


class JobSetSpec(Wire):
    """`spec` of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    suspend: bool = False
    startup_policy: StartupPolicy = field(default_factory=StartupPolicy)


class JobSetStatus(Wire):
    """`status` of a JobSet; its `terminal_state` is Completed or Failed once it is over."""

    terminal_state: str = ""


class JobSet(Wire):
    """A JobSet (`jobset.x-k8s.io/v1alpha2`)."""

    metadata: WireMetadata
    spec: JobSetSpec = field(default_factory=JobSetSpec)
    status: JobSetStatus = field(default_factory=JobSetStatus)


def names_group(pod: WirePod) -> bool:
    """Whether a pod names a group of pods that start together, whose size an object states."""
    metadata, spec = pod.metadata, pod.spec
    is_native = spec.scheduling_group is not None or spec.workload_ref is not None
    return is_native or labels.VOLCANO_GROUP in metadata.annotations or not _GROUP_LABELS.isdisjoint(metadata.labels)


_GROUP_LABELS: Final = frozenset(labels.GROUP_LABELS)
