"""Sets of small integers as integers: bit i is set if i is a member, so one operation covers all members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_DIGITS: Final = bytes.maketrans(b"01", b"\0\1")


def bits(positions: Iterable[int]) -> int:
    """Return the set of these positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def positions(mask: int) -> Iterator[int]:
    """Return the members, lowest first."""
    while mask:
        lowest = mask & -mask  # two's complement: the lowest set bit alone
        yield lowest.bit_length() - 1
        mask ^= lowest


def flags_of(mask: int, length: int) -> bytes:
    """Return a set as one byte for each of `length` positions, 1 for a member, as `itertools.compress` takes it."""
    # The bit above the last position keeps leading zeros; binary digits come highest first, so they are read backwards, and
    # the slice ends before that bit.
    return f"{mask | 1 << length:b}".encode().translate(_DIGITS)[:0:-1]
