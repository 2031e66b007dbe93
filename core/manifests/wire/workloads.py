"""Workloads on the wire: the kinds that create pods."""

from __future__ import annotations

from msgspec import field

from core.manifests.wire.cluster import WireClaimTemplate
from core.manifests.wire.object_metadata import IntOrString, Wire, WireCondition, WireLabelSelector, WireMetadata
from core.manifests.wire.pod import PodTemplate


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


class WorkloadSpec(Wire):
    """`spec` of a Deployment, ReplicaSet, DaemonSet or StatefulSet; only Deployments have a strategy and can be paused."""

    replicas: int = 1
    selector: WireLabelSelector | None = None
    template: PodTemplate = field(default_factory=PodTemplate)
    volume_claim_templates: tuple[WireClaimTemplate, ...] = ()
    ordinals: Ordinals = field(default_factory=Ordinals)
    strategy: Strategy = field(default_factory=Strategy)
    paused: bool = False


class WorkloadStatus(Wire):
    """The fields of a workload's `status` that describe a rollout."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0


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
    template: PodTemplate = field(default_factory=PodTemplate)


class JobStatus(Wire):
    """`status` of a Job."""

    succeeded: int = 0
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
