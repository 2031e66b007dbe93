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
_INDEX: Final = re.compile(r"\[.*")


def explained(message: str) -> tuple[str, str]:
    """What is wrong and where, from msgspec's message."""
    match = _PLACE.match(message)
    if match is None:
        return message, ""
    path = match["path"].lstrip(".").replace("[...]", ".*")
    return ("a key: " if match["key"] else "") + match["problem"], path


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
