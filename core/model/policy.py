"""PodDisruptionBudgets and the other objects that rules refer to."""

from __future__ import annotations

import msgspec

from core.model.pod import LabelSelector, PodSpec

ALWAYS_ALLOW = "AlwaysAllow"


class PodDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget.

    Attributes:
        min_available, max_unavailable: As written, a number or a percentage; at most one is set.
        disruptions_allowed: What its status says, None where it has no status yet.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    min_available: str | None = None
    max_unavailable: str | None = None
    disruptions_allowed: int | None = None
    unhealthy_pod_eviction_policy: str = ""


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet: the pod that every fitting node gets. Limits are already taken for requests where none are given."""

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
    """The selector of a ReplicaSet, StatefulSet, ReplicationController or Deployment, for default topology spread."""

    namespace: str
    kind: str
    name: str
    selector: LabelSelector | None = None
