"""The kinds of single values that users write, each with the pattern that the API server checks it by.

Sources: Karpenter's CRDs; Kubernetes' rules for names and labels (a name of up to 63 characters, with or without a DNS
subdomain of up to 253 before it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, get_args, get_origin

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from core.api.objects import JsonObject
from core.api.status import Location
from core.model.values.requirements import DOMAIN_LENGTH_MAX, NAME, NAME_LENGTH_MAX, SUBDOMAIN, length_fault

NEVER: Final = "Never"
WHOLE_MAX: Final = 2**63 - 1
"""The API server keeps whole numbers in 64 bits."""

_QUANTITY: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"

QUALIFIED_NAME: Final = rf"^({SUBDOMAIN}/)?{NAME}$"
TAINT_VALUE: Final = rf"^(({SUBDOMAIN}/)?{NAME})?$"
LABEL_VALUE: Final = rf"^({NAME})?$"
OBJECT_NAME: Final = rf"^{SUBDOMAIN}$"
DURATION: Final = r"^([0-9]+(s|m|h))+$"
NILLABLE_DURATION: Final = r"^(([0-9]+(s|m|h))+|Never)$"
WINDOW: Final = r"^(([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?$"
SCHEDULE: Final = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
TIME_OF_DAY: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
WALL_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]$"
MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
NODES: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
NO_SLASH: Final = r"^[^/]*$"
PRICE: Final = r"^[0-9]+(\.[0-9]+)?$"
PRICE_ADJUSTMENT: Final = r"^([+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-[0-9]{1,2}(\.[0-9]+)?%|-100%)$"
SUBNET_ID: Final = r"subnet-[0-9a-z]+"
SECURITY_GROUP_ID: Final = r"sg-[0-9a-z]+"
AMI_ID: Final = r"ami-[0-9a-z]+"
RESERVATION_ID: Final = r"^cr-[0-9a-z]+$"
PLACEMENT_GROUP_ID: Final = r"^pg-[0-9a-z]+$"
ACCOUNT_ID: Final = r"^[0-9]{12}$"
AMI_ALIAS: Final = r"^[a-zA-Z0-9]+@.+$"
VOLUME_SIZE: Final = (
    r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$"
)

MEANING: Final = {
    QUALIFIED_NAME: "a qualified name such as team or example.com/team",
    TAINT_VALUE: "the value of a taint: letters, digits, '-', '_' and '.'",
    LABEL_VALUE: "the value of a label: up to 63 letters, digits, '-', '_' and '.'",
    OBJECT_NAME: "a DNS name in lower case",
    DURATION: "a duration such as 90s or 1h30m",
    NILLABLE_DURATION: "a duration such as 90s or 1h30m, or Never",
    WINDOW: "a duration of hours and minutes such as 1h30m",
    SCHEDULE: "a cron schedule of five fields, or one such as @daily",
    TIME_OF_DAY: "a time of day such as 08:00",
    DATE: "a date such as 2026-12-25",
    WALL_TIME: "a date and time of the zone's clocks such as 2026-12-24T18:00",
    MOMENT: "a time such as 2026-12-24T18:00:00Z",
    NODES: "a number of nodes such as 3, or a percentage such as 10%",
    NO_SLASH: "a group without a version: it must hold no '/'",
    PRICE: "a price in dollars such as 0.05",
    PRICE_ADJUSTMENT: "a signed amount such as +0.01, or a percentage from -100% upwards such as -10%",
    SUBNET_ID: "the id of a subnet, subnet-…",
    SECURITY_GROUP_ID: "the id of a security group, sg-…",
    AMI_ID: "the id of an image, ami-…",
    RESERVATION_ID: "the id of a capacity reservation, cr-…",
    PLACEMENT_GROUP_ID: "the id of a placement group, pg-…",
    ACCOUNT_ID: "an account id of twelve digits",
    AMI_ALIAS: "of the form family@version",
    VOLUME_SIZE: "a size such as 100Gi, of at most 59000Gi, 64000G, 58Ti or 64T",
}
"""What each pattern stands for, as the end of a sentence that begins with `is not`."""

_QUANTITY_SHAPE: Final = re.compile(_QUANTITY)
_POSITIVE_QUANTITY: Final = _QUANTITY.replace(r"(\+|-)?", r"\+?", 1)


def cel_is_short(key: str) -> str:
    """Return a CEL expression over `key`, true where `length_fault` finds nothing."""
    domain, name = f"{key}.indexOf('/') <= {DOMAIN_LENGTH_MAX}", f"{key}.find('[^/]*$').size() <= {NAME_LENGTH_MAX}"
    return f"{domain} && {name}"


def cel_is_qualified(key: str) -> str:
    """Return `is_label_key` as a CEL expression over `key`."""
    return f"{key}.matches(r'{QUALIFIED_NAME}') && {cel_is_short(key)}"


def shown(value: object) -> str:
    """Return a value as users write it: text in quotes, all else as in JSON."""
    return repr(value) if isinstance(value, str) else json.dumps(value, default=str)


def _short_enough(key: str) -> str:
    fault = length_fault(key)
    if fault is not None:
        raise PydanticCustomError("too_long_name", "{fault}", {"fault": fault})
    return key


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str) or not _QUANTITY_SHAPE.fullmatch(str(value)):
        raise PydanticCustomError(
            "quantity", "{given} is not a quantity such as 500m, 2 or 1.5Gi", {"given": shown(value)}
        )
    if isinstance(value, int) and abs(value) > WHOLE_MAX:
        raise PydanticCustomError(
            "quantity", "{given} has more digits than a number can hold; write it as text", {"given": str(value)}
        )
    if str(value).startswith("-"):
        raise PydanticCustomError("negative_quantity", "{given} is negative", {"given": repr(value)})
    return value


_SHORT: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {"rule": cel_is_short("self"), "message": "a name has at most 63 characters, its domain at most 253"}
    ]
}

QualifiedName = Annotated[
    str, Field(pattern=QUALIFIED_NAME, max_length=316, json_schema_extra=_SHORT), AfterValidator(_short_enough)
]
TaintValue = Annotated[
    str, Field(pattern=TAINT_VALUE, max_length=316, json_schema_extra=_SHORT), AfterValidator(_short_enough)
]
Moment = Annotated[str, Field(pattern=MOMENT)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE, max_length=63)]
ObjectName = Annotated[str, Field(pattern=OBJECT_NAME, max_length=253)]
Whole = Annotated[int, Field(ge=-WHOLE_MAX - 1, le=WHOLE_MAX)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
NonEmpty = Annotated[str, Field(min_length=1)]
Duration = Annotated[str, Field(pattern=DURATION)]
NillableDuration = Annotated[str, Field(pattern=NILLABLE_DURATION)]
Quantity = Annotated[
    Any,
    AfterValidator(_quantity),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _POSITIVE_QUANTITY, "minimum": 0}),
]


# Describes the users' objects: typed fields for single values, rules for combinations.
#
# Fields are pydantic's; the API server checks a rule with an expression over an object. Both are data, so that the same
# description validates, decodes and documents.


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
        cel: The rule for the API server: an expression over `self` that is true if the rule holds. It goes into our
            CustomResourceDefinitions. Empty if the API server enforces the rule by itself.
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
    faults: list[Fault] = []
    try:
        read = model.model_validate(raw)
    except ValidationError as error:
        faults = [(tuple(detail["loc"]), _message(detail)) for detail in error.errors(include_url=False)]
    faults += _broken_rules(model, raw, (), tuple(location for location, _ in faults))
    return read, faults


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
    fields = ((field.alias or name, _model_in(field.annotation)) for name, field in model.model_fields.items())
    return tuple((name, part) for name, part in fields if part is not None)


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
    fields = [field for name, field in owner.model_fields.items() if [field.alias or name] == named]
    return _literals(fields[0].annotation) if fields else ()


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
    context, rejected = detail.get("ctx", {}), detail["input"]
    kind = detail["type"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "string_pattern_mismatch":
        return f"{shown(rejected)} is not {MEANING[context['pattern']]}"
    if kind == "literal_error":
        return f"{shown(rejected)} is not one of {context['expected']}"
    if kind in _EXPECTED_TYPES:
        return f"must be {_EXPECTED_TYPES[kind]}, not {_type_name(rejected)}"
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


# The parts of `metadata` that are validated.


def _nameless(metadata: JsonObject) -> list[Location]:
    return [] if metadata.get("name") or metadata.get("generateName") else [("name",)]


class Metadata(ApiModel):
    """Name, labels and annotations of an object."""

    name: ObjectName | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    rules: ClassVar[tuple[Rule, ...]] = (Rule(("name",), _nameless, "is required"),)
