"""Finds the positions of fields and of repeated keys in JSON text. Only the containers on the way to a field are examined."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

Position = tuple[int, int]
"""Line and column, from 1."""

_SPACE: Final = re.compile(r"\s*")
_CONTAINERS: Final = ("{", "[")


class JsonPositions:
    """Finds positions in a text of consecutive JSON values.

    Raises:
        ValueError: At construction, if the text is not JSON.
        RecursionError: At construction, if it is nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder()
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._roots: list[int] = []
        self._known: dict[int, dict[str, tuple[int, int]]] = {}
        at = self._after_space(0)
        while at < len(text):
            self._roots.append(at)
            at = self._after_space(self._end_of(at))

    def of(self, index: int, path: Sequence[str]) -> Position | None:
        """Return the position of a field of a value; of the nearest enclosing container if it is missing."""
        if index >= len(self._roots):
            return None
        mark = value = self._roots[index]
        for part in path:
            if value not in self._known:
                self._known[value] = {key: (at, inner) for key, at, inner in reversed([*self._entries(value)])}
            if part not in self._known[value]:
                break
            mark, value = self._known[value][part]
        return self._position(mark)

    def repeated_keys(self, index: int) -> list[tuple[tuple[str | int, ...], Position]]:
        """Return the paths of the keys that a mapping of a value repeats, each with its position, in the order of these."""
        found: list[tuple[int, tuple[str | int, ...]]] = []
        waiting: list[tuple[int, tuple[str | int, ...]]] = [(self._roots[index], ())]
        while waiting:
            container, path = waiting.pop()
            is_list = self._text[container] == "["
            known: set[str] = set()
            for key, at, value in self._entries(container):
                inner = (*path, int(key) if is_list else key)
                if key in known:
                    found.append((at, inner))
                known.add(key)
                if self._text[value] in _CONTAINERS:
                    waiting.append((value, inner))
        return [(path, self._position(at)) for at, path in sorted(found)]

    def _entries(self, start: int) -> Iterator[tuple[str, int, int]]:
        """Yield the entries of a container: key (of a list: index), and where key and value begin. Other values have none."""
        text = self._text
        if text[start] not in _CONTAINERS:
            return
        at, count = self._after_space(start + 1), 0
        while text[at] not in "}]":
            key, value = str(count), at
            if text[start] == "{":
                key, end = self._decoder.raw_decode(text, at)
                value = self._after_space(self._after_space(end) + 1)
            yield key, at, value
            at = self._after_space(self._end_of(value))
            if text[at] == ",":
                at = self._after_space(at + 1)
            count += 1

    def _end_of(self, start: int) -> int:
        return self._decoder.raw_decode(self._text, start)[1]

    def _after_space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def _position(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1
