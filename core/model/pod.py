"""The properties of a pod that decisions read.

Most pods of a workload are alike, so the inputs of placement are one shared `PodSpec`; `Pod` adds identity and state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from core import labels
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration, is_protected

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"
DEFAULT_SCHEDULER: Final = "default-scheduler"


class LabelSelector(msgspec.Struct, frozen=True, order=True):
    """A conjunction over labels; an empty one selects everything, `None` instead of one selects nothing."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, values: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        for requirement in self.requirements:
            value = values.get(requirement.key)
            if value is None:
                if not requirement.tolerates_absence:
                    return False
            elif not requirement.has(value):
                return False
        return True


class NodeSelectorTerm(msgspec.Struct, frozen=True, order=True):
    """One alternative of a node affinity. A node's name is `labels.NODE_NAME`; `uses_fields` marks other fields."""

    requirements: tuple[Requirement, ...] = ()
    uses_fields: bool = False


class PreferredTerm(msgspec.Struct, frozen=True, order=True):
    """A node affinity preference."""

    weight: int
    term: NodeSelectorTerm


class TopologySpread(msgspec.Struct, frozen=True, order=True):
    """One topologySpreadConstraint. `match_label_keys` is kept apart from the selector, as written."""

    topology_key: str
    max_skew: int
    when_unsatisfiable: str = DO_NOT_SCHEDULE
    selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = HONOR
    node_taints_policy: str = IGNORE
    match_label_keys: tuple[str, ...] = ()


class PodAffinityTerm(msgspec.Struct, frozen=True, order=True):
    """One (anti-)affinity term. Neither `namespaces` nor `namespace_selector`: the pod's own namespace."""

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, order=True):
    """A pod (anti-)affinity preference."""

    weight: int
    term: PodAffinityTerm


_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - Kubernetes' own notation


class HostPort(msgspec.Struct, frozen=True, order=True):
    """A host port of a pod; an empty address stands for all."""

    port: int
    protocol: str = "TCP"
    host_ip: str = _ALL_ADDRESSES

    def conflicts(self, other: HostPort) -> bool:
        """Whether the two ports cannot be open on one node."""
        return any_conflict((self,), (other,))


