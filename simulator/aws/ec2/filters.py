"""EC2's filters and pages, shared by all its describe calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from simulator.aws.errors import AwsError

Found = TypeVar("Found")
Values = Callable[[Found, str], Iterable[str]]
"""What something has under a filter's name."""


def filtered(found: Iterable[Found], filters: Iterable[Mapping[str, Any]] | None, values: Values[Found]) -> list[Found]:
    """What matches every filter: one of its patterns, on one of the values."""
    left = list(found)
    for wanted in filters or ():
        name, matches = wanted["Name"], _any_of(wanted["Values"])
        left = [one for one in left if any(map(matches, values(one, name)))]
    return left


def page(found: Sequence[Any], request: Mapping[str, Any], at_most: int) -> tuple[Sequence[Any], str | None]:
    """The page that a request with MaxResults and NextToken asks for, and the token of the next one."""
    start, size = int(request.get("NextToken") or 0), int(request.get("MaxResults") or at_most)
    end = start + min(size, at_most)
    return found[start:end], str(end) if end < len(found) else None


def paged(key: str, found: Sequence[Any], request: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    """An answer that holds a page under `key`."""
    held, token = page(found, request, at_most)
    return {key: list(held)} if token is None else {key: list(held), "NextToken": token}


def of_tags(tags: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """What a filter by tag compares; None for one by something else."""
    if name.startswith("tag:"):
        value = tags.get(name.removeprefix("tag:"))
        return () if value is None else (value,)
    return tuple(tags) if name == "tag-key" else None


def of_fields(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    """What a filter by a field compares. Raises AwsError for a name that is no filter's."""
    if name not in fields:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return (fields[name],)


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as EC2 writes them, by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tags_of(request: Mapping[str, Any], resource_type: str) -> dict[str, str]:
    """The tags that a request's specifications give a kind of resource."""
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in request.get("TagSpecifications") or ()
        if specification.get("ResourceType") == resource_type
        for tag in specification.get("Tags") or ()
    }


def _any_of(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a value is like one of the patterns, in which `*` stands for any text and `?` for any letter."""
    plain = frozenset(pattern for pattern in patterns if "*" not in pattern and "?" not in pattern)
    wild = "|".join(
        re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns if pattern not in plain
    )
    if not wild:
        return plain.__contains__
    like = re.compile(wild)
    return lambda value: value in plain or like.fullmatch(value) is not None
