"""Judges limits of NodePools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from core.model.values import resources
from simulator.checkers.ledger import Ledger
from simulator.record import Event

CapacityOf = Callable[[str], Mapping[str, int]]
"""Capacity of an instance type by name."""


def exceeded(ledger: Ledger, capacity_of: CapacityOf, pool: str, launched: str) -> list[str]:
    """Return the names of the limits that one more instance of the type exceeds.

    Nodes that are being disrupted do not count.
    """
    limits = ledger.spec_of("NodePool", pool).get("limits") or {}
    if not limits:
        return []
    going = {node.instance for node in ledger.nodes.values() if node.disrupted_for is not None}
    types = [launched] + [
        facts.instance_type
        for name, facts in ledger.instances.items()
        if facts.pool == pool and facts.ended_at is None and name not in going
    ]
    used = resources.add({"nodes": len(types)}, *(capacity_of(name) for name in types))
    tops = resources.parse(limits)
    return [
        f"{used[name]} {name}, its limit is {tops[name]}" for name in sorted(tops) if used.get(name, 0) > tops[name]
    ]


class LimitJudge:
    """Counts launches that take a NodePool over one of its limits."""

    name = "limitViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None], capacity_of: CapacityOf) -> None:
        self._ledger = ledger
        self._report = report
        self._capacity_of = capacity_of

    def see(self, moment: datetime, event: Event) -> None:  # noqa: ARG002 - the same for every judge
        """Judge one event; the ledger holds the world as it was before."""
        if event.event != "instanceLaunched":
            return
        pool = event.fields["tags"].get("karpenter.sh/nodepool", "")
        for found in exceeded(self._ledger, self._capacity_of, pool, event.fields["instanceType"]):
            self._report(f"NodePool {pool} has {found}")
