"""How one label, one selector or one taint is read: the rules of Kubernetes, one value at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Final, TypeVar

import msgspec

from core import labels as keys
from core.model.plan import ObjectRef
from core.model.pod import LabelSelector, Pod, PodAffinityTerm, PodSpec, TopologySpread
from core.model.snapshot import Namespace, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration

Labels = Mapping[str, str]
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def meets(requirement: Requirement, labels: Labels) -> bool:
    """Whether an object with these labels meets one expression."""
    value = labels.get(requirement.key)
    is_bounded = requirement.gte is not None or requirement.lte is not None
    if value is None:
        is_not_in = requirement.complement and bool(requirement.values)
        is_does_not_exist = not requirement.complement and not requirement.values
        return is_not_in or is_does_not_exist
    if requirement.complement and value in requirement.values:
        return False
    if not requirement.complement and value not in requirement.values:
        return False
    if is_bounded:
        if not value.lstrip("-").isdecimal():
            return False
        if requirement.gte is not None and int(value) < requirement.gte:
            return False
        if requirement.lte is not None and int(value) > requirement.lte:
            return False
    return True


def meets_all(requirements: Iterable[Requirement], labels: Labels) -> bool:
    """Whether every expression is met."""
    return all(meets(requirement, labels) for requirement in requirements)


def wants_node(spec: PodSpec, labels: Labels) -> bool:
    """Whether a node's labels meet the node selector and some term of the required node affinity."""
    if not meets_all(spec.node_selector, labels):
        return False
    if not spec.required_terms:
        return True
    for term in spec.required_terms:
        if term.requirements and not term.uses_fields and meets_all(term.requirements, labels):
            return True
    return False


def tolerates(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether the pod tolerates all taints; PreferNoSchedule is ignored."""
    granted = list(tolerations)
    for taint in taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not any(_covers(toleration, taint) for toleration in granted):
            return False
    return True


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether a label selector matches these labels; no selector matches nothing."""
    return selector is not None and meets_all(selector.requirements, labels)


def spread_selects(spread: TopologySpread, owner: Pod, other: Pod) -> bool:
    """Whether a pod counts for another pod's spread constraint; an empty selector counts none (kube-scheduler)."""
    by_keys = any(key in owner.labels for key in spread.match_label_keys)
    if spread.selector is not None and not spread.selector.requirements and not by_keys:
        return False
    if other.namespace != owner.namespace or not selects(spread.selector, other.labels):
        return False
    return all(other.labels.get(key) == owner.labels[key] for key in spread.match_label_keys if key in owner.labels)


def spreads_of(snapshot: Snapshot, pod: Pod) -> tuple[TopologySpread, ...]:
    """The pod's own spread constraints, or the cluster's defaults for the pods of its Services and controller."""
    if pod.spec.spreads or not snapshot.options.default_spreads:
        return pod.spec.spreads
    requirements: list[Requirement] = []
    for service in snapshot.services:
        selected_labels = {key: pod.labels.get(key) for key in service.selector}
        if service.namespace == pod.namespace and service.selector and selected_labels == service.selector:
            requirements += [Requirement.one_of(key, value) for key, value in service.selector.items()]
    for owner in pod.owners:
        for workload in snapshot.workload_selectors:
            is_it = (workload.namespace, workload.kind, workload.name) == (pod.namespace, owner.kind, owner.name)
            if is_it and owner.is_controller and workload.selector is not None:
                requirements += workload.selector.requirements
    if not requirements:
        return ()
    selector = LabelSelector(tuple(requirements))
    return tuple(msgspec.structs.replace(spread, selector=selector) for spread in snapshot.options.default_spreads)


def term_selects(term: PodAffinityTerm, owner: Pod, other: Pod, namespaces: Iterable[Namespace]) -> bool:
    """Whether another pod's (anti-)affinity term selects a pod."""
    if not _speaks_of(term, owner, other.namespace, namespaces) or not selects(term.selector, other.labels):
        return False
    for key in term.match_label_keys:
        if key in owner.labels and other.labels.get(key) != owner.labels[key]:
            return False
    return all(other.labels.get(key) != owner.labels[key] for key in term.mismatch_label_keys if key in owner.labels)


def _speaks_of(term: PodAffinityTerm, owner: Pod, namespace: str, namespaces: Iterable[Namespace]) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner.namespace
    if namespace in term.namespaces:
        return True
    if term.namespace_selector is None:
        return False
    if not term.namespace_selector.requirements:
        return True
    labels = {"kubernetes.io/metadata.name": namespace}
    for labelled in namespaces:
        if labelled.name == namespace:
            labels |= labelled.labels
            return selects(term.namespace_selector, labels)
    return False


def is_protected(pod: Pod, now: datetime) -> bool:
    """Whether the pod's annotation protects it now: "true", or a duration since its start."""
    annotation = pod.annotations.get(keys.DO_NOT_DISRUPT)
    if annotation is None or pod.deleted_at is not None or pod.phase in ("Succeeded", "Failed"):
        return False
    if annotation == "true":
        return True
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", annotation)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != annotation or seconds <= 0:
        return False
    return pod.started_at is None or now - pod.started_at < timedelta(seconds=seconds)


# The few values that random clusters use, so that their objects refer to one another.


T = TypeVar("T")

ZONES: Final = ("zone-a", "zone-b", "zone-c")
APPS: Final = ("web", "api", "db", "job")
NAMESPACES: Final = ("shop", "shop", "shop", "bank")
FAMILY: Final = "example.com/family"
NUMBER: Final = "example.com/number"
SPEED: Final = "example.com/speed"
TEAM: Final = "example.com/team"
TIER: Final = "example.com/tier"
GPU: Final = "nvidia.com/gpu"
DONGLE: Final = "example.com/dongle"
"""A resource that only a NodeOverlay gives."""

GIB: Final = 2**30
CLASS_REF: Final = ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default")


def chance(draw: Random, share: float) -> bool:
    """True in that share of cases."""
    return draw.random() < share


def some_of(draw: Random, items: Sequence[T]) -> tuple[T, ...]:
    """One or more of the items."""
    return tuple(draw.sample(items, draw.randint(1, len(items))))
