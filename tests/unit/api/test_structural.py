"""Schemas for the API server are structural: one type for each value, and nothing referred to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import ConfigDict, Field

from core.api.objects import JsonObject
from core.api.schemas import fields
from core.api.schemas.base import ApiModel, Change, Rule
from core.api.structural import VALIDATIONS, schema_of
from core.api.validation import MODELS

PRESERVED = "x-kubernetes-preserve-unknown-fields"


class Inner(ApiModel):
    """A part."""

    model_config = ConfigDict(extra="forbid")
    flag: bool = False


class Outer(ApiModel):
    """An object.

    Of two paragraphs.
    """

    size: fields.Whole | None = None
    amount: fields.Quantity
    share: int | float | None = None
    anything: dict[str, Any] = {}
    mode: str = "fast"
    inner: Inner = Field(default_factory=Inner)
    several: list[Inner] = []

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(("size",), lambda _: [], "is odd", "self.size % 2 == 0"),
        Rule(("mode",), lambda _: [], "is known to the API server alone"),
    )
    changes: ClassVar[tuple[Change, ...]] = (Change("self == oldSelf", "cannot be changed"),)


SCHEMA: JsonObject = schema_of(Outer)


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ("size", {"type": "integer", "format": "int64"}),
        ("share", {"type": "number"}),
        ("anything", {"type": "object", PRESERVED: True}),
        ("mode", {"type": "string", "default": "fast"}),
    ],
)
def test_a_value_has_one_type_and_its_default(field: str, schema: JsonObject) -> None:
    assert SCHEMA["properties"][field] == schema


def test_a_quantity_is_a_number_or_text_and_is_required() -> None:
    assert SCHEMA["properties"]["amount"]["x-kubernetes-int-or-string"]
    assert "type" not in SCHEMA["properties"]["amount"]
    assert SCHEMA["required"] == ["amount"]


def test_parts_are_written_in_place_and_keep_fields_that_only_our_validation_refuses() -> None:
    """The API server would drop an unknown field without a word, and a typo would have no effect."""
    part = {"type": "object", "description": "A part.", "properties": {"flag": {"type": "boolean"}}, PRESERVED: True}
    assert SCHEMA["properties"]["inner"] == part
    assert SCHEMA["properties"]["several"] == {"type": "array", "items": part}


def test_rules_and_changes_are_expressions_with_the_field_they_are_about() -> None:
    assert SCHEMA[VALIDATIONS] == [
        {"rule": "self.size % 2 == 0", "message": "size: is odd"},
        {"rule": "self == oldSelf", "message": "cannot be changed"},
    ]
    assert SCHEMA["description"] == "An object.\n\nOf two paragraphs."


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.__name__)
def test_no_value_of_our_kinds_refers_to_another_or_has_two_types(model: type[ApiModel]) -> None:
    """Kubernetes refuses such a definition."""
    for found in _schemas(schema_of(model)):
        assert not {"$ref", "anyOf", "oneOf", "allOf"} & set(found)
        assert isinstance(found.get("type", ""), str)


def _schemas(schema: JsonObject) -> Iterator[JsonObject]:
    yield schema
    inside = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for found in inside:
        if isinstance(found, dict):
            yield from _schemas(found)
