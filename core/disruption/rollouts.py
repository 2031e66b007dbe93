"""Rollouts: drift replaces one node of a NodePool first, and the others once pods on the new node are ready (docs/adr/0049).

A rollout begins when nodes have drifted from what their NodePool now specifies. Its first replacement is the canary. Pods that
do not become ready on new nodes, or replacements that never join, stop the rollout for a time that doubles with each failure.
A changed specification starts a new rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core import labels
from core.disruption.conditions.drift import DriftCheck
from core.model import node_claim
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodePool, RolloutGate
from core.model.pod import Pod
from core.model.snapshot import Snapshot

READY_WITHIN: Final = timedelta(minutes=5)
"""How long a pod on a new node may take to become ready: images are pulled, and volumes attached."""

WATCHED_FOR: Final = timedelta(minutes=2)
"""How long the canary's pods, or its node if it has none, must have been ready before other nodes follow."""

FIRST_STOP: Final = timedelta(minutes=30)
LONGEST_STOP: Final = timedelta(hours=24)
"""The most that the stop of a failed rollout, `FIRST_STOP`, doubles to."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a NodePool's last rollout.

    Attributes:
        target: Digest of the specification that nodes are replaced by.
        is_proven: Whether pods are ready on a new node; from then on only budgets limit how many nodes go.
        stopped_until: When it resumes after the last failure, None if nothing failed.
        message: The last failure.
    """

    node_pool: str
    target: str
    started_at: datetime
    is_proven: bool = False
    failures: int = 0
    stopped_until: datetime | None = None
    message: str = ""

    def is_stopped(self, now: datetime) -> bool:
        """Whether no node with pods may go for drift."""
        return self.stopped_until is not None and now < self.stopped_until

    def after_failure(self, message: str, now: datetime) -> Rollout:
        """Return the rollout after one more failure; a failure during a stop is a late report of the same cause."""
        if self.is_stopped(now):
            return self
        stop = min(LONGEST_STOP, FIRST_STOP * 2 ** min(self.failures, 10))
        return msgspec.structs.replace(
            self, is_proven=False, failures=self.failures + 1, stopped_until=now + stop, message=message
        )


class PoolRollout(msgspec.Struct, frozen=True):
    """A rollout to store, and its limit on drifted nodes; None for no limit."""

    rollout: Rollout
    gate: RolloutGate | None


def rollouts(snapshot: Snapshot, known: Mapping[str, Rollout]) -> dict[str, PoolRollout]:
    """Return pool → its rollout, for every pool with drifted nodes, by name."""
    drift, pods = DriftCheck(snapshot), _pods_by_node(snapshot)
    claims: dict[str, list[NodeClaim]] = {}
    for claim in snapshot.node_claims:
        claims.setdefault(claim.labels.get(labels.NODEPOOL, ""), []).append(claim)
    found: dict[str, PoolRollout] = {}
    for pool in sorted(snapshot.node_pools, key=lambda pool: pool.name):
        own = claims.get(pool.name, ())
        drifted = {claim.name for claim in own if drift.reason(claim, pool)}
        if drifted:
            target = target_of(pool, snapshot)
            before = known.get(pool.name)
            if before is None or before.target != target:
                before = Rollout(node_pool=pool.name, target=target, started_at=snapshot.now)
            found[pool.name] = _advanced(before, own, drifted, pods, snapshot)
    return found


def target_of(pool: NodePool, snapshot: Snapshot) -> str:
    """Return a digest of what a new node of the pool is: template, EC2NodeClass, images."""
    node_class = next((found for found in snapshot.node_classes if found.name == pool.node_class.name), None)
    images = [image for image, _ in node_class.amis] if node_class is not None else []
    hashes = [pool.own_annotations.get(labels.NODEPOOL_HASH, "")]
    hashes += [node_class.own_annotations.get(labels.NODECLASS_HASH, "")] if node_class is not None else []
    return blake2b("/".join((*hashes, *images)).encode(), digest_size=8).hexdigest()


def _advanced(
    before: Rollout,
    own: Sequence[NodeClaim],
    drifted: Iterable[str],
    pods: Mapping[str, Sequence[Pod]],
    snapshot: Snapshot,
) -> PoolRollout:
    now, old = snapshot.now, set(drifted)
    new = [
        claim
        for claim in own
        if claim.name not in old and claim.created_at is not None and claim.created_at >= before.started_at
    ]
    unready = _unready(new, pods, now)
    if unready:
        rollout = before.after_failure(f"pod {unready} is not ready on a new node", now)
    elif _has_settled(new, pods, now):
        rollout = msgspec.structs.replace(before, is_proven=True, failures=0, stopped_until=None, message="")
    else:
        rollout = before
    is_going = any(c.deleted_at is not None or c.name in snapshot.marked_for_deletion for c in own if c.name in old)
    is_awaited = is_going or (bool(new) and not rollout.failures)
    return PoolRollout(rollout, _gate(rollout, now, allowed=0 if is_awaited else 1))


def _gate(rollout: Rollout, now: datetime, *, allowed: int) -> RolloutGate | None:
    if rollout.is_stopped(now):
        text = (
            f"the rollout of NodePool {rollout.node_pool} is stopped until {rollout.stopped_until:%Y-%m-%dT%H:%M:%SZ}: "
            f"{rollout.message}"
        )
        return RolloutGate(0, text, is_stopped=True)
    if rollout.is_proven:
        return None
    text = f"the rollout of NodePool {rollout.node_pool} waits until the pods of its first new node are ready"
    return RolloutGate(allowed, text)


def _unready(new: Iterable[NodeClaim], pods: Mapping[str, Sequence[Pod]], now: datetime) -> str:
    """Return a pod that should be ready on a new node by now, empty if none.

    Workloads that are unready elsewhere do not count.
    """
    names = {claim.node_name for claim in new if claim.node_name}
    late = {name: [pod for pod in own if _is_late(pod, now)] for name, own in pods.items()}
    elsewhere = {pod.workload for name, found in late.items() if name not in names for pod in found}
    return next((pod.key for name in sorted(names) for pod in late.get(name, ()) if pod.workload not in elsewhere), "")


def _is_late(pod: Pod, now: datetime) -> bool:
    since = pod.started_at or pod.created_at
    return pod.is_ready is False and since is not None and now - since >= READY_WITHIN


def _has_settled(new: Iterable[NodeClaim], pods: Mapping[str, Sequence[Pod]], now: datetime) -> bool:
    """Whether some new node and its pods have been ready for `WATCHED_FOR`."""
    for claim in new:
        initialized = claim.conditions.get(node_claim.INITIALIZED)
        since = initialized.changed_at if initialized is not None and initialized.status == "True" else None
        moments = [since, *(pod.started_at or pod.created_at for pod in pods.get(claim.node_name, ()))]
        is_ready = all(pod.is_ready is not False for pod in pods.get(claim.node_name, ()))
        if since is not None and is_ready and now - max(filter(None, moments)) >= WATCHED_FOR:
            return True
    return False


def _pods_by_node(snapshot: Snapshot) -> dict[str, list[Pod]]:
    """Return the pods that serve a workload, by node."""
    found: dict[str, list[Pod]] = {}
    for pod in sorted(snapshot.pods, key=lambda pod: pod.key):
        if pod.node_name and pod.is_active and not pod.is_daemon and not pod.is_static:
            found.setdefault(pod.node_name, []).append(pod)
    return found
