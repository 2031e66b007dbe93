"""The decision: which nodes go now, in which order, and what keeps the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.disruption.blocked_nodes import blocked_nodes
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.fleet_cost import fleet_price
from core.disruption.methods import drift, emptiness, multi_node, repack, repair, single_node, static_drift
from core.model.plan import Command, DisruptionCost, DisruptionPlan
from core.model.snapshot import Snapshot
from core.scheduling.planner import Planner

Method = Callable[[DisruptionPass], list[Command]]

REPAIR: Final[tuple[Method, ...]] = (repair.find,)
"""Before all others, where the feature gate NodeRepair is on."""

KARPENTER: Final[tuple[Method, ...]] = (
    emptiness.find,
    static_drift.find,
    drift.find,
    multi_node.find,
    single_node.find,
)
"""Karpenter's methods in its order."""

ALL: Final[tuple[Method, ...]] = (*KARPENTER, repack.find)


def disrupt(snapshot: Snapshot, planner: Planner | None = None) -> DisruptionPlan:
    """Decide which nodes go at this moment.

    The methods are asked in their order. The commands of the first that finds any are carried out in memory, and all methods
    are asked again, until none finds a command that pays and that budgets allow. Each time at least one node goes, so the loop
    is bounded by the number of nodes. A later command may count on replacements of an earlier one, see `startable`.

    Args:
        snapshot: The cluster, the market and the records of claims at one moment.
        planner: A planner on this very snapshot, if one was made already.
    """
    disruption_pass = run(snapshot, planner)
    return DisruptionPlan(
        now=snapshot.now,
        commands=tuple(disruption_pass.commands),
        blocked=blocked_nodes(disruption_pass, snapshot),
        budgets=disruption_pass.budgets,
        cost=DisruptionCost(before=fleet_price(snapshot), after=fleet_price(disruption_pass.snapshot)),
    )


def startable(plan: DisruptionPlan) -> tuple[Command, ...]:
    """The commands that can begin at once.

    A command has to wait that moves pods to another's replacement, or takes a node to which an earlier one moves pods.
    """
    launched: set[str] = set()
    expecting: set[str] = set()
    found: list[Command] = []
    for command in plan.commands:
        targets = {move.to for move in command.moves}
        if not targets & launched and not expecting.intersection(command.nodes):
            found.append(command)
        launched.update(claim.name for claim in command.replacements)
        expecting |= targets
    return tuple(found)


def run(snapshot: Snapshot, planner: Planner | None = None) -> DisruptionPass:
    """The pass behind `disrupt`, with what it found out about each node."""
    methods = REPAIR + (KARPENTER if snapshot.options.karpenter_moves_only else ALL)
    disruption_pass = DisruptionPass(snapshot, planner)
    while not disruption_pass.is_exhausted:
        commands = next((found for method in methods if (found := method(disruption_pass))), [])
        if not commands:
            break
        disruption_pass.carry_out(commands)
    return disruption_pass
