"""Nodes, volumes and the small kinds on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import field

# Structs that all kinds of Kubernetes objects share on the wire: metadata, selectors, quantities.


Quantity = str | int | float
Quantities = dict[str, Quantity]
IntOrString = int | str
Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]


class Wire(msgspec.Struct, rename="camel"):
    """Base of the structs: names are camelCase in JSON and snake_case here; fields that we do not read are dropped."""


class OwnerReference(Wire):
    """One entry of `metadata.ownerReferences`."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool = False


class WireMetadata(Wire):
    """The fields of `metadata` that we read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None


class WireCondition(Wire):
    """One entry of `status.conditions`."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class SelectorExpression(Wire):
    """One entry of a `matchExpressions`, of a label selector or of a node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class WireLabelSelector(Wire):
    """A selector of objects by their labels."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorExpression, ...] = ()


class WireNodeSelectorTerm(Wire):
    """One alternative of a node affinity."""

    match_expressions: tuple[SelectorExpression, ...] = ()
    match_fields: tuple[SelectorExpression, ...] = ()


class NodeSelector(Wire):
    """Alternatives, any one of which is enough."""

    node_selector_terms: tuple[WireNodeSelectorTerm, ...] = ()


class Labelled(Wire):
    """A kind of which we only read the metadata: CronJob."""

    metadata: WireMetadata


class NamespaceStatus(Wire):
    """`status` of a Namespace."""

    phase: str = ""


class WireNamespace(Wire):
    """A Namespace."""

    metadata: WireMetadata
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


# CapacityBuffers on the wire (`autoscaling.x-k8s.io`, v1alpha1 and v1beta1 alike).


ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
"""The only strategy that we and Karpenter implement: keep the room free at all times."""


class BufferMetadata(WireMetadata):
    """`metadata`, with the fields that a status refers to."""

    generation: int = 0


class LocalReference(Wire):
    """An object of the same namespace."""

    name: str = ""


class ScalableReference(Wire):
    """A workload of the same namespace. An empty group means `apps` (Karpenter)."""

    kind: str
    name: str
    api_group: str = ""


class CapacityBufferSpec(Wire):
    """`spec` of a CapacityBuffer."""

    provisioning_strategy: str = ACTIVE_CAPACITY
    pod_template_ref: LocalReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: Quantities | None = None


class WireCapacityBuffer(Wire):
    """A CapacityBuffer. We write its status; it stays plain JSON, to compare it with the desired one."""

    metadata: BufferMetadata
    spec: CapacityBufferSpec = field(default_factory=CapacityBufferSpec)
    status: dict[str, Any] = {}


# ProvisioningRequests on the wire (`autoscaling.x-k8s.io`, v1beta1 and v1 alike).


class RequestedPodSet(Wire):
    """Equal pods: a PodTemplate of the same namespace, and how many."""

    pod_template_ref: LocalReference = field(default_factory=LocalReference)
    count: int = 0


class ProvisioningRequestSpec(Wire):
    """`spec` of a ProvisioningRequest, which never changes."""

    provisioning_class_name: str = ""
    pod_sets: tuple[RequestedPodSet, ...] = ()
    parameters: dict[str, str] = {}


class WireProvisioningRequest(Wire):
    """A ProvisioningRequest. We write its status; it stays plain JSON, to compare it with the desired one."""

    metadata: WireMetadata
    api_version: str = ""
    spec: ProvisioningRequestSpec = field(default_factory=ProvisioningRequestSpec)
    status: dict[str, Any] = {}


class WireTaint(Wire):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Wire):
    """`spec` of a Node."""

    provider_id: str = field(default="", name="providerID")
    taints: tuple[WireTaint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Wire):
    """`status` of a Node."""

    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: tuple[WireCondition, ...] = ()


class WireNode(Wire):
    """A Node. `unreadable` names field and problem if a part is left out because it cannot be read."""

    metadata: WireMetadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
    unreadable: str = ""


class CsiAllocatable(Wire):
    """`drivers[].allocatable` of a CSINode."""

    count: int | None = None


class CsiDriver(Wire):
    """One driver on a node."""

    name: str
    allocatable: CsiAllocatable | None = None


class CsiNodeSpec(Wire):
    """`spec` of a CSINode."""

    drivers: tuple[CsiDriver, ...] = ()


class CsiNode(Wire):
    """A CSINode, named as its node."""

    metadata: WireMetadata
    spec: CsiNodeSpec = field(default_factory=CsiNodeSpec)


