"""Removes from a plan the places of pods that consolidation moves: its commands already have places for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from core.lifecycle.draining.cancellation import CONSOLIDATION
from core.lifecycle.records import ClaimRecord, CommandRecord, Deletion
from core.model.plan import Plan, PlannedClaim
from core.model.pod import Pod


def without_planned_moves(
    plan: Plan, pods: Iterable[Pod], records: Iterable[ClaimRecord], commands: Iterable[CommandRecord]
) -> Plan:
    """Return the plan without places of pods that consolidation moves, and without new nodes that serve only these.

    The command found room for them or launches new nodes, which it may not have stored yet. A second plan may pack the same
    pods differently, and would nominate nodes for pods that go elsewhere. An evicted pod that finds no place waits, and is
    planned like other pods.

    Args:
        plan: A plan for waiting pods, and for those of all nodes that are leaving.
        pods: The pods that it was made for, among others.
        records: The claims.
        commands: The running commands.
    """
    going = {
        record.node_name for record in records if record.deletion is not None and _is_consolidated(record.deletion)
    }
    started = [found.command for found in commands if found.has_started and found.command.reason in CONSOLIDATION]
    going.update(node for command in started for node in command.nodes)
    moving = frozenset(pod.key for pod in pods if pod.node_name and pod.node_name in going)
    claims = tuple(claim for claim in plan.claims if not _serves_only(claim, moving))
    bindings = tuple(binding for binding in plan.bindings if binding.pod not in moving)
    return msgspec.structs.replace(plan, claims=claims, bindings=bindings) if moving else plan


def _is_consolidated(deletion: Deletion) -> bool:
    """Whether only consolidation removes the node. If AWS takes it too, its pods get a plan of their own."""
    return deletion.reason in CONSOLIDATION and deletion.ends_at is None


def _serves_only(claim: PlannedClaim, moving: Collection[str]) -> bool:
    return bool(claim.pods) and not claim.buffer_pods and all(pod in moving for pod in claim.pods)
