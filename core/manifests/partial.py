"""Reads objects that are partly unreadable: the readable part still has their identity, place and state.

Omitting such an object would be dangerous: a node whose only pod is unreadable is not empty.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

PARTS_MAX: Final = 16
"""The most unreadable fields of one object; with more of them it is not an object of the kind."""

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
"""Type name in msgspec's messages → name in the messages of `core.api`."""
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
    """Return the problem and its path from msgspec's message, in the words of `core.api`: `must be text, not a number`."""
    match = _PLACE.match(message)
    problem, path = (match["problem"], match["path"].lstrip(".")) if match else (message, "")
    path = path.replace("[...]", ".*")
    prefix = "a key: " if match and match["key"] else ""
    absent = _MISSING.match(problem)
    if absent is not None:
        return "is required", ".".join(part for part in (path, absent["field"]) if part)
    types = _TYPES.match(problem)
    if types is not None:
        given = types["given"] or ""
        wanted = _words(types["wanted"])
        if given == "float" and "a number" in wanted:
            return prefix + f"must be {wanted.replace('a number', 'a whole number')}", path
        problem = f"must be {wanted}" + (f", not {_words(given)}" if given else "")
    return prefix + problem, path


def located(path: str, problem: str, obj: object) -> str:
    """Return the path with the invalid map entry in place of a last `*`: msgspec does not name entries.

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
    """Return the object without its unreadable fields, the first of which `unreadable` names; None if it then has no name.

    A second-level field is removed as a whole: `spec.containers`, not `spec.containers[0].ports`.
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
    """Remove the field at the path; return whether it existed."""
    section = rest.get(path[0])
    if isinstance(section, dict) and len(path) > 1 and path[1] in section:
        del section[path[1]]
        return True
    return rest.pop(path[0], None) is not None


def _mapping(obj: object) -> dict[str, Any]:
    return obj if isinstance(obj, dict) else {}
