"""Checks that a node has the capacity that was planned for it (Karpenter, consistency checks)."""

from __future__ import annotations

from typing import Final

from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.values import resources

AT_LEAST_PERCENT: Final = 90
"""Share of the expected capacity; memory is estimated before the first boot, so slightly less is no finding (Karpenter)."""


def shortfall(record: ClaimRecord, node: Node) -> str:
    """Return the requested resources that the node has too little of, empty if it has enough.

    Only the requests of the claim's pods are compared (Karpenter). Pods that were planned for the missing capacity find no
    room.
    """
    expected = record.machine.capacity if record.machine is not None else {}
    missing = [
        name
        for name, asked in sorted(record.plan.resources.items())
        if asked > 0 and node.capacity.get(name, 0) * 100 < expected.get(name, 0) * AT_LEAST_PERCENT
    ]
    found = (
        f"{resources.render({name: node.capacity.get(name, 0)})[name]} of {name} where "
        f"{resources.render({name: expected[name]})[name]} was expected"
        for name in missing
    )
    return f"node {node.name} has {', '.join(found)}" if missing else ""
