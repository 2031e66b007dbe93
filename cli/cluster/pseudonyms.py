"""Replaces names by pseudonyms in the same order, since ties are broken by name: the plan stays the same except for names.

The market that a decision reads stays unchanged: zones, instance types, architectures, capacity types, quantities, times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from core import labels

JsonObject = dict[str, Any]
Rename = Callable[[str], str]

PUBLIC_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "karpenter.sh",
    "karpenter.k8s.aws",
    "eks.amazonaws.com",
    "k8s.aws",
    "fleetwright.dev",
)
_PUBLIC_RESOURCES: Final = (
    *("cpu", "memory", "pods", "ephemeral-storage", "nodes", "storage"),
    *(
        "nvidia.com/",
        "amd.com/",
        "aws.amazon.com/",
        "vpc.amazonaws.com/",
        "habana.ai/",
        "hugepages-",
        "attachable-volumes-",
    ),
)
_PUBLIC_VALUES_OF: Final = (labels.WELL_KNOWN - {labels.NODEPOOL}) | {
    labels.ZONE_ID,
    *labels.ALIASES,
    "karpenter.sh/initialized",
    "karpenter.sh/registered",
    "karpenter.sh/do-not-disrupt",
}
_TELLS_NOTHING: Final = re.compile(r"^(-?\d+(\.\d+)?|true|false|True|False|Unknown|)$")

_NAMES: Final = frozenset(
    {
        *(
            "name",
            "nodeName",
            "nominatedNodeName",
            "claimName",
            "volumeName",
            "storageClassName",
            "persistentVolumeName",
        ),
        *("priorityClassName", "uid", "schedulerName", "id", "instanceProfile", "imageID", "role"),
        *("kmsKeyID", "snapshotID", "ownerID"),
    }
)
"""Fields whose text names an object of the user's."""

_LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "tags"})
_KEYED: Final = frozenset({"key", "topologyKey"})
_KEY_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys"})
_QUANTITIES: Final = frozenset({"requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources"})
_LEFT_OUT: Final = frozenset({"userData", "message", "context", "kubeletUserData"})
_PUBLIC_NAMES: Final = frozenset({"default-scheduler", "system-cluster-critical", "system-node-critical"})
_SOURCES: Final = frozenset({"awsElasticBlockStore", "local", "hostPath"})
"""Of volumes only the presence is read."""

_FIELD_KEYS: Final = ("metadata.name",)

_NAMESPACES: Final = "namespaces"
_CONDITIONS: Final = "conditions"


class Pseudonyms:
    """Replaces names in the objects of one cluster, the same name everywhere by the same pseudonym."""

    def __init__(self, objects: Iterable[JsonObject]) -> None:
        namespaces, names = set[str](), set[str]()
        collect = _Walk(_noted(namespaces), _noted(names))
        for obj in objects:
            collect.object(obj)
        # `namespace/name` is the form in which pods are compared.
        self._namespaces = _ranked("ns", sorted(namespaces, key=lambda name: f"{name}/"))
        self._names = _ranked("n", sorted(names))
        self._walk = _Walk(self._namespaces.__getitem__, self._names.__getitem__)

    def of(self, obj: JsonObject) -> JsonObject:
        """Return the object with pseudonyms."""
        return self._walk.object(obj)

    @property
    def names(self) -> Mapping[str, str]:
        """Name → pseudonym."""
        return self._names

    @property
    def namespaces(self) -> Mapping[str, str]:
        """Namespace → pseudonym."""
        return self._namespaces


def _ranked(prefix: str, names: list[str]) -> dict[str, str]:
    """Return pseudonyms of equal width, so that they sort like the names."""
    width = len(str(len(names)))
    found = {}
    for rank, name in enumerate(names):
        pseudonym = f"{prefix}{rank:0{width}d}"
        if name.startswith("aws:///"):
            pseudonym = f"{name.rpartition('/')[0]}/i-{rank:017x}"
        found[name] = pseudonym
    return found


def _noted(found: set[str]) -> Rename:
    """Rename nothing, and collect the names."""

    def note(name: str) -> str:
        found.add(name)
        return name

    return note


class _Walk:
    """Walks through an object and replaces names of the user's objects."""

    def __init__(self, namespace: Rename, name: Rename) -> None:
        self._namespace = namespace
        self._name = name

    def object(self, obj: JsonObject) -> JsonObject:
        if obj.get("kind") == "Namespace":
            own = {key: value for key, value in obj["metadata"].items() if key != "name"}
            named = {"name": self._namespace(obj["metadata"]["name"])}
            return {**self._mapping(obj), "metadata": named | self._mapping(own)}
        return self._mapping(obj)

    def _mapping(self, value: JsonObject) -> JsonObject:
        return dict(self._fields(value))

    def _fields(self, value: JsonObject) -> Iterator[tuple[str, Any]]:
        for key, inner in value.items():
            if key in _LEFT_OUT:
                continue
            yield key, self._field(value, key, inner)

    def _field(self, parent: JsonObject, key: str, inner: Any) -> Any:
        if key in _SOURCES and isinstance(inner, dict):
            return {"path": "left-out"}
        if key in _LABEL_MAPS and isinstance(inner, dict):
            return {self._key(own): self._value(own, text) for own, text in inner.items()}
        if key in _QUANTITIES and isinstance(inner, dict) and all(not isinstance(v, dict) for v in inner.values()):
            return {self._resource(own): amount for own, amount in inner.items()}
        if key == "annotations" and isinstance(inner, dict):
            return {own: self._annotation(own, text) for own, text in inner.items()}
        if isinstance(inner, str):
            return self._text(parent, key, inner)
        if isinstance(inner, list):
            return self._list(parent, key, inner)
        return self._mapping(inner) if isinstance(inner, dict) else inner

    def _text(self, parent: JsonObject, key: str, text: str) -> str:
        if key == "namespace" and text:
            return self._namespace(text)
        if key in _KEYED:
            return self._key(text)
        if key == "value" and "key" in parent:
            return self._value(str(parent["key"]), text)
        if key == "providerID":
            return self._any(text)
        return self._any(text) if key in _NAMES else text

    def _list(self, parent: JsonObject, key: str, inner: list[Any]) -> list[Any]:
        if key == _NAMESPACES:
            return [self._namespace(text) for text in inner]
        if key in _KEY_LISTS:
            return [self._key(text) for text in inner]
        if key == "values":
            return [self._value(str(parent.get("key", "")), text) for text in inner]
        if key == "drivers":
            return inner
        return [self._mapping(found) if isinstance(found, dict) else found for found in inner]

    def _key(self, key: str) -> str:
        domain = key.partition("/")[0] if "/" in key else ""
        if key in _FIELD_KEYS or any(domain == known or domain.endswith(f".{known}") for known in PUBLIC_DOMAINS):
            return key
        return self._any(key)

    def _value(self, key: str, text: str) -> str:
        if labels.normalized(key) in _PUBLIC_VALUES_OF:
            return text
        if key == "kubernetes.io/metadata.name":
            return self._namespace(text)
        return self._any(text)

    def _annotation(self, key: str, text: str) -> str:
        return self._any(text) if key == labels.CLAIM else text

    def _resource(self, resource: str) -> str:
        return resource if resource.startswith(_PUBLIC_RESOURCES) else self._any(resource)

    def _any(self, text: str) -> str:
        return text if _TELLS_NOTHING.match(text) or text in _PUBLIC_NAMES else self._name(text)
