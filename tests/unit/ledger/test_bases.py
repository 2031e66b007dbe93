"""Documents of the ledger, complete and as differences."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.ledger.bases import decode_base, encode_base, encode_decision_base, needed_base
from core.ledger.digests import digest_of

BASE = b"pods: " + bytes(range(256)) * 8
NEXT = BASE + b"one more"


def test_a_complete_document_needs_no_other() -> None:
    written = encode_base(BASE)
    assert (needed_base(written), decode_base(written)) == ("", BASE)


def test_a_difference_names_its_base_and_is_small() -> None:
    written = encode_base(NEXT, BASE)
    assert (needed_base(written), decode_base(written, BASE)) == (digest_of(BASE), NEXT)
    assert len(written) < len(encode_base(NEXT))


@pytest.mark.parametrize("against", [b"", NEXT])
def test_another_base_is_refused(against: bytes) -> None:
    """Otherwise, a decision would be repeated with the pods of another day."""
    with pytest.raises(InvalidInputError):
        decode_base(encode_base(NEXT, BASE), against)


def test_a_base_of_decisions_is_a_difference_by_elements() -> None:
    written = encode_decision_base(NEXT, BASE)
    assert (needed_base(written), decode_base(written, BASE)) == (digest_of(BASE), NEXT)
