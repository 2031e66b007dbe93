"""Nodes, volumes and the small kinds on the wire."""

from __future__ import annotations

from msgspec import field

from core.manifests.wire.object_metadata import (
    Condition,
    Metadata,
    NodeSelector,
    Quantities,
    Wire,
)
from core.manifests.wire.pod import ClaimSpec


class Taint(Wire):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Wire):
    """`spec` of a Node."""

    provider_id: str = field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Wire):
    """`status` of a Node."""

    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: tuple[Condition, ...] = ()


class Node(Wire):
    """A Node. `unreadable` says field and fault where a part is left out because it cannot be read."""

    metadata: Metadata
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

    metadata: Metadata
    spec: CsiNodeSpec = field(default_factory=CsiNodeSpec)


class CsiSource(Wire):
    """`spec.csi` of a PersistentVolume."""

    driver: str = ""


class VolumeNodeAffinity(Wire):
    """`spec.nodeAffinity` of a PersistentVolume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire):
    """`spec` of a PersistentVolume; of the in-tree sources only their presence matters."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    aws_elastic_block_store: dict[str, object] | None = None
    local: dict[str, object] | None = None
    host_path: dict[str, object] | None = None


class PersistentVolume(Wire):
    """A PersistentVolume."""

    metadata: Metadata
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)


class ClaimStatus(Wire):
    """`status` of a PersistentVolumeClaim."""

    phase: str = "Pending"


class PersistentVolumeClaim(Wire):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: ClaimStatus = field(default_factory=ClaimStatus)


class TopologyExpression(Wire):
    """One label of an allowed topology."""

    key: str
    values: tuple[str, ...] = ()


class AllowedTopology(Wire):
    """One alternative of a StorageClass's `allowedTopologies`."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(Wire):
    """A StorageClass."""

    metadata: Metadata
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


class VolumeAttachment(Wire):
    """A VolumeAttachment."""

    metadata: Metadata
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)


class PriorityClass(Wire):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0
    global_default: bool = False


class ServiceSpec(Wire):
    """`spec` of a Service."""

    selector: dict[str, str] = {}


class Service(Wire):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = field(default_factory=ServiceSpec)
