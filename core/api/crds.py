"""Generates our CustomResourceDefinitions from the models: the API server accepts what `validate` accepts.

Group, names, columns and subresources are Karpenter's, so that existing manifests, commands and dashboards keep
working.
"""

from __future__ import annotations

from typing import Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.api.schemas.base import ApiModel
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.node_claim import NodeClaimObject
from core.api.schemas.node_overlay import NodeOverlayObject
from core.api.schemas.node_pool import NodePoolObject
from core.api.structural import schema_of

CATEGORY: Final = "karpenter"

_QUANTITIES: Final[JsonObject] = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_TEXT: Final[JsonObject] = {"type": "string"}
_CONDITIONS: Final[JsonObject] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    },
}


class Column(msgspec.Struct, frozen=True):
    """One column of `kubectl get`; a wide one only with `-o wide`."""

    name: str
    path: str
    kind: str = "string"
    is_wide: bool = False


class Kind(msgspec.Struct, frozen=True):
    """The parts of a definition besides the schema.

    Attributes:
        status: The fields of `status` that have a type here, besides the conditions; others are kept as they are.
        replicas: Where `kubectl scale` reads and writes, empty where it cannot.
    """

    group: str
    version: str
    name: str
    model: type[ApiModel]
    columns: tuple[Column, ...]
    status: JsonObject
    short_names: tuple[str, ...] = ()
    replicas: str = ""

    @property
    def plural(self) -> str:
        """The plural in URLs and in RBAC rules."""
        return f"{self.name.lower()}{'es' if self.name.endswith('s') else 's'}"


def condition_column(kind: str, *, is_wide: bool = False) -> Column:
    """A column with the status of a condition."""
    return Column(kind, f'.status.conditions[?(@.type=="{kind}")].status', is_wide=is_wide)


def label_column(name: str, key: str, *, is_wide: bool = False) -> Column:
    """A column with the value of a label. Dots in the label's key are escaped in the JSON path."""
    escaped = key.replace(".", r"\.")
    return Column(name, f".metadata.labels.{escaped}", is_wide=is_wide)


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
KINDS: Final = (
    Kind(
        labels.CORE_GROUP,
        "v1",
        "NodePool",
        NodePoolObject,
        (
            Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            Column("Nodes", ".status.nodes", "integer"),
            condition_column("Ready"),
            _AGE,
            Column("Weight", ".spec.weight", "integer", is_wide=True),
            Column("CPU", ".status.resources.cpu", is_wide=True),
            Column("Memory", ".status.resources.memory", is_wide=True),
        ),
        {
            "resources": _QUANTITIES,
            "nodes": {"type": "integer", "format": "int64", "default": 0},
            "nodeClassObservedGeneration": {"type": "integer", "format": "int64"},
        },
        replicas=".spec.replicas",
    ),
    Kind(
        labels.CORE_GROUP,
        "v1",
        "NodeClaim",
        NodeClaimObject,
        (
            label_column("Type", labels.INSTANCE_TYPE),
            label_column("Capacity", labels.CAPACITY_TYPE),
            label_column("Zone", labels.ZONE),
            Column("Node", ".status.nodeName"),
            condition_column("Ready"),
            _AGE,
            Column("ImageID", ".status.imageID", is_wide=True),
            Column("ID", ".status.providerID", is_wide=True),
            label_column("NodePool", labels.NODEPOOL, is_wide=True),
            Column("NodeClass", ".spec.nodeClassRef.name", is_wide=True),
            condition_column("Drifted", is_wide=True),
        ),
        {
            "nodeName": _TEXT,
            "providerID": _TEXT,
            "imageID": _TEXT,
            "capacity": _QUANTITIES,
            "allocatable": _QUANTITIES,
            "lastPodEventTime": {"type": "string", "format": "date-time"},
        },
    ),
    Kind(
        labels.CORE_GROUP,
        "v1alpha1",
        "NodeOverlay",
        NodeOverlayObject,
        (condition_column("Ready"), _AGE, Column("Weight", ".spec.weight", "integer", is_wide=True)),
        {},
        short_names=("overlays",),
    ),
    Kind(
        labels.AWS_GROUP,
        "v1",
        "EC2NodeClass",
        EC2NodeClassObject,
        (condition_column("Ready"), _AGE, Column("Role", ".spec.role", is_wide=True)),
        {"instanceProfile": _TEXT},
        short_names=("ec2nc", "ec2ncs"),
    ),
)


def definitions() -> tuple[JsonObject, ...]:
    """Every CustomResourceDefinition, as JSON."""
    return tuple(_definition(kind) for kind in KINDS)


def _definition(kind: Kind) -> JsonObject:
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "categories": [CATEGORY],
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema(kind)},
        "subresources": _subresources(kind),
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "names": names, "scope": "Cluster", "versions": [version]},
    }


def _schema(kind: Kind) -> JsonObject:
    """The whole object. The API server itself validates metadata."""
    whole = schema_of(kind.model)
    status = {
        "type": "object",
        "description": "What was found out about it.",
        "properties": {**kind.status, "conditions": _CONDITIONS},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return {
        "type": "object",
        "description": whole["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": whole["properties"]["spec"],
            "status": status,
        },
    }


def _subresources(kind: Kind) -> JsonObject:
    scale = {"specReplicasPath": kind.replicas, "statusReplicasPath": ".status.nodes"}
    return {"status": {}, **({"scale": scale} if kind.replicas else {})}


def _column(column: Column) -> JsonObject:
    wide = {"priority": 1} if column.is_wide else {}
    return {"name": column.name, "type": column.kind, "jsonPath": column.path, **wide}
