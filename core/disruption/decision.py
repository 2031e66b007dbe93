"""Decides which nodes go now, in which order, and why the others stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from core.disruption import methods
from core.disruption.blocked import blocked_nodes
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.model.plan import Command, DisruptionCost, DisruptionPlan
from core.model.snapshot import Snapshot
from core.packing.settings import SearchBudget
from core.reasons.code import TargetReason
from core.scheduling.planner import Planner

Method = Callable[[DisruptionPass], list[Command]]

REPAIR: Final[tuple[Method, ...]] = (methods.find_unhealthy,)
"""Runs before all others if the feature gate NodeRepair is on."""

KARPENTER: Final[tuple[Method, ...]] = (
    methods.find_empty,
    methods.find_static_drift,
    methods.find_drifted,
    methods.find_terminate_first,
    methods.find_multi_node,
    methods.find_single_node,
)
"""Karpenter's methods in its order."""

BEFORE_THE_TARGET: Final[tuple[Method, ...]] = (methods.find_empty, methods.find_static_drift)
"""Methods whose nodes need no place for pods run first; one target decides about all other nodes."""

ROLLOUT: Final[tuple[Method, ...]] = (methods.find_drifted, methods.find_terminate_first)
"""Drift that does not go with the target precedes it: a rollout has a canary and may be stopped."""

STEPS_LEAST: Final = 40
STEPS_MOST: Final = 104
"""Default number of search steps for cheaper new nodes: one per node, from `STEPS_LEAST` to `STEPS_MOST`.

See docs/engineering/handbook/target-packing.md.

The clock only ends the search early (docs/engineering/handbook/planning.md). With more steps, new nodes cost hardly less
(docs/engineering/handbook/target-packing.md).
"""

_MINUTE: Final = 60

LEFT_FOR_THE_TARGET: Final = 0.25
"""Share of the time to the deadline that must remain to start a target: its linear program cannot be interrupted."""


def disrupt(
    snapshot: Snapshot,
    planner: Planner | None = None,
    out_of_time: Callable[[], float] | None = None,
    *,
    proves: bool = True,
    proves_continued: bool = False,
    deadline: Callable[[], float] | None = None,
) -> DisruptionPlan:
    """Decide which nodes go at this moment, or with budgets ignored, in all waves to the target.

    Under Karpenter's policy the methods run in Karpenter's order. The commands of the first method that finds any are applied
    in memory, and all methods run again, until none finds a command that pays and that budgets allow. Each round removes at
    least one node, so the number of nodes bounds the loop. A later command may rely on replacements of an earlier one, see
    `startable`. Otherwise one target decides about all nodes that are not empty (`core.disruption.target`): the stored one as
    long as it holds (`snapshot.stored_target`), else a new one; in a large cluster, one for each of its parts.

    Args:
        snapshot: The cluster, the market and the records of claims at one moment.
        planner: An existing planner of exactly this snapshot, None for a new one.
        out_of_time: Ends the search for a cheaper target early, which `options.improve_iterations` bounds; returns the elapsed
            share of its time.
        proves: Whether to compute the proven minimum cost of the fleet.
        proves_continued: Whether to compute it although the stored target is continued, too.
        deadline: Ends the decision early; returns the elapsed share of its time. Commands found before that stand, and the next
            run examines the remaining nodes.
    """
    planner = planner or Planner(snapshot)
    parts, undivided = _parts(snapshot, planner)
    if parts:
        return _in_parts(snapshot, parts, out_of_time, proves=(proves, proves_continued), deadline=deadline)
    before = fleet_price(snapshot)
    done = run(snapshot, planner, out_of_time, deadline=deadline)
    is_proven = proves and (proves_continued or done.target_reason != TargetReason.CONTINUED)
    floor = _floor(DisruptionPass(snapshot, planner, bounds_all=True)) if is_proven else None
    return DisruptionPlan(
        now=snapshot.now,
        commands=tuple(done.commands),
        blocked=blocked_nodes(done, snapshot),
        budgets=done.budgets.remaining,
        cost=DisruptionCost(before=before, after=done.price_after, lower_bound=floor),
        target=done.target,
        target_reason=done.target_reason,
        undivided=undivided,
    )


