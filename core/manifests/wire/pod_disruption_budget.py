"""PodDisruptionBudgets on the wire."""

from __future__ import annotations

from msgspec import field

from core.manifests.wire.object_metadata import IntOrString, Wire, WireLabelSelector, WireMetadata


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
    observed_generation: int | None = None


class WirePodDisruptionBudget(Wire):
    """A PodDisruptionBudget. `unreadable` as in a pod."""

    metadata: WireMetadata
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
    unreadable: str = ""
