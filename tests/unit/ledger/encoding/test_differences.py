"""Differences by elements restore the document, or say that they cannot."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInputError
from core.ledger.encoding.differences import ELEMENT_BYTES, applied, difference, is_divisible

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
