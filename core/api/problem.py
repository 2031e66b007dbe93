"""Problems of a user's object, in one line that names the field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

Location = tuple[str | int, ...]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


class Problem(msgspec.Struct, frozen=True, order=True):
    """One fault of one object. `field` is a path such as `spec.template.spec.requirements[0].operator`."""

    kind: str
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.field}: {self.message}"


def path_of(location: Iterable[str | int]) -> str:
    """The field path: `a.b[0].c`; map keys that are not plain identifiers are in brackets, `labels[example.com/team]`."""
    path = ""
    for part in location:
        if isinstance(part, int) or not _PLAIN_KEY.match(part):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path
