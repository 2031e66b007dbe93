"""Carries out the steps of a leaving claim, from the taint to the deletion of its Node; the record holds the progress."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final

import msgspec

from adapters.observation.observer import ClusterState
from adapters.ports import (
    Clock,
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    JsonObject,
    Kubernetes,
    LostReplyError,
    NotFoundError,
    PortError,
    SeveralBudgetsError,
    ThrottledError,
)
from adapters.run_report import RunReport
from adapters.store import ClaimStore, Requested
from core.errors import invariant
from core.ledger.entry import and_groups
from core.lifecycle import draining, steps
from core.lifecycle.deletion import (
    awaits_replacements,
    drain_cancelled,
    emptied,
    hold_for,
    lets_groups_end,
    replacements,
    tainted,
)
from core.lifecycle.draining import (
    SOONEST,
    EscalationLevel,
    EvictionRefusal,
    after_tries,
    awaited_finalizers,
    identity,
    needs_surge,
    next_check,
)
from core.lifecycle.launching import size_of_group
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.lifecycle.steps import ClaimFacts, Drain, Escalate
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.model.plan import Hold, Plan
from core.model.pod import Pod
from core.pods import is_drainable, names_group
from core.reasons.code import ClaimReason, DecisionKind, TerminationReason
from core.reasons.pods import EvictionReason
from core.reasons.runs import DrainReason
from lambdas.controllers.events import (
    about_node,
    about_node_claim,
    about_pod,
    in_time,
    is_of_webhook,
    warning,
    write,
)
from lambdas.controllers.nodes import NodeStateReader, delete_node, patch_node, release_node

# Cancels a drain: restores the claim first, then removes the marks on the node.


class DrainCancellation:
    """Carries out the step `CancelDrain`."""

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._clock = clock

    def carry_out(
        self, record: ClaimRecord, step: steps.CancelDrain, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Revoke the deletion, with the claim's share of all limits and caps that count it, and open the node again.

        If one of them has no room any more, since its replacement may have taken it, the node continues to leave. A crash after
        the claim is stored leaves a stray taint, which `reconcile` removes.
        """
        restored = self._restored(record, step, reader)
        if restored is None:
            deletion = record.deletion and msgspec.structs.replace(record.deletion, is_final=True)
            report.decide(
                DecisionKind.DRAIN,
                record.name,
                DrainReason.NO_ROOM_TO_GIVE_BACK,
                f"drain not cancelled although {step.message}",
            )
            return self._claims.change(record, msgspec.structs.replace(record, deletion=deletion))
        report.decide(
            DecisionKind.ABANDON, record.name, step.reason, f"drain of node {step.node} cancelled: {step.message}"
        )
        report.count("cancelledDrains")
        self._open(step.node, reader)
        return restored

    def _restored(self, record: ClaimRecord, step: steps.CancelDrain, reader: NodeStateReader) -> ClaimRecord | None:
        """Return the restored claim, None if its NodePool is gone or invalid, or if a limit or cap has no room."""
        limits = reader.limits_in_force()
        if record.plan.node_pool not in limits and not record.plan.made_by_hand:
            return None
        now = self._clock.now()
        hold = Hold(now + hold_for(record.cancelled_drains), step.reason, f"its drain was cancelled: {step.message}")
        return self._claims.change_within(record, drain_cancelled(record, hold), limits)

    def _open(self, node: str, reader: NodeStateReader) -> None:
        for _ in range(2):
            seen = reader.node(node)
            if seen is None:
                return
            try:
                release_node(self._kubernetes, seen)
            except ConflictError:
                reader.refresh(node)
            else:
                reader.refresh(node)
                return


# Writes Kubernetes events on a node and on the pods that block its drain, or that start together with others.
#
# There is one for each escalation level and object.


PODS_WITH_EVENT_MAX: Final = 10
"""The most pods that get an event at one escalation level; the node's event names the first of all."""


