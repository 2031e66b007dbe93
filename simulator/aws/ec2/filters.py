"""EC2's filters and pages, shared by all its describe calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from simulator.aws.errors import AwsError

Found = TypeVar("Found")
Values = Callable[[Found, str], Iterable[str]]
"""Returns a resource's values for a filter's name."""


def filtered(found: Iterable[Found], filters: Iterable[Mapping[str, Any]] | None, values: Values[Found]) -> list[Found]:
    """Return the resources that match every filter: one of its patterns must match one of the values."""
    left = list(found)
    for wanted in filters or ():
        name, matches = wanted["Name"], _any_of(wanted["Values"])
        left = [one for one in left if any(map(matches, values(one, name)))]
    return left


def page(found: Sequence[Any], request: Mapping[str, Any], at_most: int) -> tuple[Sequence[Any], str | None]:
    """Return the page for the request's MaxResults and NextToken, and the token of the next page."""
    start, size = int(request.get("NextToken") or 0), int(request.get("MaxResults") or at_most)
    end = start + min(size, at_most)
    return found[start:end], str(end) if end < len(found) else None


def paged(key: str, found: Sequence[Any], request: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    """An answer that holds a page under `key`."""
    items, token = page(found, request, at_most)
    return {key: list(items)} if token is None else {key: list(items), "NextToken": token}


def of_tags(tags: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """Return the values that a filter by tag compares; None if the filter is not about tags."""
    if name.startswith("tag:"):
        value = tags.get(name.removeprefix("tag:"))
        return () if value is None else (value,)
    return tuple(tags) if name == "tag-key" else None


def of_fields(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the values that a filter by field compares. Raises AwsError for an unknown filter."""
    if name not in fields:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return (fields[name],)


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as EC2 writes them, by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tags_of(request: Mapping[str, Any], resource_type: str) -> dict[str, str]:
    """Return the tags of one resource type from a request's tag specifications."""
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in request.get("TagSpecifications") or ()
        if specification.get("ResourceType") == resource_type
        for tag in specification.get("Tags") or ()
    }


def _any_of(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a value matches one of the patterns; `*` matches any text and `?` any character."""
    plain = frozenset(pattern for pattern in patterns if "*" not in pattern and "?" not in pattern)
    wild = "|".join(
        re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns if pattern not in plain
    )
    if not wild:
        return plain.__contains__
    like = re.compile(wild)
    return lambda value: value in plain or like.fullmatch(value) is not None
