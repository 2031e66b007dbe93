"""Objects of which a part cannot be read: what is left of them still says who they are, where, and how they fare.

Leaving such an object out would be the dangerous mistake: a node whose only pod we do not understand is not empty.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

PARTS_MAX: Final = 16
"""Fields that may be unreadable in one object; with more of them it is none of its kind."""

_PLACE: Final = re.compile(r"(?P<problem>.*?) - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`\Z", re.DOTALL)
_TYPES: Final = re.compile(r"Expected `(?P<wanted>[a-z |]+)`(?:, got `(?P<given>[a-z |]+)`)?\Z")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]+)`\Z")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORDS: Final = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time",
}
"""Msgspec's type → what `core.api` calls it."""
_TYPE_NAMES: Final[dict[type, str]] = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_INDEX: Final = re.compile(r"\[.*")


def explained(message: str) -> tuple[str, str]:
    """What is wrong and where, from msgspec's message, in the words of `core.api`: `must be text, not a number`."""
    match = _PLACE.match(message)
    problem, path = (match["problem"], match["path"].lstrip(".")) if match else (message, "")
    path = path.replace("[...]", ".*")
    absent = _MISSING.match(problem)
    if absent is not None:
        return "is required", ".".join(part for part in (path, absent["field"]) if part)
    types = _TYPES.match(problem)
    if types is not None:
        given = types["given"] or ""
        problem = f"must be {_words(types['wanted'])}" + (f", not {_words(given)}" if given else "")
    return ("a key: " if match and match["key"] else "") + problem, path


def located(path: str, problem: str, obj: object) -> str:
    """Return the path with the entry of a map at fault in place of a last `*`: msgspec does not name entries.

    Args:
        path: As `explained` returns it.
        problem: Likewise.
        obj: The object that could not be read.
    """
    if not path.endswith(".*"):
        return path
    place = path.removesuffix(".*")
    found = obj
    for name, index in _STEP.findall(place):
        found = found[int(index)] if index and isinstance(found, list) else _mapping(found).get(name)
    given = problem.rpartition(", not ")[2]
    entry = next((key for key, value in _mapping(found).items() if _TYPE_NAMES.get(type(value)) == given), "*")
    return f"{place}.{entry}" if _PLAIN_KEY.match(entry) or entry == "*" else f"{place}[{entry}]"


def _words(types: str) -> str:
    named = [one.strip() for one in types.split("|")]
    return " or ".join(dict.fromkeys(_WORDS.get(one, one) for one in named if one != "null" or len(named) == 1))


def readable_rest(type_: Any, obj: object) -> Any | None:
    """The object without its unreadable fields, the first of them in `unreadable`; None where no name is left of it.

    A field goes with everything in it, one below the top: `spec.containers`, not `spec.containers[0].ports`.
    """
    rest = {key: dict(value) if isinstance(value, dict) else value for key, value in _mapping(obj).items()}
    first = ""
    for _ in range(PARTS_MAX):
        try:
            found = msgspec.convert(rest, type_)
        except msgspec.ValidationError as error:
            problem, path = explained(str(error))
            first = first or ": ".join(part for part in (path, problem) if part)
            if not _drop(rest, [_INDEX.sub("", step) for step in path.split(".")]):
                return None
        else:
            found.unreadable = first
            return found if found.metadata.name else None
    return None


def _drop(rest: dict[str, Any], path: list[str]) -> bool:
    """Take the field out that the path leads to. Returns whether there was one."""
    section = rest.get(path[0])
    if isinstance(section, dict) and len(path) > 1 and path[1] in section:
        del section[path[1]]
        return True
    return rest.pop(path[0], None) is not None


def _mapping(obj: object) -> dict[str, Any]:
    return obj if isinstance(obj, dict) else {}
