"""Sweeps over claims: expiry, deleted NodePools, static capacity, scheduled changes, blocked drains, lost messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from adapters.messages import LAUNCHES_A_MESSAGE, wake_up, work_on_claims, work_on_command
from adapters.observation.observer import ClusterState
from adapters.observation.stores import Stores
from adapters.ports import Kubernetes, NotFoundError, Queue
from adapters.store import ClaimStore
from core.calendars import closing_claims, is_for, lacks_warm_room, rules_digest, rules_of, stays_until, why_closed
from core.disruption.expiration import TOO_SHORT, WORKS_FOR, expired
from core.disruption.move_history import HOURS, PRESENCE, REPLICAS
from core.disruption.static_capacity import lacks_nodes, surplus
from core.lifecycle.commands import approaching, is_due
from core.lifecycle.deletion import EXPIRED_WAITS, REPLACED_WITHIN
from core.lifecycle.draining import EscalationLevel
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from core.model.node_pool import GRACE_PERIOD, CalendarRule, NodePool
from core.model.plan import NodeClaim
from core.model.snapshot import Snapshot
from core.reasons.code import ClaimReason, DecisionKind, TerminationReason
from installation.metric_names import DRAINS_BLOCKED, DRAINS_BLOCKED_FOR_A_DAY
from lambdas.controllers.events import about_node_pool, warning, write
from lambdas.controllers.sweeps.due_work import due_work
from lambdas.controllers.sweeps.nodes import SettlingChanges, writers_of
from lambdas.controllers.sweeps.sweep import BudgetedTermination, ClaimTerminator, ReconcileRound, Sweep

# Counts drains without progress, as gauges: all, and those without progress for a day.


class BlockedDrains(Sweep):
    """Counts blocked drains; `core.lifecycle.draining` decides what is done about each."""

    name = "blockedDrains"

    def run(self, round_: ReconcileRound) -> None:
        """Count."""
        levels = [
            record.deletion.escalation_level for record in round_.view.claims.values() if record.deletion is not None
        ]
        round_.report.count(
            DRAINS_BLOCKED, sum(escalation_level >= EscalationLevel.BLOCKED for escalation_level in levels)
        )
        round_.report.count(
            DRAINS_BLOCKED_FOR_A_DAY, sum(escalation_level >= EscalationLevel.ALARMING for escalation_level in levels)
        )


class Expiry(Sweep):
    """Terminates expired claims: within budgets, or regardless of them in NodePools that request it.

    See docs/engineering/handbook/expiry-and-repair.md.

    Either way replacements come first. NodePools whose nodes can only be replaced all the time are told so.
    """

    name = "expiry"

    def __init__(self, kubernetes: Kubernetes, terminator: ClaimTerminator) -> None:
        self._kubernetes = kubernetes
        self._terminator = terminator
        self._budgeted = BudgetedTermination(
            terminator=terminator,
            reason=TerminationReason.EXPIRED,
            blocked=ClaimReason.EXPIRED_BUT_BLOCKED,
            blocked_count="expiredButBlocked",
            waits=EXPIRED_WAITS,
        )

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims that must go, then those that may."""
        view = round_.view
        due = expired(view.snapshot)
        forceful = {pool.name for pool in view.snapshot.node_pools if pool.expires_forcefully}
        must = [name for name in due if view.claims[name].plan.node_pool in forceful]
        round_.each(must, partial(self._must_go, round_=round_), subject=lambda name: name)
        may = [name for name in due if name not in must]

        def report(name: str) -> None:
            message = f"older than {view.claims[name].plan.expire_after}"
            round_.report.decide(DecisionKind.EXPIRE, name, TerminationReason.EXPIRED, message)

        self._budgeted.begin(may, round_, message=lambda _: "expireAfter has passed", begun=report)
        expiring = {view.claims[name].plan.node_pool for name in due}
        short = [
            pool.name
            for pool in view.snapshot.node_pools
            if pool.name in expiring and pool.expire_after is not None and pool.expire_after < WORKS_FOR
        ]
        round_.each(short, partial(self._warn, round_=round_), subject=lambda pool: f"NodePool {pool}")

    def _warn(self, pool: str, *, round_: ReconcileRound) -> None:
        """Write an event on the NodePool, one an hour."""
        reason, now = ClaimReason.EXPIRES_TOO_SOON, round_.clock.now()
        manifest = round_.view.node_pools.get(pool) or {"metadata": {"name": pool}}
        message = f"spec.template.spec.expireAfter: {TOO_SHORT}"
        write(self._kubernetes, [warning(about_node_pool(manifest), reason, message, now, identity=reason)])

    def _must_go(self, name: str, *, round_: ReconcileRound) -> None:
        message = f"older than {round_.view.claims[name].plan.expire_after}, and its NodePool's expiry is forceful"
        self._terminator.begin(
            name,
            TerminationReason.EXPIRED_FORCEFULLY,
            message,
            round_.report,
            ends_at=round_.clock.now() + REPLACED_WITHIN,
        )
        round_.report.decide(DecisionKind.EXPIRE, name, TerminationReason.EXPIRED_FORCEFULLY, message)


