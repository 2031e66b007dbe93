"""Entries of the ledger: a header that is read alone, and the documents to repeat the decision."""

from __future__ import annotations

import msgspec
import pytest

from core.errors import InvalidInputError
from core.ledger.entry import (
    SCHEMA_VERSION,
    LedgerDocuments,
    LedgerEntry,
    decode_documents,
    decode_entry,
    encode_entry,
)
from tests.builders import NOW

EMPTY = {"catalogue": "c", "base": "", "plan_digest": "p", "what": "nothing to do", "reason": ""}
DOCUMENTS = LedgerDocuments(snapshot=b"snapshot" * 40, plan=b"plan")


def an_entry() -> LedgerEntry:
    return LedgerEntry(id="i", at=NOW, cluster="prod", function="provision", version="1.0.0", **EMPTY)


def test_the_header_is_read_alone_and_the_documents_with_their_base() -> None:
    entry = an_entry()
    raw = encode_entry(entry, DOCUMENTS, b"base")
    assert (decode_entry(raw), decode_documents(raw, b"base")) == (entry, DOCUMENTS)


def test_a_newer_schema_is_refused_by_name() -> None:
    """Fields that this release does not know might have decided."""
    newer: LedgerEntry = msgspec.structs.replace(an_entry(), schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(InvalidInputError, match="newer release"):
        decode_entry(encode_entry(newer, DOCUMENTS, b""))


def test_a_header_without_a_schema_is_of_release_1() -> None:
    """Release 1 left the default out."""
    assert an_entry().schema_version == 1
    assert decode_entry(encode_entry(an_entry(), DOCUMENTS, b"")).schema_version == 1


@pytest.mark.parametrize("length", [0, 3, 12])
def test_a_part_of_an_entry_is_refused(length: int) -> None:
    with pytest.raises(InvalidInputError):
        decode_entry(encode_entry(an_entry(), DOCUMENTS, b"")[:length])
