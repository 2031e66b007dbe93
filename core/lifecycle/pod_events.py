"""Detects without a watch when a pod last came to a node or left it, by comparing successive lists.

Each claim's record keeps a digest of the pods on its node. If the digest differs from the last list's, a pod came or left, and
the time of this list counts. consolidateAfter therefore starts at most one list late, never early. DaemonSets' pods do not
count, nor do pods that have finished or are being deleted (Karpenter).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b

import msgspec

from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.pod import Pod


def with_pod_events(records: Sequence[ClaimRecord], pods: Iterable[Pod], now: datetime) -> tuple[ClaimRecord, ...]:
    """Return the records, in order, with the time of the last pod event; the same object where nothing happened."""
    by_node: dict[str, list[str]] = {}
    waiting: set[str] = set()
    for pod in pods:
        if pod.node_name and pod.is_active and not pod.is_daemon:
            by_node.setdefault(pod.node_name, []).append(pod.uid or pod.key)
        elif not pod.node_name:
            waiting.add(pod.key)
    return tuple(_observed(record, by_node.get(record.node_name, ()), waiting, now) for record in records)


def _observed(record: ClaimRecord, pods: Iterable[str], waiting: Collection[str], now: datetime) -> ClaimRecord:
    if record.phase is not ClaimPhase.INITIALIZED:
        return record
    digest = _digest(pods)
    if digest == record.pods_digest:
        return record
    nominated = tuple(pod for pod in record.nominated if pod in waiting)
    return msgspec.structs.replace(record, pods_digest=digest, last_pod_event_at=now, nominated=nominated)


def _digest(pods: Iterable[str]) -> str:
    """Return a digest of the set; empty for no pods, so that an empty new node needs no write."""
    names = sorted(pods)
    return blake2b("\n".join(names).encode(), digest_size=8).hexdigest() if names else ""
