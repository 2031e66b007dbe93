"""The ClusterRole that the functions need, and its binding to their group: `python -m infra.cluster_role` prints both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from lambdas.kubernetes_access import RULES

KUBERNETES_GROUP = "fleetwright"
ROLE_NAME = "fleetwright"


def manifests() -> Sequence[dict[str, Any]]:
    """ClusterRole and ClusterRoleBinding, in the order in which they are applied."""
    rules = [
        {"apiGroups": [resource.group], "resources": [_path(resource.plural, subresource)], "verbs": list(verbs)}
        for resource, subresource, verbs in RULES
    ]
    metadata = {"name": ROLE_NAME, "labels": {"app.kubernetes.io/name": "fleetwright"}}
    return (
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE_NAME},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": KUBERNETES_GROUP}],
        },
    )


def _path(plural: str, subresource: str) -> str:
    return f"{plural}/{subresource}" if subresource else plural


if __name__ == "__main__":
    print(yaml.safe_dump_all(manifests(), sort_keys=False), end="")  # noqa: T201 - this is the program's output
