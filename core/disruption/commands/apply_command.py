"""Applies commands to a snapshot: removes their nodes, moves their pods, adds their replacements as ready nodes."""

from __future__ import annotations

from typing import Final

import msgspec

from core import labels
from core.disruption.prices import ReplacementOptions
from core.model import node_claim
from core.model.node import Node
from core.model.node_claim import Condition, NodeClaim
from core.model.plan import Command, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.storage import EBS_DRIVER
from core.model.values.requirements import Requirement

_READY: Final = (node_claim.LAUNCHED, node_claim.REGISTERED, node_claim.INITIALIZED, node_claim.CONSOLIDATABLE)


def carried_out(snapshot: Snapshot, *commands: Command) -> Snapshot:
    """Return the snapshot with the commands' effects, as far as later decisions depend on them.

    No command moves pods to the nodes or replacements of another. Removed nodes no longer count as room, so the result says
    nothing about budgets. Each replacement becomes its cheapest offering, ready to take more pods.
    """
    going = {name for command in commands for name in command.nodes}
    claims = {name for command in commands for name in command.claims}
    target = {move.pod: move.to for command in commands for move in command.moves}
    started = [joined(claim, snapshot) for command in commands for claim in command.replacements]
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(moved for pod in snapshot.pods if (moved := _moved(pod, going, target)) is not None),
        nodes=(*(node for node in snapshot.nodes if node.name not in going), *(node for _, node in started)),
        node_claims=(
            *(claim for claim in snapshot.node_claims if claim.name not in claims),
            *(claim for claim, _ in started),
        ),
    )


def _moved(pod: Pod, going: set[str], target: dict[str, str]) -> Pod | None:
    if pod.node_name not in going:
        return pod
    place = target.get(pod.key)
    return None if place is None else msgspec.structs.replace(pod, node_name=place)


def joined(planned: PlannedClaim, snapshot: Snapshot) -> tuple[NodeClaim, Node]:
    """Return the claim and the node that the cheapest offering would become."""
    instance_type, offerings = ReplacementOptions.of(planned, snapshot).types[0]
    offering = min(offerings, key=lambda o: (o.price, o.zone, o.capacity_type))
    own = {
        **planned.labels,
        **{key: values[0] for key, values in instance_type.labels.items() if len(values) == 1},
        **{r.key: r.values[0] for r in planned.requirements if _is_single(r)},
        labels.NODEPOOL: planned.node_pool,
        labels.INSTANCE_TYPE: instance_type.name,
        labels.ZONE: offering.zone,
        labels.CAPACITY_TYPE: offering.capacity_type,
        **offering.reservation_labels(),
    }
    provider_id = f"planned:///{planned.name}"
    claim = NodeClaim(
        name=planned.name,
        labels=own,
        taints=planned.taints,
        startup_taints=planned.startup_taints,
        requirements=planned.requirements,
        resources=planned.resources,
        node_class=planned.node_class,
        created_at=snapshot.now,
        provider_id=provider_id,
        node_name=planned.name,
        capacity=instance_type.capacity,
        allocatable=instance_type.allocatable(),
        conditions={name: Condition("True", changed_at=snapshot.now) for name in _READY},
    )
    node = Node(
        name=planned.name,
        provider_id=provider_id,
        labels={**own, labels.HOSTNAME: planned.name, labels.REGISTERED: "true", labels.INITIALIZED: "true"},
        taints=planned.taints,
        capacity=instance_type.capacity,
        allocatable=instance_type.allocatable(),
        created_at=snapshot.now,
        is_ready=True,
        attach_limits={EBS_DRIVER: instance_type.attach_limit} if instance_type.attach_limit is not None else {},
    )
    return claim, node


def _is_single(requirement: Requirement) -> bool:
    return requirement.is_finite and len(requirement.values) == 1
