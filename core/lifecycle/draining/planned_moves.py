"""Recognizes new nodes for pods whose move is planned already: consolidation takes no node whose pods have no other place."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from core.lifecycle.draining.cancellation import CONSOLIDATION
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.plan import Plan, PlannedClaim
from core.model.pod import Pod


def without_planned_moves(
    plan: Plan, pods: Iterable[Pod], records: Iterable[ClaimRecord], commands: Iterable[CommandRecord]
) -> Plan:
    """Return the plan without new nodes that serve only pods which consolidation moves.

    The command found room for them, or launches what they need. A second plan packs the same pods otherwise, and the command
    may not have stored its own new nodes yet. A pod that finds no place once it is evicted waits, and is planned like others.

    Args:
        plan: A plan for waiting pods, and for those of all nodes that are leaving.
        pods: The pods that it was made for, among others.
        records: The claims.
        commands: The commands under way.
    """
    going = {
        record.node_name
        for record in records
        if record.deletion is not None and record.deletion.reason in CONSOLIDATION
    }
    started = [found.command for found in commands if found.has_started and found.command.reason in CONSOLIDATION]
    going.update(node for command in started for node in command.nodes)
    moving = frozenset(pod.key for pod in pods if pod.node_name and pod.node_name in going)
    kept = tuple(claim for claim in plan.claims if not _serves_only(claim, moving))
    return plan if len(kept) == len(plan.claims) else msgspec.structs.replace(plan, claims=kept)


def _serves_only(claim: PlannedClaim, moving: Collection[str]) -> bool:
    return bool(claim.pods) and not claim.buffer_pods and all(pod in moving for pod in claim.pods)
