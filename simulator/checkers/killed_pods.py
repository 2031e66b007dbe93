"""Judges terminations: a node must be drained before its instance is terminated (Karpenter, termination)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from simulator.checkers.facts import NodeFacts, PodFacts
from simulator.checkers.ledger import Ledger
from simulator.checkers.voluntary import time_is_up
from simulator.record import Event


class KilledPodsJudge:
    """Counts ready pods that were not evicted and ran on a node whose instance the functions terminated.

    Exempt are pods of DaemonSets, instances with an interruption notice, deleted Nodes, and pods whose node's
    terminationGracePeriod is over.
    """

    name = "podsKilledWithInstance"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report
        self._noticed: set[str] = set()

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        fields = event.fields
        if event.event == "interruptionNotice":
            self._noticed.add(fields["instance"])
        elif event.event == "instanceTerminated" and fields["by"] == "api" and fields["instance"] not in self._noticed:
            found = self._ledger.node_of(fields["instance"])
            if found is not None:
                self._ends(*found, moment)

    def _ends(self, name: str, node: NodeFacts, now: datetime) -> None:
        killed = [
            pod
            for pod, facts in self._ledger.pods_on(name)
            if _is_at_work(facts) and not time_is_up(self._ledger, node, facts, now)
        ]
        if killed:
            self._report(f"{', '.join(killed[:3])} ({len(killed)} in all) ran on {name}, whose instance was terminated")


def _is_at_work(pod: PodFacts) -> bool:
    return pod.is_ready and not pod.is_leaving and not pod.owner.startswith("DaemonSet/")
