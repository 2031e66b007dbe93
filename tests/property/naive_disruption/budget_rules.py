"""How many nodes and pods may be disrupted at one time: NodePool budgets by the minute, PodDisruptionBudgets by the pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from core.model.node_pool import Budget, NodePool
from core.model.plan import Command, DisruptionPlan, NodeClaim
from core.model.snapshot import Snapshot
from tests.property.naive_disruption.reason_rules import evictions_allowed, guards, is_going, pods_on

_MINUTE = timedelta(minutes=1)
_MACROS = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip


def is_hit(schedule: str, at: datetime) -> bool:
    """Whether a cron schedule fires in this very minute (UTC)."""
    minute, hour, day, month, weekday = _MACROS.get(schedule, schedule).split()
    if not (_has(minute, at.minute) and _has(hour, at.hour) and _has(month, at.month)):
        return False
    on_day, on_weekday = _has(day, at.day), _has(weekday, at.isoweekday() % 7)
    if day == "*" or weekday == "*":
        return on_day and on_weekday
    return on_day or on_weekday


def _has(field: str, value: int) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first = 0 if span == "*" else int(low)
        last = 99 if span == "*" else int(high or low)
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


def in_force(budget: Budget, now: datetime) -> bool:
    """Whether the budget applies now: it has no window, or one began less than its duration ago."""
    if budget.schedule is None or budget.duration is None:
        return True
    minute = now.replace(second=0, microsecond=0)
    while minute > now - budget.duration:
        if is_hit(budget.schedule, minute):
            return True
        minute -= _MINUTE
    return False


def most_at_once(pool: NodePool, nodes: int, reason: str, now: datetime) -> int | None:
    """How many of a pool's nodes may be away at one time for a reason; None if unlimited."""
    tops = []
    for budget in pool.disruption.budgets:
        if in_force(budget, now) and (budget.reasons is None or reason in budget.reasons):
            text = budget.nodes
            tops.append(-(-nodes * int(text[:-1]) // 100) if text.endswith("%") else int(text))
    return min(tops, default=None)


def counted(snapshot: Snapshot, pool: NodePool) -> list[tuple[NodeClaim, bool]]:
    """The nodes that a pool's budgets count: initialized at some time; and whether each is already away."""
    states = []
    for node in snapshot.nodes:
        for claim in snapshot.node_claims:
            if claim.provider_id != node.provider_id or node.labels.get("karpenter.sh/nodepool") != pool.name:
                continue
            ending = claim.conditions.get("InstanceTerminating")
            if node.labels.get("karpenter.sh/initialized") == "true" and (ending is None or ending.status != "True"):
                states.append((claim, is_going(snapshot, claim) or not node.is_ready))
    return states


def budget_violations(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """Every command that takes more nodes of a NodePool than its budgets allow for the command's reason."""
    if snapshot.options.ignore_budgets:
        return
    claims = {claim.name: claim for claim in snapshot.node_claims}
    for pool in snapshot.node_pools:
        nodes = counted(snapshot, pool)
        taken: list[str] = []
        for command in plan.commands:
            taken_here = [name for name in command.claims if name in {claim.name for claim, _ in nodes}]
            taken += taken_here
            away = {claim.name for claim, gone in nodes if gone} | set(taken)
            if command.reason == "Unhealthy":  # a node that is only not Ready does not use the budget of repair up
                away = {claim.name for claim, _ in nodes if is_going(snapshot, claims[claim.name])} | set(taken)
            top = most_at_once(pool, len(nodes), command.reason, snapshot.now)
            if taken_here and top is not None and len(away) > top:
                yield f"budget: {len(away)} nodes of {pool.name} are away with {taken_here}, {top} may be for {command.reason}"


def eviction_violations(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """Every PodDisruptionBudget that the drains of one wave exceed together.

    One node alone drains as slowly as needed, and so do the nodes of one command that share new nodes.
    """
    for wave in sorted({command.wave for command in plan.commands}):
        voluntary = [c for c in plan.commands if c.wave == wave and c.reason != "Unhealthy"]  # a repair forces pods off
        drain_of = {name: _drain(command, name) for command in voluntary for name in command.nodes}
        for budget in snapshot.budgets:
            members = [
                (pod.key, drain)
                for node, drain in sorted(drain_of.items())
                for pod in pods_on(snapshot, node)
                if budget in guards(snapshot, pod)
            ]
            granted = evictions_allowed(snapshot, budget)
            if len({drain for _, drain in members}) > 1 and len(members) > granted:
                yield f"evictions: {budget.name} grants {granted}, {members} go together in wave {wave}"


def _drain(command: Command, node: str) -> str:
    """The first node of those that evict pods in turn with this one."""
    takes_turns = command.method == "multi" or (command.method == "repack" and command.replacements)
    return command.nodes[0] if takes_turns else node


def wave_violations(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """Faults of a sequence of waves: order, pods that move twice, nodes that leave and receive pods, budgets.

    With budgets ignored, budgets still limit each wave that they allow at all; empty nodes and static pools go at once.
    """
    waves = [command.wave for command in plan.commands]
    if waves != sorted(waves) or any(wave < 1 for wave in waves):
        yield f"waves: {waves} are not in order"
    if not snapshot.options.ignore_budgets:
        if set(waves) - {1}:
            yield f"waves: {waves}, though only what goes now is asked for"
        return
    target_commands = [command for command in plan.commands if command.method in ("repack", "drift")]
    moved = [move.pod for command in target_commands for move in command.moves]
    if not snapshot.options.karpenter_moves_only:
        yield from (
            f"waves: {pod} moves {moved.count(pod)} times" for pod in sorted({p for p in moved if moved.count(p) > 1})
        )
        gone = {name for command in target_commands for name in command.nodes}
        yield from (
            f"waves: {move.pod} moves to {move.to}, which goes"
            for c in target_commands
            for move in c.moves
            if move.to in gone
        )
        yield from _wave_budgets(snapshot, plan)


def _wave_budgets(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    claims = {claim.name: claim for claim in snapshot.node_claims}
    for pool in snapshot.node_pools:
        present = {claim.name for claim, _ in counted(snapshot, pool)}
        for wave in sorted({command.wave for command in plan.commands}):
            commands = [c for c in plan.commands if c.wave == wave and c.method in ("repack", "drift")]
            going = [name for c in commands for name in c.claims if claims[name].node_pool == pool.name]
            tops = [most_at_once(pool, len(present), c.reason, snapshot.now) for c in commands]
            most = max((top or len(going) for top in tops), default=0)
            if wave > 1 and len(going) > most:
                yield f"waves: {len(going)} nodes of {pool.name} go in wave {wave}, {most} may of {len(present)}"
            of_wave = [c for c in plan.commands if c.wave == wave]
            present |= {new.name for c in of_wave for new in c.replacements if new.node_pool == pool.name}
            present -= {name for c in of_wave for name in c.claims}
