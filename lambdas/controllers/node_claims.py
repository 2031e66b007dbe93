"""Writes claims to the cluster as NodeClaims when they change. The next round of `reconcile` writes what is missing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final, Protocol

import msgspec

from adapters.messages import made_node_claim
from adapters.observation.cluster_reader import KarpenterPresence
from adapters.observation.observer import ClusterState
from adapters.ports import Clock, ConflictError, JsonObject, Kubernetes, NotFoundError, PortError, Queue
from adapters.run_report import RunReport
from adapters.runtime import RunTasks, Task
from adapters.store import ClaimStore
from core import labels
from core.disruption.drift import DriftCheck
from core.lifecycle.node_claim_objects import (
    DRAINED,
    KIND,
    Mirrored,
    is_made_by_hand,
    is_mirror,
    mirrored,
    new_object,
)
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.resources import NODE_CLAIMS
from core.model.plan import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED, INITIALIZED, Condition
from core.reasons.code import TerminationReason
from lambdas.controllers.events import about_node_claim
from lambdas.controllers.status_writer import Present, StatusWriter, UnknownFields, condition, tolerate_gone
from lambdas.controllers.sweeps.sweep import ClaimTerminator, ReconcileRound, Sweep

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
        self,
        kubernetes: Kubernetes,
        claims: ClaimStore,
        karpenter: KarpenterPresence,
        clock: Clock,
        run_tasks: RunTasks,
        *,
        is_on: bool,
    ) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
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
            noted = self._changes.pop(record.name, None)
            first = noted.before if noted is not None else before
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
        """Release the NodeClaim of a deleted claim, as it was read, unless it has a claim again by now. Raises PortError.

        Another run may have stored a hand-made one again from an older reading.
        """
        metadata = obj["metadata"]
        if self.is_on and self._claims.get(str(metadata["name"])) is not None:
            return
        with suppress(NotFoundError):
            remove_finalizer(self._kubernetes, obj)
            if not metadata.get("deletionTimestamp"):
                self._kubernetes.delete(NODE_CLAIMS, str(metadata["name"]))

    def is_withdrawn(self, name: str, uid: str) -> bool:
        """Whether the hand-made NodeClaim with this UID, or the one written in its place, is gone. Raises PortError."""
        if not self.is_on:
            return False
        try:
            metadata = self._kubernetes.get(NODE_CLAIMS, name)["metadata"]
        except NotFoundError:
            return True
        return uid not in (metadata.get("uid"), (metadata.get("annotations") or {}).get(labels.MADE_BY_HAND))

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
            written, wanted = mirrored(before), mirrored(after)
            try:
                self._bring(name, wanted, written)
            except NotFoundError:
                # Another run may have released it with its claim since this one read the row: a new one would show a claim
                # that is gone.
                if not wanted.is_leaving and self.may_create():
                    self.create(after)

    def _bring(self, name: str, wanted: Mirrored, written: Mirrored | None = None) -> None:
        if written is not None and wanted.labels != written.labels:
            dropped: dict[str, str | None] = dict.fromkeys(sorted(written.labels.keys() - wanted.labels.keys()))
            self._kubernetes.patch(NODE_CLAIMS, name, {"metadata": {"labels": {**dropped, **wanted.labels}}})
        status = {**wanted.status, "conditions": wanted.written_conditions()}
        self._kubernetes.patch(NODE_CLAIMS, name, {"status": status}, subresource="status")
        if wanted.is_leaving and not (written is not None and written.is_leaving):
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


# Conditions of NodeClaims that records do not store: Drifted and Consolidatable.


_PASSING: Final = (CONSOLIDATABLE, DRIFTED, DISRUPTION_REASON, DRAINED)
"""Conditions that are written as False only if they were True before."""


class Findings:
    """The conditions of claims from one observation."""

    def __init__(self, view: ClusterState) -> None:
        snapshot = view.snapshot
        self._claims = {claim.name: claim for claim in snapshot.node_claims}
        self._pools = {pool.name: pool for pool in snapshot.node_pools}
        self._drift = DriftCheck(snapshot, knows_types=False)

    def of(self, record: ClaimRecord) -> Mirrored:
        """Return the desired NodeClaim of the claim."""
        claim, pool = self._claims.get(record.name), self._pools.get(record.plan.node_pool)
        if claim is None:
            return mirrored(record)
        kinds = (CONSOLIDATABLE, INITIALIZED)
        conditions = {kind: claim.conditions[kind] for kind in kinds if kind in claim.conditions}
        drift = self._drift.reason(claim, pool) if pool is not None else ""
        if drift:
            conditions[DRIFTED] = Condition("True", drift)
        return mirrored(record, conditions)


class NodeClaimStatus:
    """Writes labels and status if they differ."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._statuses = StatusWriter(kubernetes, clock)

    def write(self, obj: JsonObject, wanted: Mirrored, more: Sequence[JsonObject] = ()) -> bool:
        """Update the NodeClaim of a claim, with `more` conditions; return whether it differed. Raises PortError."""
        name, written = str(obj["metadata"]["name"]), (obj["metadata"].get("labels") or {})
        has_changed = not wanted.labels.items() <= written.items()
        if has_changed:
            body: JsonObject = {"metadata": {"labels": wanted.labels}}
            tolerate_gone(lambda: self._kubernetes.patch(NODE_CLAIMS, name, body))
        conditions = [
            condition(kind, wanted_condition.status, wanted_condition.message, reason=wanted_condition.reason)
            for kind, wanted_condition in sorted(wanted.conditions.items())
        ]
        conditions += [
            condition(kind, "False", reason=f"Not{kind}") for kind in _PASSING if _was_true(obj, kind, wanted)
        ]
        if self._statuses.write(Present.of(NODE_CLAIMS, obj), {**wanted.status, "conditions": [*conditions, *more]}):
            has_changed = True
        if wanted.is_leaving and not obj["metadata"].get("deletionTimestamp"):
            tolerate_gone(lambda: self._kubernetes.delete(NODE_CLAIMS, name))
            has_changed = True
        return has_changed


