"""Finds the instance that an earlier request launched for a claim, although its answer is unknown."""

from __future__ import annotations

from adapters.store import ClaimStore
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.nodes.node_state_reader import NodeStateReader


def launched_earlier(record: ClaimRecord, reader: NodeStateReader, claims: ClaimStore) -> str:
    """Return the id of a living instance that is tagged for the claim, or free in its shared launch; empty for none."""
    tagged = reader.tagged(record.name)
    return tagged.instance_id if tagged is not None else free_of_launch(record, reader, claims)


def free_of_launch(record: ClaimRecord, reader: NodeStateReader, claims: ClaimStore) -> str:
    """Return the id of an instance of the claim's shared launch that no claim has yet; empty for none."""
    if record.shares == 1:
        return ""
    launched = (found.instance_id for found in reader.launched_with(record))
    return next((found for found in launched if claims.of_instance(found) is None), "")
