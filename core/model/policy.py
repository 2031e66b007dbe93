"""PodDisruptionBudgets and the other objects that rules refer to."""

from __future__ import annotations

import msgspec

from core.model.pod import LabelSelector, Pod, PodSpec

ALWAYS_ALLOW = "AlwaysAllow"


class PodDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget.

    Attributes:
        min_available, max_unavailable: As written, a number or a percentage; at most one is set.
        disruptions_allowed: The value in its status, None if it has no status yet or one of an earlier generation.
        expected_pods: The number of expected pods in its status, None likewise.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    min_available: str | None = None
    max_unavailable: str | None = None
    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    unhealthy_pod_eviction_policy: str = ""

    def selects(self, pod: Pod) -> bool:
        """Whether the budget selects the pod, which is of the same namespace."""
        same = pod.namespace == self.namespace
        return same and self.selector is not None and self.selector.matches(pod.labels)

    def exempts(self, pod: Pod) -> bool:
        """Whether the budget exempts a selected pod: it is not ready, and the budget always lets such pods go."""
        return self.unhealthy_pod_eviction_policy == ALWAYS_ALLOW and pod.is_ready is False


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet: the pod that every matching node gets. Limits already count as requests if there are none."""

    namespace: str
    name: str
    labels: dict[str, str] = {}
    spec: PodSpec


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace and its labels, for namespace selectors."""

    name: str
    labels: dict[str, str] = {}


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A Service with a selector, for default topology spread."""

    namespace: str
    name: str
    selector: dict[str, str] = {}


class WorkloadSelector(msgspec.Struct, frozen=True, kw_only=True):
    """A ReplicaSet, StatefulSet, ReplicationController or Deployment: the selector of its pods, and its replicas."""

    namespace: str
    kind: str
    name: str
    selector: LabelSelector | None = None
    replicas: int | None = None
