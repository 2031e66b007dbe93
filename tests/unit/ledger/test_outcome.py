"""Outcomes of decisions, as they are stored."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.ledger.outcome import (
    DecisionOutcome,
    OutcomeState,
    approval_part,
    catalogue_digest,
    decision_id,
    decode_outcomes,
    encode_outcomes,
    market_digests,
)
from core.model.catalogue import Catalogue
from tests.builders import NOW, a_type

# Digests by which the ledger names documents.


SMALL, LARGE = (a_type(name) for name in ("m5.large", "m5.xlarge"))


def test_equal_catalogues_have_one_digest_in_any_order_of_classes() -> None:
    one, other = Catalogue((SMALL,), {"a": (LARGE,), "b": ()}), Catalogue((SMALL,), {"b": (), "a": (LARGE,)})
    assert catalogue_digest(one) == catalogue_digest(other)
    assert len(market_digests(one)) == 3


def test_another_type_or_class_changes_the_digest() -> None:
    """An entry whose catalogue looked unchanged would be repeated with other prices."""
    catalogues = [
        Catalogue((SMALL,), {}),
        Catalogue((LARGE,), {}),
        Catalogue((SMALL,), {"a": (LARGE,)}),
        Catalogue((SMALL,), {"b": (LARGE,)}),
    ]
    assert len(set(map(catalogue_digest, catalogues))) == len(catalogues)


def test_an_id_of_a_decision_depends_on_every_part() -> None:
    parts = ("prod", "provision", "2026-01-01T00:00:00Z")
    ids = {decision_id(*parts, b"plan"), decision_id(*parts, b"other"), decision_id("test", *parts[1:], b"plan")}
    assert {len(one) for one in ids} == {10}
    assert len(ids) == 3


def test_outcomes_are_read_as_they_were_written() -> None:
    found = [DecisionOutcome(decision="d", part=approval_part("c"), state=OutcomeState.DONE, at=NOW, reason="Approved")]
    assert decode_outcomes(encode_outcomes(found)) == found


def test_an_approval_is_not_the_end_of_its_command() -> None:
    """Otherwise, an approved command would count as carried out, with its saving."""
    assert approval_part("c") != "c"


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff", b'[{"decision": 1}]'])
def test_what_is_no_outcome_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInputError):
        decode_outcomes(raw)
