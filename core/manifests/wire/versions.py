"""Which API versions of a kind can be read: an object of another would be read as something that it is not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

from core.api.objects import JsonObject, group_and_version, is_ours, kind_of
from core.api.older_versions import OLD_VERSIONS
from core.manifests.wire.resources import ALL, BY_KIND, GROUP_KINDS, resource_read

_EXTENSIONS: Final = "extensions"
"""The group in which the kinds of `apps` began."""
_CORE: Final = ""
_PRERELEASE: Final = re.compile(r"v[12](alpha|beta)\d+")
"""Kubernetes served its own kinds under such versions first; what we read of them has not changed since."""
_GROUPS: Final = frozenset({resource.group for resource in ALL} | {_EXTENSIONS})
_KINDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        *("Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node"),
        *("PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController"),
        *("ResourceQuota", "Secret", "Service", "ServiceAccount"),
    ),
    "apps": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "batch": ("CronJob", "Job"),
    "policy": ("Eviction", "PodDisruptionBudget", "PodSecurityPolicy"),
    "autoscaling": ("HorizontalPodAutoscaler", "Scale"),
    "networking.k8s.io": ("IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io": ("PodGroup", "PriorityClass", "Workload"),
    "storage.k8s.io": (
        *("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    ),
}
"""API group of Kubernetes → its kinds (API reference of 1.35, and earlier ones). No other tool adds kinds to these groups."""
_ALIKE: Final = 0.8
"""From this similarity on, a kind or a group is a misspelling of one of ours."""
_REMOVED: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("extensions", "Deployment"): ("1.16", "apps/v1"),
    ("extensions", "DaemonSet"): ("1.16", "apps/v1"),
    ("extensions", "ReplicaSet"): ("1.16", "apps/v1"),
    ("extensions", "Ingress"): ("1.22", "networking.k8s.io/v1"),
    ("extensions", "NetworkPolicy"): ("1.16", "networking.k8s.io/v1"),
    ("apps", "Deployment"): ("1.16", "apps/v1"),
    ("apps", "DaemonSet"): ("1.16", "apps/v1"),
    ("apps", "ReplicaSet"): ("1.16", "apps/v1"),
    ("apps", "StatefulSet"): ("1.16", "apps/v1"),
    ("batch", "CronJob"): ("1.25", "batch/v1"),
    ("policy", "PodDisruptionBudget"): ("1.25", "policy/v1"),
    ("policy", "PodSecurityPolicy"): ("1.25", ""),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): ("1.22", "admissionregistration.k8s.io/v1"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): ("1.22", "admissionregistration.k8s.io/v1"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("1.22", "apiextensions.k8s.io/v1"),
    ("apiregistration.k8s.io", "APIService"): ("1.22", "apiregistration.k8s.io/v1"),
    ("coordination.k8s.io", "Lease"): ("1.22", "coordination.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): ("1.32", "flowcontrol.apiserver.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): ("1.32", "flowcontrol.apiserver.k8s.io/v1"),
    ("networking.k8s.io", "IngressClass"): ("1.22", "networking.k8s.io/v1"),
    ("node.k8s.io", "RuntimeClass"): ("1.25", "node.k8s.io/v1"),
    ("autoscaling", "HorizontalPodAutoscaler"): ("1.26", "autoscaling/v2"),
    ("networking.k8s.io", "Ingress"): ("1.22", "networking.k8s.io/v1"),
    ("rbac.authorization.k8s.io", "ClusterRole"): ("1.22", "rbac.authorization.k8s.io/v1"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("1.22", "rbac.authorization.k8s.io/v1"),
    ("rbac.authorization.k8s.io", "Role"): ("1.22", "rbac.authorization.k8s.io/v1"),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("1.22", "rbac.authorization.k8s.io/v1"),
    ("scheduling.k8s.io", "PriorityClass"): ("1.22", "scheduling.k8s.io/v1"),
    ("storage.k8s.io", "StorageClass"): ("1.22", "storage.k8s.io/v1"),
    ("storage.k8s.io", "VolumeAttachment"): ("1.22", "storage.k8s.io/v1"),
    ("storage.k8s.io", "CSINode"): ("1.22", "storage.k8s.io/v1"),
    ("storage.k8s.io", "CSIDriver"): ("1.22", "storage.k8s.io/v1"),
    ("storage.k8s.io", "CSIStorageCapacity"): ("1.27", "storage.k8s.io/v1"),
}
"""Group and kind → the release of Kubernetes that removed the last version before v1, and what replaced it, empty for nothing
(Kubernetes' guide to deprecated API versions)."""
_ALSO_SERVED: Final[Mapping[str, tuple[str, ...]]] = {"HorizontalPodAutoscaler": ("autoscaling/v1",)}
"""Kind → its other versions that API servers of today serve, and that are read as the current one."""
_CURRENT: Final = {kind: (resource.group, resource.version) for kind, resource in BY_KIND.items()}


def refused_version(obj: JsonObject) -> str:
    """Return why the `apiVersion` of an object is refused; empty if the object is read or skipped.

    A version that a kind does not have is refused with those that it has, and a kind that Karpenter's groups do not have. Kinds
    of other groups are not refused, whatever they are called: Knative has a Service, too.
    """
    kind, (group, version) = kind_of(obj), group_and_version(obj)
    if resource_read(group, kind) in GROUP_KINDS:  # their versions come and go, and what is read of them stays
        return ""
    read = read_versions(kind)
    api_version = f"{group}/{version}" if group else version
    if not read and kind and is_ours(obj):
        return f"{api_version} has no kind {kind}"
    if meant := _misspelt(group, kind):
        return f"{api_version} has no kind {kind} (did you mean {meant}?)"
    if read and group not in _GROUPS and _near(group, (_group_of(read[0]),)):
        return f"there is no API group {group} (did you mean {read[0]}?)"
    if not read or api_version in read or group not in _GROUPS:
        return ""
    if kind in _CURRENT and _is_prerelease(group, version, _CURRENT[kind][0]):
        return ""
    problem = f"{api_version} has no {kind}" if api_version else "is missing"
    return f"{problem}; allowed: {', '.join(read)}"


def removed_version(obj: JsonObject) -> tuple[str, str] | None:
    """Return the Kubernetes release that removed the version of an object, and the version to write; None if it is served."""
    group, version = group_and_version(obj)
    return _REMOVED.get((group, kind_of(obj))) if _PRERELEASE.fullmatch(version) else None


def _misspelt(group: str, kind: str) -> str:
    """Return the kind of a group of Kubernetes that a kind probably means; empty if it is one, or like none of them."""
    kinds = _KINDS_OF["apps" if group == _EXTENSIONS else group] if group in (*_KINDS_OF, _EXTENSIONS) else ()
    if kind in kinds or kind.endswith("List"):
        return ""
    return next((written for written in kinds if written.lower() == kind.lower()), "") or _near(kind, kinds)


def _near(word: str, words: tuple[str, ...]) -> str:
    return next(iter(difflib.get_close_matches(word, words, n=1, cutoff=_ALIKE)), "")


def _group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def read_versions(kind: str) -> tuple[str, ...]:
    """Return the values of `apiVersion` under which a kind is read, the current one first; empty for other kinds."""
    older = tuple(f"{group}/{version}" for group, version, old in OLD_VERSIONS if old == kind)
    if kind not in _CURRENT:
        return older
    group, version = _CURRENT[kind]
    return (f"{group}/{version}" if group else version, *_ALSO_SERVED.get(kind, ()), *older)


def _is_prerelease(group: str, version: str, own_group: str) -> bool:
    """Whether Kubernetes may have served the kind under this version; Karpenter's older versions are listed one by one."""
    is_own = group == own_group or (group == _EXTENSIONS and own_group == "apps")
    is_kubernetes = group != _CORE and not group.startswith("karpenter.")
    return is_own and is_kubernetes and _PRERELEASE.fullmatch(version) is not None