class CsiDriverSpec(Wire):
    """`spec` of a CSIDriver."""

    prevent_pod_scheduling_if_missing: bool = False


class CsiDriverInstalled(Wire):
    """A CSIDriver: a driver that is installed in the cluster."""

    metadata: WireMetadata
    spec: CsiDriverSpec = field(default_factory=CsiDriverSpec)


class CsiSource(Wire):
    """`spec.csi` of a PersistentVolume."""

    driver: str = ""


class VolumeNodeAffinity(Wire):
    """`spec.nodeAffinity` of a PersistentVolume."""

    required: NodeSelector | None = None


class ClaimRef(Wire):
    """`spec.claimRef` of a PersistentVolume."""

    namespace: str = ""
    name: str = ""


class VolumeStatus(Wire):
    """`status` of a PersistentVolume."""

    phase: str = ""


class PersistentVolumeSpec(Wire):
    """`spec` of a PersistentVolume; for in-tree sources, only their presence matters."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    aws_elastic_block_store: dict[str, object] | None = None
    local: dict[str, object] | None = None
    host_path: dict[str, object] | None = None
    capacity: Quantities = {}
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    storage_class_name: str = ""
    claim_ref: ClaimRef | None = None


class WirePersistentVolume(Wire):
    """A PersistentVolume."""

    metadata: WireMetadata
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: VolumeStatus = field(default_factory=VolumeStatus)


class ClaimStatus(Wire):
    """`status` of a PersistentVolumeClaim."""

    phase: str = "Pending"


class ClaimSource(Wire):
    """`volumes[].persistentVolumeClaim`."""

    claim_name: str


class ClaimResources(Wire):
    """`spec.resources` of a PersistentVolumeClaim."""

    requests: Quantities = {}


class WireClaimSpec(Wire):
    """`spec` of a PersistentVolumeClaim or of a template for one."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    selector: WireLabelSelector | None = None
    resources: ClaimResources = field(default_factory=ClaimResources)


class WireClaimTemplate(Wire):
    """A template from which a PersistentVolumeClaim is made."""

    metadata: WireMetadata = field(default_factory=WireMetadata)
    spec: WireClaimSpec = field(default_factory=WireClaimSpec)


class EphemeralSource(Wire):
    """`volumes[].ephemeral`."""

    volume_claim_template: WireClaimTemplate = field(default_factory=WireClaimTemplate)


class InlineEbs(Wire):
    """`volumes[].awsElasticBlockStore`."""

    volume_id: str = field(default="", name="volumeID")


class Volume(Wire):
    """A volume; only those with a claim, or of EBS, decide where a pod may run."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    aws_elastic_block_store: InlineEbs | None = None


class WirePersistentVolumeClaim(Wire):
    """A PersistentVolumeClaim."""

    metadata: WireMetadata
    spec: WireClaimSpec = field(default_factory=WireClaimSpec)
    status: ClaimStatus = field(default_factory=ClaimStatus)


class TopologyExpression(Wire):
    """One label of an allowed topology."""

    key: str
    values: tuple[str, ...] = ()


class AllowedTopology(Wire):
    """One alternative of a StorageClass's `allowedTopologies`."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class WireStorageClass(Wire):
    """A StorageClass."""

    metadata: WireMetadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[AllowedTopology, ...] = ()


class AttachmentSource(Wire):
    """`spec.source` of a VolumeAttachment."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Wire):
    """`spec` of a VolumeAttachment."""

    node_name: str = ""
    source: AttachmentSource = field(default_factory=AttachmentSource)


class WireVolumeAttachment(Wire):
    """A VolumeAttachment."""

    metadata: WireMetadata
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)


class PriorityClass(Wire):
    """A PriorityClass."""

    metadata: WireMetadata
    value: int = 0
    global_default: bool = False


class ServiceSpec(Wire):
    """`spec` of a Service."""

    selector: dict[str, str] = {}


class WireService(Wire):
    """A Service."""

    metadata: WireMetadata
    spec: ServiceSpec = field(default_factory=ServiceSpec)


class PodDisruptionBudgetSpec(Wire):
    """`spec` of a PodDisruptionBudget."""

    selector: WireLabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Wire):
    """`status` of a PodDisruptionBudget."""

    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    observed_generation: int | None = None


class WirePodDisruptionBudget(Wire):
    """A PodDisruptionBudget. `unreadable` as in a pod."""

    metadata: WireMetadata
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
    unreadable: str = ""
