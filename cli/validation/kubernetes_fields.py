"""The fields of Kubernetes' kinds: a bundled table, written by `make docs` from the pinned client."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from core.api.objects import JsonObject, group_and_version, kind_of

KUBERNETES_FIELDS: Final = Path(__file__).parents[1] / "assets" / "kubernetes-fields.json"
"""Type → field → type of its value, which is empty for plain values, maps and the status of an object."""

OBJECT_META: Final = "V1ObjectMeta"

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController"),
    "apps": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "batch": ("CronJob", "Job"),
    "extensions": ("DaemonSet", "Deployment", "ReplicaSet"),
    "policy": ("PodDisruptionBudget",),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("StorageClass",),
}
"""API group → its kinds that people write and the table knows."""

_VERSION: Final = "V1"


def type_of(obj: JsonObject) -> str:
    """Return the type in the table of an object, empty if it has none."""
    group, _ = group_and_version(obj)
    kind = kind_of(obj)
    return f"{_VERSION}{kind}" if kind in _KINDS.get(group, ()) else ""


@cache
def kubernetes_fields() -> dict[str, dict[str, str]]:
    """The table."""
    found: dict[str, dict[str, str]] = json.loads(KUBERNETES_FIELDS.read_text(encoding="utf-8"))
    return found


def written_fields() -> str:
    """The table as the pinned Kubernetes client has it: what `make docs` writes to `KUBERNETES_FIELDS`."""
    from kubernetes.client import models

    roots = [f"{_VERSION}{kind}" for kinds in _KINDS.values() for kind in kinds]
    found: dict[str, dict[str, str]] = {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        described = getattr(models, kind)
        types = {described.attribute_map[name]: _struct_in(text) for name, text in described.openapi_types.items()}
        if kind in roots and "status" in types:
            types["status"] = ""  # controllers write it
        found[kind] = dict(sorted(types.items()))
        waiting += [inner for inner in types.values() if inner]
    return json.dumps(dict(sorted(found.items())), indent=1) + "\n"


def _struct_in(text: str) -> str:
    """The Kubernetes type in a client's type such as `List[V1Container]`; empty for plain values and for maps."""
    match = re.fullmatch(r"(?:[Ll]ist\[)?((?:Core)?V[0-9]\w*)\]?", text)
    return match.group(1) if match else ""
