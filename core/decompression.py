"""Reads compressed data up to a size, since a small file can expand to any size."""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import closing
from typing import Final, Protocol

from core.errors import InvalidInputError

GZIP: Final = b"\x1f\x8b"
"""The first bytes of gzip (RFC 1952)."""


class CompressedFile(Protocol):
    """A file that decompresses what is read from it, in one or several parts; `gzip` and `zstd` have such objects."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes of content, fewer only at the end. Raises EOFError if a part ends early."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def of_gzip(raw: bytes, *, at_most: int, subject: str = "gzip") -> bytes:
    """Return the content of one gzip member, or of several consecutive ones.

    Raises:
        InvalidInputError: If it is damaged, ends early, or has more than `at_most` bytes.
    """
    members = gzip.GzipFile(fileobj=io.BytesIO(raw))
    return bounded_content(members, OSError, zlib.error, at_most=at_most, subject=subject)


def bounded_content(file: CompressedFile, *failures: type[Exception], at_most: int, subject: str) -> bytes:
    """Return the content of a file, and close it.

    Args:
        file: The file; a file of the standard library takes time in proportion to its length, however many parts it has.
        failures: What it raises for damaged data.
        at_most: The most bytes of content.
        subject: What errors call the data.

    Raises:
        InvalidInputError: If the file is damaged or ends early, or if it has more content.
    """
    try:
        with closing(file):
            content = file.read(at_most + 1)
    except EOFError as error:
        raise InvalidInputError("cannot be decompressed: its end is missing", subject=subject) from error
    except failures as error:
        raise InvalidInputError(f"cannot be decompressed: {error}", subject=subject) from error
    if len(content) > at_most:
        raise InvalidInputError(f"is more than {at_most >> 20} MiB when decompressed", subject=subject)
    return content
