"""Launches: never two instances for one claim or token, never more than a NodePool's limits admit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from core.model.values import resources
from simulator.checkers.ledger import CLAIM, Ledger
from simulator.record import Event

CapacityOf = Callable[[str], Mapping[str, int]]


class DoubleLaunchJudge:
    """Counts instances that another one already stands for: the same token, or the same claim while that one lives."""

    name = "doubleLaunches"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:  # noqa: ARG002 - the same for every judge
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "instanceLaunched":
            token = event.fields["clientToken"]
            if token and any(i.token == token for i in self._ledger.instances.values()):
                self._report(f"{event.fields['instance']} is the second instance for token {token}")
        if event.event in ("instanceLaunched", "instanceTagged"):
            self._check_claim(event.fields["instance"], event.fields["tags"].get(CLAIM, ""))

    def _check_claim(self, instance: str, claim: str) -> None:
        own = self._ledger.instances.get(instance)
        if not claim or (own is not None and own.claim == claim):
            return
        for other, facts in self._ledger.instances.items():
            if other != instance and facts.claim == claim and facts.ended_at is None:
                self._report(f"{instance} and {other} both stand for claim {claim}")


class LimitJudge:
    """Counts launches that take a NodePool over one of its limits. Nodes that are being disrupted do not count."""

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
        limits = self._ledger.spec_of("NodePool", pool).get("limits") or {}
        if limits:
            self._check(pool, resources.parse(limits), event.fields["instanceType"])

    def _check(self, pool: str, limits: Mapping[str, int], launched: str) -> None:
        going = {n.instance for n in self._ledger.nodes.values() if n.disrupted_for is not None}
        types = [launched] + [
            facts.instance_type
            for name, facts in self._ledger.instances.items()
            if facts.pool == pool and facts.ended_at is None and name not in going
        ]
        used = resources.add({"nodes": len(types)}, *(self._capacity_of(name) for name in types))
        for name in sorted(limits):
            if used.get(name, 0) > limits[name]:
                self._report(f"NodePool {pool} has {used[name]} {name}, its limit is {limits[name]}")
