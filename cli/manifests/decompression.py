"""Decompresses input that is packed with gzip or Zstandard, whatever the file is called."""

from __future__ import annotations

import zlib
from typing import Final

from core.errors import InvalidInputError
from core.ledger.compression import DECOMPRESSED_MAX
from core.ledger.compression import decompressed as of_frames

GZIP: Final = b"\x1f\x8b"

_GZIP_HEADER: Final = 16
"""Added to the window bits: zlib then reads gzip's header and checksum."""


def decompressed(raw: bytes) -> bytes:
    """Return the content of gzip or of Zstandard.

    Raises:
        InvalidInputError: If it is damaged, ends early, or exceeds the size limit.
    """
    return _of_gzip(raw) if raw.startswith(GZIP) else of_frames(raw)


def _of_gzip(raw: bytes) -> bytes:
    """Return the content of one gzip member, or of several consecutive ones."""
    parts: list[bytes] = []
    left = DECOMPRESSED_MAX
    while raw:
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | _GZIP_HEADER)
        try:
            part = decompressor.decompress(raw, left + 1)
        except zlib.error as error:
            raise InvalidInputError(f"cannot be decompressed: {error}", subject="gzip") from error
        left -= len(part)
        if left < 0:
            raise InvalidInputError(f"is more than {DECOMPRESSED_MAX >> 20} MiB when decompressed", subject="gzip")
        if not decompressor.eof:
            raise InvalidInputError("cannot be decompressed: its end is missing", subject="gzip")
        parts.append(part)
        raw = decompressor.unused_data.lstrip(b"\0")  # gzip pads to blocks of a tape
    return b"".join(parts)
