"""Valid objects of users, and a way to change one field of them."""

from __future__ import annotations

import copy
from typing import Any

from core.api.objects import JsonObject
from tests.builders import a_class_manifest

ABSENT: Any = object()
"""Marks a field to remove."""

_CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}

NODE_POOL: JsonObject = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "nodeClassRef": _CLASS_REF,
                "requirements": [_ON_DEMAND],
                "taints": [{"key": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "s", "effect": "NoExecute"}],
            },
        },
        "disruption": {"consolidateAfter": "1m", "budgets": [{"nodes": "10%"}]},
        "limits": {"cpu": "100"},
    },
}
NODE_CLAIM: JsonObject = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "default-0"},
    "spec": {"nodeClassRef": _CLASS_REF, "requirements": [_ON_DEMAND]},
}
NODE_OVERLAY: JsonObject = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "cheaper"},
    "spec": {"requirements": [_ON_DEMAND]},
}
NODE_CLASS: JsonObject = a_class_manifest(role="nodes")


def changed(obj: JsonObject, path: str, value: Any) -> JsonObject:
    """A copy of the object with the field at `path` (`spec.taints.0.key`) set, or removed if the value is ABSENT."""
    result = copy.deepcopy(obj)
    *parents, last = path.split(".")
    holder: Any = result
    for part in parents:
        holder = holder[int(part)] if isinstance(holder, list) else holder.setdefault(part, {})
    key = int(last) if isinstance(holder, list) else last
    if value is ABSENT:
        del holder[key]
    else:
        holder[key] = value
    return result