class DrainEvents:
    """Writes FailedDraining events (Karpenter's name), and which groups lose members by a drain."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def of_groups(self, record: ClaimRecord, node: str, pods: Sequence[Pod]) -> None:
        """Say on a node that goes, its claim and the members there, which groups that start together lose members.

        A command has said it of its nodes when it started.
        """
        deletion = _deletion_of(record)
        if deletion.command or not any(map(names_group, pods)):
            return
        from core.gangs import groups_named, is_member  # most clusters have none

        members = [pod for pod in pods if is_member(pod)]
        if not members:
            return
        reason = TerminationReason.stored(deletion.reason)
        groups = groups_named(members, size_of_group(record), may_wait=lets_groups_end(deletion))
        message = and_groups(f"node {node} drains: {reason.clause}", groups)
        about = [about_node(node), about_node_claim(record.name)]
        about += [about_pod(pod.namespace, pod.name, pod.uid) for pod in members[:PODS_WITH_EVENT_MAX]]
        now = self._clock.now()
        events = (warning(subject, reason, message, now, identity=message) for subject in about)
        write(self._kubernetes, in_time(events, self._clock))

    def publish(self, node: str, step: Escalate) -> None:
        """Write the events of one escalation level."""
        now = self._clock.now()

        def event(about: JsonObject, message: str) -> JsonObject:
            return warning(about, "FailedDraining", message, now, identity=f"{message}/{step.escalation_level}")

        pods = [(blocker.pod, blocker.message) for blocker in step.blockers[:PODS_WITH_EVENT_MAX]]
        events = [
            event(about_node(node), step.message),
            *(event(about_pod(pod.namespace, pod.name, pod.uid), message) for pod, message in pods),
        ]
        write(self._kubernetes, in_time(events, self._clock))


# Remembers which workloads just lost pods by force, so that evictions do not count on a budget's status of before.
#
# The API server admits an eviction by the status of the pod's PodDisruptionBudget, and charges it there at once. A deletion by
# force counts only when the disruption controller has seen it, usually within 0.1 seconds
# (docs/engineering/handbook/draining.md).


COUNTED_AFTER: Final = timedelta(seconds=1)
"""How long after a deletion by force the other pods of the workload are not evicted."""


class ForcedDeletions:
    """The workloads that lost pods by force within `COUNTED_AFTER`; threads that handle claims of one message share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._last: dict[str, datetime] = {}

    def note(self, pod: Pod) -> None:
        """Note a deletion, before the call and after it: other threads evict meanwhile, and it may happen at any moment."""
        now = self._clock.now()
        with self._lock:
            self._last = {workload: at for workload, at in self._last.items() if at + COUNTED_AFTER > now}
            self._last[pod.workload] = now

    def wait(self, pod: Pod) -> timedelta:
        """Return in what time the pod may be evicted; zero or less for now."""
        with self._lock:
            last = self._last.get(pod.workload)
        return timedelta(0) if last is None else last + COUNTED_AFTER - self._clock.now()


# Evicts pods through the API server, or deletes overdue ones; an error for one pod does not stop the others.


ROUND_FOR: Final = timedelta(seconds=10)
"""Time for one round: a hanging webhook may delay each eviction, and the invocation has a minute for all."""


class EvictionRound(msgspec.Struct):
    """The results of one round.

    Attributes:
        refused: Key of each pod that was not evicted or forced off → the refusal.
        moved: How many pods were evicted or forced off.
        wait: The delay that the API server requests.
        postponed: When to try the pods again whose workload just lost a pod by force; zero if there are none.
    """

    refused: dict[str, EvictionRefusal] = {}
    moved: int = 0
    wait: timedelta = timedelta(0)
    postponed: timedelta = timedelta(0)


