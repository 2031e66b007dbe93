"""Compresses documents, optionally against a similar one, so that only the difference remains."""

from __future__ import annotations

import io
from typing import Final

from backports import zstd
from backports.zstd import CompressionParameter, DecompressionParameter

from core.decompression import bounded_content
from core.ledger.encoding.differences import applied, difference, is_divisible

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
        found = frame.decompress(raw, max_length=DECOMPRESSED_MAX + 1)
    except zstd.ZstdError:
        return b""
    return found if frame.eof and not frame.unused_data and len(found) <= DECOMPRESSED_MAX else b""


def _of_any_frames(raw: bytes, base: bytes) -> bytes:
    options: dict[int, int] = {DecompressionParameter.window_log_max: WINDOW_LOG}
    frames = zstd.ZstdFile(io.BytesIO(raw), zstd_dict=_dictionary(base), options=options)
    return bounded_content(frames, zstd.ZstdError, at_most=DECOMPRESSED_MAX, subject="frame")
