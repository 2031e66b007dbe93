"""Decompressing input."""

from __future__ import annotations

import gzip

import pytest

from cli.manifests import decompression
from cli.manifests.decompression import decompressed
from core.errors import InvalidInputError
from core.ledger.compression import compressed

TEXT = b"kind: Pod\n" * 100


@pytest.mark.parametrize(
    "packed", [gzip.compress(TEXT), compressed(TEXT), gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:])]
)
def test_the_content_is_the_same_however_it_is_packed(packed: bytes) -> None:
    assert decompressed(packed) == TEXT


def test_nothing_is_lost_to_padding() -> None:
    assert decompressed(gzip.compress(TEXT) + b"\0" * 512) == TEXT


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (gzip.compress(TEXT)[:-1], "its end is missing"),
        (gzip.compress(TEXT)[:10] + b"\xff" * 20, "cannot be decompressed: Error"),
        (gzip.compress(TEXT) + b"rest", "cannot be decompressed: Not a gzipped file"),
    ],
)
def test_what_is_damaged_is_refused(packed: bytes, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        decompressed(packed)


def test_many_members_take_time_in_proportion_to_their_length() -> None:
    """Each member copied everything behind it, so the time grew with the square of their number."""
    assert decompressed(gzip.compress(b"") * 100_000 + gzip.compress(TEXT)) == TEXT


def test_what_expands_too_far_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "DECOMPRESSED_MAX", len(TEXT))
    assert decompressed(gzip.compress(TEXT)) == TEXT
    with pytest.raises(InvalidInputError, match="when decompressed"):
        decompressed(gzip.compress(TEXT + b"x"))
