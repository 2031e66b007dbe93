"""Decompressing up to a size."""

from __future__ import annotations

import gzip
from io import BytesIO

import pytest

from core.decompression import bounded_content, of_gzip
from core.errors import InvalidInputError

TEXT = b"kind: Pod\n" * 100


@pytest.mark.parametrize("ends", [(), (300,), (0, 300, 300, 999)])
def test_consecutive_parts_are_one_content(ends: tuple[int, ...]) -> None:
    pieces = zip((0, *ends), (*ends, len(TEXT)), strict=True)
    packed = b"".join(gzip.compress(TEXT[start:end]) + b"\0" * 3 for start, end in pieces)
    assert of_gzip(packed, at_most=len(TEXT)) == TEXT


@pytest.mark.parametrize("parts", [1, 2])
def test_all_parts_together_are_bounded(parts: int) -> None:
    """Otherwise, a small file takes all memory."""
    piece = len(TEXT) // parts
    packed = b"".join(gzip.compress(TEXT[at : at + piece]) for at in range(0, len(TEXT), piece))
    with pytest.raises(InvalidInputError, match="catalogue: is more than 0 MiB when decompressed"):
        of_gzip(packed, at_most=len(TEXT) - 1, subject="catalogue")


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (gzip.compress(TEXT)[:-1], "its end is missing"),
        (gzip.compress(TEXT)[:10] + b"\xff" * 20, "Error"),
        (gzip.compress(TEXT) + b"rest", "Not a gzipped file"),
    ],
)
def test_what_is_damaged_is_refused(packed: bytes, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=f"gzip: cannot be decompressed: {problem}"):
        of_gzip(packed, at_most=len(TEXT))


def test_many_members_take_time_in_proportion_to_their_number() -> None:
    """Each member copied everything behind it: two MiB of empty ones took minutes."""
    assert of_gzip(gzip.compress(b"") * 100_000 + gzip.compress(TEXT), at_most=len(TEXT)) == TEXT


def test_a_file_is_closed() -> None:
    file = BytesIO(TEXT)
    assert bounded_content(file, at_most=len(TEXT), subject="text") == TEXT
    assert file.closed