class Evictor:
    """Carries out the step `Drain`."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._forced = ForcedDeletions(clock)

    def carry_out(self, step: Drain, deletion: Deletion, node: str, report: RunReport) -> EvictionRound:
        """Evict the pods in order, until the round's time is up or the server requests a delay."""
        done = EvictionRound()
        until = self._clock.now() + ROUND_FOR
        for index, (pod, grace) in enumerate(step.force):
            if self._clock.now() >= until:
                report.count("postponedEvictions", len(step.force) - index)
                break
            self._force(pod, grace, node, done, report)
        for index, pod in enumerate(step.evict):
            if done.wait or self._clock.now() >= until:
                report.count("postponedEvictions", len(step.evict) - index)
                break
            if (wait := self._forced.wait(pod)) > timedelta(0):
                report.count("postponedEvictions")
                done.postponed = max(done.postponed, wait)
            else:
                self._evict(pod, deletion, node, done, report)
        return done

    def _evict(self, pod: Pod, deletion: Deletion, node: str, done: EvictionRound, report: RunReport) -> None:
        try:
            self._kubernetes.evict(pod.namespace, pod.name, uid=pod.uid)
        except PortError as error:
            if _is_gone(error):
                return
            refusal = _refusal(error)
            done.refused[pod.key] = refusal
            done.wait = max(done.wait, refusal.retry_after)
            before = deletion.tries.get(identity(pod))
            if before is None or before.reason != refusal.reason:
                report.decide(DecisionKind.DRAIN, pod.key, refusal.reason, str(error))
        else:
            done.moved += 1
            report.decide(
                DecisionKind.DRAIN, pod.key, TerminationReason.stored(deletion.reason), f"evicted from {node}"
            )

    def _force(self, pod: Pod, grace: int, node: str, done: EvictionRound, report: RunReport) -> None:
        self._forced.note(pod)
        try:
            self._kubernetes.delete(resources.PODS, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=grace)
        except PortError as error:
            if _is_gone(error):
                return
            refusal = _refusal(error)
            done.refused[pod.key] = msgspec.structs.replace(refusal, is_forced=True)
            report.decide(DecisionKind.DRAIN, pod.key, refusal.reason, f"{error}: it could not be deleted")
        else:
            done.moved += 1
            report.decide(DecisionKind.DRAIN, pod.key, DrainReason.DEADLINE_REACHED, f"deleted from {node}")
        finally:
            self._forced.note(pod)


def _is_gone(error: PortError) -> bool:
    """Whether the pod is gone, or another pod has its name."""
    return isinstance(error, NotFoundError | ConflictError) and not is_of_webhook(error)


def _refusal(error: PortError) -> EvictionRefusal:
    """Classify an error, specific types before general ones. A webhook's delay is not the server's: neighbours do not wait."""
    if isinstance(error, EvictionBlockedError):
        return EvictionRefusal(EvictionReason.POD_DISRUPTION_BUDGET)
    if isinstance(error, SeveralBudgetsError):
        return EvictionRefusal(EvictionReason.SEVERAL_BUDGETS)
    if is_of_webhook(error):
        return EvictionRefusal(EvictionReason.WEBHOOK_FAILED)
    if isinstance(error, ThrottledError):
        return EvictionRefusal(EvictionReason.THROTTLED, error.retry_after)
    if isinstance(error, LostReplyError):
        return EvictionRefusal(EvictionReason.NO_REPLY)
    return EvictionRefusal(EvictionReason.DENIED if isinstance(error, DeniedError) else EvictionReason.SERVER_ERROR)


# Tracks the replacements that the pods of a leaving node wait for: the planner stores them, the drain reads them.


ATTEMPTS: Final = 2
"""Attempts to write: while the pods are planned, the node is tainted and the taint stored, so one conflict is expected."""


