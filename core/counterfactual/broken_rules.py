"""Checks the commands of a simulation against the rules, independently of the code that decided them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from core.disruption.budgets.node_pool_budgets import concerns, is_active, limit
from core.errors import InvalidInputError
from core.model.node_pool import NodePool
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.reasons.termination import TerminationReason

BUDGET = "Budget"
POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
DO_NOT_DISRUPT = "DoNotDisrupt"


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule that a command would have violated: which rule, of which object, and when."""

    at: datetime
    rule: str
    subject: str


def broken_rules(commands: Sequence[Command], snapshot: Snapshot) -> tuple[BrokenRule, ...]:
    """Return what these commands, carried out together, violate: budgets, PodDisruptionBudgets, do-not-disrupt.

    Windows and limits of budgets are read by the same code as in decisions; the nodes are counted separately here.
    """
    found = [*_budgets(commands, snapshot), *_pod_budgets(commands, snapshot), *_protected(commands, snapshot)]
    return tuple(BrokenRule(snapshot.now, rule, subject) for rule, subject in sorted(set(found)))


def _budgets(commands: Iterable[Command], snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    pools = {pool.name: pool for pool in snapshot.node_pools}
    pool_of = {claim.name: claim.node_pool for claim in snapshot.node_claims}
    present = Counter(pool_of.values())
    going = Counter((pool_of[name], command.reason) for command in commands for name in command.claims)
    for (pool, reason), number in sorted(going.items()):
        if any(number > most for most in _limits(pools[pool], present[pool], reason, snapshot.now)):
            yield BUDGET, f"NodePool {pool}"


def _limits(pool: NodePool, nodes: int, reason: str, now: datetime) -> Iterable[int]:
    for budget in pool.disruption.budgets:
        try:
            if concerns(budget, reason) and is_active(budget, now):
                yield limit(budget, nodes)
        except InvalidInputError:
            yield 0


def _pod_budgets(commands: Iterable[Command], snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    pods = {pod.key: pod for pod in snapshot.pods}
    moved = [pods[move.pod] for command in commands for move in command.moves if move.pod in pods]
    for budget in snapshot.budgets:
        number = sum(budget.selects(pod) and not budget.exempts(pod) for pod in moved)
        if budget.disruptions_allowed is not None and number > budget.disruptions_allowed:
            yield POD_DISRUPTION_BUDGET, f"{budget.namespace}/{budget.name}"


def _protected(commands: Iterable[Command], snapshot: Snapshot) -> Iterable[tuple[str, str]]:
    """Yield protected nodes and pods; drift may drain them if a terminationGracePeriod bounds the drain (Karpenter)."""
    claims = {claim.name: claim for claim in snapshot.node_claims}
    nodes = {node.name: node for node in snapshot.nodes}
    for command in commands:
        bounded = all(claims[name].termination_grace_period is not None for name in command.claims)
        if command.reason == TerminationReason.DRIFTED and bounded:
            continue
        for name in command.nodes:
            if name in nodes and nodes[name].blocks_disruption(snapshot.now):
                yield DO_NOT_DISRUPT, f"node {name}"
        for pod in snapshot.pods:
            if pod.node_name in command.nodes and pod.blocks_disruption(snapshot.now):
                yield DO_NOT_DISRUPT, f"pod {pod.key}"
