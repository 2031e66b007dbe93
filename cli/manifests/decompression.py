"""Decompresses input that is packed with gzip or Zstandard, whatever the file is called."""

from __future__ import annotations

from core.decompression import GZIP, of_gzip
from core.ledger.compression import DECOMPRESSED_MAX
from core.ledger.compression import decompressed as of_frames


def decompressed(raw: bytes) -> bytes:
    """Return the content of gzip or of Zstandard.

    Raises:
        InvalidInputError: If it is damaged, ends early, or exceeds the size limit.
    """
    return of_gzip(raw, at_most=DECOMPRESSED_MAX) if raw.startswith(GZIP) else of_frames(raw)