class Replacing:
    """Maintains `Deletion.replacements`. A lost write only skips the wait: the node is drained when its time is up."""

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def note(
        self, plan: Plan, requested: Requested, refused: Collection[str], view: ClusterState, report: RunReport
    ) -> None:
        """Store the replacements that were planned for pods that must move.

        Args:
            plan: The plan of this run.
            requested: Its claims.
            refused: Names of the claims that EC2 refused.
            view: The observation that the plan was made from.
            report: Receives what could not be stored.
        """
        if not view.displaced:
            return
        stored = [record for record in requested.accepted if record.name not in refused]
        lost = [*requested.refused, *(record for record in requested.accepted if record.name in refused)]
        unplaced = {unplaced_pod.pod for unplaced_pod in plan.unschedulable} | {
            pod for record in lost for pod in record.plan.pods
        }
        records = (*view.claims.values(), *stored)
        for name, pods in view.displaced.items():
            self._write(name, replacements(pods, records, plan.bindings, unplaced), report)

    def with_replacements(self, record: ClaimRecord, facts: ClaimFacts) -> ClaimFacts:
        """Return the facts, completed with whether all replacements are ready; that is read only if the drain waits."""
        deletion = record.deletion
        if deletion is None or deletion.tainted_at is None or not awaits_replacements(record):
            return facts
        names = deletion.replacements
        is_ready = names is not None and all(self._is_ready(name) for name in names)
        return msgspec.structs.replace(facts, has_replacements=is_ready)

    def _is_ready(self, name: str) -> bool:
        record = self._claims.get(name)
        return record is not None and record.phase is ClaimPhase.INITIALIZED and record.deletion is None

    def _write(self, name: str, planned: tuple[str, ...] | None, report: RunReport) -> None:
        for _ in range(ATTEMPTS):
            record = self._claims.get(name)
            if record is None or record.deletion is None or not awaits_replacements(record):
                return
            if record.deletion.replacements == planned:
                return
            deletion = msgspec.structs.replace(record.deletion, replacements=planned)
            try:
                self._claims.change(record, msgspec.structs.replace(record, deletion=deletion))
            except ConflictError:
                continue
            return
        report.decide(
            DecisionKind.SKIP,
            name,
            ClaimReason.REPLACEMENTS_NOT_NOTED,
            "its claim was changed meanwhile; the next plan notes them",
        )


# Restarts the Deployment of a pod that cannot be evicted, if its owner opted in and the installation permits it.


class Surge:
    """Does nothing unless the setting is on: without it the ClusterRole has no `patch` on Deployments."""

    def __init__(self, kubernetes: Kubernetes, *, is_on: bool) -> None:
        self._kubernetes = kubernetes
        self._is_on = is_on

    def restart(self, pod: Pod, claim: str, report: RunReport) -> None:
        """Restart the pod's Deployment for the drain of `claim`, once; objections are reported, never raised."""
        if not self._is_on or not pod.may_surge:
            return
        try:
            self._restart(pod, claim, report)
        except PortError as error:
            reason = DrainReason.SURGE_DENIED if isinstance(error, DeniedError) else DrainReason.SURGE_FAILED
            report.decide(DecisionKind.DRAIN, pod.key, reason, str(error))

    def _restart(self, pod: Pod, claim: str, report: RunReport) -> None:
        replica_set = self._owner(resources.REPLICA_SETS, pod.namespace, pod.controller)
        deployment = self._owner(resources.DEPLOYMENTS, pod.namespace, _controller_of(replica_set))
        if deployment is None:
            report.decide(DecisionKind.DRAIN, pod.key, DrainReason.SURGE_REFUSED, "it has no Deployment")
            return
        if draining.is_restarted(deployment, claim):
            return
        name = deployment.metadata.name
        why = draining.objection(deployment)
        if why:
            report.decide(
                DecisionKind.DRAIN, pod.key, DrainReason.SURGE_REFUSED, f"Deployment {name} is not restarted: {why}"
            )
            return
        self._kubernetes.patch(
            resources.DEPLOYMENTS, name, draining.restart(deployment, claim), namespace=pod.namespace
        )
        report.count("surgeRestarts")
        message = f"Deployment {name} is restarted, so that its new pod runs on another node before this one stops"
        report.decide(DecisionKind.DRAIN, pod.key, DrainReason.SURGE_RESTART, message)

    def _owner(self, kind: Resource, namespace: str, name: str) -> Any:
        """Return one object by listing: the functions may list workloads, and need no further verb for this."""
        if not name:
            return None
        only = f"metadata.namespace={namespace},metadata.name={name}"
        return next(iter(self._kubernetes.list(kind, fields=only).items), None)


def _controller_of(replica_set: Any) -> str:
    """Return the name of a ReplicaSet's Deployment, empty for none."""
    references = replica_set.metadata.owner_references if replica_set is not None else ()
    return next((owner.name for owner in references if owner.controller and owner.kind == "Deployment"), "")


