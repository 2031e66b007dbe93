"""Finds a field's position in its file: line and column of the path in the YAML text."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import yaml

PART: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_MERGE: Final = "tag:yaml.org,2002:merge"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_SPACE: Final = re.compile(r"\S")

Position = tuple[int, int]


class _Root(NamedTuple):
    """A document's node, and where its text begins in the whole text, from 0."""

    node: Any
    line: int = 0
    column: int = 0

    def position(self, mark: Any) -> Position:
        """Return line and column, from 1, in the whole text."""
        column = mark.column if mark.line else mark.column + self.column
        return self.line + mark.line + 1, int(column) + 1


class Positions:
    """Finds fields in one text. The text is parsed on first use, since most files have no findings."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._roots: list[_Root] | None = None

    def of(self, index: int, path: str) -> Position | None:
        """Return line and column, from 1, of a field of the document with this index.

        A missing field has the position of the nearest enclosing object; None if the position is unknown.
        """
        root = self._root(index)
        if root is None:
            return None
        node = root.node
        mark = node.start_mark
        for number, bracketed, plain in PART.findall(path):
            found = _entry(node, int(number)) if number and isinstance(node, yaml.SequenceNode) else None
            if found is None:
                found = _member(node, number or bracketed or plain)
            if found is None:
                break
            mark, node = found
        return root.position(mark)

    def repeated_keys(self, index: int) -> Iterator[tuple[str, Position]]:
        """Return keys that a mapping of the document repeats, each with the position of the repetition."""
        root = self._root(index) if self._may_repeat_keys else None
        if root is None:
            return
        waiting = [root.node]
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
                        yield name, root.position(key.start_mark)
                    known.add(name)
                    waiting.append(value)
            elif isinstance(node, yaml.SequenceNode):
                waiting += node.value

    @cached_property
    def _may_repeat_keys(self) -> bool:
        """Whether some mapping may have a key twice. JSON is decoded to know: composing its nodes takes far longer."""
        known: list[bool] = []

        def see(pairs: list[tuple[str, Any]]) -> None:
            known.append(len({key for key, _ in pairs}) < len(pairs))

        decoder, end = json.JSONDecoder(object_pairs_hook=see), 0
        try:
            while rest := _NOT_SPACE.search(self._text, end):
                _, end = decoder.raw_decode(self._text, rest.start())
        except (ValueError, RecursionError):
            return True
        return any(known)

    def _root(self, index: int) -> _Root | None:
        """Return a document, None if it is empty or the text cannot be parsed."""
        if self._roots is None:
            self._roots = _roots(self._text)
        return self._roots[index] if index < len(self._roots) and self._roots[index].node is not None else None


def _roots(text: str) -> list[_Root]:
    try:
        return [_Root(node) for node in yaml.compose_all(text, Loader=_LOADER)]
    except yaml.YAMLError:
        return _json_roots(text.replace("\t", " "))


def _json_roots(text: str) -> list[_Root]:
    """Return consecutive JSON values, which are no YAML, nor is JSON with tabs; empty if the text is not JSON."""
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    decoder, roots, end = json.JSONDecoder(), list[_Root](), 0
    try:
        while rest := _NOT_SPACE.search(text, end):
            line = bisect_right(lines, rest.start()) - 1
            _, end = decoder.raw_decode(text, rest.start())
            node = yaml.compose(text[rest.start() : end], Loader=_LOADER)
            roots.append(_Root(node, line, rest.start() - lines[line]))
    except (ValueError, RecursionError, yaml.YAMLError):
        return []
    return roots


def _member(node: Any, key: str) -> tuple[Any, Any] | None:
    """The mark of a mapping's key and its value."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((k.start_mark, value) for k, value in node.value if k.value == key), None)


def _entry(node: Any, index: int) -> tuple[Any, Any] | None:
    return (node.value[index].start_mark, node.value[index]) if index < len(node.value) else None
