"""Translates PodDisruptionBudgets, DaemonSets and other objects that rules refer to, from wire to model."""

from __future__ import annotations

from core.errors import InvalidInputError
from core.manifests.pods import PodTranslator
from core.manifests.selectors import equality_selector, label_selector
from core.manifests.wire import cluster as wire_cluster
from core.manifests.wire import object_metadata as wire_common
from core.manifests.wire import workloads as wire_workloads
from core.model.pod import LabelSelector, PodSpec
from core.model.policy import DaemonSet, Namespace, PodDisruptionBudget, Service, WorkloadSelector


def pod_disruption_budget(written: wire_cluster.WirePodDisruptionBudget) -> PodDisruptionBudget:
    """Translate a PodDisruptionBudget.

    Raises:
        InvalidInputError: If its selector cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    metadata, spec, status = written.metadata, written.spec, written.status
    is_stale = status.observed_generation is not None and status.observed_generation < metadata.generation
    return PodDisruptionBudget(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        selector=label_selector(spec.selector, field="spec.selector"),
        min_available=_text(spec.min_available),
        max_unavailable=_text(spec.max_unavailable),
        disruptions_allowed=None if is_stale else status.disruptions_allowed,
        expected_pods=None if is_stale else status.expected_pods,
        unhealthy_pod_eviction_policy=spec.unhealthy_pod_eviction_policy,
    )


def unreadable_budget(written: wire_cluster.WirePodDisruptionBudget) -> PodDisruptionBudget:
    """Translate a budget for which `pod_disruption_budget` raised.

    It may select any pod of its namespace, so it protects all.
    """
    metadata = written.metadata
    return PodDisruptionBudget(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        selector=LabelSelector(),
        max_unavailable="0",
        disruptions_allowed=0,
    )


def daemon_set(written: wire_workloads.WireWorkload, translator: PodTranslator) -> DaemonSet:
    """Translate a DaemonSet: the pod of its template.

    Raises:
        InvalidInputError: If the template cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    template = written.spec.template
    return DaemonSet(
        namespace=written.metadata.namespace or "default",
        name=written.metadata.name,
        labels=template.metadata.labels,
        spec=translator.spec(template.spec, field="spec.template.spec"),
    )


def unreadable_daemon_set(written: wire_workloads.WireWorkload, error: InvalidInputError) -> DaemonSet:
    """Translate a DaemonSet for which `daemon_set` raised; only its existing pods show what its pods need."""
    fault = ": ".join(part for part in (error.field, error.problem) if part)
    metadata = written.metadata
    spec = PodSpec(requests={"pods": 1}, problem=fault)
    return DaemonSet(namespace=metadata.namespace or "default", name=metadata.name, spec=spec)


def namespace(written: wire_common.Labelled) -> Namespace:
    """Translate a namespace. Kubernetes labels each with its own name."""
    own = {"kubernetes.io/metadata.name": written.metadata.name}
    return Namespace(name=written.metadata.name, labels=own | written.metadata.labels)


def service(written: wire_cluster.WireService) -> Service:
    """Translate a Service."""
    metadata = written.metadata
    return Service(namespace=metadata.namespace or "default", name=metadata.name, selector=written.spec.selector)


def workload_selector(written: wire_workloads.WireWorkload, kind: str) -> WorkloadSelector:
    """Translate a ReplicaSet, StatefulSet or Deployment, without its template.

    Raises:
        InvalidInputError: If the selector cannot be understood.
    """
    metadata = written.metadata
    selector = label_selector(written.spec.selector, field="spec.selector")
    return WorkloadSelector(
        namespace=metadata.namespace or "default",
        kind=kind,
        name=metadata.name,
        selector=selector,
        replicas=written.spec.replicas,
    )


def controller_selector(written: wire_workloads.ReplicationController) -> WorkloadSelector:
    """Translate a ReplicationController, without its template."""
    metadata, selector = written.metadata, written.spec.selector
    return WorkloadSelector(
        namespace=metadata.namespace or "default",
        kind="ReplicationController",
        name=metadata.name,
        selector=equality_selector(selector) if selector else None,
        replicas=written.spec.replicas,
    )


def _text(value: wire_common.IntOrString | None) -> str | None:
    return None if value is None else str(value)
