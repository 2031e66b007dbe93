"""Generates structural OpenAPI schemas from the models, with the rules as CEL expressions, for the API server.

Structural (Kubernetes): every field has one type, nothing is referred to, and value checks stand beside types, not in
their place. Pydantic's schema is converted to that form; defaults and rules come from the models.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.api.objects import JsonObject
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, parts

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
    written = model.model_json_schema(ref_template="{model}")
    known = {found.__name__: found for found in _reachable(model)}
    return _Writer(written.get("$defs", {}), known).object(model, written)


class _Writer:
    """Resolves the references of one schema that pydantic generated."""

    def __init__(self, definitions: JsonObject, models: dict[str, type[ApiModel]]) -> None:
        self._definitions = definitions
        self._models = models

    def object(self, model: type[ApiModel], written: JsonObject) -> JsonObject:
        declared = {field.alias or name: field for name, field in model.model_fields.items()}
        schema: JsonObject = {"type": "object", "description": inspect.cleandoc(model.__doc__ or "")}
        schema["properties"] = {
            name: self._field(declared[name], found) for name, found in sorted(written["properties"].items())
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
