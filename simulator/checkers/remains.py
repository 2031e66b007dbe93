"""Judges a settled world: no unfinished work, nothing forgotten, and correct counters.

It reads the table's rows as plain JSON, and interprets them independently of the functions' code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from simulator.checkers.facts import PodFacts
from simulator.checkers.ledger import Ledger
from simulator.checkers.pod_disruption_budgets import PodDisruptionBudgetJudge
from simulator.checkers.voluntary import is_protected

UNDER_WAY_MAX: Final = timedelta(minutes=30)
"""How long one step of a claim or command may take: a launch is abandoned after 15 minutes; the rest is a margin to act."""

PENDING_MAX: Final = timedelta(minutes=12)
"""How long a pod may wait for a node, or for the reason why there is none, in a world without faults."""

Row = Mapping[str, Any]
Report = Callable[[str, str], None]


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """The state at the end of a run.

    Attributes:
        claims, commands: The table's records, as JSON.
        usage: NodePool → counter → amount. `disrupting` counts leaving nodes; names of the others begin with `r:`.
        dead_letters: Queue → the number of messages in its dead-letter queue.
        explained: Pods with an event that explains why they have no node.
        failures: Exceptions of handlers, with tracebacks.
    """

    claims: Sequence[Row]
    commands: Sequence[Row]
    usage: Mapping[str, Mapping[str, int]]
    dead_letters: Mapping[str, int]
    explained: frozenset[str]
    failures: Sequence[str]


class RemainsJudge:
    """Judges the final state. Violations go to `report(law, message)`; `patience` is how long a step may take."""

    def __init__(
        self, ledger: Ledger, remains: Remains, report: Report, *, patience: timedelta = UNDER_WAY_MAX
    ) -> None:
        self._ledger = ledger
        self._remains = remains
        self._report = report
        self._patience = patience

    def finish(self, now: datetime) -> None:
        """Judge the current state."""
        self._claims(now)
        self._commands(now)
        self._counters()
        self._instances(now)
        self._taints(now)
        self._pods(now)
        self._replicas()
        for queue, count in sorted(self._remains.dead_letters.items()):
            if count:
                self._report("deadLetters", f"{count} messages of the queue {queue} were given up")
        for failure in sorted({failure.rstrip().rpartition("\n")[2] for failure in self._remains.failures}):
            if not failure.startswith("adapters.ports."):
                self._report("handlerErrors", failure)

    def is_at_rest(self, now: datetime) -> bool:
        """Whether no drain waits for a pod that may not be evicted, which would be retried."""
        return not any(claim.get("deletion") and self._is_held(claim, now) for claim in self._remains.claims)

    def _claims(self, now: datetime) -> None:
        for claim in self._remains.claims:
            deletion = claim.get("deletion")
            if deletion is None and claim.get("phase", "requested") == "initialized":
                continue
            since = _moment(claim["phase_since"] if deletion is None else deletion["asked_at"])
            if now - since > self._patience and not self._is_held(claim, now):
                state = f"going for {deletion['reason']}" if deletion else claim.get("phase", "requested")
                self._report("stuckClaims", f"claim {claim['name']} is {state} since {since:%H:%M:%S}")

    def _is_held(self, claim: Row, now: datetime) -> bool:
        """Whether a pod on the claim's node may not be evicted, or is leaving: then the claim may wait."""
        budgets = PodDisruptionBudgetJudge(self._ledger, lambda _: None)
        return any(
            is_protected(pod, now) or budgets.forbids(pod) or pod.is_leaving
            for _, pod in self._ledger.pods_on(str(claim.get("node_name", "")))
        )

    def _commands(self, now: datetime) -> None:
        for command in self._remains.commands:
            since = _moment(command["created_at"])
            if now - since > self._patience:
                self._report(
                    "stuckCommands", f"command {command['id']} is {command.get('phase')} since {since:%H:%M:%S}"
                )

    def _counters(self) -> None:
        """Check that each counter is the sum over the claims."""
        wanted: dict[str, dict[str, int]] = {}
        for claim in self._remains.claims:
            sums = wanted.setdefault(claim["plan"]["node_pool"], {})
            for name, amount in (claim.get("reserved") or {}).items():
                sums[f"r:{name}"] = sums.get(f"r:{name}", 0) + amount
            sums["disrupting"] = sums.get("disrupting", 0) + bool(claim.get("is_disrupting"))
        for pool in sorted({*wanted, *self._remains.usage}):
            counted, summed = self._remains.usage.get(pool, {}), wanted.get(pool, {})
            for name in sorted({*counted, *summed}):
                if counted.get(name, 0) != summed.get(name, 0):
                    message = (
                        f"NodePool {pool}: {name} counts {counted.get(name, 0)}, its claims hold {summed.get(name, 0)}"
                    )
                    self._report("usageCounters", message)

    def _instances(self, now: datetime) -> None:
        """Check that every instance has a claim, and that every claim and every node has an instance."""
        alive = {name for name, facts in self._ledger.instances.items() if facts.ended_at is None}
        claimed = {(claim.get("machine") or {}).get("instance_id", "") for claim in self._remains.claims} - {""}
        old = {name for name in alive if now - self._ledger.instances[name].launched_at > self._patience}
        for name in sorted(old - claimed):
            self._report("instancesWithoutClaim", f"{name} runs, and no claim knows of it")
        for claim in self._remains.claims:
            instance = (claim.get("machine") or {}).get("instance_id", "")
            ended = self._ledger.instances[instance].ended_at if instance in self._ledger.instances else None
            if ended is not None and now - ended > self._patience:
                self._report(
                    "claimsWithoutInstance", f"claim {claim['name']} stands for {instance}, ended {ended:%H:%M:%S}"
                )
        for name, node in sorted(self._ledger.nodes.items()):
            facts = self._ledger.instances.get(node.instance)
            if facts is not None and facts.ended_at is not None and now - facts.ended_at > self._patience:
                self._report(
                    "nodesWithoutInstance", f"node {name} is there, its instance ended {facts.ended_at:%H:%M:%S}"
                )

    def _taints(self, now: datetime) -> None:
        going = {claim.get("node_name", "") for claim in self._remains.claims if claim.get("deletion") is not None}
        going |= {node for command in self._remains.commands for node in _nodes_of(command)}
        for name, node in sorted(self._ledger.nodes.items()):
            since = node.disrupted_at
            if since is not None and name not in going and now - since > self._patience:
                self._report("strayTaints", f"node {name} is tainted for {node.disrupted_for} since {since:%H:%M:%S}")

    def _replicas(self) -> None:
        """Check that a static NodePool has its replicas, as far as its limits allow; leaving nodes do not count."""
        for pool in self._ledger.of_kind("NodePool"):
            name, spec = pool["metadata"]["name"], pool.get("spec") or {}
            if spec.get("replicas") is None:
                continue
            wanted = min(spec["replicas"], int((spec.get("limits") or {}).get("nodes", spec["replicas"])))
            going = {node.instance for node in self._ledger.nodes.values() if node.disrupted_for is not None}
            staying = sum(
                facts.pool == name and facts.ended_at is None and instance not in going
                for instance, facts in self._ledger.instances.items()
            )
            if staying != wanted:
                self._report("staticReplicas", f"NodePool {name} has {staying} nodes that stay, wanted {wanted}")

    def _pods(self, now: datetime) -> None:
        for name, pod in sorted(self._ledger.pods.items()):
            waited = now - pod.created_at
            if _is_pending(pod) and waited > min(PENDING_MAX, self._patience) and name not in self._remains.explained:
                self._report("unexplainedPending", f"{name} waits since {pod.created_at:%H:%M:%S} and was not told why")


def _is_pending(pod: PodFacts) -> bool:
    return not (pod.node or pod.is_finished or pod.is_leaving or pod.owner.startswith("DaemonSet/"))


def _nodes_of(command: Row) -> Iterator[str]:
    yield from (command.get("command") or {}).get("nodes") or ()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
