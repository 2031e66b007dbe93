"""Determines which run of `disrupt` may decide now, and when the next one starts (docs/engineering/handbook/runs.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from adapters.observability import logger
from adapters.observation.observer import ClusterState
from adapters.observation.stores import Stores
from adapters.ports import Clock, ConflictError, Kubernetes, NotFoundError, PortError, Queue
from adapters.run_report import RunReport
from adapters.store import DECIDER, Lease, Leases, MoveHistoryStore, Targets
from core.calendars import WARM_NAMESPACE, is_for, rules_digest, rules_of
from core.disruption.deletion_costs import deletion_cost_changes, nodes_going_next
from core.disruption.move_history import BUFFER, WARM, MoveHistory, Rollout, rollouts, said_now, settling_message
from core.disruption.resync import next_run_at
from core.disruption.target.stored import after_commands, digest
from core.lifecycle import steps
from core.lifecycle.commands import names_of_replacements
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.lifecycle.steps import CommandFacts
from core.manifests.wire import resources
from core.model.node_pool import CalendarRule
from core.model.plan import Command, DisruptionPlan, Hold, NodeClaim, StoredTarget
from core.model.snapshot import TARGET_AGE_MAX, Snapshot
from core.reasons.code import DecisionKind, TerminationReason
from core.reasons.nodes import NodeReason
from core.reasons.runs import CommandReason, RunReason
from core.scheduling.context import buffer_of_key
from installation.metric_names import ROLLOUTS_STOPPED
from lambdas.controllers.events import ObjectWarnings
from lambdas.controllers.run_requests import GATHERED, RunPace, RunRequests

# Writes deletion costs to pods of nodes that go next, and removes them from others (`steerScaleIn`).


FAILURES: Final = 3
"""After this many refusals a run stops writing: a deletion cost is only a hint."""


class DeletionCostWriter:
    """Does nothing where the setting is off."""

    def __init__(self, kubernetes: Kubernetes, *, is_on: bool) -> None:
        self._kubernetes = kubernetes
        self._is_on = is_on

    def write(self, snapshot: Snapshot, target: StoredTarget | None, report: RunReport) -> None:
        """Mark the pods of the nodes that the target drains next, and no others."""
        if not self._is_on:
            return
        written = failures = 0
        for change in deletion_cost_changes(snapshot.pods, nodes_going_next(target)):
            body = {"metadata": {"uid": change.uid, "annotations": change.annotations}}
            try:
                self._kubernetes.patch(resources.PODS, change.name, body, namespace=change.namespace)
                written += 1
            except (NotFoundError, ConflictError):
                continue
            except PortError as error:
                failures += 1
                logger.warning("deletion cost not written", extra={"pod": change.name, "problem": str(error)})
                if failures == FAILURES:
                    break
        report.count("steeredPods", written)
        report.count("failedSteering", failures)


# Stores on which nodes pods arrived or left, for `disrupt` and `reconcile`.


POD_EVENTS_PER_RUN: Final = 500
"""The most writes per observation: minutely CronJobs on thousands of nodes would otherwise cause as many writes a minute,
indefinitely."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def write_pod_events(stores: Stores, view: ClusterState) -> None:
    """Store on which nodes pods arrived or left; a concurrent write wins, and the next observation detects the event again.

    If there are many, those with the oldest last event come first. A node whose event is not stored counts as still changing,
    so it is consolidated later, never earlier.
    """
    oldest_first = sorted(view.pod_events, key=lambda event: (event[0].last_pod_event_at or _NEVER, event[0].name))
    for before, after in oldest_first[:POD_EVENTS_PER_RUN]:
        try:
            stores.claims.change(before, after)
        except ConflictError:
            continue


# Stores the state of rollouts, and passes to decisions how many nodes they let go.


GATE_FAILURES: Final = (CommandReason.TIMEOUT, CommandReason.REPLACEMENT_LOST)
"""Reasons for abandoning a drift command that count against its rollout."""


