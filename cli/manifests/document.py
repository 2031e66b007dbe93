"""One object of the input, with the place where it was written."""

from __future__ import annotations

import shlex
from typing import Any, Final

from cli.errors import InputError

STANDARD_INPUT: Final = "-"
LISTS_DEEP_MAX: Final = 16
"""How deep lists within lists are expanded."""


class Document:
    """One object of the input.

    Attributes:
        source: The file it came from, `-` for standard input.
        index: The index of its document in that file, from 0.
        item: Its path in an expanded list, such as `items[3]`; empty otherwise.
        object: The object as written; timestamps are text.
    """

    __slots__ = ("index", "item", "object", "source")

    def __init__(self, source: str, index: int, object_: dict[str, Any], item: str = "") -> None:
        self.source = source
        self.index = index
        self.object = object_
        self.item = item

    @property
    def kind(self) -> str:
        """Its kind, empty if it has none."""
        kind = self.object.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """Its name, empty if it has none."""
        return self._of_metadata("name")

    @property
    def namespace(self) -> str:
        """Its namespace; `default` if it names none, also for cluster-scoped kinds."""
        return self._of_metadata("namespace") or "default"

    @property
    def subject(self) -> str:
        """The object for people: `Pod shop/cart-0`."""
        namespace, name = self._of_metadata("namespace"), self.name or "without a name"
        return f"{self.kind or 'object'} {f'{namespace}/{name}' if namespace else name}"

    def error(self, problem: str) -> InputError:
        """Return an error that names this document and, unless `problem` already does, this object."""
        named = problem if problem.startswith(self.subject) else f"{self.subject}: {problem}"
        hint = f"`fleetwright validate -f {shlex.quote(self.source)}` lists every problem of every object"
        return InputError(named, source=self.source, index=self.index, place=self.item, hint=hint)

    def _of_metadata(self, key: str) -> str:
        metadata = self.object.get("metadata")
        return str(metadata.get(key) or "") if isinstance(metadata, dict) else ""
