"""Documents round-trip, and a difference is small."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInputError
from core.ledger import compression
from core.ledger.compression import (
    ELEMENT_BYTES,
    applied,
    compressed,
    compressed_by_elements,
    decompressed,
    difference,
    is_divisible,
)

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


@pytest.mark.ci
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


# Differences by elements restore the document, or say that they cannot.


MANY: int = 1 << 20
ELEMENTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"}", b"{"]), max_size=12).map(b"},{".join)
PODS = b"[" + b",".join(b'{"name":"pod-%d","uid":"%d"}' % (n, n * 7919 % 10007) for n in range(5000)) + b"]"


@given(document=ELEMENTS, base=ELEMENTS)
def test_a_document_is_restored(document: bytes, base: bytes) -> None:
    """Otherwise, a decision would be repeated with pods that never existed."""
    assert applied(difference(document, base), base, at_most=MANY) == document


def test_what_both_have_takes_no_space() -> None:
    """Zstandard takes some 50 bytes for each 128 KiB, which were most of an entry of a large cluster."""
    assert len(difference(PODS, PODS)) < 30
    changed = PODS.replace(b'"uid":"7919"', b'"uid":"1"') + b"more"
    assert len(difference(changed, PODS)) < 120


def test_objects_in_another_order_are_found() -> None:
    elements = PODS.split(b"},{")
    moved = b"},{".join([elements[0], *elements[2501:-1], *elements[1:2501], elements[-1]])
    written = difference(moved, PODS)
    assert len(written) < 80
    assert applied(written, PODS, at_most=MANY) == moved


def test_another_base_is_refused() -> None:
    written = difference(PODS, PODS)
    with pytest.raises(InvalidInputError, match="another base"):
        applied(written, PODS[:-9], at_most=MANY)
    with pytest.raises(InvalidInputError, match="another base"):
        applied(written, PODS.replace(b"pod-4000", b"pod-0"), at_most=MANY)


@pytest.mark.parametrize("written", [b"", b"1234", b"1234{}\n", b"1234[[1]]\n", b"1234[[1,2,3]]\n", b"1234\xff\n"])
def test_what_is_damaged_is_refused(written: bytes) -> None:
    with pytest.raises(InvalidInputError):
        applied(written, PODS, at_most=MANY)


def test_a_small_difference_cannot_stand_for_a_document_of_any_size() -> None:
    """A ledger may be somebody else's."""
    runs = msgspec.json.encode([(0, 50, 0), *[(-50, 50, 0)] * 100])
    with pytest.raises(InvalidInputError, match="more than 1 MiB"):
        applied(b"1234" + runs + b"\n", b"},{".join([b"x" * 500] * 50), at_most=MANY)


LEAST = MANY // ELEMENT_BYTES


@pytest.mark.parametrize(
    ("written", "base"),
    [
        (b"1234[[0,0,1]]\n" + b"},{" * LEAST, PODS),
        (b"1234[" + b",".join([b"[0,0,0]"] * (LEAST + 2)) + b"]\n", PODS),
        (b"1234[[0,1,0]]\n", b"},{" * LEAST),
        (b"1234[[0,5000,0],[-5000,5000,0]]\n", b"},{" * 5000),
    ],
    ids=["new", "runs", "base", "copied"],
)
def test_elements_without_content_are_counted_too(written: bytes, base: bytes) -> None:
    """Each takes memory before the document's size is known: some 3,000 bytes of a ledger took 30 times the limit."""
    with pytest.raises(InvalidInputError, match="too many elements"):
        applied(written, base, at_most=MANY)


def test_as_many_elements_as_are_allowed_are_restored() -> None:
    document, base = b"},{".join([b"a"] * LEAST), b"},{".join([b"b"] * LEAST)
    assert is_divisible(document, base, at_most=MANY)
    assert not is_divisible(document + b"},{", base, at_most=MANY)
    assert applied(difference(document, base), base, at_most=MANY) == document
    elements = [b"%d" % number for number in range(LEAST)]
    document, base = b"},{".join(elements), b"},{".join(reversed(elements))
    assert applied(difference(document, base), base, at_most=MANY) == document


def test_a_document_may_be_as_long_as_the_limit() -> None:
    """Every element counts with what stands between two, so that nothing longer is put together first."""
    base = b"},{".join([b"x" * 100] * 4)
    written = difference(base, base)
    limit = 4 * ELEMENT_BYTES + 128
    assert len(base) < limit
    exact = base + b"y" * (limit - len(base))
    assert applied(difference(exact, base), base, at_most=limit) == exact
    with pytest.raises(InvalidInputError, match="when decompressed"):
        applied(difference(exact + b"y", base), base, at_most=limit)
    assert applied(written, base, at_most=limit) == base
