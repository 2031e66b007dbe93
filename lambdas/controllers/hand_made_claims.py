"""Creates claims for hand-made NodeClaims: they are launched, tracked and removed like all others.

Steps: our finalizer on the object -> the claim's row -> our annotation on the object.

The row contains the object's UID, so each step can be repeated, and the next check continues after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from adapters.brakes import Brakes, skipped
from adapters.observation.observer import Observer
from adapters.ports import Clock, JsonObject, Kubernetes, NotFoundError
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core import labels
from core.brakes import Action
from core.lifecycle.launching import with_subnets
from core.lifecycle.node_claim_objects import KIND, hand_made_plan, is_made_by_hand, mirrored
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.resources import NODE_CLAIMS
from core.model.plan import LAUNCHED, READY
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.pools import holder, limits_by_counter
from core.reasons.code import NAME_TAKEN, ClaimReason, DecisionKind, NoLaunch, NoRoomInLimits, Refusal
from lambdas.controllers.events import about_node_claim
from lambdas.controllers.launching import Launcher
from lambdas.controllers.node_claims import NodeClaimMirror, remove_finalizer
from lambdas.controllers.status_writer import Present, StatusWriter, UnknownFields, condition, tolerate_gone

CHECKED_AGAIN: Final = timedelta(seconds=20)
"""How soon a NodeClaim that waits for its class, a limit or capacity is checked again while its chain of checks lasts;
afterwards, each round of `reconcile` over NodeClaims requests a check."""

_LASTING: Final = (ClaimReason.NODE_CLAIM_INVALID, ClaimReason.NODE_CLAIM_NAME_TAKEN)
"""Reasons that are permanent, since the spec of a NodeClaim never changes."""


class _Market:
    """What may be launched: read for the first claim that needs it, and for the next ones with what was stored since.

    A reading takes requests to the cluster and to the table; hundreds of claims that are refused would each repeat them.
    """

    def __init__(self, observer: Observer, claims: ClaimStore) -> None:
        self._observer = observer
        self._claims = claims
        self._snapshot: Snapshot | None = None
        self._used: dict[str, dict[str, int]] = {}

    def read(self) -> tuple[Snapshot, dict[str, dict[str, int]]]:
        """Return the market, and counter → what claims hold of its limits. Raises PortError."""
        if self._snapshot is None:
            snapshot = self._observer.market()
            self._used = {usage.node_pool: usage.reserved for usage in self._claims.usage()}
            self._snapshot = snapshot
        return self._snapshot, self._used

    def take(self, record: ClaimRecord) -> None:
        """Count a claim that is now stored; where addresses or reservations are scarce, the next claim reads again."""
        reserves = labels.RESERVED in record.plan.capacity_types
        if self._snapshot is not None and (self._snapshot.subnet_addresses or reserves):
            self._snapshot = None
        for counter in record.counters:
            self._used[counter] = quantity.add(self._used.get(counter, {}), record.reserved_in(counter))


class HandMadeClaims:
    """Stores the claim of one NodeClaim; `ClaimWork` launches it in the same run."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        claims: ClaimStore,
        observer: Observer,
        launcher: Launcher,
        mirror: NodeClaimMirror,
        brakes: Brakes,
        clock: Clock,
    ) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._observer = observer
        self._launcher = launcher
        self._mirror = mirror
        self._brakes = brakes
        self._clock = clock
        self._statuses = StatusWriter(kubernetes, clock)
        self._unknown_fields = UnknownFields(kubernetes, clock)

    def check(self, name: str, report: RunReport) -> timedelta | None:
        """Check a possibly hand-made NodeClaim: store a claim for it, or state in its conditions why there is none.

        Returns:
            When to check again; None if it has a claim now, or nothing is to be done.

        Raises:
            PortError: If a step fails; the next check continues.
        """
        return self.checks()(name, report)

    def checks(self) -> Callable[[str, RunReport], timedelta | None]:
        """Return `check` for the claims of one round, which share what is read of the market."""
        return partial(self._check, _Market(self._observer, self._claims))

    def _check(self, market: _Market, name: str, report: RunReport) -> timedelta | None:
        if not self._mirror.is_on:
            return None
        try:
            obj = self._kubernetes.get(NODE_CLAIMS, name)
        except NotFoundError:
            return None
        if not is_made_by_hand(obj):
            return None
        record = self._claims.get(name)
        if record is not None and record.plan.made_by_hand == _uid(obj):
            self._mark(record)
            return None
        if obj["metadata"].get("deletionTimestamp"):
            tolerate_gone(lambda: remove_finalizer(self._kubernetes, obj))
            return None
        return self._take_on(obj, record, market, report) if self._mirror.may_create() else None

    def _take_on(
        self, obj: JsonObject, other: ClaimRecord | None, market: _Market, report: RunReport
    ) -> timedelta | None:
        name = str(obj["metadata"]["name"])
        brake = self._brakes.engaged().stopping(Action.LAUNCH)
        if brake is not None:
            skipped(brake, name, report)
            return CHECKED_AGAIN
        if other is not None:
            return self._refuse(obj, NAME_TAKEN, report)
        (snapshot, used), now = market.read(), self._clock.now()
        planned = hand_made_plan(obj, snapshot, used)
        if isinstance(planned, Refusal):
            return self._refuse(obj, planned, report)
        record = self._launcher.record(planned, name, snapshot, now)
        if isinstance(record, Refusal):
            return self._refuse(obj, NoLaunch(record), report)
        self._hold(obj)
        limits = limits_by_counter(snapshot.node_pools)
        requested = self._claims.request(with_subnets([record], snapshot), limits, None)
        if requested.refused:
            return self._refuse(obj, NoRoomInLimits(holder(requested.full.get(name) or planned.node_pool)), report)
        market.take(record)
        self._mark(record)
        if not self._is_held(obj):
            message = "another run has released the NodeClaim since this one read it"
            report.decide(DecisionKind.FORGET, name, ClaimReason.NODE_CLAIM_GONE, message)
            self._claims.forget(requested.accepted[0])
        return None

    def _is_held(self, read: JsonObject) -> bool:
        """Whether the object as read is still there with our finalizer.

        Another run may have taken it on, been denied by EC2, and released it between this run's reading and its row: without
        this check, the row would launch an instance that no object shows and nobody can end.
        """
        try:
            present = self._kubernetes.get(NODE_CLAIMS, str(read["metadata"]["name"]))
        except NotFoundError:
            return False
        finalizers = present["metadata"].get("finalizers") or ()
        return _uid(present) == _uid(read) and labels.TERMINATION_FINALIZER in finalizers

    def _hold(self, obj: JsonObject) -> None:
        """Add our finalizer, so that the object cannot vanish before it is marked. Raises ConflictError."""
        metadata = obj["metadata"]
        present = metadata.get("finalizers") or ()
        if labels.TERMINATION_FINALIZER in present:
            return
        body = {
            "metadata": {
                "resourceVersion": metadata.get("resourceVersion"),
                "finalizers": [*present, labels.TERMINATION_FINALIZER],
            }
        }
        self._kubernetes.patch(NODE_CLAIMS, str(metadata["name"]), body)

    def _mark(self, record: ClaimRecord) -> None:
        """Mark the object as the claim's mirror: its status and deletion are then handled like those of every other."""
        wanted = mirrored(record)
        body = {"metadata": {"labels": wanted.labels, "annotations": {labels.CLAIM: record.name}}}
        tolerate_gone(lambda: self._kubernetes.patch(NODE_CLAIMS, record.name, body))

    def _refuse(self, obj: JsonObject, refusal: Refusal, report: RunReport) -> timedelta | None:
        """State in the conditions why nothing is launched; return when to check again if waiting may help."""
        name = str(obj["metadata"]["name"])
        lasts = refusal.reason in _LASTING
        status = "False" if lasts else "Unknown"
        conditions = [condition(kind, status, refusal.message, reason=refusal.reason) for kind in (LAUNCHED, READY)]
        conditions += self._unknown_fields.condition({**KIND, **obj}, about_node_claim(name), report)
        self._statuses.write(Present.of(NODE_CLAIMS, obj), {"conditions": conditions})
        report.decide(DecisionKind.SKIP, name, refusal.reason, refusal.message)
        return None if lasts else CHECKED_AGAIN


def _uid(obj: JsonObject) -> str:
    return str(obj["metadata"].get("uid") or "")
