"""Digests by which the ledger names documents."""

from __future__ import annotations

from core.ledger.digests import catalogue_digest, decision_id, market_digests
from core.model.catalogue import Catalogue
from tests.builders import a_type

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
