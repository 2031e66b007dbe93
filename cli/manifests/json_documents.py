"""Reads JSON documents as plain data; stricter than Python's reader, and with the positions of repeated keys."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from cli.manifests.yaml_documents import RepeatedKey

_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escaped surrogate. Python's reader accepts a single half, which cannot be written to files or terminals."""


def documents(text: str) -> list[tuple[Any, list[RepeatedKey]]]:
    """Return the consecutive values of a text, each with the keys that one of its mappings repeats.

    Raises:
        ValueError: If the text is not JSON.
        RecursionError: If it is nested too deeply.
    """
    mappings = _Mappings()
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=mappings.build)
    position, values = 0, list[Any]()
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        values.append(value)
    if _HALF_PAIR.search(text):
        json.dumps(values, ensure_ascii=False).encode()
    if not mappings.repeat_keys:
        return [(value, []) for value in values]
    return _with_repeated_keys(text, values)


def _with_repeated_keys(text: str, values: list[Any]) -> list[tuple[Any, list[RepeatedKey]]]:
    from cli.manifests.json_positions import JsonPositions  # most input repeats none

    positions = JsonPositions(text)
    return [
        (value, [RepeatedKey(path, *place) for path, place in positions.repeated_keys(index)])
        for index, value in enumerate(values)
    ]


class _Mappings:
    """Builds mappings of their pairs, as Python's reader does, which gives a repeated key its last value.

    Attributes:
        repeat_keys: Whether one of them has repeated a key.
    """

    def __init__(self) -> None:
        self.repeat_keys = False

    def build(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return a mapping."""
        found = dict(pairs)
        self.repeat_keys |= len(found) < len(pairs)
        return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