def with_rollouts(
    moves: MoveHistoryStore, view: ClusterState, warnings: ObjectWarnings, report: RunReport
) -> ClusterState:
    """Return the view with the rollouts' gates and with the nodes that settling room keeps, after storing the state of both."""
    now = view.snapshot.now
    stored_rollouts = moves.read(now).rollouts
    by_pool = rollouts(view.snapshot, stored_rollouts)
    changed = {pool: seen.rollout for pool, seen in by_pool.items() if stored_rollouts.get(pool) != seen.rollout}
    if changed:
        moves.write(MoveHistory(rollouts=changed), now)
    gates = {pool: seen.gate for pool, seen in by_pool.items() if seen.gate is not None}
    for pool, gate in gates.items():
        if gate.is_stopped:
            report.count(ROLLOUTS_STOPPED)
            report.decide(DecisionKind.SKIP, pool, NodeReason.ROLLOUT_STOPPED, gate.message)
        elif gate.is_settling:
            report.decide(DecisionKind.SKIP, pool, NodeReason.ROLLOUT_SETTLING, gate.message)
    if gates:
        view = msgspec.structs.replace(view, snapshot=msgspec.structs.replace(view.snapshot, rollouts=gates))
    return _with_settling_room(moves, view, stored_rollouts, warnings, report)


# Keeps nodes that were bought for room which comes and goes: it would be bought again.


def _with_settling_room(
    moves: MoveHistoryStore,
    view: ClusterState,
    stored_rollouts: Mapping[str, Rollout],
    warnings: ObjectWarnings,
    report: RunReport,
) -> ClusterState:
    """Return the view in which nodes stay for a while that were bought for room, if what asks for it changes again and again.

    The first wish is followed at once, and so is the end of one that stood for an hour.
    """
    now, bought = view.snapshot.now, _bought_for_room(view)
    rows = _rows_of_room(view, bought, stored_rollouts)
    changed = {key: row for key, row in rows.items() if row != stored_rollouts.get(key)}
    if changed:
        moves.write(MoveHistory(rollouts=changed), now)
    settling = [rows[key] for key in bought if rows[key].changed_at and rows[key].is_settling(now)]
    if not settling:
        return view
    held: dict[str, Hold] = {}
    for row in settling:
        message = settling_message(row)
        report.decide(DecisionKind.SKIP, row.node_pool.partition("/")[2], NodeReason.ROLLOUT_SETTLING, message)
        hold = Hold(row.settles_at, NodeReason.ROLLOUT_SETTLING, message)
        held |= dict.fromkeys((claim.name for claim in bought[row.node_pool]), hold)
    warnings.settling(
        (_subject(row), len(row.changed_at), f"{settling_message(row)}. {_writers(row, view)}") for row in settling
    )
    claims = tuple(_held(claim, held.get(claim.name)) for claim in view.snapshot.node_claims)
    return msgspec.structs.replace(view, snapshot=msgspec.structs.replace(view.snapshot, node_claims=claims))


def _rows_of_room(
    view: ClusterState, bought: Mapping[str, Sequence[ClaimRecord]], stored_rollouts: Mapping[str, Rollout]
) -> dict[str, Rollout]:
    """Return key → the row of what asks for room now; a claim is proof of a wish that no pass has seen."""
    now, rows = view.snapshot.now, dict[str, Rollout]()
    keys = {*bought, *(key for key in stored_rollouts if key.startswith((WARM, BUFFER)))}
    text_by_key = _said_of_room(view) if keys else {}
    for key in sorted(keys):
        text, before = text_by_key.get(key, ""), stored_rollouts.get(key)
        if before is None and not text:
            before = said_now(None, key, "bought", max(claim.requested_at for claim in bought[key]))
        row = said_now(before, key, text, now)
        rows[key] = row.kept(now) if key in bought else row
    return rows


def _bought_for_room(view: ClusterState) -> dict[str, list[ClaimRecord]]:
    """Return the key of what asks for room → the claims that were bought for it and stay, by key."""
    bought: dict[str, list[ClaimRecord]] = {}
    for record in view.claims.values():
        buffers = {buffer_of_key(pod) for pod in record.plan.buffer_pods} if record.deletion is None else set[str]()
        for buffer in sorted(buffers - {""}):
            namespace, _, name = buffer.partition("/")
            key = WARM + name if namespace == WARM_NAMESPACE else BUFFER + buffer
            bought.setdefault(key, []).append(record)
    return dict(sorted(bought.items()))


def _said_of_room(view: ClusterState) -> dict[str, str]:
    """Return key → digest of what asks for room as it is written; clocks that open and close windows are no change.

    A buffer that is a percentage of a workload has not changed when the workload scales: autoscalers do that on purpose.
    """
    snapshot = view.snapshot
    text_by_key = {
        WARM + pool.name: rules_digest(_of_room(rules_of(pool, snapshot.calendars)), of_room=True)
        for pool in snapshot.node_pools
    }
    shapes = {f"{buffer.namespace}/{buffer.name}": buffer.spec.requests for buffer in snapshot.buffers}
    for written in view.buffers:
        name, spec = f"{written.metadata.namespace or 'default'}/{written.metadata.name}", written.spec
        if name in shapes:
            parts = (spec.replicas, spec.percentage, sorted((spec.limits or {}).items()), sorted(shapes[name].items()))
            text_by_key[BUFFER + name] = blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()
    return text_by_key


