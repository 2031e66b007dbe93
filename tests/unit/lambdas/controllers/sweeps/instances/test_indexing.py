"""Claims of a table that is older than the index of instances."""

from __future__ import annotations

from tests.fakes.lab import Lab


def test_claims_older_than_the_index_are_found_by_their_instances(lab: Lab) -> None:
    """Otherwise, a spot interruption of such an instance is ignored, and its pods die with it."""
    lab.rows.unindexed.add(lab.claim.instance_id)
    assert lab.app.adapters.stores.claims.of_instance(lab.claim.instance_id) is None
    lab.reconcile()
    assert lab.app.adapters.stores.claims.of_instance(lab.claim.instance_id) == lab.claim
