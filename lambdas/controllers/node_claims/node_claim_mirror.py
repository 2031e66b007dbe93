"""Writes claims to the cluster as NodeClaims when they change. The next round of `reconcile` writes what is missing."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final

import msgspec

from adapters.observation.karpenter_presence import KarpenterPresence
from adapters.ports import Clock, ConflictError, JsonObject, Kubernetes, NotFoundError, PortError
from adapters.run_report import RunReport
from adapters.runtime.parallel_tasks import RunTasks, Task
from core import labels
from core.lifecycle.mirror.node_claim_object import Mirrored, mirrored, new_object
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS

CLAIMS_A_RUN: Final = 250
"""The most claims that one run writes, each with two or three requests."""

MARGIN: Final = timedelta(seconds=5)
"""Nothing is written with less remaining time: the invocation has to answer."""


class _Change(msgspec.Struct, frozen=True):
    """A claim before the first and after the last change of a run; None if it did not exist then."""

    before: ClaimRecord | None
    after: ClaimRecord | None


class NodeClaimMirror:
    """Collects the changes of a run and writes them at its end: a claim that changes several times is written once.

    Attributes:
        is_on: Whether claims are mirrored.
    """

    def __init__(
        self, kubernetes: Kubernetes, karpenter: KarpenterPresence, clock: Clock, run_tasks: RunTasks, *, is_on: bool
    ) -> None:
        self._kubernetes = kubernetes
        self._karpenter = karpenter
        self._clock = clock
        self._run_tasks = run_tasks
        self.is_on = is_on
        self._changes: dict[str, _Change] = {}
        self._lock = Lock()

    def note(self, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        """Record that a claim changed.

        A claim that was created and deleted in one run has no NodeClaim, unless that was hand-made; then it is deleted too.
        """
        record = after or before
        if record is None or not self.is_on:
            return
        with self._lock:
            known = self._changes.pop(record.name, None)
            first = known.before if known is not None else before
            if after is None and record.plan.made_by_hand:
                first = record
            self._changes[record.name] = _Change(first, after)

    def write(self, report: RunReport, *, deadline: datetime) -> None:
        """Write the changes since the last call, as time permits. Errors of calls are reported, not raised."""
        with self._lock:
            changes, self._changes = self._changes, {}
        due = [(name, change) for name, change in sorted(changes.items()) if _is_visible(change)]
        if not due:
            return
        begun = due
        if any(change.before is None for _, change in due) and not self._is_safe_to_create():
            begun = [(name, change) for name, change in due if change.before is not None]
        begun, written = begun[:CLAIMS_A_RUN], list[str]()
        tasks: list[Task] = [partial(self._attempt, name, change, written) for name, change in begun]
        self._run_tasks(tasks, max(deadline - MARGIN - self._clock.now(), timedelta(0)))
        report.count("nodeClaimsWritten", len(written))
        report.count("nodeClaimsLeft", len(due) - len(written))

    def create(self, record: ClaimRecord) -> None:
        """Write the NodeClaim of a claim that has none. Raises PortError."""
        with suppress(ConflictError):
            self._kubernetes.create(NODE_CLAIMS, new_object(record))
        self._bring(record.name, mirrored(record))

    def release(self, obj: JsonObject) -> None:
        """Release the NodeClaim of a deleted claim, as it was read. Raises PortError."""
        metadata = obj["metadata"]
        with suppress(NotFoundError):
            remove_finalizer(self._kubernetes, obj)
            if not metadata.get("deletionTimestamp"):
                self._kubernetes.delete(NODE_CLAIMS, str(metadata["name"]))

    def may_create(self) -> bool:
        """Whether NodeClaims may be created: another controller would launch a node for a new one. Raises PortError."""
        return not self._karpenter.is_there()

    def _is_safe_to_create(self) -> bool:
        try:
            return self.may_create()
        except PortError:
            return False

    def _attempt(self, name: str, change: _Change, written: list[str]) -> None:
        with suppress(PortError):
            self._write(name, change)
            written.append(name)

    def _write(self, name: str, change: _Change) -> None:
        before, after = change.before, change.after
        if after is None:
            with suppress(NotFoundError):
                self.release(self._kubernetes.get(NODE_CLAIMS, name))
        elif before is None:
            self.create(after)
        else:
            known, wanted = mirrored(before), mirrored(after)
            try:
                self._bring(name, wanted, known)
            except NotFoundError:
                # Another run may have released it with its claim since this one read the row: a new one would show a claim
                # that is gone.
                if not wanted.is_leaving and self.may_create():
                    self.create(after)

    def _bring(self, name: str, wanted: Mirrored, known: Mirrored | None = None) -> None:
        if known is not None and wanted.labels != known.labels:
            dropped: dict[str, str | None] = dict.fromkeys(sorted(known.labels.keys() - wanted.labels.keys()))
            self._kubernetes.patch(NODE_CLAIMS, name, {"metadata": {"labels": {**dropped, **wanted.labels}}})
        status = {**wanted.status, "conditions": wanted.written_conditions()}
        self._kubernetes.patch(NODE_CLAIMS, name, {"status": status}, subresource="status")
        if wanted.is_leaving and not (known is not None and known.is_leaving):
            self._kubernetes.delete(NODE_CLAIMS, name)


def remove_finalizer(kubernetes: Kubernetes, obj: JsonObject) -> None:
    """Take our finalizer off a NodeClaim as it was read; those of others stay. Raises ConflictError, PortError."""
    metadata = obj["metadata"]
    present = metadata.get("finalizers") or ()
    others = [name for name in present if name != labels.TERMINATION_FINALIZER]
    if len(others) < len(present):
        body = {"resourceVersion": metadata.get("resourceVersion"), "finalizers": others}
        kubernetes.patch(NODE_CLAIMS, str(metadata["name"]), {"metadata": body})


def _is_visible(change: _Change) -> bool:
    """Whether users would see the change. A claim that was created and deleted in one run has no NodeClaim."""
    if change.before is None or change.after is None:
        return change.before is not change.after
    return mirrored(change.before) != mirrored(change.after)