def _of_room(rules: Iterable[CalendarRule]) -> tuple[CalendarRule, ...]:
    """Return the rules with a say in warm room, none if no rule keeps any."""
    rules = tuple(rule for rule in rules if rule.settings.warm is not None or rule.settings.closed is not None)
    return rules if any(rule.settings.warm is not None for rule in rules) else ()


def _subject(row: Rollout) -> str:
    name = row.node_pool.partition("/")[2]
    return f"NodePool/{name}" if row.node_pool.startswith(WARM) else f"CapacityBuffer/{name}"


def _writers(row: Rollout, view: ClusterState) -> str:
    """Say who writes what asks for the room."""
    kind, _, name = row.node_pool.partition("/")
    pool = next((pool for pool in view.snapshot.node_pools if f"{kind}/" == WARM and pool.name == name), None)
    calendars = [] if pool is None else [c.name for c in view.snapshot.calendars if is_for(c, pool)]
    whose = f"Calendars {', '.join(sorted(calendars))}" if calendars else "the object"
    return f"The managedFields of {whose} name the writers"


def _held(claim: NodeClaim, hold: Hold | None) -> NodeClaim:
    is_longer = hold is not None and (claim.hold is None or claim.hold.until < hold.until)
    return msgspec.structs.replace(claim, hold=hold) if is_longer else claim


def failed_rollouts(
    moves: MoveHistoryStore, record: CommandRecord, facts: CommandFacts, step: steps.Abandon, now: datetime
) -> None:
    """Record that a drift command failed because its replacements did not become ready."""
    if record.command.reason != TerminationReason.DRIFTED or step.reason not in GATE_FAILURES:
        return
    stored_rollouts = moves.read(now).rollouts
    pools = sorted({facts.claims[name].plan.node_pool for name in record.command.claims if name in facts.claims})
    failed: dict[str, Rollout] = {
        pool: stored_rollouts[pool].after_failure(f"command {record.id}: {step.message}", now)
        for pool in pools
        if pool in stored_rollouts
    }
    if failed:
        moves.write(MoveHistory(rollouts=failed), now)


LEASE_FOR: Final = timedelta(minutes=1)
"""Duration of the lease: most runs take seconds. A longer run may overlap with another; of equal commands, one is validated."""

FOLLOWED_AFTER: Final = timedelta(seconds=5)
"""Delay until the next run after one that met another run, or commands that are being validated."""


AFTER_PARTS: Final = timedelta(seconds=30)
"""Delay until the next run after one that joined the decisions about a cluster's parts: commands are validated by then."""


