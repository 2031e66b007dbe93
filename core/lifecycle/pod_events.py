"""Detects without a watch when a pod last arrived at a node or left it: by comparing successive lists, and from the audit log.

Each claim's record stores a digest of the pods on its node. If a new list has another digest, a pod arrived or left, and the
time of the list counts. consolidateAfter therefore starts at most one list late. A pod that arrives and leaves between two
lists is in no digest; only the audit log reports it. DaemonSets' pods do not count, nor do pods that have finished or are being
deleted (Karpenter).
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
"""Key for pods that ended on an unknown node, which may be any."""

_NONE_ENDED: Final[Mapping[str, datetime]] = {}


def with_pod_events(
    records: Sequence[ClaimRecord],
    pods: Iterable[Pod],
    now: datetime,
    ended: Mapping[str, datetime] = _NONE_ENDED,
) -> tuple[ClaimRecord, ...]:
    """Return the records, in order, with the time of the last pod event; an unchanged record is the same object.

    Args:
        records: As stored.
        pods: All pods, at this moment.
        now: The time of the list.
        ended: Node or `ANY_NODE` → when a pod last ended there, if known.
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
    """Return the record with the times from the audit log, if they are later than those from lists."""
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
