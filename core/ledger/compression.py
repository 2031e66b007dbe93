"""Compresses documents, optionally against a similar one, so that only the difference remains."""

from __future__ import annotations

from typing import Final

from backports import zstd
from backports.zstd import CompressionParameter, DecompressionParameter

from core.errors import InvalidInputError

LEVEL: Final = 7
"""A fifth smaller than level 3 on snapshots of 1,000 nodes, for some 40 ms more a decision."""

WINDOW_LOG: Final = 27
"""128 MiB: document and base together must lie in one window, and a snapshot of 5,000 nodes has some 40 MB."""

DECOMPRESSED_MAX: Final = 512 << 20
"""Bytes of a document: a snapshot of 5,000 nodes has some 40 MB, and 130 KB of zeros can stand for any number."""


def compressed(raw: bytes, base: bytes = b"") -> bytes:
    """The document as a frame of Zstandard; with a base, a frame that only that base opens."""
    options: dict[int, int] = {
        CompressionParameter.compression_level: LEVEL,
        CompressionParameter.window_log: WINDOW_LOG,
        CompressionParameter.enable_long_distance_matching: int(bool(base)),
        CompressionParameter.checksum_flag: 1,
    }
    compressor = zstd.ZstdCompressor(options=options, zstd_dict=_dictionary(base))
    return compressor.compress(raw, mode=compressor.FLUSH_FRAME)


def decompressed(raw: bytes, base: bytes = b"") -> bytes:
    """The document behind one frame, or behind several in a row.

    Raises:
        InvalidInputError: If it is no such frame, is damaged, was made with another base, or is longer than a document can be.
    """
    parts: list[bytes] = []
    left = DECOMPRESSED_MAX
    while raw or not parts:
        decompressor = zstd.ZstdDecompressor(
            zstd_dict=_dictionary(base), options={DecompressionParameter.window_log_max: WINDOW_LOG}
        )
        try:
            part = decompressor.decompress(raw, max_length=left + 1)
        except zstd.ZstdError as error:
            raise InvalidInputError(f"cannot be decompressed: {error}", subject="frame") from error
        left -= len(part)
        if left < 0:
            raise InvalidInputError(f"is more than {DECOMPRESSED_MAX >> 20} MiB when decompressed", subject="frame")
        if not decompressor.eof:
            raise InvalidInputError("cannot be decompressed: its end is missing", subject="frame")
        parts.append(part)
        raw = decompressor.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _dictionary(base: bytes) -> tuple[zstd.ZstdDict, int] | None:
    return zstd.ZstdDict(base, is_raw=True).as_prefix if len(base) >= _SMALLEST else None


_SMALLEST: Final = 8
"""A dictionary has at least so many bytes (Zstandard)."""
