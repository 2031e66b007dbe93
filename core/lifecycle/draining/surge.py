"""Rollout restarts for single replicas, by opt-in: the new pod starts on another node before the old one stops.

A PodDisruptionBudget over one replica never allows its eviction. Restarting its Deployment while the node is closed to new pods
starts the new pod on another node, and removes the old one once the new one is ready: the workload always has a pod.
"""

from __future__ import annotations

from typing import Any, Final

from core.manifests.wire.workloads import WireWorkload

RESTARTED_FOR: Final = "fleetwright.dev/restarted-for"
"""Annotation of the pod template: the claim for whose drain the Deployment was last restarted. A drain restarts it once."""

_ROLLING: Final = "RollingUpdate"


def is_restarted(deployment: WireWorkload, claim: str) -> bool:
    """Whether the Deployment was already restarted for the drain of `claim`."""
    return deployment.spec.template.metadata.annotations.get(RESTARTED_FOR) == claim


def objection(deployment: WireWorkload) -> str:
    """Return in one sentence why the Deployment must not be restarted; empty if it may."""
    spec, status = deployment.spec, deployment.status
    if spec.replicas != 1:
        return f"it has {spec.replicas} replicas, but a surge restart supports only one"
    if spec.paused:
        return "its rollout is paused"
    rolling = spec.strategy.rolling_update
    if spec.strategy.type != _ROLLING or not _is_a_pod(rolling.max_surge, from_percent=1):
        return "its strategy starts no new pod before the old one stops"
    if _is_a_pod(rolling.max_unavailable, from_percent=100):
        return "its strategy stops the old pod before the new one is ready"
    if status.observed_generation < deployment.metadata.generation or status.updated_replicas < status.replicas:
        return "a rollout is already in progress"
    return ""


def restart(deployment: WireWorkload, claim: str) -> dict[str, Any]:
    """Return the merge patch that restarts the Deployment, as `kubectl rollout restart` does, for the version that was read."""
    template = {"metadata": {"annotations": {RESTARTED_FOR: claim}}}
    return {"metadata": {"resourceVersion": deployment.metadata.resource_version}, "spec": {"template": template}}


def _is_a_pod(given: int | str, *, from_percent: int) -> bool:
    """Whether a number, or a percentage of the one replica, is a pod: Kubernetes rounds surge up and unavailability down."""
    text = str(given)
    least = from_percent if text.endswith("%") else 1
    return int(text.removesuffix("%")) >= least
