"""Defines what each function may do in the cluster: `infra.cluster_role` prints it, and `fleetwright doctor` looks for it.

A function that does not use the API server has no group and no access entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Rule = tuple[str, tuple[str, ...], tuple[str, ...]]
"""API group, resources, verbs."""

NAME: Final = "fleetwright"

_OBSERVES: Final[tuple[Rule, ...]] = (
    ("", ("pods", "nodes"), ("list", "watch")),
    ("", ("namespaces", "persistentvolumes", "persistentvolumeclaims"), ("list",)),
    ("", ("services", "replicationcontrollers", "podtemplates", "limitranges"), ("list",)),
    ("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), ("list",)),
    ("policy", ("poddisruptionbudgets",), ("list",)),
    ("scheduling.k8s.io", ("priorityclasses",), ("list",)),
    ("node.k8s.io", ("runtimeclasses",), ("list",)),
    ("storage.k8s.io", ("storageclasses", "csinodes", "csidrivers", "volumeattachments"), ("list",)),
    ("autoscaling.x-k8s.io", ("capacitybuffers", "provisioningrequests"), ("list",)),
    ("scheduling.k8s.io", ("podgroups", "workloads"), ("list",)),
    ("scheduling.volcano.sh", ("podgroups",), ("list",)),
    ("scheduling.x-k8s.io", ("podgroups",), ("list",)),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",), ("list",)),
    ("jobset.x-k8s.io", ("jobsets",), ("list",)),
    ("karpenter.sh", ("nodepools", "nodeoverlays"), ("list",)),
    ("karpenter.k8s.aws", ("ec2nodeclasses",), ("list",)),
    ("fleetwright.dev", ("calendars",), ("list",)),
)
"""Permissions to list everything that an observation of the whole cluster reads, and to continue long lists by a watch."""

_MIRRORS: Final[tuple[Rule, ...]] = (
    ("karpenter.sh", ("nodeclaims",), ("create",)),
    ("karpenter.sh", ("nodeclaims/status",), ("patch",)),
    ("coordination.k8s.io", ("leases",), ("list",)),
)
"""Permissions to write claims as NodeClaims. Only Karpenter's lease is read, selected by its name."""

RULES_OF: Final[Mapping[str, tuple[Rule, ...]]] = {
    "provision": (
        *_OBSERVES,
        ("", ("events",), ("create",)),
        ("autoscaling.x-k8s.io", ("capacitybuffers/status", "provisioningrequests/status"), ("patch",)),
        *_MIRRORS,
    ),
    "disrupt": _OBSERVES,
    "execute": (
        *_OBSERVES,
        ("", ("pods",), ("delete",)),
        ("", ("pods/binding", "pods/eviction"), ("create",)),
        ("", ("pods/status",), ("patch",)),
        ("", ("nodes",), ("get", "patch", "delete")),
        ("", ("events",), ("create",)),
        ("karpenter.sh", ("nodepools",), ("get",)),
        ("karpenter.k8s.aws", ("ec2nodeclasses",), ("get",)),
        *_MIRRORS,
        ("karpenter.sh", ("nodeclaims",), ("get", "patch", "delete")),
    ),
    "reconcile": (
        *_OBSERVES,
        ("", ("events",), ("create",)),
        ("", ("nodes",), ("get", "patch")),
        ("karpenter.sh", ("nodepools",), ("get", "patch")),
        ("karpenter.sh", ("nodepools/status", "nodeoverlays/status"), ("patch",)),
        ("karpenter.k8s.aws", ("ec2nodeclasses",), ("get", "patch")),
        ("karpenter.k8s.aws", ("ec2nodeclasses/status",), ("patch",)),
        *_MIRRORS,
        ("karpenter.sh", ("nodeclaims",), ("get", "list", "patch", "delete")),
    ),
}
"""Function → all its permissions in the API server."""

_OBSERVES_ANOTHER: Final[tuple[Rule, ...]] = (*_OBSERVES, ("karpenter.sh", ("nodeclaims",), ("list",)))

SHADOW_RULES_OF: Final[Mapping[str, tuple[Rule, ...]]] = {
    "provision": _OBSERVES_ANOTHER,
    "disrupt": _OBSERVES_ANOTHER,
}
"""Function → its permissions with `mode: shadow`, where nothing is carried out: only to read."""

RULES_FOR_SURGE: Final[Mapping[str, tuple[Rule, ...]]] = {"execute": (("apps", ("deployments",), ("patch",)),)}
"""Added if single replicas may be restarted (`surgeRestarts`)."""

RULES_FOR_STEERING: Final[Mapping[str, tuple[Rule, ...]]] = {"disrupt": (("", ("pods",), ("patch",)),)}
"""Added if pods of nodes that go next get a low deletion cost (`steerScaleIn`)."""

RULES_FOR_APPROVAL: Final[Mapping[str, tuple[Rule, ...]]] = {"disrupt": (("", ("events",), ("create",)),)}
"""Added if commands wait for approval (`mode: approve`): the nodes get an event."""


def group_of(function: str) -> str:
    """The Kubernetes group of a function."""
    return f"{NAME}:{function}"


def verbs(rules: Iterable[Rule]) -> frozenset[tuple[str, str, str]]:
    """API group, resource and verb, one by one."""
    return frozenset(
        (group, resource, verb) for group, names, allowed in rules for resource in names for verb in allowed
    )


def manifests(
    *, surge: bool = False, approval: bool = False, steering: bool = False, shadow: bool = False
) -> Sequence[dict[str, Any]]:
    """ClusterRoles and ClusterRoleBindings, in the order in which they are applied.

    Args:
        surge: Adds `RULES_FOR_SURGE`.
        approval: Adds `RULES_FOR_APPROVAL`.
        steering: Adds `RULES_FOR_STEERING`.
        shadow: Returns `SHADOW_RULES_OF` alone, regardless of the other arguments.
    """
    if shadow:
        return [manifest for function, rules in SHADOW_RULES_OF.items() for manifest in _manifests(function, rules)]
    added = [
        *([RULES_FOR_SURGE] if surge else []),
        *([RULES_FOR_APPROVAL] if approval else []),
        *([RULES_FOR_STEERING] if steering else []),
    ]
    return [
        manifest
        for function, rules in RULES_OF.items()
        for manifest in _manifests(function, (*rules, *(rule for more in added for rule in more.get(function, ()))))
    ]


def _manifests(function: str, granted: Iterable[Rule]) -> Iterable[dict[str, Any]]:
    name, api = f"{NAME}-{function}", "rbac.authorization.k8s.io/v1"
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": NAME}}
    rules = [
        {"apiGroups": [group], "resources": list(names), "verbs": list(allowed)} for group, names, allowed in granted
    ]
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group_of(function)}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    yield {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    yield {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": [group]}
