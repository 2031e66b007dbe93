"""CapacityBuffers on the wire (`autoscaling.x-k8s.io`, v1alpha1 and v1beta1 alike)."""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from core.manifests.wire.object_metadata import Quantities, Wire, WireMetadata

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
