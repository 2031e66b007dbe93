"""Writes claims into the cluster as NodeClaims when they change. What is left out the next round of `reconcile` finds."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final

import msgspec

from core.lifecycle.mirror.node_claim_object import Mirrored, mirrored, new_object
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from lambdas.controllers.node_claims.karpenter_presence import KarpenterPresence
from lambdas.parallel_tasks import RunTasks, Task
from lambdas.ports import Clock, ConflictError, Kubernetes, NotFoundError, PortError
from lambdas.run_report import RunReport

CLAIMS_A_RUN: Final = 250
"""Claims that one run writes at most, each with two requests or three."""

MARGIN: Final = timedelta(seconds=5)
"""Nothing is written with less time than this left: the invocation has to answer."""


class _Change(msgspec.Struct, frozen=True):
    """A claim before the first change of a run and after the last; None where it was not there yet, or is no more."""

    before: ClaimRecord | None
    after: ClaimRecord | None


class NodeClaimMirror:
    """Gathers what changes in a run and writes it at its end: what changes several times is written once.

    Attributes:
        is_on: Whether claims are shown at all.
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
        """Remember that a claim changed.

        One that came and went in one run was never seen, unless somebody made its NodeClaim by hand: that goes with it.
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
        """Write what has changed since the last time, as far as there is time; raises nothing that a call may end with."""
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
        """Write a claim that has no NodeClaim. Raises PortError."""
        with suppress(ConflictError):
            self._kubernetes.create(NODE_CLAIMS, new_object(record))
        self._bring(record.name, mirrored(record))

    def release(self, name: str) -> None:
        """Let the NodeClaim of a claim go that is no more. Raises PortError."""
        with suppress(NotFoundError):
            self._kubernetes.patch(NODE_CLAIMS, name, {"metadata": {"finalizers": None}})
            self._kubernetes.delete(NODE_CLAIMS, name)  # one that was being deleted has vanished by now

    def may_create(self) -> bool:
        """Whether no other controller takes a new NodeClaim for an order to launch a node. Raises PortError."""
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
            self.release(name)
        elif before is None:
            self.create(after)
        else:
            known, wanted = mirrored(before), mirrored(after)
            try:
                self._bring(name, wanted, known)
            except NotFoundError:
                # Another run may have let it go with its claim since this one read the row: a new one would show a claim
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


def _is_visible(change: _Change) -> bool:
    """Whether users would see the change. A claim that came and went in one run was never seen."""
    if change.before is None or change.after is None:
        return change.before is not change.after
    return mirrored(change.before) != mirrored(change.after)
