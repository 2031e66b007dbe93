"""A second, naive implementation of when nodes may be disrupted, to judge plans.

It shares no code with `core.disruption`. Commands are judged one after the other, each in the world after the earlier ones;
budgets are judged for all of them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from core.model.plan import Command, DisruptionPlan
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from tests.property.naive.places import is_pending
from tests.property.naive_disruption.budget_rules import (
    budget_violations,
    counted,
    eviction_violations,
    most_at_once,
    wave_violations,
)
from tests.property.naive_disruption.move_rules import (
    carried_out,
    move_violations,
    static_limit_violations,
    twice_violations,
)
from tests.property.naive_disruption.price_rules import cost_violations, may_be_merged, price_violations
from tests.property.naive_disruption.reason_rules import guards, may_not_go, pods_on, reason_violations, with_statuses
from tests.property.naive_disruption.residents import node_of

_METHODS = {
    "emptiness": "Empty", "drift": "Drifted", "static-drift": "Drifted", "single": "Underutilized",
    "terminate-first": "Drifted", "multi": "Underutilized", "repack": "Underutilized", "repair": "Unhealthy",
}  # fmt: skip

_ELSEWHERE = ("open:", "balanced:", "nominated:")


def violations(snapshot: Snapshot, plan: DisruptionPlan) -> list[str]:
    """The faults of a plan, one line each; the first word names the rule."""
    faults = [
        *budget_violations(snapshot, plan),
        *eviction_violations(snapshot, plan),
        *twice_violations(snapshot, plan),
    ]
    faults += [*_listed_once(snapshot, plan), *wave_violations(snapshot, plan)]
    world = with_statuses(snapshot)
    worlds = [world]
    static: Counter[str] = Counter()
    for number, command in enumerate(plan.commands):
        later = plan.commands[number + 1 :]
        problems = [problem for problem in _of(world, command) if not _is_excused(problem, later)]
        faults += [f"{problem} (command {number}: {command.method} {command.nodes})" for problem in problems]
        if any(problem.startswith(("lists", "names", "moves")) for problem in faults):
            return faults
        world = carried_out(world, command)
        worlds.append(world)
        static.update(claim.node_pool for claim in command.replacements if command.method == "static-drift")
    faults += static_limit_violations(snapshot, world, static)
    faults += cost_violations(snapshot, world, plan)
    return faults or list(_left_over(worlds, plan))


def _is_excused(problem: str, later: Sequence[Command]) -> bool:
    """Whether a command may have been decided in another world than the one in which it is judged.

    An earlier deletion may have been merged into a later command (`may_be_merged`). A pool's cost and the places of pending
    pods then differ; the validation before execution checks them again.
    """
    return problem.startswith(_ELSEWHERE) and any(len(command.nodes) > 1 for command in later)


def _of(world: Snapshot, command: Command) -> Iterator[str]:
    if _METHODS.get(command.method) != command.reason:
        yield f"lists: {command.method} for {command.reason}"
    if command.method == "repack" and world.options.karpenter_moves_only:
        yield "lists: only Karpenter's moves are wanted"
    yield from reason_violations(world, command)
    yield from move_violations(world, command)
    yield from price_violations(world, command)
    yield from _pending_pods(world, command)


def _pending_pods(world: Snapshot, command: Command) -> Iterator[str]:
    """Nodes that pending pods will use stay, and the new nodes that pending pods need become no more expensive."""
    if not any(is_pending(world, pod) for pod in world.pods) or command.method == "static-drift":
        return
    if may_be_merged(world, command):
        return
    before = schedule(world)
    for binding in before.bindings:
        if binding.node in command.nodes:
            yield f"nominated: {binding.pod} is about to have {binding.node}"


def _listed_once(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """Each node is disrupted once, or is blocked with a reason."""
    gone = Counter(name for command in plan.commands for name in command.nodes)
    kept = {block.node for block in plan.blocked}
    for node in snapshot.nodes:
        if gone[node.name] + (node.name in kept) != 1:
            yield f"lists: {node.name} goes {gone[node.name]} times, kept: {node.name in kept}"


def _left_over(worlds: Sequence[Snapshot], plan: DisruptionPlan) -> Iterator[str]:
    """Empty nodes that could also have gone; `worlds` are that before the plan and that after each command.

    A node that is not Ready takes a place in the budgets, and another one if it goes (Karpenter), except for repair.
    """
    snapshot, world = worlds[0], worlds[-1]
    gone = {name: command.reason for command in plan.commands for name in command.claims}
    expected: set[str] | None = None
    for claim in world.node_claims:
        node = node_of(world, claim)
        pool = next((pool for pool in world.node_pools if node and pool.name == claim.node_pool), None)
        if node is None or pool is None or claim.created_at == world.now:
            continue
        if any(may_not_go(world, node, claim, "Empty")) or any(guards(world, pod) for pod in pods_on(world, node.name)):
            continue
        nodes = counted(snapshot, pool)
        goes = [
            node for node, is_away in nodes if node.name in gone and not (is_away and gone[node.name] == "Unhealthy")
        ]
        taken = sum(is_away for _, is_away in nodes) + len(goes)
        top = most_at_once(pool, len(nodes), "Empty", world.now)
        if top is None or world.options.ignore_budgets or taken + 1 <= top:
            expected = _expected(worlds, plan) if expected is None else expected
            if node.name not in expected:
                yield f"left: {node.name} is empty and stays, {[b for b in plan.blocked if b.node == node.name]}"


def _expected(worlds: Sequence[Snapshot], plan: DisruptionPlan) -> set[str]:
    """Nodes on which pending pods were expected when empty nodes were chosen, or are in the end.

    Karpenter's policy chooses them again after every command, a target only before nodes go for drift or by choice.
    """
    chosen = [worlds[0], worlds[-1]]
    if not worlds[0].options.karpenter_moves_only:
        later = [number for number, command in enumerate(plan.commands) if command.method in ("drift", "repack")]
        chosen = [*worlds[: min(later, default=len(plan.commands)) + 1], worlds[-1]]
    return {binding.node for world in chosen for binding in schedule(world).bindings}


def expiry_violations(snapshot: Snapshot, named: tuple[str, ...]) -> list[str]:
    """Faults in the claims reported as expired: none is late, or more than a day or a tenth of its life early."""
    faults = [
        f"expiry: {name} is named twice or unknown"
        for name in named
        if [c.name for c in snapshot.node_claims].count(name) != 1
    ]
    if len(set(named)) != len(named):
        faults.append(f"expiry: {named}")
    for claim in snapshot.node_claims:
        lasting = claim.expire_after
        is_held = claim.hold is not None and claim.hold.until > snapshot.now
        if lasting is None or claim.deleted_at is not None or claim.name in snapshot.marked_for_deletion or is_held:
            if claim.name in named:
                faults.append(f"expiry: {claim.name} never expires, is going or is held")
            continue
        assert claim.created_at is not None
        age = snapshot.now - claim.created_at
        if age >= lasting and claim.name not in named:
            faults.append(f"expiry: {claim.name} is {age} old, allowed {lasting}")
        if age < lasting - min(lasting / 10, timedelta(days=1)) and claim.name in named:
            faults.append(f"expiry: {claim.name} goes too early, {age} of {lasting}")
    return faults
