"""Checks that a node is as large as what was launched for it (Karpenter, consistency checks)."""

from __future__ import annotations

from typing import Final

from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.values import resources

AT_LEAST_PERCENT: Final = 90
"""Share of the expected capacity; memory is estimated before the first boot, so slightly less is no finding (Karpenter)."""


def shortfall(record: ClaimRecord, node: Node) -> str:
    """Return the requested resources of which the node has too little, empty where it has enough of all.

    Only what the claim's pods request is compared (Karpenter). Pods planned for the missing capacity would wait for it in vain.
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
