"""Reads one JSON array after another; elements that the last array has too are decoded once and stay the same object.

A week of a cluster has thousands of arrays with thousands of pods, of which some twenty differ from the last array. So whole
blocks of elements are compared, and only blocks that differ are divided into elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

BLOCK_BYTES: Final = 1 << 14
"""How long a block is; up to twice as long, and shorter where elements were removed."""

PASSED_MAX: Final = 8
"""After so many consecutive blocks that differ, the rest of the array is divided into elements, too."""

AHEAD: Final = 1 << 16
"""How many bytes of new elements may precede a block; beyond, its elements are decoded again."""

_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Block(msgspec.Struct, frozen=True, eq=False):
    """Consecutive elements.

    Attributes:
        elements: As written.
        text: The same, each with a comma at its end.
        objects: As decoded.
    """

    elements: tuple[bytes, ...]
    text: bytes
    objects: tuple[Any, ...]


class ArrayReader:
    """Reads arrays of one type. Only the last one is kept."""

    def __init__(self, type_: Any) -> None:
        self._decode = msgspec.json.Decoder(type_).decode
        self._blocks: Sequence[Block] = ()

    def blocks(self, array: msgspec.Raw | bytes) -> Sequence[Block]:
        """Return the array in blocks; an unchanged block is the same object. Raises msgspec.MsgspecError."""
        written = memoryview(array)
        try:
            if bytes(written[:1]) != b"[" or bytes(written[-1:]) != b"]":
                _split(array)  # raises, unless there are spaces around the array
            self._blocks = self._compared(b"".join((written[1:-1], b",")))
        except msgspec.MsgspecError:  # a block's text in the middle of an element
            self._blocks = list(self._divided([bytes(element) for element in _split(array)], {}))
        return self._blocks

    def objects(self, array: msgspec.Raw | bytes) -> tuple[Any, ...]:
        """Return the array's elements. Raises msgspec.MsgspecError."""
        return tuple(chain.from_iterable(block.objects for block in self.blocks(array)))

    def _compared(self, text: bytes) -> list[Block]:
        """Return the blocks of a text of elements, each with a comma at its end."""
        found: list[Block] = []
        passed: list[Block] = []
        at = skipped = 0
        for block in self._blocks:
            start = None
            if text.startswith(block.text, at):
                start = at
            elif len(passed) < PASSED_MAX:
                start = _next(block, text, at, at + skipped + AHEAD)
            if start is None:
                passed.append(block)
                skipped += len(block.text)
                continue
            self._add(text[at:start], passed, found)
            found.append(block)
            at, passed, skipped = start + len(block.text), [], 0
        self._add(text[at:], passed, found)
        return found

    def _add(self, text: bytes, passed: Sequence[Block], found: list[Block]) -> None:
        """Add the blocks of a text that replaces the passed blocks; a small block before it becomes part of them."""
        if text in (b"", b","):
            return
        elements = [bytes(element) for element in _split(b"[" + text[:-1] + b"]")]
        known: dict[bytes, Any] = {}
        if found and len(found[-1].text) < BLOCK_BYTES // 2:
            elements[:0] = found[-1].elements
            passed = (*passed, found.pop())
        for block in passed:
            known.update(zip(block.elements, block.objects, strict=True))
        found += self._divided(elements, known)

    def _divided(self, elements: Sequence[bytes], known: dict[bytes, Any]) -> Iterator[Block]:
        length = sum(map(len, elements))
        size = max(1, len(elements) if length <= 2 * BLOCK_BYTES else len(elements) * BLOCK_BYTES // length)
        for start in range(0, len(elements), size):
            part = tuple(elements[start : start + size])
            objects = tuple(known[one] if one in known else self._decode(one) for one in part)
            yield Block(part, b",".join(part) + b",", objects)


def _next(block: Block, text: bytes, at: int, end: int) -> int | None:
    """Return where the block begins in the text from `at` on, before `end`; None if its first element is not followed by it.

    What is found is an element's beginning if the text before it consists of whole elements.
    """
    start = text.find(block.elements[0] + b",", at, end)
    return None if start < 0 or not text.startswith(block.text, start) else start
