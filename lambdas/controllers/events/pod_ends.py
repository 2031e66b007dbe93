"""Records ends of pods on nodes from the audit log: consolidateAfter counts from the last one (docs/adr/0085).

A pass compares the pods of a node with those of the previous pass, and mostly misses pods that arrive and leave in between,
such as those of a CronJob that takes forty seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from adapters.store import PodEnds
from core.lifecycle.pod_events import ANY_NODE
from lambdas.controllers.events.audit_events import has_happened, moment_of, object_of

KUBELET: Final = "system:node:"
"""Prefix of a kubelet's user name; its node's name follows."""

FINISHED: Final = ("Succeeded", "Failed")

GRAIN: Final = timedelta(seconds=2)
"""Times are rounded up to multiples of it.

A node on which many pods end takes one write per grain, and is consolidated up to a grain later. With a grain of ten seconds, a
`consolidateAfter` of ten seconds would last twice as long.
"""

NODES_PER_DELIVERY: Final = 200
"""The most writes of one delivery. If more nodes are concerned, all nodes of the cluster count as concerned."""

SEEN_WITHIN: Final = timedelta(minutes=15)
"""A pass has seen every pod that lived longer, and will notice its end: passes are at most twelve minutes apart."""

REMEMBERED_MAX: Final = 10_000
"""The most nodes whose last write a sandbox caches."""


class PodEnd(msgspec.Struct, frozen=True):
    """A pod that ended on a node."""

    node: str
    at: datetime


class PodEndWriter:
    """Stores the last end on each node, at most once per grain."""

    def __init__(self, store: PodEnds) -> None:
        self._store = store
        self._written: dict[str, datetime] = {}

    def write(self, ends: Iterable[PodEnd], now: datetime) -> int:
        """Write new ends; return for how many nodes. Raises PortError."""
        latest: dict[str, datetime] = {}
        for end in ends:
            at = rounded_up(end.at)
            if at > max(latest.get(end.node, _LONG_AGO), self._written.get(end.node, _LONG_AGO)):
                latest[end.node] = at
        if len(latest) > NODES_PER_DELIVERY:
            latest = {ANY_NODE: max(latest.values())}
        if not latest:
            return 0
        self._store.record(latest, now)
        if len(self._written) > REMEMBERED_MAX:
            self._written.clear()
        self._written |= latest
        return len(latest)


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def rounded_up(at: datetime) -> datetime:
    """Return the time rounded up to the next multiple of the grain."""
    seconds = math.ceil(at.timestamp() / GRAIN.total_seconds()) * GRAIN.total_seconds()
    return datetime.fromtimestamp(seconds, UTC)


def pod_end(entry: dict[str, Any], at: datetime | None) -> PodEnd | None:
    """Return the end of a pod that an audit event reports; None if it reports none, names no node, or need not be recorded.

    A kubelet reports an end in two ways: its status patch has the final phase, and it deletes an evicted pod once its
    containers have stopped. For a pod that others delete by force, the response has the pod with its node.
    """
    target = object_of(entry.get("objectRef"))
    if at is None or target.get("resource") != "pods" or not has_happened(entry):
        return None
    user = object_of(entry.get("user")).get("username")
    own = user.removeprefix(KUBELET) if isinstance(user, str) and user.startswith(KUBELET) else ""
    answer, part, verb = object_of(entry.get("responseObject")), target.get("subresource") or "", entry.get("verb")
    if verb == "delete" and not part:
        node = own or object_of(answer.get("spec")).get("nodeName")
    elif part == "status" and object_of(object_of(entry.get("requestObject")).get("status")).get("phase") in FINISHED:
        node = own
    else:
        return None
    if not isinstance(node, str) or not node or _is_daemon(answer) or _was_seen(answer, at):
        return None
    return PodEnd(node, at)


def _is_daemon(pod: dict[str, Any]) -> bool:
    owners = object_of(pod.get("metadata")).get("ownerReferences")
    return isinstance(owners, list) and any(object_of(owner).get("kind") == "DaemonSet" for owner in owners)


def _was_seen(pod: dict[str, Any], at: datetime) -> bool:
    """Whether the pod lived so long that a pass saw it."""
    created_at = moment_of(object_of(pod.get("metadata")).get("creationTimestamp"))
    return created_at is not None and at - created_at > SEEN_WITHIN
