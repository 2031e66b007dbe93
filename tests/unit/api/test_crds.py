"""The CustomResourceDefinitions agree with the models; `make e2e` checks them on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from pydantic import ConfigDict, Field

from core.api.crds import KINDS, VALIDATIONS, definitions, schema_of
from core.api.objects import JsonObject
from core.api.older_versions import MODELS, problems
from core.api.schemas import fields
from core.api.schemas.fields import ApiModel, Change, Rule, parts
from tests.e2e.crd_corpus import corpus

CRDS = Path(__file__).parents[3] / "crds"


def reachable(model: type[ApiModel]) -> Iterator[type[ApiModel]]:
    yield model
    for _, part in parts(model):
        yield from reachable(part)


def rules_of_specs() -> list[Rule]:
    """All rules but those on metadata, which only the API server can check."""
    specs = [part for model in MODELS.values() for name, part in parts(model) if name == "spec"]
    return [rule for spec in specs for model in reachable(spec) for rule in model.rules]


def nodes(value: Any) -> Iterator[JsonObject]:
    if isinstance(value, dict):
        yield value
        for inside in value.values():
            yield from nodes(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from nodes(inside)


def schema(kind: str) -> JsonObject:
    found = next(one for one in definitions() if one["spec"]["names"]["kind"] == kind)
    whole: JsonObject = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return whole


def spec(kind: str) -> JsonObject:
    found: JsonObject = schema(kind)["properties"]["spec"]
    return found


def test_every_kind_that_validate_knows_has_a_definition() -> None:
    """Otherwise, `validate` accepts a manifest that the cluster does not know."""
    assert {(kind.group, kind.version, kind.name) for kind in KINDS} == set(MODELS)


def test_the_api_server_knows_every_rule_on_a_spec() -> None:
    """Otherwise, the cluster accepts what `validate` refuses, and only the functions' log shows it."""
    assert not [rule.message for rule in rules_of_specs() if not rule.cel]


@pytest.mark.ci
def test_some_object_of_the_corpus_breaks_each_rule() -> None:
    """Otherwise, the real API server is never asked about that rule."""
    unbroken = {rule.message for rule in rules_of_specs()}
    for _, obj in corpus():
        unbroken.difference_update(problem.message for problem in problems(obj))
        if not unbroken:
            return
    assert not unbroken


@pytest.mark.parametrize("definition", definitions(), ids=lambda one: str(one["metadata"]["name"]))
def test_schemas_are_structural(definition: JsonObject) -> None:
    """The API server refuses a definition with references, titles, alternatives or fields without a type."""
    forbidden = {"$ref", "$defs", "anyOf", "allOf", "oneOf", "title", "const", "exclusiveMinimum", "exclusiveMaximum"}
    whole = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for node in nodes(whole):
        assert not forbidden & node.keys()
        for field in (node.get("properties") or {}).values():
            assert field.keys() & {"type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}, field


def test_defaults_are_karpenters() -> None:
    """The API server writes them into the object, where drift hashes and users read them."""
    assert spec("NodePool")["properties"]["disruption"]["default"] == {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    }
    assert spec("NodeClaim")["properties"]["expireAfter"]["default"] == "720h"
    assert spec("EC2NodeClass")["properties"]["metadataOptions"]["default"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }
    assert "default" not in spec("EC2NodeClass")["properties"]["blockDeviceMappings"]


def test_types_are_the_models() -> None:
    pool = spec("NodePool")["properties"]
    assert pool["weight"] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert pool["limits"]["additionalProperties"]["x-kubernetes-int-or-string"] is True
    assert spec("NodePool")["required"] == ["template"]
    kubelet = spec("EC2NodeClass")["properties"]["kubelet"]
    assert kubelet["properties"]["maxPods"] == {"maximum": 2**31 - 1, "x-kubernetes-int-or-string": True}
    assert kubelet["x-kubernetes-preserve-unknown-fields"] is True, "the functions could not say what is unknown"


def test_a_claim_cannot_be_changed_and_a_pool_keeps_its_class_kind() -> None:
    """Otherwise, an edit seems to work and has no effect."""
    claim = spec("NodeClaim")["x-kubernetes-validations"]
    reference = spec("NodePool")["properties"]["template"]["properties"]["spec"]["properties"]["nodeClassRef"]
    assert "self == oldSelf" in [rule["rule"] for rule in claim]
    assert "self.kind == oldSelf.kind" in [rule["rule"] for rule in reference["x-kubernetes-validations"]]


def test_the_text_is_deterministic() -> None:
    assert [schema_of(kind.model) for kind in KINDS] == [schema_of(kind.model) for kind in KINDS]
    assert definitions() == definitions()


def test_the_files_that_users_apply_are_what_the_models_say() -> None:
    """They are written by `make docs`, and a cluster has what they say: bounds, defaults, columns and rules of all kinds."""
    written = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
    assert sorted(definitions(), key=lambda one: str(one["metadata"]["name"])) == sorted(
        written, key=lambda one: str(one["metadata"]["name"])
    )


# Schemas for the API server are structural: one type for each value, and nothing referred to.


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