class RunCoordination:
    """Spaces runs of `disrupt`, lets one decide at a time, and requests the next one."""

    def __init__(self, leases: Leases, run_requests: Queue, clock: Clock) -> None:
        self._leases = leases
        self._requests = RunRequests(run_requests, clock)
        self._pace = RunPace()
        self._is_postponed = False
        self._clock = clock

    def began(self, hops: int, report: RunReport) -> None:
        """Record that a run begins to which this many messages in a row have led."""
        self._requests.began(hops, report)

    def is_too_early(self, report: RunReport) -> bool:
        """Whether a run that a message started is too soon after the last pass; requests a later one then."""
        now = self._clock.now()
        earliest = self._pace.earliest(now)
        if earliest <= now:
            return False
        self._requests.ask("spaced", earliest)
        report.count("spacedRuns")
        return True

    def take(self, owner: str, report: RunReport) -> Lease | None:
        """Take the lease; while another run holds it, request one more run and return None. Raises PortError."""
        lease = self._leases.acquire(DECIDER, owner, now=self._clock.now(), for_=LEASE_FOR)
        if lease is None:
            self._requests.ask("another run decides", self._clock.now() + FOLLOWED_AFTER)
            report.count("busyRuns")
        return lease

    def give_up(self, lease: Lease) -> None:
        """Release the lease. Raises PortError."""
        self._leases.release(lease)

    def ask_after_validation(self, commands: Iterable[CommandRecord]) -> None:
        """Request a run for the time when the waiting commands have been validated.

        If they are late, the next run comes after the same delay again: the validating run may have crashed and is repeated.
        """
        due = max((command.verify_at for command in commands if not command.has_started), default=None)
        if due is not None:
            now = self._clock.now()
            self._requests.ask("validated", max(due + FOLLOWED_AFTER, now + max(FOLLOWED_AFTER, now - due)))

    def ask_after_parts(self) -> None:
        """Request a run for the time when the commands about a cluster's parts have been validated."""
        self._requests.ask("parts joined", self._clock.now() + AFTER_PARTS)

    def is_postponed(self, snapshot: Snapshot, report: RunReport) -> bool:
        """Whether to decide some seconds later, when more nodes will be disruptable; if so, request that run.

        Nodes that are disruptable together go in the same waves; later ones need further waves, each with its validation. A
        decision is never postponed twice in a row: if pods change all the time, some node is always about to be disruptable.
        """
        moment = next_run_at(snapshot, GATHERED)
        if self._is_postponed or moment is None or moment - self._clock.now() > GATHERED:
            self._is_postponed = False
            return False
        self._is_postponed = True
        self._requests.ask("soon more", moment)
        report.count("postponedRuns")
        return True

    def ended(self, view: ClusterState, *, is_new: bool, has_commands: bool) -> None:
        """Request a run for the next time at which a node may become disruptable without any event.

        Args:
            view: What was observed.
            is_new: Whether a decision was made; a pass over an unchanged cluster does not count as one without commands.
            has_commands: Whether commands were decided.
        """
        is_moving = bool(view.commands) or any(claim.deletion is not None for claim in view.claims.values())
        if is_new:
            self._pace.ended(self._clock.now(), has_commands=has_commands or is_moving)
        moment = next_run_at(view.snapshot, GATHERED)
        self._pace.awaits(moment)
        if moment is not None:
            self._requests.ask("known moment", max(moment, self._pace.earliest(self._clock.now())))


# Stores the target of the fleet between two passes: each pass continues with the next wave instead of planning again.


RENEWED_AFTER: Final = TARGET_AGE_MAX / 2
"""The time of an equal target is stored after this long: while its commands cannot begin, each pass decides the same again."""


class TargetProgress:
    """One cluster's target. A lost target costs one more search in the next pass, so a failure to store it stops nothing."""

    def __init__(self, targets: Targets, costs: DeletionCostWriter) -> None:
        self._targets = targets
        self._costs = costs

    def with_target(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the stored target. Raises PortError."""
        return msgspec.structs.replace(snapshot, stored_target=self._targets.read())

    def keep(
        self, snapshot: Snapshot, plan: DisruptionPlan, begun: Iterable[tuple[str, Command]], report: RunReport
    ) -> None:
        """Store the rest of the plan's target without these started commands, by id; mark pods that go next.

        A command that is abandoned needs no entry: its nodes are candidates again in the next pass.
        """
        if plan.target_reason:
            report.count(plan.target_reason[0].lower() + plan.target_reason[1:])
        self._costs.write(snapshot, plan.target, report)
        target = remaining_target(snapshot, plan, begun)
        report.count("targetDrains", len(target.drains) if target is not None else 0)
        if _is_stored(target, snapshot.stored_target):
            return
        try:
            self._targets.write(target)
        except PortError as error:
            report.decide(DecisionKind.SKIP, "target", RunReason.TARGET_NOT_KEPT, str(error))


def remaining_target(
    snapshot: Snapshot, plan: DisruptionPlan, begun: Iterable[tuple[str, Command]]
) -> StoredTarget | None:
    """Return the plan's target without what these commands do."""
    if plan.target is None:
        return None
    commands, names = list[Command](), dict[str, str]()
    for command_id, command in begun:
        commands.append(command)
        launched = names_of_replacements(command_id, command)
        names |= {claim.name: name for claim, name in zip(command.replacements, launched, strict=True)}
    return after_commands(plan.target, commands, snapshot.pods, names)


def _is_stored(remaining: StoredTarget | None, stored: StoredTarget | None) -> bool:
    """Whether the stored target needs no change. One that was only decided again gets its new time before it is too old."""
    if remaining is None or stored is None:
        return remaining is stored
    if timedelta(0) <= remaining.made_at - stored.made_at < RENEWED_AFTER:
        remaining = msgspec.structs.replace(remaining, made_at=stored.made_at)
    return digest(remaining) == digest(stored)
