"""The form in which snapshots are stored."""

from __future__ import annotations

import msgspec

from core import labels
from core.ledger.written_form import decode_catalogue, encode_catalogue, read_form, written_form
from core.model.catalogue import Catalogue
from tests.builders import a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type()


def test_a_snapshot_is_read_as_it_was_with_its_catalogue() -> None:
    snapshot = a_snapshot(types=(TYPE,), pods=(a_pod("a"),))
    assert TYPE.name.encode() not in written_form(snapshot)
    assert read_form(written_form(snapshot), snapshot.catalogue) == snapshot


def test_of_a_nodes_annotations_only_what_decisions_read_is_kept() -> None:
    """Annotations may hold secrets, and a changed one that no decision reads would make each snapshot new."""
    claim, node = a_node_of(TYPE, "n")
    annotated = msgspec.structs.replace(
        node, annotations={labels.DO_NOT_DISRUPT: "true", "example.com/token": "secret"}
    )
    written = written_form(a_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(annotated,)))
    (found,) = read_form(written, Catalogue()).nodes
    assert found.annotations == {labels.DO_NOT_DISRUPT: "true"}


def test_a_catalogue_is_a_document_of_its_own() -> None:
    catalogue = Catalogue((TYPE,), {"default": (TYPE,)})
    assert decode_catalogue(encode_catalogue(catalogue)) == catalogue
