"""The kinds on the wire by which a cluster changes, counts or refuses pods when they are created."""

from __future__ import annotations

from msgspec import field

from core.manifests.wire.objects import Quantities, Wire, WireMetadata
from core.manifests.wire.pod import WireToleration

# LimitRange


class LimitRangeItem(Wire):
    """One entry of `spec.limits` of a LimitRange."""

    type: str = ""
    default: Quantities = {}
    default_request: Quantities = {}
    min: Quantities = {}
    max: Quantities = {}
    max_limit_request_ratio: Quantities = {}


class LimitRangeSpec(Wire):
    """`spec` of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Wire):
    """A LimitRange: defaults and bounds of the pods of a namespace."""

    metadata: WireMetadata
    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)


# RuntimeClass


class Overhead(Wire):
    """`overhead` of a RuntimeClass."""

    pod_fixed: Quantities = {}


class RuntimeScheduling(Wire):
    """`scheduling` of a RuntimeClass."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[WireToleration, ...] = ()


class RuntimeClass(Wire):
    """A RuntimeClass: what its pods need beside their containers, and which nodes run them."""

    metadata: WireMetadata
    overhead: Overhead = field(default_factory=Overhead)
    scheduling: RuntimeScheduling = field(default_factory=RuntimeScheduling)


# ResourceQuota


class ScopeExpression(Wire):
    """One entry of `spec.scopeSelector.matchExpressions` of a ResourceQuota."""

    scope_name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ScopeSelector(Wire):
    """`spec.scopeSelector` of a ResourceQuota."""

    match_expressions: tuple[ScopeExpression, ...] = ()


class ResourceQuotaSpec(Wire):
    """`spec` of a ResourceQuota."""

    hard: Quantities = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector = field(default_factory=ScopeSelector)


class ResourceQuotaStatus(Wire):
    """`status` of a ResourceQuota."""

    hard: Quantities = {}
    used: Quantities = {}


class ResourceQuota(Wire):
    """A ResourceQuota: how much the pods of a namespace may request together."""

    metadata: WireMetadata
    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


# Autoscalers of workloads


class ScaleTarget(Wire):
    """`spec.scaleTargetRef` of an autoscaler; KEDA's default is a Deployment."""

    name: str = ""
    kind: str = "Deployment"
    api_version: str = ""


class HorizontalPodAutoscalerSpec(Wire):
    """`spec` of a HorizontalPodAutoscaler, with Kubernetes' default."""

    scale_target_ref: ScaleTarget = field(default_factory=ScaleTarget)
    min_replicas: int = 1
    max_replicas: int | None = None


class HorizontalPodAutoscaler(Wire):
    """A HorizontalPodAutoscaler: the bounds of a workload's replicas."""

    metadata: WireMetadata
    spec: HorizontalPodAutoscalerSpec = field(default_factory=HorizontalPodAutoscalerSpec)


class ScaledObjectSpec(Wire):
    """`spec` of KEDA's ScaledObject, with KEDA's defaults."""

    scale_target_ref: ScaleTarget = field(default_factory=ScaleTarget)
    idle_replica_count: int | None = None
    min_replica_count: int = 0
    max_replica_count: int = 100


class ScaledObject(Wire):
    """KEDA's ScaledObject: the bounds of a workload's replicas."""

    metadata: WireMetadata
    spec: ScaledObjectSpec = field(default_factory=ScaledObjectSpec)
