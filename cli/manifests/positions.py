"""Finds a field's position in its file: line and column of the path in the YAML or JSON text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import yaml

from cli.manifests.json_positions import JsonPositions, Position

PART: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Positions:
    """Finds fields in one text. The text is parsed on first use, since most files have no findings."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, index: int, path: str) -> Position | None:
        """Return line and column, from 1, of a field of the document with this index.

        A missing field has the position of the nearest enclosing object; None if the position is unknown.
        """
        return self._finder.of(index, [number or bracketed or plain for number, bracketed, plain in PART.findall(path)])

    @cached_property
    def _finder(self) -> JsonPositions | _YamlPositions:
        """Return the finder of the text's form: composing the nodes of JSON as YAML takes tens of times longer."""
        if self._text.lstrip()[:1] in ("{", "["):
            try:
                return JsonPositions(self._text)
            except (ValueError, RecursionError):
                pass
        return _YamlPositions(self._text)


class _YamlPositions:
    """Finds positions in YAML, none if the text cannot be parsed."""

    def __init__(self, text: str) -> None:
        try:
            self._roots = list(yaml.compose_all(text, Loader=_LOADER))
        except yaml.YAMLError:
            self._roots = []

    def of(self, index: int, path: Sequence[str]) -> Position | None:
        """Return the position of a field of a document."""
        node = self._roots[index] if index < len(self._roots) else None
        if node is None:
            return None
        mark = node.start_mark
        for part in path:
            found = _entry(node, part)
            if found is None:
                break
            mark, node = found
        return mark.line + 1, mark.column + 1


def _entry(node: Any, part: str) -> tuple[Any, Any] | None:
    """Return the mark and the value of a mapping's key or of a sequence's item."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
        item = node.value[int(part)]
        return item.start_mark, item
    return None