def _was_true(obj: JsonObject, kind: str, wanted: Mirrored) -> bool:
    """Whether the object has the condition as True and it no longer holds."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return kind not in wanted.conditions and any(
        c.get("type") == kind and c.get("status") != "False" for c in conditions
    )


# Handles NodeClaims that users delete: their nodes are drained and their instances terminated (Karpenter).


class DeletedNodeClaims:
    """Removes claims whose NodeClaim is deleted. The finalizer keeps the object until the claim is gone."""

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, terminator: ClaimTerminator) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._terminator = terminator

    def check(self, name: str, report: RunReport) -> None:
        """Check a NodeClaim that an audit event reports as deleted. Raises PortError."""
        record = self._claims.get(name)
        if record is None:
            return
        with suppress(NotFoundError):
            self.terminate_if_deleted(self._kubernetes.get(NODE_CLAIMS, name), record, report)

    def terminate_if_deleted(self, obj: JsonObject, record: ClaimRecord, report: RunReport) -> None:
        """Remove the claim if its NodeClaim is being deleted and the claim is not leaving already. Raises PortError."""
        if is_deleted(obj) and is_mirror(obj) and not mirrored(record).is_leaving:
            message = f"NodeClaim {record.name} was deleted"
            self._terminator.begin(record.name, TerminationReason.NODE_CLAIM_DELETED, message, report)


def is_deleted(obj: JsonObject) -> bool:
    """Whether the deletion of the object was requested."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


# Repairs NodeClaims of the cluster that differ from the claims of the table.
#
# The table is authoritative, except for deletions by users.


CLAIMS_A_ROUND: Final = 250
"""The most NodeClaims that one round creates or releases, and the most whose status it writes; the next round continues."""

LISTED_EVERY: Final = timedelta(minutes=6)
"""The interval of lists.

The audit log reports deletions, and controllers write changes of claims: a round repairs what they missed, and writes Drifted
and Consolidatable. With every second observation, an idle cluster stays below three requests a minute.
"""


class TakesOn(Protocol):
    """Stores the claims of NodeClaims that were made by hand."""

    def checks(self) -> Callable[[str, RunReport], timedelta | None]:
        """See `lambdas.controllers.hand_made_claims.HandMadeClaims`, which imports this module."""
        ...


