"""Clusters of a few nodes for the tests of disruption."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from core import labels
from core.disruption.validation import Validation
from core.model.node_pool import Budget, Disruption
from core.model.plan import DRIFTED, Command, Condition, DisruptionPlan, NodeClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import Node, Options, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type

SMALL, MIDDLE, LARGE = (a_type(f"t-{cpu}", cpu=str(cpu), price=cpu / 20) for cpu in (1, 4, 16))
TYPES = (SMALL, MIDDLE, LARGE)
ON_DEMAND = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
OPEN = Disruption(budgets=(Budget("100%"),))
KARPENTER = Options(karpenter_moves_only=True)


def checked(command: Command, snapshot: Snapshot) -> Command | Refusal:
    """The command if it may start now, or the reason why it may not."""
    checked_command = Validation([command], snapshot).check(command)
    return checked_command if isinstance(checked_command, Refusal) else checked_command.command


def pod_on(node: str, name: str = "", *, cpu: str = "500m", **changes: Any) -> Pod:
    """A pod of a ReplicaSet that runs on the node."""
    fields = {
        "node_name": node,
        "phase": "Running",
        "is_ready": True,
        "owners": (Owner("ReplicaSet", "web"),),
        **changes,
    }
    return a_pod(name or f"on-{node}", cpu=cpu, memory="64Mi", **fields)


def world(*pairs: tuple[NodeClaim, Node], pods: tuple[Pod, ...] = (), **changes: Any) -> Snapshot:
    """A cluster of these nodes in one on-demand pool with ample budgets."""
    fields: dict[str, Any] = {
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "node_pools": (a_pool("default", ON_DEMAND, disruption=OPEN),),
        "pods": pods,
        **changes,
    }
    return a_snapshot(types=TYPES, **fields)


def drifted(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node, marked as drifted."""
    claim, node = pair
    conditions = {**claim.conditions, DRIFTED: Condition("True", "NodePoolDrifted", changed_at=NOW)}
    return msgspec.structs.replace(claim, conditions=conditions), node


def expiring(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node, an hour before it expires."""
    claim, node = pair
    lasting = timedelta(days=30)
    return msgspec.structs.replace(claim, created_at=NOW - lasting + timedelta(hours=1), expire_after=lasting), node


def blocked(plan: DisruptionPlan) -> dict[str, str]:
    """Node → the code of what blocks it."""
    return {block.node: block.reason for block in plan.blocked}
