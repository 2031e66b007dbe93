"""Detects without a watch when a pod last came to a node or left it: by comparing successive lists, and from the audit log.

Each claim's record keeps a digest of the pods on its node. If the digest differs from the last list's, a pod came or left, and
the time of this list counts. consolidateAfter therefore starts at most one list late. What came and went between two lists is
in no digest: the audit log tells of that, and without it such a pod is missed. DaemonSets' pods do not count, nor do pods
that have finished or are being deleted (Karpenter).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final

import msgspec

from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.pod import Pod

ANY_NODE: Final = "*"
"""Stands for every node among those on which pods ended."""

_NONE_ENDED: Final[Mapping[str, datetime]] = {}


def with_pod_events(
    records: Sequence[ClaimRecord],
    pods: Iterable[Pod],
    now: datetime,
    ended: Mapping[str, datetime] = _NONE_ENDED,
) -> tuple[ClaimRecord, ...]:
    """The records, in their order, with the time of the last pod event; the same object where nothing happened.

    Args:
        records: As stored.
        pods: All pods, at this moment.
        now: That moment.
        ended: Node, or `ANY_NODE`, → when a pod last ended there, as far as that is known.
    """
    everywhere = ended.get(ANY_NODE)
    by_node: dict[str, list[str]] = {}
    waiting: set[str] = set()
    for pod in pods:
        if pod.node_name and pod.is_active and not pod.is_daemon:
            by_node.setdefault(pod.node_name, []).append(pod.uid or pod.key)
        elif not pod.node_name:
            waiting.add(pod.key)
    seen = (_observed(record, by_node.get(record.node_name, ()), waiting, now) for record in records)
    return tuple(_with_moments(record, ended.get(record.node_name), everywhere) for record in seen)


def _with_moments(record: ClaimRecord, *moments: datetime | None) -> ClaimRecord:
    """The record with what the audit log tells, where that is later than what was seen."""
    since = record.last_pod_event_at or record.initialized_at
    latest = max((moment for moment in moments if moment is not None), default=None)
    if record.phase is not ClaimPhase.INITIALIZED or latest is None or (since is not None and latest <= since):
        return record
    return msgspec.structs.replace(record, last_pod_event_at=latest)


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