def any_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether any wanted port is taken; linear in both, since a pod may list thousands."""
    addresses: dict[tuple[int, str], set[str]] = {}
    for port in taken:
        addresses.setdefault((port.port, port.protocol), set()).add(port.host_ip)
    return any(
        port.host_ip in used or _ALL_ADDRESSES in used or port.host_ip == _ALL_ADDRESSES
        for port in wanted
        if (used := addresses.get((port.port, port.protocol)))
    )


class VolumeRequest(msgspec.Struct, frozen=True, order=True):
    """What an unbound PersistentVolumeClaim asks of its volume. `mode` is Filesystem or Block."""

    size: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    selector: LabelSelector | None = None
    attributes_class: str = ""


class VolumeUse(msgspec.Struct, frozen=True, order=True):
    """A volume of a pod that needs a PersistentVolumeClaim, or an EBS volume that the pod itself names.

    Attributes:
        claim_name: For a generic ephemeral volume the name that Kubernetes gives it, `<pod>-<volume>`; left empty in a
            spec that several pods share and filled by `Pod.claim_names`.
        ephemeral: Name of the volume when it is a generic ephemeral one, else empty.
        storage_class: The class in the ephemeral volume's template, None for the cluster's default.
        request: What the ephemeral volume's template asks for.
        inline: Id of an EBS volume without a claim.
    """

    claim_name: str
    ephemeral: str = ""
    storage_class: str | None = None
    request: VolumeRequest = VolumeRequest()
    inline: str = ""


class PodSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the placement of a pod depends on, except its labels and namespace.

    Attributes:
        requests: Effective requests (containers, init containers, sidecars, pod level, overhead) and `pods: 1`.
        required_terms: Alternatives of the required node affinity; none: no such affinity. An alternative without
            expressions matches no node.
        workload: The Workload whose pods start together (`workloadRef`, Kubernetes 1.35), empty for none.
        pod_group: The PodGroup whose pods start together (`schedulingGroup`, Kubernetes 1.36), or the group of the Workload as
            `WORKLOAD/GROUP` or `WORKLOAD/GROUP/KEY`; empty for none.
        problem: Field and problem if no node can be planned for such pods, else empty.
        unscorable: Field and problem of a preferred term that kube-scheduler cannot parse: it binds such a pod only while one
            node alone passes its filters.
        problem_reason: The code of `core.reasons.pods` for that problem, empty for InvalidPod.
    """

    requests: dict[str, int]
    node_selector: tuple[Requirement, ...] = ()
    required_terms: tuple[NodeSelectorTerm, ...] = ()
    preferred_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spreads: tuple[TopologySpread, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[VolumeUse, ...] = ()
    resource_claims: tuple[str, ...] = ()
    priority: int = 0
    priority_class: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    workload: str = ""
    pod_group: str = ""
    termination_grace_seconds: int = 30
    problem: str = ""
    unscorable: str = ""
    problem_reason: str = ""


class Owner(msgspec.Struct, frozen=True, order=True):
    """An owner reference."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    is_controller: bool = False


class GroupSource(StrEnum):
    """Where a group of pods that start together is written; the order in which their minimum counts."""

    POD_GROUP = "PodGroup"
    WORKLOAD = "Workload"
    VOLCANO = "Volcano"
    COSCHEDULING = "Coscheduling"
    KUEUE = "Kueue"
    ANNOTATION = "Annotation"
    LEADER_WORKER_SET = "LeaderWorkerSet"
    JOB_SET = "JobSet"
    PROVISIONING_REQUEST = "ProvisioningRequest"


MEMBERS_COME_WITHIN: Final = timedelta(seconds=45)
"""How long a node that was bought for a group waits for members that do not exist or have a mistake, from when that is first
seen. EC2 bills at least a minute."""


class MemberTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that the owner of a group creates, alike.

    Attributes:
        part: The part of the owner that they belong to: a JobSet's replicatedJob, a LeaderWorkerSet's `leader` or `worker`.
        jobs: How many Jobs of them a JobSet makes.
        pods: How many pods each Job has, or how many of them one group has.
    """

    part: str
    labels: dict[str, str] = {}
    spec: PodSpec
    jobs: int = 1
    pods: int = 1


class GroupObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that says how pods start together, whoever's it is.

    Attributes:
        source: The kind of object: neither Kueue nor an annotation.
        name: A Workload's groups are `WORKLOAD/GROUP`.
        minimum: How many must start together; None if the object does not say.
        topology_keys: Node labels. All members need the same value of each.
        disrupts_all: Whether members stop together.
        starts_in_order: Whether a JobSet starts a part only when the part before it is ready.
        templates: The pods that its controller creates.
    """

    source: GroupSource
    namespace: str
    name: str
    created_at: datetime | None = None
    minimum: int | None = None
    priority: int | None = None
    topology_keys: tuple[str, ...] = ()
    disrupts_all: bool = False
    starts_in_order: bool = False
    templates: tuple[MemberTemplate, ...] = ()


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """The pod that its controller makes when a pod goes, where it differs from that pod."""

    labels: dict[str, str] = {}
    spec: PodSpec


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod. `key` (`namespace/name`) identifies it in plans and messages.

    Attributes:
        is_marked_unschedulable: Whether the scheduler has reported it (condition PodScheduled with reason Unschedulable).
        unschedulable_since: When it was first reported, None if it was not or the time is unknown.
        is_gated: Whether it still has scheduling gates.
        is_ready: Condition Ready, None where unknown.
        unreadable: Field and problem if it cannot be read as a whole; its requests and tolerations are then unknown.
        successor: What comes when it goes, None for a pod like it; `core.pods.successor` reads it.
    """

    namespace: str
    name: str
    spec: PodSpec
    uid: str = ""
    created_at: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owners: tuple[Owner, ...] = ()
    node_name: str = ""
    nominated_node_name: str = ""
    phase: str = "Pending"
    deleted_at: datetime | None = None
    started_at: datetime | None = None
    is_ready: bool | None = None
    is_marked_unschedulable: bool = False
    unschedulable_since: datetime | None = None
    is_gated: bool = False
    unreadable: str = ""
    successor: Successor | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_terminal(self) -> bool:
        """Whether it has finished for good."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def is_terminating(self) -> bool:
        """Whether its deletion has begun."""
        return self.deleted_at is not None

    @property
    def is_active(self) -> bool:
        """Neither finished nor being deleted."""
        return not self.is_terminal and not self.is_terminating

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet owns it."""
        for owner in self.owners:  # noqa: SIM110 - a third of the time of `any`, and read of each pod several times a decision
            if owner.kind == "DaemonSet":
                return True
        return False

    @property
    def is_static(self) -> bool:
        """Whether it is a mirror of a kubelet's static pod."""
        for owner in self.owners:  # noqa: SIM110 - as above
            if owner.kind == "Node":
                return True
        return False

    @property
    def is_stateful(self) -> bool:
        """Whether a StatefulSet owns it: its successor waits until it is gone, so it counts while terminating."""
        return any(owner.kind == "StatefulSet" for owner in self.owners)

    @property
    def controller(self) -> str:
        """Name of the object that created it, empty for none."""
        return next((owner.name for owner in self.owners if owner.is_controller), "")

    @property
    def workload(self) -> str:
        """The object that creates its successor, as `namespace/Kind/name`; the pod itself if there is none."""
        owner = next((owner for owner in self.owners if owner.is_controller), next(iter(self.owners), None))
        kind, name = ("Pod", self.name) if owner is None else (owner.kind, owner.name)
        return f"{self.namespace}/{kind}/{name}"

    @property
    def may_surge(self) -> bool:
        """Whether its owner allows a restart of its Deployment if it cannot be evicted (`fleetwright.dev/surge`)."""
        of_replica_set = any(owner.kind == "ReplicaSet" and owner.is_controller for owner in self.owners)
        return of_replica_set and self.annotations.get(labels.SURGE) == "true"

    def claim_names(self) -> tuple[str, ...]:
        """Names of the PersistentVolumeClaims it uses, in spec order."""
        return tuple(
            f"{self.name}-{volume.ephemeral}" if volume.ephemeral else volume.claim_name for volume in self.spec.volumes
        )

    def blocks_disruption(self, now: datetime) -> bool:
        """Whether its `karpenter.sh/do-not-disrupt` annotation is in force: "true", or a duration since its start."""
        return self.is_active and is_protected(self.annotations.get(labels.DO_NOT_DISRUPT), self.started_at, now)


# The properties of volumes, claims and storage classes that determine where a pod may run.


IMMEDIATE = "Immediate"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
EBS_DRIVER: Final = "ebs.csi.aws.com"
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


class PersistentVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume.

    Attributes:
        node_terms: The alternatives of its required node affinity.
        driver: Its CSI driver if it has one.
        claim: Namespace and name of the claim that it is bound to or kept for.
    """

    name: str
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    driver: str = ""
    is_local: bool = False
    is_terminating: bool = False
    labels: dict[str, str] = {}
    storage_class: str = ""
    size: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    phase: str = ""
    claim: tuple[str, str] | None = None

    @property
    def is_free(self) -> bool:
        """Whether kube-scheduler may bind it to a claim; one that was not applied yet has no phase."""
        is_kept = self.claim is not None and self.phase == "Pending"
        return not self.is_terminating and (self.phase in ("", "Available") or is_kept)


class PersistentVolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on a volume.

    Attributes:
        volume_name: Empty until it is bound.
        is_bind_completed: The binder's own annotation.
        selected_node: The node for which kube-scheduler has asked for the volume, empty before.
    """

    namespace: str
    name: str
    volume_name: str = ""
    storage_class: str | None = None
    phase: str = "Pending"
    is_terminating: bool = False
    is_bind_completed: bool = False
    selected_node: str = ""
    request: VolumeRequest = VolumeRequest()


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """How volumes are provisioned. `allowed_topologies` are alternatives."""

    name: str
    provisioner: str = ""
    binding_mode: str = IMMEDIATE
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    is_default: bool = False
    created_at: datetime | None = None


def default_class(classes: Iterable[StorageClass]) -> str | None:
    """Return the class of claims that name none: the newest of several defaults, then the first by name (Kubernetes)."""
    by_name = sorted(
        (storage_class for storage_class in classes if storage_class.is_default),
        key=lambda storage_class: storage_class.name,
    )
    newest = max(by_name, key=lambda storage_class: storage_class.created_at or _OLDEST, default=None)
    return newest.name if newest is not None else None


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A volume attached to a node."""

    name: str
    node_name: str
    volume_name: str
