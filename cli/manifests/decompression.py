"""Decompresses input that is packed with gzip or Zstandard, whatever the file is called."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Final

from core.errors import InvalidInputError
from core.ledger.compression import DECOMPRESSED_MAX
from core.ledger.compression import decompressed as of_frames

GZIP: Final = b"\x1f\x8b"


def decompressed(raw: bytes) -> bytes:
    """Return the content of gzip or of Zstandard.

    Raises:
        InvalidInputError: If it is damaged, ends early, or exceeds the size limit.
    """
    return _of_gzip(raw) if raw.startswith(GZIP) else of_frames(raw)


def _of_gzip(raw: bytes) -> bytes:
    """Return the content of one gzip member, or of several consecutive ones."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as members:
            found = members.read(DECOMPRESSED_MAX + 1)
    except EOFError as error:
        raise InvalidInputError("cannot be decompressed: its end is missing", subject="gzip") from error
    except (OSError, zlib.error) as error:
        raise InvalidInputError(f"cannot be decompressed: {error}", subject="gzip") from error
    if len(found) > DECOMPRESSED_MAX:
        raise InvalidInputError(f"is more than {DECOMPRESSED_MAX >> 20} MiB when decompressed", subject="gzip")
    return found
