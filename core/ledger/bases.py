"""Encodes the ledger's documents: complete, or as the difference to a complete one."""

from __future__ import annotations

from core.errors import InvalidInputError
from core.ledger.digests import digest_of
from core.ledger.encoding.compression import compressed, compressed_by_elements, decompressed

_DIGEST_LENGTH = len(digest_of(b""))


def encode_base(raw: bytes, against: bytes = b"") -> bytes:
    """Encode a document, as the difference to `against` if given. All releases read it."""
    return (digest_of(against) if against else "").encode().ljust(_DIGEST_LENGTH) + compressed(raw, against)


def encode_decision_base(raw: bytes, against: bytes) -> bytes:
    """Encode a document of decisions as the difference by elements to `against`, which only releases since 2 read.

    Catalogues are named by their content: a new one may replace the one that an entry of an older release needs.
    """
    return digest_of(against).encode() + compressed_by_elements(raw, against)


def needed_base(written: bytes) -> str:
    """Return the digest of the document that is needed to decode this one, empty if none is."""
    return written[:_DIGEST_LENGTH].decode("ascii", "replace").strip()


def decode_base(written: bytes, against: bytes = b"") -> bytes:
    """Decode a document.

    Raises:
        InvalidInputError: If it is damaged, or `against` is not the document that is needed.
    """
    if (digest_of(against) if against else "") != needed_base(written):
        raise InvalidInputError("is kept as the difference to another document", subject="ledger base")
    return decompressed(written[_DIGEST_LENGTH:], against)
