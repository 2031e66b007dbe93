"""Pods that a launched claim is for: planned once, and not anew at each look while its node boots.

A plan is tighter than what a later plan finds when it places the same pods one by one onto the nodes under way: planned
again, some would not fit any more, and each look of a burst would launch a few nodes on top.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.snapshot import Snapshot


def awaits_pods(record: ClaimRecord) -> bool:
    """Whether pods wait for its node: it was launched for them and its node is not initialized yet."""
    boots = record.phase in (ClaimPhase.LAUNCHED, ClaimPhase.REGISTERED) and record.deletion is None
    return boots and bool(record.plan.pods)


def with_expected_pods(snapshot: Snapshot, records: Iterable[ClaimRecord]) -> Snapshot:
    """The snapshot with these pods bound to their claims, as they will be; pods that are bound elsewhere stay there.

    Once the node is initialized the scheduler has the word: what it does not bind there is planned for again.
    """
    nodes = {node.provider_id: node.name for node in snapshot.nodes if node.provider_id}
    waiting = {record.name: nodes.get(record.provider_id, record.name) for record in records if awaits_pods(record)}
    node_of = {pod: waiting[record.name] for record in records if record.name in waiting for pod in record.plan.pods}
    if not node_of:
        return snapshot
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(
            msgspec.structs.replace(pod, node_name=node_of[pod.key])
            if not pod.node_name and pod.key in node_of
            else pod
            for pod in snapshot.pods
        ),
        node_claims=tuple(
            msgspec.structs.replace(claim, node_name=waiting[claim.name]) if claim.name in waiting else claim
            for claim in snapshot.node_claims
        ),
    )
