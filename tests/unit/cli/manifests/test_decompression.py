"""Decompressing input."""

from __future__ import annotations

import gzip

import pytest

from cli.manifests import decompression
from cli.manifests.decompression import decompressed
from core.errors import InvalidInputError
from core.ledger.encoding.compression import compressed

TEXT = b"kind: Pod\n" * 100


@pytest.mark.parametrize(
    "packed", [gzip.compress(TEXT), compressed(TEXT), gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:])]
)
def test_the_content_is_the_same_however_it_is_packed(packed: bytes) -> None:
    assert decompressed(packed) == TEXT


def test_nothing_is_lost_to_padding() -> None:
    assert decompressed(gzip.compress(TEXT) + b"\0" * 512) == TEXT


def test_what_expands_too_far_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "DECOMPRESSED_MAX", len(TEXT))
    assert decompressed(gzip.compress(TEXT)) == TEXT
    with pytest.raises(InvalidInputError, match="when decompressed"):
        decompressed(gzip.compress(TEXT + b"x"))
