"""Differences between two documents: where they agree, only positions are stored.

Zstandard alone takes some 50 bytes for each 128 KiB that a document repeats, 4 KB for a cluster of 1,000 nodes: as much as what
changes in a minute (docs/engineering/handbook/ledger.md).

    checksum of the document | runs | line feed | new elements

A document is divided where JSON divides the objects of an array. Each run says how many elements of the base to skip (back if
negative), how many to copy, and how many new ones follow.
"""

from __future__ import annotations

import io
from typing import Final
from zlib import crc32

import msgspec
from backports import zstd
from backports.zstd import CompressionParameter, DecompressionParameter

from core.decompression import bounded_content
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
        delta = [*old[start:position], *new[taken:end]]
        if len(elements) + len(delta) > at_most // ELEMENT_BYTES:
            raise InvalidInputError("has too many elements", subject="difference")
        size += sum(map(len, delta)) + len(_BETWEEN) * len(delta)
        if size > at_most + len(_BETWEEN):
            raise InvalidInputError(f"is more than {at_most >> 20} MiB when decompressed", subject="difference")
        elements += delta
        taken = end
    return elements


def _checksum(document: bytes) -> bytes:
    return crc32(document).to_bytes(_CHECKSUM_BYTES, "big")


# Compresses documents, optionally against a similar one, so that only the difference remains.


LEVEL: Final = 7
"""Snapshots of 1,000 nodes are a fifth smaller than with level 3, and take some 40 ms more per decision."""

WINDOW_LOG: Final = 27
"""128 MiB: document and base together must lie in one window, and a snapshot of 5,000 nodes has some 40 MB."""

DECOMPRESSED_MAX: Final = 512 << 20
"""The most bytes of a document. A snapshot of 5,000 nodes has some 40 MB, but a small frame can expand to any size."""


_DIFFERENCE: Final = b"FLWD"
"""Begins a difference by elements. Older releases write and read only frames."""


def compressed(raw: bytes, base: bytes = b"") -> bytes:
    """Return the document as a frame of Zstandard, which all releases read; with a base, only that base decompresses it."""
    options: dict[int, int] = {
        CompressionParameter.compression_level: LEVEL,
        CompressionParameter.window_log: WINDOW_LOG,
        CompressionParameter.enable_long_distance_matching: bool(base),
        CompressionParameter.checksum_flag: True,
    }
    compressor = zstd.ZstdCompressor(options=options, zstd_dict=_dictionary(base))
    return compressor.compress(raw, mode=compressor.FLUSH_FRAME)


def compressed_by_elements(raw: bytes, base: bytes) -> bytes:
    """Return the document as a difference by elements to the base; as a frame without a base, or with too many elements."""
    if not base or not is_divisible(raw, base, at_most=DECOMPRESSED_MAX):
        return compressed(raw, base)
    return _DIFFERENCE + compressed(difference(raw, base), base)


def decompressed(raw: bytes, base: bytes = b"") -> bytes:
    """Return the document in one frame, or in several consecutive frames; with a base, also from a difference to it.

    Raises:
        InvalidInputError: If it is not such a frame, is damaged, needs another base, or exceeds the size limit.
    """
    if base and raw.startswith(_DIFFERENCE):
        return applied(_content(raw[len(_DIFFERENCE) :], base), base, at_most=DECOMPRESSED_MAX)
    return _content(raw, base)


def _content(raw: bytes, base: bytes) -> bytes:
    return _of_one_frame(raw, base) or _of_any_frames(raw, base)


def _dictionary(base: bytes) -> tuple[zstd.ZstdDict, int] | None:
    return zstd.ZstdDict(base, is_raw=True).as_prefix if len(base) >= _SMALLEST else None


_SMALLEST: Final = 8
"""The fewest bytes of a dictionary (Zstandard)."""


def _of_one_frame(raw: bytes, base: bytes) -> bytes:
    """Return the document of a single intact frame that keeps to the size limit, else nothing.

    A `ZstdFile` reads anything, but copies in small parts, which takes three times as long.
    """
    options: dict[int, int] = {DecompressionParameter.window_log_max: WINDOW_LOG}
    frame = zstd.ZstdDecompressor(zstd_dict=_dictionary(base), options=options)
    try:
        content = frame.decompress(raw, max_length=DECOMPRESSED_MAX + 1)
    except zstd.ZstdError:
        return b""
    return content if frame.eof and not frame.unused_data and len(content) <= DECOMPRESSED_MAX else b""


def _of_any_frames(raw: bytes, base: bytes) -> bytes:
    options: dict[int, int] = {DecompressionParameter.window_log_max: WINDOW_LOG}
    frames = zstd.ZstdFile(io.BytesIO(raw), zstd_dict=_dictionary(base), options=options)
    return bounded_content(frames, zstd.ZstdError, at_most=DECOMPRESSED_MAX, subject="frame")
