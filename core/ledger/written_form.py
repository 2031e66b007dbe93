"""Reduces a snapshot to the form stored in the ledger: everything that decisions depend on, and nothing else."""

from __future__ import annotations

from typing import Final

import msgspec

from core import codec, labels
from core.model.catalogue import Catalogue
from core.model.node import Node
from core.model.snapshot import Snapshot

NODE_ANNOTATIONS: Final = (labels.DO_NOT_DISRUPT,)
"""Annotations of nodes that decisions depend on. Annotations of pods are already reduced when they are read."""


def written_form(snapshot: Snapshot) -> bytes:
    """Return the snapshot without its catalogue and without annotations that no decision reads."""
    nodes = tuple(_thinned(node) for node in snapshot.nodes)
    return codec.encode_snapshot(msgspec.structs.replace(snapshot, nodes=nodes, catalogue=Catalogue()))


def read_form(raw: bytes, catalogue: Catalogue) -> Snapshot:
    """Return the snapshot that was written, with its catalogue.

    Raises:
        InvalidInputError: If it cannot be read.
    """
    return msgspec.structs.replace(codec.decode_snapshot(raw), catalogue=catalogue)


def encode_catalogue(catalogue: Catalogue) -> bytes:
    """Encode the catalogue as a separate document."""
    return msgspec.json.encode(catalogue, order="sorted")


def decode_catalogue(raw: bytes) -> Catalogue:
    """Decode a catalogue."""
    return msgspec.json.decode(raw, type=Catalogue)


def _thinned(node: Node) -> Node:
    kept = {key: node.annotations[key] for key in NODE_ANNOTATIONS if key in node.annotations}
    return node if kept == node.annotations else msgspec.structs.replace(node, annotations=kept)