# Empties NodePools that calendars close.


FORCED_WITHIN: Final = timedelta(minutes=10)
"""How long the drain of a node may take whose time is over; after that its pods are deleted."""


WARM: Final = "warm room"


class Hours(Sweep):
    """Terminates the claims of NodePools that are outside their hours: within budgets, and in the end without.

    While room is missing that calendars keep warm, `provision` is asked to look after it.

    Pods that may not be evicted keep their node, and are told at once: until when says `podsThatStay` of the rule that closes.
    """

    name = "hours"

    def __init__(self, terminator: ClaimTerminator, changes: SettlingChanges, wake_ups: Queue) -> None:
        self._terminator = terminator
        self._changes = changes
        self._wake_ups = wake_ups
        self._enough_for = ""
        """The room and the nodes of the last round with pods in which no room was missing."""
        self._within_budgets = {
            grace: BudgetedTermination(
                terminator=terminator,
                reason=TerminationReason.OUTSIDE_HOURS,
                blocked=ClaimReason.CLOSED_BUT_OCCUPIED,
                blocked_count="closedButOccupied",
                waits=REPLACED_WITHIN,
                grace_ends_them=grace,
            )
            for grace in (True, False)
        }

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims that must go, then those that may."""
        view = round_.view
        if self._may_lack_room(view.snapshot):
            self._wake_ups.send([wake_up(WARM)])
        closed = (pool for pool in view.snapshot.node_pools if pool.is_closed and not pool.is_observed)
        pools = {pool.name: pool for pool in closed}
        by_hand = {name for name, record in view.claims.items() if record.plan.made_by_hand}
        closing = {n: pools[pool] for n, pool in closing_claims(view.snapshot, pools).items() if n not in by_hand}
        waiting = self._waiting({pool.name for pool in closing.values()}, round_)
        due = {name: pool for name, pool in closing.items() if pool.name not in waiting}
        must = [name for name, pool in due.items() if pool.hours is not None and pool.hours.is_forced]
        round_.each(must, partial(self._must_go, pools=due, round_=round_), subject=lambda name: name)
        for grace, termination in self._within_budgets.items():
            may = [name for name, pool in due.items() if name not in must and _grace_counts(pool) is grace]
            termination.begin(
                may,
                round_,
                message=lambda name: f"NodePool {due[name].name} {why_closed(due[name])}",
                until=lambda name: f"; the node stays {stays_until(due[name])}",
            )

    def _may_lack_room(self, snapshot: Snapshot) -> bool:
        """Whether warm room may be missing; a round without pods relies on one with pods while room and nodes are the same."""
        warm_room = [(b.name, b.pods, b.taken, sorted(b.spec.requests.items())) for b in snapshot.buffers if b.calendar]
        leaving = {claim.name for claim in snapshot.node_claims if claim.deleted_at is not None}
        seen = repr((warm_room, sorted(node.name for node in snapshot.nodes), sorted(leaving)))
        if not warm_room or (not snapshot.pods and seen == self._enough_for):
            return False
        is_missing = not snapshot.pods or lacks_warm_room(snapshot)
        self._enough_for = "" if is_missing else seen
        return is_missing

    def _waiting(self, going: Collection[str], round_: ReconcileRound) -> frozenset[str]:
        """Return the NodePools whose closing rules have not stood still for long enough."""
        view = round_.view
        rules = {pool.name: _closing(rules_of(pool, view.snapshot.calendars)) for pool in view.snapshot.node_pools}
        pools = {pool.name: pool for pool in view.snapshot.node_pools}
        return self._changes.waiting(
            HOURS,
            {name: rules_digest(closing) for name, closing in rules.items()},
            going,
            round_,
            watched={name for name, closing in rules.items() if closing},
            written=lambda name: _written_by(pools[name], view),
        )

    def _must_go(self, name: str, *, pools: Mapping[str, NodePool], round_: ReconcileRound) -> None:
        pool = pools[name]
        message = f"NodePool {pool.name} {why_closed(pool)}, and forceAfter of the rule is over"
        ends_at = round_.clock.now() + REPLACED_WITHIN
        reason = TerminationReason.OUTSIDE_HOURS_FORCED
        self._terminator.begin(name, reason, message, round_.report, ends_at=ends_at, drain_within=FORCED_WITHIN)


def _closing(rules: Sequence[CalendarRule]) -> tuple[CalendarRule, ...]:
    """Return the rules with a say in whether the NodePool is closed, now or at another time."""
    return tuple(rule for rule in rules if rule.settings.closed is not None)


def _written_by(pool: NodePool, view: ClusterState) -> str:
    """Say who writes the rules that close the NodePool: its Calendars, and its own annotation."""
    calendars = [c for c in view.snapshot.calendars if is_for(c, pool) and _closing(c.rules)]
    names = ", ".join(sorted(calendar.name for calendar in calendars))
    sentences = [f"The managedFields of the Calendars that close it name the writers: {names}"] if names else []
    if pool.calendar is not None and _closing(pool.calendar.rules):
        writers = writers_of(view.node_pools.get(pool.name) or {})
        sentences.append(f"The NodePool, with rules in its annotation, was last written by {writers}")
    return ". ".join(sentences)


def _grace_counts(pool: NodePool) -> bool:
    return pool.hours is not None and pool.hours.pods_that_stay == GRACE_PERIOD


# Removes claims whose NodePool is gone.


class DeletedPools(Sweep):
    """Removes nodes with their NodePool (for Karpenter, Kubernetes' garbage collection does).

    A hand-made NodeClaim may name a NodePool that never existed; it belongs to its creator (Karpenter).
    """

    name = "deletedPools"

    def __init__(self, kubernetes: Kubernetes, terminator: ClaimTerminator, changes: SettlingChanges) -> None:
        self._kubernetes = kubernetes
        self._terminator = terminator
        self._changes = changes

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims of each pool that is certainly gone, and does not come and go."""
        view = round_.view
        present = {pool.name for pool in view.snapshot.node_pools if pool.deleted_at is None}
        of_pools = (record for record in view.claims.values() if not record.plan.made_by_hand)
        gone = sorted({record.plan.node_pool for record in of_pools} - present)
        presence = dict.fromkeys(present, "present") | dict.fromkeys(gone, "gone")
        waiting = self._changes.waiting(PRESENCE, presence, gone, round_)
        gone = [pool for pool in gone if pool not in waiting]
        round_.each(gone, lambda pool: self._terminate_claims_of(pool, round_), subject=lambda pool: f"NodePool {pool}")

    def _terminate_claims_of(self, pool: str, round_: ReconcileRound) -> None:
        if self._exists(pool):
            return
        of_pool = (r for r in round_.view.claims.values() if r.plan.node_pool == pool and r.deletion is None)
        claims = [record for record in of_pool if not record.plan.made_by_hand]

        def terminate(record: ClaimRecord) -> None:
            self._terminator.begin(
                record.name, TerminationReason.NODE_POOL_DELETED, f"NodePool {pool} is gone", round_.report
            )

        round_.each(claims, terminate, subject=lambda record: record.name)

    def _exists(self, name: str) -> bool:
        """Whether the NodePool exists, read by name: a list may be stale, and all nodes of the pool would be removed."""
        try:
            manifest = self._kubernetes.get(resources.NODE_POOLS, name)
        except NotFoundError:
            return False
        return not (manifest.get("metadata") or {}).get("deletionTimestamp")


# Static NodePools: removes surplus nodes, and requests missing ones from `provision`.


WAKE_UP: Final = "static capacity"


class StaticCapacity(Sweep):
    """Brings static NodePools to their `replicas`, regardless of budgets: the number is the user's (Karpenter)."""

    name = "staticCapacity"

    def __init__(
        self, claims: ClaimStore, terminator: ClaimTerminator, changes: SettlingChanges, wake_ups: Queue
    ) -> None:
        self._claims = claims
        self._terminator = terminator
        self._changes = changes
        self._wake_ups = wake_ups

    def run(self, round_: ReconcileRound) -> None:
        """Request missing nodes, and remove surplus ones according to the current rows, unless the number comes and goes."""
        snapshot = round_.view.snapshot
        if lacks_nodes(snapshot):
            self._wake_ups.send([wake_up(WAKE_UP)])
        wanted = {pool.name: pool.replicas for pool in snapshot.node_pools if pool.is_static}
        spare = surplus(snapshot)
        replicas_by_pool = {name: str(replicas) for name, replicas in wanted.items()}
        waiting = (
            self._changes.waiting(REPLICAS, replicas_by_pool, {claim.node_pool for claim in spare}, round_)
            if replicas_by_pool
            else ()
        )
        spare = tuple(claim for claim in spare if claim.node_pool not in waiting)
        if not spare:
            return
        staying = {claim.name for claim in self._claims.all() if claim.deletion is None}
        gone = Counter(
            claim.node_pool
            for claim in snapshot.node_claims
            if claim.deleted_at is None and claim.name not in staying | set(snapshot.marked_for_deletion)
        )
        going: list[NodeClaim] = []
        for claim in reversed(spare):  # if others are gone since the observation, the most useful of these stay
            if gone[claim.node_pool] > 0:
                gone[claim.node_pool] -= 1
            else:
                going.append(claim)

        def terminate(claim: NodeClaim) -> None:
            message = f"NodePool {claim.node_pool} wants {wanted[claim.node_pool]} nodes"
            self._terminator.begin(claim.name, TerminationReason.SCALED_DOWN, message, round_.report)

        round_.each(list(reversed(going)), terminate, subject=lambda claim: claim.name)


# Requeues stalled claims and commands: their message may be lost, or they wait for something slow.


COMMAND_CHECKED_FOR: Final = timedelta(minutes=2)
"""How long a command's chain of checks from here lasts: until the next round begins another. A claim's chain may last longer,
since it replaces the previous one."""


class Requeue(Sweep):
    """Requests their next step."""

    name = "stalled"
    is_urgent = True

    def __init__(self, stores: Stores, work: Queue) -> None:
        self._stores = stores
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Send messages about them; this needs only the rows, so it works even if the observation fails."""
        if round_.saw_no_rows():
            return  # a row that was stored since is too recent
        now = round_.clock.now()
        due = due_work(self._stores, now)
        self._work.send(work_on_claims(due.claims, now, at_most=LAUNCHES_A_MESSAGE))
        self._work.send(work_on_command(name, now, checked_for=COMMAND_CHECKED_FOR) for name in due.commands)
        round_.report.count("resumed", len(due.claims) + len(due.commands))


# Removes claims whose instance AWS will retire or restart.


class ScheduledChanges(Sweep):
    """Removes them within budgets some days before their date, without budgets in the last hours (Karpenter: at once)."""

    name = "scheduledChanges"

    def __init__(self, terminator: ClaimTerminator) -> None:
        self._terminator = terminator
        self._budgeted = BudgetedTermination(
            terminator=terminator,
            reason=TerminationReason.SCHEDULED_CHANGE,
            blocked=ClaimReason.SCHEDULED_CHANGE_BLOCKED,
            blocked_count="scheduledChangesBlocked",
            waits=REPLACED_WITHIN,
        )

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims that must go, then those that may."""
        view, now = round_.view, round_.clock.now()
        must = [record for record in view.claims.values() if is_due(record, now)]
        round_.each(must, lambda record: self._must_go(record, round_), subject=lambda record: record.name)
        may = approaching(view.claims.values(), view.snapshot.marked_for_deletion, now)
        self._budgeted.begin(may, round_, message=lambda name: _message(view.claims[name]))

    def _must_go(self, record: ClaimRecord, round_: ReconcileRound) -> None:
        ends_at = round_.clock.now() + REPLACED_WITHIN
        if record.retires_at is not None:
            ends_at = min(ends_at, record.retires_at)
        self._terminator.begin(
            record.name, TerminationReason.SCHEDULED_CHANGE_DUE, _message(record), round_.report, ends_at=ends_at
        )


def _message(record: ClaimRecord) -> str:
    return f"AWS announced a change of instance {record.instance_id} for {record.retires_at:%Y-%m-%dT%H:%M:%SZ}"
