"""Field names of Kubernetes objects."""

from __future__ import annotations

import msgspec

from core.manifests.wire.object_metadata import WireCondition, WireMetadata


def test_kubernetes_spelling_on_the_wire_and_ours_in_the_code() -> None:
    found = msgspec.convert(
        {
            "name": "p",
            "deletionTimestamp": "2026-11-20T00:00:00Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r"}],
        },
        WireMetadata,
        strict=False,
    )
    assert found.deletion_timestamp is not None
    assert found.owner_references[0].kind == "ReplicaSet"
    assert msgspec.to_builtins(WireCondition("Ready"))["lastTransitionTime"] is None
