"""Reads the machine of shared libraries, and removes their symbol tables.

Wheels contain symbol tables for debuggers, 3 MB in numpy's alone; the dynamic linker reads only segments. `strip` would do, but
not every laptop has one for other architectures.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

MACHINE_OF: Final = {"arm64": 183, "x86_64": 62}
"""Lambda's architectures → e_machine (System V ABI)."""

_MAGIC: Final = b"\x7fELF\x02\x01"
"""64 bits, little-endian: the only form that Lambda runs."""

_MACHINE_AT, _SEGMENTS_AT, _SECTIONS_AT, _SEGMENT_SIZE_AT, _SECTION_COUNT_AT = 0x12, 0x20, 0x28, 0x36, 0x3C
_OFFSET_IN_HEADER: Final = 0x08
"""Offsets of fields in the header of the file, and in that of a segment."""


class _Segment(NamedTuple):
    """A program header: its position, and the part of the file that it describes."""

    header: int
    offset: int
    size: int
    alignment: int


def libraries(folder: Path) -> list[Path]:
    """Return the shared libraries in a folder, sorted."""
    paths = (path for path in sorted(folder.rglob("*.so*")) if path.is_file())
    return [path for path in paths if machine(path.read_bytes()) is not None]


def machine(content: bytes) -> int | None:
    """Return the machine (`e_machine`) of a library; None for another kind of file."""
    return int(struct.unpack_from("<H", content, _MACHINE_AT)[0]) if content.startswith(_MAGIC) else None


def without_symbols(content: bytes) -> bytes:
    """Return the library without the parts outside of segments. The segments keep their offsets modulo their alignment."""
    segments = sorted(_segments(content), key=lambda segment: segment.offset)
    alignment = max(segment.alignment for segment in segments)
    made, copied, cut = bytearray(), 0, 0
    offsets: dict[int, int] = {}
    for segment in segments:
        gap = max(segment.offset - copied, 0)
        kept = gap % alignment
        made += content[copied : copied + kept]
        copied, cut = copied + gap, cut + gap - kept
        offsets[segment.header] = segment.offset - cut
        end = segment.offset + segment.size
        made += content[copied:end]
        copied = max(copied, end)
    for header, offset in offsets.items():
        struct.pack_into("<Q", made, header + _OFFSET_IN_HEADER, offset)
    struct.pack_into("<Q", made, _SECTIONS_AT, 0)
    struct.pack_into("<HH", made, _SECTION_COUNT_AT, 0, 0)
    return bytes(made)


def _segments(content: bytes) -> list[_Segment]:
    (start,) = struct.unpack_from("<Q", content, _SEGMENTS_AT)
    size, count = struct.unpack_from("<HH", content, _SEGMENT_SIZE_AT)
    segments = []
    for header in range(start, start + size * count, size):
        _, _, offset, _, _, length, _, alignment = struct.unpack_from("<IIQQQQQQ", content, header)
        segments.append(_Segment(header, offset, length, alignment))
    return segments
