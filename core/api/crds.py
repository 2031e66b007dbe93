"""Generates our CustomResourceDefinitions from the models: the API server accepts what `validate` accepts.

Group, names, columns and subresources are Karpenter's, so that existing manifests, commands and dashboards keep
working.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core import labels
from core.api.objects import JsonObject
from core.api.schemas import fields
from core.api.schemas.calendar import CalendarObject
from core.api.schemas.ec2_node_class import EC2NodeClassObject
from core.api.schemas.fields import ApiModel, parts
from core.api.schemas.node_pool import NodeClaimObject, NodeOverlayObject, NodePoolObject

# Generates structural OpenAPI schemas from the models, with the rules as CEL expressions, for the API server.
#
# Structural (Kubernetes): every field has one type, nothing is referred to, and value checks stand beside types, not in
# their place. Pydantic's schema is converted to that form; defaults and rules come from the models.


VALIDATIONS: Final = "x-kubernetes-validations"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_KEPT: Final = (
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    VALIDATIONS,
    _INT_OR_STRING,
)


def schema_of(model: type[ApiModel]) -> JsonObject:
    """Return the schema of an object described by the model; unknown fields are preserved where the model rejects them."""
    written = _written(model)
    models = {reachable.__name__: reachable for reachable in _reachable(model)}
    return _Writer(written.get("$defs", {}), models).object(model, written)


@cache
def _written(model: type[ApiModel]) -> JsonObject:
    """What pydantic says of a model; nobody may change it."""
    return model.model_json_schema(ref_template="{model}")


class _Writer:
    """Resolves the references of one schema that pydantic generated."""

    def __init__(self, definitions: JsonObject, models: dict[str, type[ApiModel]]) -> None:
        self._definitions = definitions
        self._models = models

    def object(self, model: type[ApiModel], written: JsonObject) -> JsonObject:
        declared = {field.alias or name: field for name, field in model.model_fields.items()}
        schema: JsonObject = {"type": "object", "description": inspect.cleandoc(model.__doc__ or "")}
        schema["properties"] = {
            name: self._field(declared[name], part) for name, part in sorted(written["properties"].items())
        }
        if required := sorted(written.get("required", ())):
            schema["required"] = required
        if model.model_config.get("extra") == "forbid":
            schema[_OPEN] = True
        if validations := list(_validations(model)):
            schema[VALIDATIONS] = validations
        return schema

    def _field(self, field: FieldInfo, written: JsonObject) -> JsonObject:
        schema = self._value(written)
        default = _without_empty(field.get_default(call_default_factory=True))
        return {**schema, "default": default} if default and not field.is_required() else schema

    def _value(self, written: JsonObject) -> JsonObject:
        """Return one value's schema: its single type and its constraints. Null is never a type: the API server drops nulls."""
        if "$ref" in written:
            return self.object(self._models[written["$ref"]], self._definitions[written["$ref"]])
        if choices := [choice for choice in written.get("anyOf", ()) if choice != {"type": "null"}]:
            beside = {name: value for name, value in written.items() if name != "anyOf"}
            is_number = {choice.get("type") for choice in choices} == {"integer", "number"}
            return self._value({**beside, **({"type": "number"} if is_number else choices[0])})
        schema: JsonObject = {name: written[name] for name in _KEPT if name in written}
        if "const" in written:
            schema["enum"] = [written["const"]]
        if schema.get("maximum") == fields.WHOLE_MAX:
            schema = {name: value for name, value in schema.items() if name not in ("minimum", "maximum")}
            schema["format"] = "int64"
        if "type" in written:
            return {"type": written["type"], **schema, **self._inside(written)}
        return schema if _INT_OR_STRING in schema else {**schema, _OPEN: True}

    def _inside(self, written: JsonObject) -> JsonObject:
        if written["type"] == "array":
            return {"items": self._value(written["items"])}
        if written["type"] == "object":
            values = written.get("additionalProperties", True)
            return {_OPEN: True} if values is True else {"additionalProperties": self._value(values)}
        return {}


def _reachable(model: type[ApiModel]) -> Iterator[type[ApiModel]]:
    yield model
    for _, part in parts(model):
        yield from _reachable(part)


def _validations(model: type[ApiModel]) -> Iterator[JsonObject]:
    for rule in model.rules:
        if rule.cel:
            about = rule.subject or ", ".join(rule.reads)
            yield {"rule": rule.cel, "message": f"{about}: {rule.message}" if about else rule.message}
    yield from ({"rule": change.cel, "message": change.message} for change in model.changes)


def _without_empty(value: Any) -> Any:
    """Return a default as JSON, without empty values."""
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True)
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := _without_empty(item))}
    if isinstance(value, list):
        return [kept for item in value if (kept := _without_empty(item))]
    return value


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
        category: The name under which `kubectl get` lists it with others.
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
    category: str = CATEGORY

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
    Kind(
        labels.OWN_GROUP,
        "v1alpha1",
        "Calendar",
        CalendarObject,
        (Column("TimeZone", ".spec.timeZone"), _AGE),
        {},
        short_names=("cal",),
        category="fleetwright",
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
        "categories": [kind.category],
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
    schema = schema_of(kind.model)
    status = {
        "type": "object",
        "description": "What was found out about it.",
        "properties": {**kind.status, "conditions": _CONDITIONS},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return {
        "type": "object",
        "description": schema["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": schema["properties"]["spec"],
            "status": status,
        },
    }


def _subresources(kind: Kind) -> JsonObject:
    scale = {"specReplicasPath": kind.replicas, "statusReplicasPath": ".status.nodes"}
    return {"status": {}, **({"scale": scale} if kind.replicas else {})}


def _column(column: Column) -> JsonObject:
    wide = {"priority": 1} if column.is_wide else {}
    return {"name": column.name, "type": column.kind, "jsonPath": column.path, **wide}
