"""The status of a CapacityBuffer."""

from __future__ import annotations

import msgspec

from core.manifests.wire.buffer import ACTIVE_CAPACITY, WireCapacityBuffer


def test_the_status_round_trips() -> None:
    status = {"replicas": 3, "unknownField": [1]}
    metadata = {"name": "b", "generation": 4}
    found = msgspec.convert({"metadata": metadata, "spec": {"replicas": 3}, "status": status}, WireCapacityBuffer)
    assert (found.status, found.metadata.generation) == (status, 4)
    assert found.spec.provisioning_strategy == ACTIVE_CAPACITY
