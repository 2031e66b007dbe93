"""Judges the annotation `karpenter.sh/do-not-disrupt`: voluntary disruption removes no pod that carries it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from simulator.checkers.facts import NodeFacts, PodFacts
from simulator.checkers.ledger import Ledger
from simulator.checkers.voluntary import is_protected, is_voluntary, time_is_up
from simulator.record import Event


class DoNotDisruptJudge:
    """Counts protected pods that voluntary disruption evicted, deleted, or ended with their instance."""

    name = "doNotDisruptViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "podEvicted" and event.fields["by"] in ("eviction", "forced"):
            pod = self._ledger.pods.get(event.fields["pod"])
            if pod is not None and not pod.is_leaving:
                self._check(event.fields["pod"], pod, self._ledger.nodes.get(pod.node), moment)
        elif event.event == "instanceTerminated" and event.fields["by"] == "api":
            found = self._ledger.node_of(event.fields["instance"])
            for name, pod in self._ledger.pods_on(found[0]) if found is not None else ():
                if found is not None and not pod.is_leaving:
                    self._check(name, pod, found[1], moment)

    def _check(self, name: str, pod: PodFacts, node: NodeFacts | None, now: datetime) -> None:
        if node is None or not is_voluntary(node) or not is_protected(pod, now):
            return
        if not time_is_up(self._ledger, node, pod, now):
            self._report(f"{name} is marked do-not-disrupt and went for {node.disrupted_for}")