class Draining:
    """Closes a node to new pods, evicts its pods, and finally deletes the Node."""

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, surge: Surge, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._clock = clock
        self._evictor = Evictor(kubernetes, clock)
        self._surge = surge
        self._events = DrainEvents(kubernetes, clock)

    def taint(self, record: ClaimRecord, step: steps.TaintNode, reader: NodeStateReader) -> ClaimRecord:
        """Mark the node.

        The first time is recorded: terminationGracePeriod starts then, and its share of the limits is released.
        """
        deletion, seen, pods = _deletion_of(record), reader.node(step.node), reader.pods_on(step.node)
        if seen is not None:
            patch_node(self._kubernetes, seen, labels=step.labels, annotations=step.annotations, taints=step.taints)
            reader.refresh(step.node)
        if deletion.tainted_at is not None:
            return record
        changed = self._claims.change(record, tainted(record, self._clock.now()))
        self._events.of_groups(changed, step.node, pods)
        return changed

    def drain(self, record: ClaimRecord, step: steps.Drain, facts: ClaimFacts, report: RunReport) -> timedelta:
        """Evict and force off the pods of the step, and store the results; return when to check again."""
        deletion, begun = _deletion_of(record), self._clock.now()
        done = self._evictor.carry_out(step, deletion, record.node_name, report)
        waiting = [pod for pod in facts.pods if is_drainable(pod, begun)]
        now = self._clock.now()
        postponed = done.postponed > timedelta(0)
        after = after_tries(deletion, waiting, done.refused, now, moved=done.moved > 0, postponed=postponed)
        if after is not deletion:
            self._changed(record, after)
        for pod in waiting:
            if pod.key in done.refused and needs_surge(after.tries[identity(pod)]):
                self._surge.restart(pod, record.name, report)
        soon = max(SOONEST, done.postponed) if postponed else next_check(after, waiting, now)
        return max(soon, done.wait)

    def note_empty(self, record: ClaimRecord) -> ClaimRecord:
        """Store when only volumes were first seen to keep the node."""
        return self._claims.change(record, emptied(record, self._clock.now()))

    def escalate(self, record: ClaimRecord, step: steps.Escalate, report: RunReport) -> ClaimRecord:
        """Report that the drain makes no progress: once for each level, so the level is stored first."""
        deletion = msgspec.structs.replace(_deletion_of(record), escalation_level=step.escalation_level)
        changed = self._changed(record, deletion)
        report.decide(
            DecisionKind.DRAIN, record.node_name, _REASONS[EscalationLevel(step.escalation_level)], step.message
        )
        self._events.publish(record.node_name, step)
        return changed

    def delete_node(
        self, record: ClaimRecord, step: steps.DeleteNode, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Delete exactly this Node object; report if other finalizers keep it."""
        seen = reader.node(step.node)
        if seen is not None:
            with suppress(ConflictError):
                delete_node(self._kubernetes, seen)
        reader.refresh(step.node)
        view = reader.node(step.node)
        if view is not None and view.node.finalizers:
            report.decide(
                DecisionKind.TERMINATE, record.name, ClaimReason.AWAITING_FINALIZERS, awaited_finalizers(view.node)
            )
        return record

    def _changed(self, record: ClaimRecord, deletion: Deletion) -> ClaimRecord:
        return self._claims.change(record, msgspec.structs.replace(record, deletion=deletion))


_REASONS: Final = {
    EscalationLevel.SLOW: DrainReason.SLOW,
    EscalationLevel.BLOCKED: DrainReason.BLOCKED,
    EscalationLevel.LASTING: DrainReason.LASTING,
    EscalationLevel.ALARMING: DrainReason.ALARMING,
}


def _deletion_of(record: ClaimRecord) -> Deletion:
    invariant(record.deletion is not None, f"claim {record.name} is leaving")
    assert record.deletion is not None  # noqa: S101 - tells the type checker what the line above ensures
    return record.deletion
