"""The snapshot joined with the table: claims, commands, nominations, and pods on claims that are launched for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from adapters.observation.current_hashes import with_current_class_hash, with_current_pool_hash
from adapters.observation.expected_pods import is_requested, with_expected_pods
from core.lifecycle.draining.replacing import awaits_replacements
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord
from core.lifecycle.view import node_claim, requested_claim
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.overlay import CapacityBuffer
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.pods.disposition import is_reschedulable


def with_own_state(
    snapshot: Snapshot,
    records: tuple[ClaimRecord, ...],
    commands: tuple[CommandRecord, ...],
    *,
    nominated_until: dict[str, datetime],
    moved_workloads: dict[str, MovedWorkload],
    evicted_nodes: dict[str, EvictedNode],
) -> Snapshot:
    """Return the snapshot with our claims, the claims that commands remove, and pods bound to claims being launched for them.

    Those are pending pods, and pods on a node that is leaving or that a command is removing, for which the claim is the
    replacement. They use the claim's room and count in its zone as soon as it is stored.
    """
    removed = frozenset(name for command in commands if command.has_started for name in command.command.claims)
    leaving = frozenset(r.node_name for r in records if r.node_name and (r.deletion is not None or r.name in removed))
    consolidate_after = {pool.name: pool.disruption.consolidate_after for pool in snapshot.node_pools}
    requested = [r.plan for r in records if r.phase is ClaimPhase.REQUESTED and r.deletion is None]
    virtual = {pod for plan in requested for pod in plan.buffer_pods}
    joined = msgspec.structs.replace(
        snapshot,
        buffers=tuple(_without_requested(buffer, virtual) for buffer in snapshot.buffers),
        node_claims=tuple(
            requested_claim(record, snapshot.now)
            if is_requested(record)
            else node_claim(record, _consolidate_after(record, consolidate_after), snapshot.now)
            for record in records
            if record.machine is not None or is_requested(record)
        ),
        node_pools=tuple(with_current_pool_hash(pool) for pool in snapshot.node_pools),
        node_classes=tuple(with_current_class_hash(found) for found in snapshot.node_classes),
        marked_for_deletion=tuple(sorted(removed)),
        nominated_until=nominated_until,
        moved_workloads=moved_workloads,
        evicted_nodes=evicted_nodes,
    )
    return with_expected_pods(joined, records, removed, leaving)


def _consolidate_after(record: ClaimRecord, consolidate_after: Mapping[str, timedelta | None]) -> timedelta | None:
    return consolidate_after.get(record.plan.node_pool)


def displaced_pods(records: Iterable[ClaimRecord], pods: Iterable[Pod]) -> dict[str, tuple[str, ...]]:
    """Return the pods that must move, by the claim whose drain may wait for their replacements."""
    claims = {record.node_name: record.name for record in records if record.node_name and awaits_replacements(record)}
    found: dict[str, list[str]] = {name: [] for name in sorted(claims.values())}
    for pod in pods:
        if pod.node_name in claims and is_reschedulable(pod):
            found[claims[pod.node_name]].append(pod.key)
    return {name: tuple(sorted(keys)) for name, keys in found.items()}


def _without_requested(buffer: CapacityBuffer, requested: Collection[str]) -> CapacityBuffer:
    """Return the buffer without the pods whose launch is in progress."""
    own = f"{buffer.namespace}/"
    names = (key.removeprefix(own) for key in requested if key.startswith(own))
    return msgspec.structs.replace(buffer, requested=tuple(sorted(names)))
