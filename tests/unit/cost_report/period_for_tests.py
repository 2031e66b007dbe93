"""Instances and snapshots of a period."""

from __future__ import annotations

from datetime import timedelta

from core.ledger.outcome import InstanceLife
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

HOUR = timedelta(hours=1)


TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1)


def a_life(instance: str = "i-node-1", *, hours: float | None = None, price: int = 100_000_000) -> InstanceLife:
    return InstanceLife(
        instance=instance,
        claim=f"claim-of-{instance}",
        node_pool="default",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        price=price,
        launched_at=NOW,
        ended_at=None if hours is None else NOW + hours * HOUR,
    )


def a_look(*, hours: float = 0, **changes: object) -> Snapshot:
    claim, node = a_node_of(TYPE)
    pods = (
        a_pod("a", cpu="2", memory="1Gi", namespace="shop", node_name="node-1"),
        a_pod("b", cpu="1", memory="1Gi", namespace="data", node_name="node-1"),
    )
    fields = {"now": NOW + hours * HOUR, "node_claims": (claim,), "nodes": (node,), "pods": pods}
    return a_snapshot(types=(TYPE,), **{**fields, **changes})