def _parts(snapshot: Snapshot, planner: Planner) -> tuple[tuple[Snapshot, ...], str]:
    """Return the parts that a cluster is planned in; none for the whole, and then why, if it is to be divided."""
    nodes_most = snapshot.options.part_nodes
    if nodes_most is None or len(snapshot.nodes) <= nodes_most:
        return (), ""
    from core.disruption.division import divided  # few clusters are that large

    division = divided(snapshot, planner.context, nodes_most)
    return division.parts, division.undivided


def _in_parts(
    snapshot: Snapshot,
    parts: Sequence[Snapshot],
    out_of_time: Callable[[], float] | None,
    *,
    proves: tuple[bool, bool],
    deadline: Callable[[], float] | None,
) -> DisruptionPlan:
    """Return the decision about all parts of a snapshot.

    Each minute begins with the next part, so that all get their turn if there is not time for all. A part whose target is
    stored takes little.
    """
    from core.disruption.division import joined_plans, left_alone

    of_target, of_continued = proves
    first = int(snapshot.now.timestamp()) // _MINUTE % len(parts)
    plans: dict[int, DisruptionPlan] = {}
    for number in (*range(first, len(parts)), *range(first)):
        if deadline is not None and deadline() >= 1 - LEFT_FOR_THE_TARGET:
            plans[number] = left_alone(parts[number])
            continue
        plans[number] = disrupt(
            parts[number], None, out_of_time, proves=of_target, proves_continued=of_continued, deadline=deadline
        )
    return joined_plans(snapshot, [plans[number] for number in range(len(parts))])


def startable(commands: Iterable[Command]) -> tuple[Command, ...]:
    """Return those of a decision's commands that can begin at once.

    A command waits if it moves pods to another's replacement, or removes a node to which an earlier one moves pods.
    """
    launched: set[str] = set()
    expecting: set[str] = set()
    starting: list[Command] = []
    for command in commands:
        targets = {move.to for move in command.moves}
        if not targets & launched and not expecting.intersection(command.nodes):
            starting.append(command)
        launched.update(claim.name for claim in command.replacements)
        expecting |= targets
    return tuple(starting)


def run(
    snapshot: Snapshot,
    planner: Planner | None = None,
    out_of_time: Callable[[], float] | None = None,
    *,
    deadline: Callable[[], float] | None = None,
) -> DisruptionPass:
    """Run the pass of `disrupt`, and return it with its findings about each node."""
    karpenter_only = snapshot.options.karpenter_moves_only
    own_methods = BEFORE_THE_TARGET if snapshot.options.ignore_budgets else BEFORE_THE_TARGET + ROLLOUT
    order = REPAIR + (KARPENTER if karpenter_only else own_methods)
    disruption_pass = DisruptionPass(snapshot, planner, deadline)
    while not disruption_pass.is_exhausted:
        commands = next((commands for method in order if (commands := method(disruption_pass))), [])
        if not commands:
            break
        disruption_pass.carry_out(commands)
    if not karpenter_only and (deadline is None or deadline() < 1 - LEFT_FOR_THE_TARGET):
        from core.disruption.target.decide import TargetDecision  # loads the solver

        steps = snapshot.options.improve_iterations
        budget = SearchBudget(default_steps(len(snapshot.nodes)) if steps is None else steps, out_of_time or deadline)
        decision = TargetDecision(disruption_pass, budget)
        commands = decision.commands()
        disruption_pass.adopt(commands)
        if not commands and not snapshot.options.ignore_budgets:
            commands = methods.find_left(disruption_pass)
            disruption_pass.carry_out(commands)
        if not commands:
            disruption_pass.adopt(decision.single())
        disruption_pass.target, disruption_pass.target_reason = decision.kept, decision.reason or ""
    elif not karpenter_only:
        disruption_pass.target = snapshot.stored_target  # the next run may have the time
    return disruption_pass


def default_steps(nodes: int) -> int:
    """Return the number of search steps for cheaper new nodes in a fleet of so many nodes."""
    return max(STEPS_LEAST, min(STEPS_MOST, nodes))


def _floor(disruption_pass: DisruptionPass) -> int:
    from core.disruption.target.search import fleet_floor  # loads the solver

    return fleet_floor(disruption_pass)
