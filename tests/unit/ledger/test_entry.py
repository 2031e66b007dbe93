"""Entries of the ledger: a header that is read alone, and the documents to repeat the decision."""

from __future__ import annotations

import json

import msgspec
import pytest

from core.errors import InvalidInputError
from core.ledger.encoding.compression import decompressed
from core.ledger.entry import (
    SCHEMA_VERSION,
    LedgerDocuments,
    LedgerEntry,
    LedgerPart,
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


def test_a_part_of_an_entry_is_refused() -> None:
    """Of any length, and in words that say so: what is cut off within the header is no damaged frame."""
    raw = encode_entry(an_entry(), DOCUMENTS, b"")
    end = end_of_header(raw)
    for length in range(end):
        with pytest.raises(InvalidInputError, match="only a part of one"):
            decode_entry(raw[:length])
    assert decode_entry(raw[:end]) == an_entry()
    with pytest.raises(InvalidInputError, match="cannot be decompressed"):
        decode_documents(raw[:-1], b"")


def test_what_is_no_entry_is_refused_in_the_same_words() -> None:
    raw = encode_entry(an_entry(), DOCUMENTS, b"")
    with pytest.raises(InvalidInputError, match="is not an entry of a ledger"):
        decode_entry(b"X" + raw[1:])


def test_a_header_has_only_what_differs_from_the_defaults() -> None:
    """A busy cluster writes a thousand entries a day; readers of older releases know no other form."""
    raw = encode_entry(an_entry(), DOCUMENTS, b"")
    assert json.loads(decompressed(raw[8 : end_of_header(raw)])) == {
        "id": "i",
        "at": NOW.isoformat().replace("+00:00", "Z"),
        "cluster": "prod",
        "function": "provision",
        "version": "1.0.0",
        "catalogue": "c",
        "base": "",
        "planDigest": "p",
        "what": "nothing to do",
        "reason": "",
    }


def end_of_header(raw: bytes) -> int:
    """Four bytes of a mark, four of the header's length, the header."""
    return 8 + int.from_bytes(raw[4:8], "big")


def test_an_entry_of_this_releases_schema_is_read() -> None:
    """The number is part of every stored entry: raised without need, older releases refuse what they could read."""
    assert SCHEMA_VERSION == 2
    entry = msgspec.structs.replace(an_entry(), schema_version=SCHEMA_VERSION)
    assert decode_entry(encode_entry(entry, DOCUMENTS, b"")) == entry


def test_an_entry_adds_to_the_bill_what_its_parts_do() -> None:
    parts = tuple(LedgerPart(id=str(n), reason="Launched", hourly=hourly) for n, hourly in enumerate((7, -2, 0)))
    assert msgspec.structs.replace(an_entry(), parts=parts).hourly == 5
    assert an_entry().hourly == 0
