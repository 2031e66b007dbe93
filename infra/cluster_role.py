"""The ClusterRole that the functions need, and its binding to their group: `python -m infra.cluster_role` prints both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

KUBERNETES_GROUP: Final = "fleetwright"
ROLE_NAME: Final = "fleetwright"

RULES: Final[tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]] = (
    ("", ("pods",), ("list", "delete")),
    ("", ("pods/eviction",), ("create",)),
    ("", ("pods/status",), ("patch",)),
    ("", ("nodes",), ("list", "get", "patch", "delete")),
    ("", ("namespaces", "persistentvolumes", "persistentvolumeclaims"), ("list",)),
    ("", ("services", "replicationcontrollers", "podtemplates"), ("list",)),
    ("", ("events",), ("create",)),
    ("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), ("list",)),
    ("policy", ("poddisruptionbudgets",), ("list",)),
    ("scheduling.k8s.io", ("priorityclasses",), ("list",)),
    ("storage.k8s.io", ("storageclasses", "csinodes", "volumeattachments"), ("list",)),
    ("autoscaling.x-k8s.io", ("capacitybuffers",), ("list",)),
    ("autoscaling.x-k8s.io", ("capacitybuffers/status",), ("patch",)),
    ("karpenter.sh", ("nodepools",), ("list", "get", "patch")),
    ("karpenter.sh", ("nodeoverlays",), ("list",)),
    ("karpenter.sh", ("nodepools/status",), ("patch",)),
    ("karpenter.k8s.aws", ("ec2nodeclasses",), ("list", "get", "patch")),
    ("karpenter.k8s.aws", ("ec2nodeclasses/status",), ("patch",)),
)
"""API group, resources, verbs: all that the functions ask of the API server, and nothing else."""


def manifests() -> Sequence[dict[str, Any]]:
    """ClusterRole and ClusterRoleBinding, in the order in which they are applied."""
    rules = [
        {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)} for group, resources, verbs in RULES
    ]
    metadata = {"name": ROLE_NAME, "labels": {"app.kubernetes.io/name": "fleetwright"}}
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": KUBERNETES_GROUP}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE_NAME}
    api = "rbac.authorization.k8s.io/v1"
    return (
        {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": [group]},
    )


if __name__ == "__main__":
    print(yaml.safe_dump_all(manifests(), sort_keys=False), end="")  # noqa: T201 - this is the program's output