class _InTurn:
    """Bounds what rounds do: each continues after the last name of the round before, so that none waits behind failures."""

    def __init__(self) -> None:
        self._last = ""

    def next_of(self, names: Sequence[str]) -> list[str]:
        """Return the next of these names, which are sorted; `CLAIMS_A_ROUND` at most."""
        behind = bisect_right(names, self._last)
        batch = [*names[behind:], *names[:behind]][:CLAIMS_A_ROUND]
        self._last = batch[-1] if batch else ""
        return batch


class NodeClaims(Sweep):
    """Lists NodeClaims, then claims, so that a NodeClaim without a claim is really obsolete."""

    name = "nodeClaims"
    every = LISTED_EVERY

    def __init__(
        self,
        kubernetes: Kubernetes,
        claims: ClaimStore,
        mirror: NodeClaimMirror,
        deleted: DeletedNodeClaims,
        status: NodeClaimStatus,
        unknown_fields: UnknownFields,
        hand_made: TakesOn,
        work: Queue,
    ) -> None:
        """`hand_made` stores the claims of hand-made NodeClaims."""
        self._kubernetes = kubernetes
        self._claims = claims
        self._mirror = mirror
        self._deleted = deleted
        self._status = status
        self._unknown_fields = unknown_fields
        self._hand_made = hand_made
        self._work = work
        self._last = ""
        self._bare, self._missing, self._by_hand = _InTurn(), _InTurn(), _InTurn()

    def run(self, round_: ReconcileRound) -> None:
        """Release deleted and obsolete NodeClaims; then write those that are missing or out of date.

        Claims of hand-made NodeClaims are stored, so that their rows say that they are due, and sent to `execute`, which
        launches them.
        """
        objects = {str(obj["metadata"]["name"]): obj for obj in self._kubernetes.list(NODE_CLAIMS).items}
        records = {record.name: record for record in self._claims.all()} if self._mirror.is_on else {}
        ours = {name: obj for name, obj in objects.items() if is_mirror(obj)}
        unreadable = round_.view.unreadable_claims if self._mirror.is_on else frozenset[str]()
        bare = [ours[name] for name in self._bare.next_of(sorted(ours.keys() - records.keys() - unreadable))]
        round_.each(bare, self._mirror.release, subject=lambda obj: _subject(obj["metadata"]["name"]))
        if not self._mirror.is_on:
            return
        common_names = sorted(ours.keys() & records.keys())
        terminate = partial(self._terminate_if_deleted, ours, records, round_)
        round_.each([name for name in common_names if is_deleted(ours[name])], terminate, subject=_subject)
        missing = sorted(records.keys() - objects.keys())
        by_hand = [name for name, obj in sorted(objects.items()) if is_made_by_hand(obj)]
        if (missing or by_hand) and self._mirror.may_create():
            made = [records[name] for name in self._missing.next_of(missing)]
            round_.each(made, self._mirror.create, subject=lambda record: _subject(record.name))
            self._take_on(self._by_hand.next_of(by_hand), round_)
        self._bring_up_to_date(common_names, ours, records, round_)

    def _terminate_if_deleted(
        self, ours: dict[str, JsonObject], records: dict[str, ClaimRecord], round_: ReconcileRound, name: str
    ) -> None:
        self._deleted.terminate_if_deleted(ours[name], records[name], round_.report)

    def _take_on(self, names: Sequence[str], round_: ReconcileRound) -> None:
        check = self._hand_made.checks()
        round_.each(names, lambda name: check(name, round_.report), subject=_subject)
        self._work.send([made_node_claim(name, round_.clock.now()) for name in names])

    def _bring_up_to_date(
        self, names: list[str], ours: dict[str, JsonObject], records: dict[str, ClaimRecord], round_: ReconcileRound
    ) -> None:
        """Write those that differ, up to the limit; the next round continues after the last of this one."""
        findings, written = Findings(round_.view), list[str]()

        def write(name: str) -> None:
            if len(written) == CLAIMS_A_ROUND:
                return
            obj = ours[name]
            fields = self._unknown_fields.condition({**KIND, **obj}, about_node_claim(name), round_.report)
            if self._status.write(obj, findings.of(records[name]), fields):
                written.append(name)

        behind = [name for name in names if name > self._last]
        round_.each([*behind, *names[: len(names) - len(behind)]], write, subject=_subject)
        self._last = written[-1] if len(written) == CLAIMS_A_ROUND else ""


def _subject(name: str) -> str:
    return f"NodeClaim {name}"
