"""Differences between two documents: where they agree, only positions are stored.

Zstandard alone takes some 50 bytes for each 128 KiB that a document repeats, 4 KB for a cluster of 1,000 nodes: as much as what
changes in a minute (docs/adr/0268).

    checksum of the document | runs | line feed | new elements

A document is divided where JSON divides the objects of an array. Each run says how many elements of the base to skip (back if
negative), how many to copy, and how many new ones follow.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec

from core.errors import InvalidInputError

_BETWEEN: Final = b"},{"
_CHECKSUM_BYTES: Final = 4

ELEMENT_BYTES: Final = 128
"""A document has at most one element, and a difference one run, for so many bytes of the size limit: each takes up to 160 bytes
of memory, and may have none of its own."""


def is_divisible(*documents: bytes, at_most: int) -> bool:
    """Whether the documents have few enough elements for a size limit of `at_most` bytes."""
    return all(document.count(_BETWEEN) < at_most // ELEMENT_BYTES for document in documents)


def difference(document: bytes, base: bytes) -> bytes:
    """Return what `applied` needs to restore the document from the base."""
    old = base.split(_BETWEEN)
    first: dict[bytes, int] = {}
    for number, element in enumerate(old):
        first.setdefault(element, number)
    runs, new = [[0, 0, 0]], list[bytes]()
    position = 0  # in the base, behind what was copied last
    for element in document.split(_BETWEEN):
        run = runs[-1]
        if run[2] == 0 and position < len(old) and old[position] == element:
            run[1] += 1
            position += 1
        elif element in first:
            runs.append([first[element] - position, 1, 0])
            position = first[element] + 1
        else:
            run[2] += 1
            new.append(element)
    return b"".join((_checksum(document), msgspec.json.encode(runs), b"\n", _BETWEEN.join(new)))


def applied(written: bytes, base: bytes, *, at_most: int) -> bytes:
    """Return the document.

    Raises:
        InvalidInputError: If it is damaged, is the difference to another base, has more than `at_most` bytes, or more elements
            than a document of so many bytes may have.
    """
    head, _, tail = written[_CHECKSUM_BYTES:].partition(b"\n")
    if head.count(b"[") > at_most // ELEMENT_BYTES + 2 or not is_divisible(tail, base, at_most=at_most):
        raise InvalidInputError("has too many elements", subject="difference")
    try:
        runs = msgspec.json.decode(head, type=list[tuple[int, int, int]])
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="difference") from error
    document = _BETWEEN.join(_elements(runs, tail.split(_BETWEEN), base.split(_BETWEEN), at_most))
    if _checksum(document) != written[:_CHECKSUM_BYTES]:
        raise InvalidInputError("is damaged, or the difference to another base", subject="difference")
    return document


def _elements(runs: list[tuple[int, int, int]], new: list[bytes], old: list[bytes], at_most: int) -> list[bytes]:
    """Return the document's elements. Positions outside of a list give fewer elements, and another checksum."""
    elements = list[bytes]()
    position = taken = size = 0
    for skipped, copied, following in runs:
        start = position + skipped
        position, end = start + copied, taken + following
        found = [*old[start:position], *new[taken:end]]
        if len(elements) + len(found) > at_most // ELEMENT_BYTES:
            raise InvalidInputError("has too many elements", subject="difference")
        size += sum(map(len, found)) + len(_BETWEEN) * len(found)
        if size > at_most + len(_BETWEEN):
            raise InvalidInputError(f"is more than {at_most >> 20} MiB when decompressed", subject="difference")
        elements += found
        taken = end
    return elements


def _checksum(document: bytes) -> bytes:
    return crc32(document).to_bytes(_CHECKSUM_BYTES, "big")
