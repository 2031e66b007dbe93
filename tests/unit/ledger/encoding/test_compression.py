"""Documents round-trip, and a difference is small."""

from __future__ import annotations

import tracemalloc

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInputError
from core.ledger.encoding import compression
from core.ledger.encoding.compression import compressed, compressed_by_elements, decompressed

BASE = b"".join(b"pod-%d on node-%d, " % (n * 7919 % 10007, n % 83) for n in range(5000))


@given(raw=st.binary(max_size=200), base=st.binary(max_size=64))
def test_a_document_round_trips(raw: bytes, base: bytes) -> None:
    """Otherwise, a decision is replayed from an input that never existed."""
    assert decompressed(compressed(raw, base), base) == raw


@given(raw=st.binary(max_size=200), base=st.binary(max_size=64))
def test_a_difference_by_elements_round_trips(raw: bytes, base: bytes) -> None:
    assert decompressed(compressed_by_elements(raw, base), base) == raw


def test_the_smallest_base_is_one_for_writer_and_reader() -> None:
    """Frames of releases that use a base of eight bytes are read by all that do, and such a base does make them smaller."""
    base = b"bbaaabbb"
    written = compressed(base * 16, base)
    assert decompressed(written, base) == base * 16
    assert written != compressed(base * 16)
    with pytest.raises(InvalidInputError):
        decompressed(written)


def test_a_document_of_very_many_elements_is_stored_as_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader refuses a difference of so many, so the writer must not write one."""
    raw = b"},{".join([b"a"] * 5000)
    monkeypatch.setattr(compression, "DECOMPRESSED_MAX", len(raw) + 99)
    assert decompressed(compressed_by_elements(raw, b"a base"), b"a base") == raw
    assert decompressed(compressed_by_elements(b"a document", raw), raw) == b"a document"


def test_older_releases_read_a_frame_with_a_base() -> None:
    """Catalogues are named by their content, so a new one replaces the one that an older release wrote."""
    prefix = zstd.ZstdDict(BASE, is_raw=True).as_prefix
    options = {zstd.DecompressionParameter.window_log_max: compression.WINDOW_LOG}
    assert zstd.decompress(compressed(BASE + b"tail", BASE), prefix, options) == BASE + b"tail"


def test_a_single_frame_is_read_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file needs a second dictionary of the whole base."""
    written = compressed(BASE)
    monkeypatch.setattr(compression.zstd, "ZstdFile", None)
    assert decompressed(written) == BASE


def test_the_difference_to_a_base_is_small() -> None:
    changed = BASE.replace(b"pod-7919 ", b"pod-0 ") + b"one more"
    assert len(compressed(changed, BASE)) * 100 < len(compressed(changed))


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-7], lambda raw: b"\0" + raw[1:], lambda raw: raw[:9] + b"!" + raw[10:]]
)
def test_a_damaged_frame_is_reported(damage: object) -> None:
    written = compressed(BASE)
    with pytest.raises(InvalidInputError, match="cannot be decompressed"):
        decompressed(damage(written))  # type: ignore[operator]


def test_a_frame_cannot_be_read_with_another_base() -> None:
    """Otherwise, a decision seems to be another one."""
    written = compressed(BASE + b"tail", BASE)
    with pytest.raises(InvalidInputError):
        decompressed(written, BASE[::-1])


@pytest.mark.parametrize("base", [b"", b"x" * 7, b"x" * 8, BASE])
def test_a_difference_is_read_with_its_base_alone(base: bytes) -> None:
    """A base of fewer than eight bytes is no dictionary, so the frame inside can be read without it."""
    written = compressed_by_elements(b'[{"a":1},{"b":2}]', base)
    assert decompressed(written, base) == b'[{"a":1},{"b":2}]'
    if base:
        with pytest.raises(InvalidInputError, match="cannot be decompressed"):
            decompressed(written)


def test_a_frame_that_stands_for_far_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's snapshot of 130 KB could otherwise take all memory."""
    monkeypatch.setattr(compression, "DECOMPRESSED_MAX", len(BASE))
    assert decompressed(compressed(BASE)) == BASE
    with pytest.raises(InvalidInputError, match="when decompressed"):
        decompressed(compressed(BASE + b"!"))
    with pytest.raises(InvalidInputError, match="when decompressed"):
        decompressed(compressed(BASE) + compressed(b"!"))


def test_several_frames_are_one_document() -> None:
    """Tools that compress in parallel write such files."""
    assert decompressed(compressed(b"one ") + compressed(b"two")) == b"one two"


def test_many_frames_take_time_in_proportion_to_their_number() -> None:
    """Each frame copied everything behind it."""
    assert decompressed(compressed(b"") * 100_000 + compressed(b"one")) == b"one"


def test_a_frame_with_its_base_and_one_of_the_largest_size_are_read_without_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, whole = compressed(BASE + b"tail", BASE), compressed(BASE)
    monkeypatch.setattr(compression.zstd, "ZstdFile", None)
    assert decompressed(written, BASE) == BASE + b"tail"
    monkeypatch.setattr(compression, "DECOMPRESSED_MAX", len(BASE))
    assert decompressed(whole) == BASE


def test_a_frame_that_stands_for_far_more_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused when the limit is reached, not after all of it lies in memory."""
    bomb = compressed(bytes(32 << 20))
    monkeypatch.setattr(compression, "DECOMPRESSED_MAX", 1000)
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match="when decompressed"):
        decompressed(bomb)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 << 20
