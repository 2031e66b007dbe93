"""Compresses documents, optionally against a similar one, so that only the difference remains."""

from __future__ import annotations

from typing import Final

from backports import zstd
from backports.zstd import CompressionParameter, DecompressionParameter

from core.errors import InvalidInputError

LEVEL: Final = 7
"""Snapshots of 1,000 nodes are a fifth smaller than with level 3, and take some 40 ms more per decision."""

WINDOW_LOG: Final = 27
"""128 MiB: document and base together must lie in one window, and a snapshot of 5,000 nodes has some 40 MB."""

DECOMPRESSED_MAX: Final = 512 << 20
"""The most bytes of a document. A snapshot of 5,000 nodes has some 40 MB, but a small frame can expand to any size."""

FRAMES_MAX: Final = 4096
"""The most frames of a document: each copies what follows it. Ours have one, packed by several threads one for each few MiB."""


def compressed(raw: bytes, base: bytes = b"") -> bytes:
    """Return the document as a frame of Zstandard; with a base, only that base decompresses it."""
    options: dict[int, int] = {
        CompressionParameter.compression_level: LEVEL,
        CompressionParameter.window_log: WINDOW_LOG,
        CompressionParameter.enable_long_distance_matching: int(bool(base)),
        CompressionParameter.checksum_flag: 1,
    }
    compressor = zstd.ZstdCompressor(options=options, zstd_dict=_dictionary(base))
    return compressor.compress(raw, mode=compressor.FLUSH_FRAME)


def decompressed(raw: bytes, base: bytes = b"") -> bytes:
    """Return the document in one frame, or in several consecutive frames.

    Raises:
        InvalidInputError: If it is not such a frame, is damaged, needs another base, or exceeds the size limit.
    """
    parts: list[bytes] = []
    left = DECOMPRESSED_MAX
    for _ in range(FRAMES_MAX):
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
        if not raw:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise InvalidInputError(f"has more than {FRAMES_MAX} frames", subject="frame")


def _dictionary(base: bytes) -> tuple[zstd.ZstdDict, int] | None:
    return zstd.ZstdDict(base, is_raw=True).as_prefix if len(base) >= _SMALLEST else None


_SMALLEST: Final = 8
"""The fewest bytes of a dictionary (Zstandard)."""
