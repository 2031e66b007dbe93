"""The decision: which nodes go now, in which order, and what keeps the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.disruption.blocked_nodes import blocked_nodes
from core.disruption.disruption_pass import Round
from core.disruption.fleet_cost import fleet_price
from core.disruption.methods import drift, emptiness, multi_node, repack, repair, single_node, static_drift
from core.model.plan import Command, DisruptionCost, DisruptionPlan
from core.model.snapshot import Snapshot
from core.scheduling.planner import Planner

Method = Callable[[Round], list[Command]]

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

    The first method that finds something ends a pass, its commands are carried out in memory, and the next pass looks
    again: until nothing more is worth it or within the budgets. Later commands may count on replacements of earlier ones,
    see `startable`. Each pass takes at least one node, so their number is bounded by that of the nodes.

    Args:
        snapshot: The world as it was looked at.
        planner: A planner on this very snapshot, if one was made already.
    """
    plan_round = run(snapshot, planner)
    return DisruptionPlan(
        now=snapshot.now,
        commands=tuple(plan_round.commands),
        blocked=blocked_nodes(plan_round, snapshot),
        budgets=plan_round.budgets,
        cost=DisruptionCost(before=fleet_price(snapshot), after=fleet_price(plan_round.snapshot)),
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


def run(snapshot: Snapshot, planner: Planner | None = None) -> Round:
    """The round behind `disrupt`, for those who also want to know why."""
    methods = REPAIR + (KARPENTER if snapshot.options.karpenter_moves_only else ALL)
    plan_round = Round(snapshot, planner)
    while not plan_round.is_exhausted:
        commands = next((found for method in methods if (found := method(plan_round))), [])
        if not commands:
            break
        plan_round.carry_out(commands)
    return plan_round
