"""Checks a request as AWS would: by what botocore's service models say beyond names and types, and by EC2's rules.

botocore itself checks names, types and least lengths before it sends. AWS also refuses values that are not in an enumeration,
texts that are too long or do not match, unknown filters, and batches that are too large. Fakes that accept them hide defects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from botocore.session import get_session

FILTER_VALUES_MAX: Final = 200
"""EC2's limit on values of a filter (docs/engineering/aws-facts.md#filter-values)."""

_ENTRIES_MAX: Final[Mapping[tuple[str, str], int]] = {
    ("sqs:SendMessageBatch", "Entries"): 10,
    ("dynamodb:BatchWriteItem", "RequestItems"): 25,
    ("dynamodb:TransactWriteItems", "TransactItems"): 100,
    ("ssm:GetParameters", "Names"): 10,
}
"""Limits that the models do not have."""

_OPEN: Final = frozenset({"InstanceType"})
"""Enumerations that grow every week: a model that ships with the SDK never has the latest values, and AWS takes them."""

_TAG_KEY_MAX, _TAG_VALUE_MAX, _TAGS_MAX = 127, 255, 50
_MAX_BATCH_BYTES: Final = 1_048_576
_NOT_PYTHON: Final = (("\\p{L}", "\\w"), ("\\p{Z}", "\\s"), ("\\p{N}", "\\d"))


def problems_of(call: str, shape: Any, parameters: Mapping[str, Any]) -> list[str]:
    """Return what AWS would refuse of a request. `call` is `service:Operation`, `shape` the model of its input."""
    problems = list(_of_shape(shape, parameters, ""))
    problems += _of_batches(call, parameters)
    if call.startswith("ec2:"):
        problems += _of_filters(call.partition(":")[2], parameters)
        problems += _of_tags(parameters)
    return problems


def _of_shape(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape is None:
        return
    check = _BY_TYPE.get(shape.type_name)
    if check is not None:
        yield from check(shape, value, path)


def _of_structure(shape: Any, value: Any, path: str) -> Iterator[str]:
    for name, inner in (value or {}).items():
        member = shape.members.get(name)
        if member is None:
            yield f"{path}.{name} is not in the model"
        else:
            yield from _of_shape(member, inner, f"{path}.{name}")


def _of_list(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _of_size(shape, len(value), path)
    for inner in value:
        yield from _of_shape(shape.member, inner, f"{path}[]")


def _of_map(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _of_size(shape, len(value), path)
    for key, inner in value.items():
        yield from _of_shape(shape.key, key, f"{path}.<key>")
        yield from _of_shape(shape.value, inner, f"{path}.{key}")


def _of_text(shape: Any, value: Any, path: str) -> Iterator[str]:
    text = str(value)
    if shape.enum and shape.name not in _OPEN and value not in shape.enum:
        yield f"{path} {text[:80]!r} is not one of {', '.join(shape.enum)[:200]}"
    yield from _of_size(shape, len(text), path)
    pattern = _compiled(shape.metadata.get("pattern", ""))
    if pattern is not None and not pattern.search(text):
        yield f"{path} {text[:80]!r} does not match {pattern.pattern[:80]}"


def _of_number(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _of_size(shape, value, path)


_BY_TYPE: Final[Mapping[str, Callable[[Any, Any, str], Iterator[str]]]] = {
    "structure": _of_structure,
    "list": _of_list,
    "map": _of_map,
    "string": _of_text,
    "integer": _of_number,
    "long": _of_number,
}


def _of_size(shape: Any, size: int, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if most is not None and size > most:
        yield f"{path} has {size}, at most {most}"
    if least is not None and size < least:
        yield f"{path} has {size}, at least {least}"


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a model's pattern for Python; None where it has none, or one that Python cannot read."""
    for theirs, ours in _NOT_PYTHON:
        pattern = pattern.replace(theirs, ours)
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None


def _of_batches(call: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    for (name, member), most in _ENTRIES_MAX.items():
        if name == call and member in parameters:
            value = parameters[member]
            number = sum(map(len, value.values())) if isinstance(value, Mapping) else len(value)
            if number > most:
                yield f"{member} has {number}, at most {most}"
    if call == "sqs:SendMessageBatch":
        size = sum(len(str(entry["MessageBody"]).encode()) for entry in parameters["Entries"])
        if size > _MAX_BATCH_BYTES:
            yield f"the messages have {size} bytes together, at most {_MAX_BATCH_BYTES}"


@cache
def listed_filters(operation: str) -> frozenset[str]:
    """Return the filters that EC2's model lists in the text of `Filters`; empty where it lists none."""
    model = get_session().get_service_model("ec2").operation_model(operation)
    shape = model.input_shape.members.get("Filters") if model.input_shape is not None else None
    text = shape.documentation if shape is not None else ""
    return frozenset(re.findall(r"<li>\s*<p>\s*<code>([^<]+)</code>", text))


_UNLISTED: Final = frozenset({("DescribeCapacityReservations", "tag:"), ("DescribeCapacityReservations", "tag-key")})
"""Filters that EC2 takes although its text does not list them: Karpenter sends them."""


def _of_filters(operation: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    for wanted in parameters.get("Filters") or ():
        name, values = str(wanted.get("Name")), wanted.get("Values") or ()
        if not _takes(operation, name):
            yield f"The filter '{name}' is invalid"
        if len(values) > FILTER_VALUES_MAX:
            yield f"The maximum number of filter values specified on a single call is {FILTER_VALUES_MAX}"


def _takes(operation: str, name: str) -> bool:
    listed = listed_filters(operation)
    general = "tag:" if name.startswith("tag:") else name
    if not listed or name in listed or (operation, general) in _UNLISTED:
        return True
    return general == "tag:" and any(one == "tag" or one.startswith("tag:") for one in listed)


def too_many_tags(parameters: Mapping[str, Any]) -> list[str]:
    """Return the kinds of resources to which an EC2 request gives more tags than EC2 takes; it has a code of its own for it."""
    return [
        f"{given.get('ResourceType')} has {len(given.get('Tags') or ())} tags, at most {_TAGS_MAX}"
        for given in _tagged(parameters)
        if len(given.get("Tags") or ()) > _TAGS_MAX
    ]


def _tagged(parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    data = parameters.get("LaunchTemplateData") or {}
    return (*(parameters.get("TagSpecifications") or ()), *(data.get("TagSpecifications") or ()))


def _of_tags(parameters: Mapping[str, Any]) -> Iterator[str]:
    yield from too_many_tags(parameters)
    for given in _tagged(parameters):
        for tag in given.get("Tags") or ():
            key, value = str(tag.get("Key")), str(tag.get("Value", ""))
            if key.lower().startswith("aws:") or len(key) > _TAG_KEY_MAX or len(value) > _TAG_VALUE_MAX:
                yield f"the tag {key[:80]} is reserved or too long"
