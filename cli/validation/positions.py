"""Finds a field's position in its file: line and column of the path in the YAML text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

PART: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_MERGE: Final = "tag:yaml.org,2002:merge"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Position = tuple[int, int]


class Positions:
    """Finds fields in one text. The text is parsed on first use, since most files have no findings."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._roots: list[Any] | None = None

    def of(self, index: int, path: str) -> Position | None:
        """Return line and column, from 1, of a field of the document with this index.

        A missing field has the position of the nearest enclosing object; None if the position is unknown.
        """
        roots = self._parsed()
        node = roots[index] if index < len(roots) else None
        if node is None:
            return None
        mark = node.start_mark
        for number, bracketed, plain in PART.findall(path):
            found = _entry(node, int(number)) if number and isinstance(node, yaml.SequenceNode) else None
            if found is None:
                found = _member(node, number or bracketed or plain)
            if found is None:
                break
            mark, node = found
        return mark.line + 1, mark.column + 1

    def repeated_keys(self, index: int) -> Iterator[tuple[str, Position]]:
        """Return keys that a mapping of the document repeats, each with the position of the repetition."""
        roots = self._parsed()
        waiting = [roots[index]] if index < len(roots) and roots[index] is not None else []
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                known: set[str] = set()
                for key, value in node.value:
                    name = str(key.value)
                    if name in known and key.tag != _MERGE:
                        yield name, (key.start_mark.line + 1, key.start_mark.column + 1)
                    known.add(name)
                    waiting.append(value)
            elif isinstance(node, yaml.SequenceNode):
                waiting += node.value

    def _parsed(self) -> list[Any]:
        if self._roots is None:
            try:
                self._roots = list(yaml.compose_all(self._text, Loader=_LOADER))
            except yaml.YAMLError:
                self._roots = []  # several JSON values in a row are no YAML
        return self._roots


def _member(node: Any, key: str) -> tuple[Any, Any] | None:
    """The mark of a mapping's key and its value."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((k.start_mark, value) for k, value in node.value if k.value == key), None)


def _entry(node: Any, index: int) -> tuple[Any, Any] | None:
    return (node.value[index].start_mark, node.value[index]) if index < len(node.value) else None
