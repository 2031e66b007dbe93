"""Keeps one object for equal values: most memory of a large cluster would be copies."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

SHARED_MAX: Final = 16_384
"""The most shared values, a kilobyte or less each; when there are more, all are dropped."""

T = TypeVar("T")

_SHARED: dict[tuple[type, bytes], Any] = {}
_canonical: Final = msgspec.msgpack.Encoder().encode


def shared(value: T) -> T:
    """Return the first value seen with the same content, so that equal values are one object."""
    key = (type(value), _canonical(value))
    found: T | None = _SHARED.get(key)
    if found is None:
        if len(_SHARED) >= SHARED_MAX:
            _SHARED.clear()
        _SHARED[key] = found = value
    return found
