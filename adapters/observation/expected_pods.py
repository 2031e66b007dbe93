"""Binds pods to the stored or launched claim planned for them, so that they are not planned again while its node boots.

A plan packs pods more tightly than a later plan that places them one by one onto the launching nodes. If they were planned
again, some would not fit, and each run of a burst would launch additional nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.lifecycle.claims import is_late_to_initialize
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.pod import Pod
from core.model.snapshot import Snapshot

NOMINATIONS_VALID_FOR: Final = timedelta(minutes=2)
"""How long nominations are valid after a node's initialization: kube-scheduler retries pods with up to 10 s of back-off, and a
burst keeps it busy longer."""


def awaits_pods(record: ClaimRecord, now: datetime) -> bool:
    """Whether pods wait for its node: it was launched for them, and its node is neither initialized nor late."""
    boots = record.phase in (ClaimPhase.LAUNCHED, ClaimPhase.REGISTERED) and record.deletion is None
    return boots and bool(record.plan.pods) and not is_late_to_initialize(record, now)


def is_requested(record: ClaimRecord) -> bool:
    """Whether it is stored for pods but not launched yet."""
    return record.phase is ClaimPhase.REQUESTED and record.deletion is None and bool(record.plan.pods)


def with_expected_pods(
    snapshot: Snapshot,
    records: Iterable[ClaimRecord],
    removed: Collection[str] = (),
    leaving: Collection[str] = (),
) -> Snapshot:
    """Return the snapshot with these pods bound to their claims, as they will be; pods bound elsewhere stay there.

    Once the node is initialized, the scheduler decides. A pod that we nominated, and whose nomination it has not cleared,
    counts as bound for a while, since the scheduler reserves room for it; pods that it does not bind there are planned again.
    For Karpenter, a nominated pod does not wait at all, since the scheduler made room for it by preemption. Our own nominations
    make no room, so they are removed after their time.

    Args:
        snapshot: The observation.
        records: Every claim.
        removed: Names of claims that commands are removing: no pod is expected there.
        leaving: Names of the leaving nodes: their pods count as moved, unless they are already being deleted, since their
            successors then need the room.
    """
    records = tuple(records)
    stay = [record for record in records if record.name not in removed]
    nodes = {node.provider_id: node.name for node in snapshot.nodes if node.provider_id}
    waiting = {
        record.name: nodes.get(record.provider_id, record.name)
        for record in stay
        if awaits_pods(record, snapshot.now) or is_requested(record)
    }
    node_of = {pod: waiting[record.name] for record in stay if record.name in waiting for pod in record.plan.pods}
    validity: dict[tuple[str, str], bool] = {
        (pod, record.node_name): record.name not in removed and _is_valid(record, snapshot.now)
        for record in records
        for pod in record.nominated
    }
    if not node_of and not validity:
        return snapshot
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(_expected(pod, node_of, validity, leaving) for pod in snapshot.pods),
        node_claims=tuple(
            msgspec.structs.replace(claim, node_name=waiting[claim.name]) if claim.name in waiting else claim
            for claim in snapshot.node_claims
        ),
    )


def _expected(
    pod: Pod, node_of: Mapping[str, str], validity: Mapping[tuple[str, str], bool], leaving: Collection[str]
) -> Pod:
    if pod.node_name and (pod.node_name not in leaving or pod.is_terminating):
        return pod
    if pod.key in node_of:
        return msgspec.structs.replace(pod, node_name=node_of[pod.key])
    if pod.node_name:
        return pod
    is_valid = validity.get((pod.key, pod.nominated_node_name)) if pod.nominated_node_name else None
    if is_valid is None:
        return pod
    return msgspec.structs.replace(pod, node_name=pod.nominated_node_name if is_valid else "", nominated_node_name="")


def _is_valid(record: ClaimRecord, now: datetime) -> bool:
    """Whether our nomination is still valid: the node stays, and the scheduler's time is not over."""
    since = record.initialized_at
    return record.deletion is None and since is not None and now - since < NOMINATIONS_VALID_FOR
