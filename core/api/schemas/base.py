"""Describes the users' objects: typed fields for single values, rules for combinations.

Fields are pydantic's; the API server checks a rule with an expression over an object. Both are data, so that the same
description validates, decodes and documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, ClassVar, Final, Literal, TypeVar, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas import fields

_CAPITALS: Final = {
    word.lower(): word
    for word in (
        "API",
        "CA",
        "CFS",
        "CIDR",
        "CPUs",
        "DNS",
        "GC",
        "ID",
        "IP",
        "IPv6",
        "OOM",
        "QOS",
        "QPS",
        "TLS",
        "TTL",
        "URL",
    )
}


def wire_name(name: str) -> str:
    """Return our name in Kubernetes' spelling: camel case with acronyms in capitals, `provider_id` as `providerID`."""
    first, *others = name.split("_")
    return first + "".join(_CAPITALS.get(word, word.capitalize()) for word in others)


class Rule(msgspec.Struct, frozen=True):
    """What must hold over several fields of one object, or over the entries of one list.

    Attributes:
        reads: The fields that the rule reads. It is skipped while one of them is invalid on its own.
        broken: Returns the locations that break the rule, relative to the object; empty if it holds.
        message: What is wrong, as the end of a sentence.
        cel: The same for the API server: an expression over `self`, true where the rule holds (it goes into our
            CustomResourceDefinitions). Empty where the API server sees to it by itself.
        subject: The field that the message is about, if it is not one of `reads`: the API server names only the object.
    """

    reads: tuple[str, ...]
    broken: Callable[[JsonObject], Iterable[Location]]
    message: str
    cel: str = ""
    subject: str = ""


class Change(msgspec.Struct, frozen=True):
    """A rule between an object and its updated version, which only the API server sees together.

    Attributes:
        cel: An expression over `self` and `oldSelf`.
        message: What is wrong where it is false.
    """

    cel: str
    message: str


class ApiModel(BaseModel):
    """Base of all parts of the users' objects: camelCase outside, no coercion, unknown fields ignored."""

    model_config = ConfigDict(
        alias_generator=wire_name, extra="ignore", frozen=True, strict=True, defer_build=True, protected_namespaces=()
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    changes: ClassVar[tuple[Change, ...]] = ()


M = TypeVar("M", bound=ApiModel)
Fault = tuple[Location, str]


def examined(model: type[M], raw: object) -> tuple[M | None, list[Fault]]:
    """Return `raw` as a `model` where its fields allow it, and every fault: first of single fields, then of rules."""
    read: M | None = None
    found: list[Fault] = []
    try:
        read = model.model_validate(raw)
    except ValidationError as error:
        found = [(tuple(detail["loc"]), _message(detail)) for detail in error.errors(include_url=False)]
    found += _broken_rules(model, raw, (), tuple(location for location, _ in found))
    return read, found


def _broken_rules(
    model: type[ApiModel], raw: object, base: Location, blocked: tuple[Location, ...]
) -> Iterator[tuple[Location, str]]:
    if not isinstance(raw, dict) or base in blocked:
        return
    for rule in model.rules:
        if not (blocked and any(_is_blocked((*base, field), blocked) for field in rule.reads)):
            for location in rule.broken(raw):
                yield (*base, *location), rule.message
    for name, part in parts(model):
        value = raw.get(name)
        if value is None or (blocked and (*base, name) in blocked):
            continue
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _broken_rules(part, item, (*base, name, index), blocked)
        else:
            yield from _broken_rules(part, value, (*base, name), blocked)


def _is_blocked(location: Location, blocked: tuple[Location, ...]) -> bool:
    return any(place[: len(location)] == location for place in blocked)


@cache
def parts(model: type[ApiModel]) -> tuple[tuple[str, type[ApiModel]], ...]:
    """Return the fields of a model that contain models, alone or in a list."""
    found = ((field.alias or name, _model_in(field.annotation)) for name, field in model.model_fields.items())
    return tuple((name, part) for name, part in found if part is not None)


def allowed_values(model: type[ApiModel], location: Location) -> tuple[str, ...]:
    """Return the closed list of values that the field at this place may have; empty where its type is another."""
    owner = model
    for part in location[:-1]:
        if isinstance(part, str):
            inner = dict(parts(owner)).get(part)
            if inner is None:
                return ()
            owner = inner
    named = [part for part in location if isinstance(part, str)][-1:]
    found = [field for name, field in owner.model_fields.items() if [field.alias or name] == named]
    return _literals(found[0].annotation) if found else ()


def _literals(annotation: Any) -> tuple[str, ...]:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return tuple(value for value in arguments if isinstance(value, str))
    return tuple(value for inner in arguments for value in _literals(inner))


def _model_in(annotation: Any) -> type[ApiModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    inner = (_model_in(argument) for argument in get_args(annotation))
    return next((part for part in inner if part is not None), None)


def _message(detail: ErrorDetails) -> str:
    context, given = detail.get("ctx", {}), detail["input"]
    kind = detail["type"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "string_pattern_mismatch":
        return f"{fields.shown(given)} is not {fields.MEANING[context['pattern']]}"
    if kind == "literal_error":
        return f"{fields.shown(given)} is not one of {context['expected']}"
    if kind in _EXPECTED_TYPES:
        return f"must be {_EXPECTED_TYPES[kind]}, not {_type_name(given)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return words.format(context[bound])
    return detail["msg"]


_EXPECTED_TYPES: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS: Final = {
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than_equal": ("must be at most {}", "le"),
    "too_long": ("must have at most {} entries", "max_length"),
    "too_short": ("must have at least {} entry", "min_length"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "string_too_short": ("must not be empty", "min_length"),
}


def _type_name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
