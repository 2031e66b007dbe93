"""Registers a node that has joined and opens it to pods: what is written to it and to its claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import islice
from typing import Final, TypeVar

import msgspec

from adapters.brakes import became_ready
from adapters.messages import check_command, wake_up
from adapters.observability import logger
from adapters.observation.cluster_reader import lacks_partition, with_partition
from adapters.observation.stores import Stores
from adapters.ports import Clock, ConflictError, FunctionQueues, Kubernetes, NotFoundError, PortError
from adapters.run_report import Decision, RunReport
from core import labels
from core.errors import invariant
from core.launch.denials import shortened
from core.lifecycle import steps
from core.lifecycle.binding import is_held
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import registration_of, with_labels_of
from core.lifecycle.steps import ClaimFacts, ReportNode
from core.manifests.wire import resources
from core.model.pod import Pod
from core.model.values.taints import HELD
from core.reasons.code import ClaimReason, DecisionKind, TerminationReason
from installation.settings import Settings
from lambdas.controllers.claim_deletion import ClaimDeletion
from lambdas.controllers.claim_launch import ClaimLaunch
from lambdas.controllers.draining import DrainCancellation, Draining, Surge
from lambdas.controllers.events import about_node, about_node_claim, about_pod, in_time, warning, write
from lambdas.controllers.launch_answers import FailedStarts
from lambdas.controllers.nodes import NodeStateReader, ObservedNode, patch_node

# Writes Kubernetes events about a node's problem: on the node, on the pods that wait for it, or on a claim without node.


PODS_WITH_EVENT_MAX: Final = 10
"""The most pods that get an event; the node's event covers the others."""


class NodeEvents:
    """Writes an event for the node, and one for each pod."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def publish(self, step: ReportNode, waiting: Iterable[Pod]) -> None:
        """Write the events; `waiting` are the pods that wait for the node."""
        now = self._clock.now()
        pods = list(islice(waiting, PODS_WITH_EVENT_MAX))
        about = [about_node(step.node), *(about_pod(pod.namespace, pod.name, pod.uid) for pod in pods)]
        identity = f"{step.reason}/{step.message}"
        events = [warning(subject, step.reason, step.message, now, identity=identity) for subject in about]
        write(self._kubernetes, in_time(events, self._clock))

    def not_launched(self, claim: str, decisions: Iterable[Decision]) -> None:
        """Write an event on why a hand-made NodeClaim is not launched: its object is deleted with the claim (Karpenter)."""
        forgotten = [
            decision for decision in decisions if decision.kind is DecisionKind.FORGET and decision.subject == claim
        ]
        for decision in forgotten[-1:]:
            message = (
                f"{decision.reason.clause}: {shortened(decision.message)}"
                if decision.message
                else decision.reason.meaning
            )
            identity = f"{decision.reason}/{decision.message}"
            write(
                self._kubernetes,
                [warning(about_node_claim(claim), decision.reason, message, self._clock.now(), identity=identity)],
            )


# Nominates a node for the pods planned for it: kube-scheduler tries the node in a pod's status before all others.
#
# Kubernetes lets components outside the scheduler write `status.nominatedNodeName` since 1.35
# (NominatedNodeNameForExpectation). The scheduler treats it as a hint: it counts the pod on that node when it places pods of
# equal or lower priority, and clears the hint if the pod fits nowhere or the node is closed to it. It is therefore written only
# after the node is open.


ALREADY_BOUND: Final = "already bound"
"""Part of the API server's answer (422) if the scheduler bound the pod first, which is not an error."""

FAILURES: Final = 3
"""After this many refusals, the other pods of a claim get no nomination: it is only a hint, and the node waits."""


class Nominator:
    """Nominates pods for the node that was launched for them; does nothing if the setting is off."""

    def __init__(self, kubernetes: Kubernetes, *, is_on: bool) -> None:
        self._kubernetes = kubernetes
        self._is_on = is_on

    def nominate(self, record: ClaimRecord, node: str, reader: NodeStateReader, report: RunReport) -> tuple[str, ...]:
        """Nominate the claim's waiting pods for its node; return the pods whose status now names it.

        Raises:
            PortError: If the pods cannot be listed.
        """
        if not self._is_on or not record.plan.pods:
            return ()
        named: list[str] = []
        failures = 0
        for pod in reader.unbound_pods(frozenset(record.plan.pods)):
            body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
            try:
                if pod.nominated_node_name != node:
                    self._kubernetes.patch(
                        resources.PODS, pod.name, body, namespace=pod.namespace, subresource="status"
                    )
            except (NotFoundError, ConflictError):
                continue
            except PortError as error:
                if ALREADY_BOUND in str(error):
                    continue
                failures += 1
                logger.warning("pod could not be nominated", extra={"pod": pod.key, "problem": str(error)})
                if failures == FAILURES:
                    break
            else:
                named.append(pod.key)
        report.count("nominatedPods", len(named))
        report.count("failedNominations", failures)
        return tuple(named)


T = TypeVar("T")

PATCH_ATTEMPTS: Final = 3
"""The most attempts to patch a node in one call against concurrent writes."""


class NodeRegistration:
    """Registers nodes, and opens them."""

    def __init__(self, kubernetes: Kubernetes, stores: Stores, settings: Settings, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._claims = stores.claims
        self._breakers = stores.breakers
        self._nominator = Nominator(kubernetes, is_on=settings.nominate_pods)
        self._binds = settings.bind_pods
        self._clock = clock

    def register(
        self, record: ClaimRecord, step: steps.Register, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Give a joined node its labels, annotations and taints; nominate its pods unless we bind them.

        Raises ConflictError if it is gone, or if EC2 has not reported its partition of the placement group yet.
        """
        placed = _with_partition(record, reader)
        record = self._patched_with_retries(step.node, reader, report, lambda seen: self._give_marks(placed, seen))
        reader.refresh(step.node)
        seen = reader.node(step.node)
        # Only now: the scheduler clears nominations for a node that is still closed.
        is_open = seen is not None and not is_held(seen.node)
        nominated = self._nominator.nominate(record, step.node, reader, report) if is_open else ()
        report.decide(DecisionKind.REGISTER, record.name, ClaimReason.NODE_JOINED, f"node {step.node}")
        moments = msgspec.structs.replace(
            record.moments,
            launched_at=record.moments.launched_at or record.phase_since,
            seen_at=record.moments.seen_at or self._clock.now(),
        )
        return self._moved(
            record, phase=ClaimPhase.REGISTERED, node_name=step.node, nominated=nominated, moments=moments
        )

    def _give_marks(self, record: ClaimRecord, seen: ObservedNode) -> ClaimRecord:
        """Patch the joined node; return the claim completed with the node's labels."""
        completed = with_labels_of(record, seen.node)
        # The taints must be those of the patched version: an earlier list would restore taints that were removed since.
        step = registration_of(completed, seen.node, binds=self._binds)
        patch_node(
            self._kubernetes,
            seen,
            labels=step.labels,
            annotations=step.annotations,
            taints=step.taints,
            finalizers=step.finalizers,
        )
        return completed

    def _patched_with_retries(
        self, node: str, reader: NodeStateReader, report: RunReport, patch: Callable[[ObservedNode], T]
    ) -> T:
        """Patch a node in its last seen version; if it was changed since, read and patch it again, at once.

        The kubelet and the cloud controller write to a new node constantly, and pods wait for it.

        Raises:
            ConflictError: If it changed `PATCH_ATTEMPTS` times, or is gone.
        """
        for attempt in range(1, PATCH_ATTEMPTS + 1):
            seen = reader.node(node)
            if seen is None:
                break
            try:
                return patch(seen)
            except ConflictError:
                if attempt == PATCH_ATTEMPTS:
                    raise
                report.count("patchedAgain")
                reader.refresh(node)
        raise ConflictError("kube:PATCH nodes", f"node {node} is gone again")

    def mark_initialized(
        self, record: ClaimRecord, step: steps.MarkInitialized, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Open the node to all pods; nominate those of its pods that we leave to the scheduler. Raises like `register`."""
        was_held = self._patched_with_retries(step.node, reader, report, self._open)
        nominated = (
            self._nominator.nominate(record, step.node, reader, report)
            if was_held or record.is_bound
            else record.nominated
        )
        report.decide(DecisionKind.INITIALIZE, record.name, ClaimReason.NODE_READY, f"node {step.node}")
        now, plan = self._clock.now(), msgspec.structs.replace(record.plan, pods=())
        became_ready(self._breakers, record, now, report)
        moments = msgspec.structs.replace(record.moments, opened_at=now, unneeded_at=None)
        report.count("openedNodes")
        report.count("openingMilliseconds", int((now - record.requested_at).total_seconds() * 1000))
        return self._moved(
            record,
            phase=ClaimPhase.INITIALIZED,
            initialized_at=now,
            plan=plan,
            nominated=nominated,
            moments=moments,
            is_bound=False,
        )

    def _open(self, seen: ObservedNode) -> bool:
        """Mark the node as initialized, and open it to kube-scheduler if that was kept off; return whether it was."""
        taints = tuple(taint for taint in seen.node.taints if not taint.matches(HELD))
        was_held = len(taints) < len(seen.node.taints)
        patch_node(self._kubernetes, seen, labels={labels.INITIALIZED: "true"}, taints=taints if was_held else None)
        return was_held

    def note_usable(self, record: ClaimRecord) -> ClaimRecord:
        """Store when the node was found ready for its pods."""
        moments = msgspec.structs.replace(record.moments, usable_at=self._clock.now())
        return self._claims.change(record, msgspec.structs.replace(record, moments=moments))

    def _moved(self, record: ClaimRecord, **changes: object) -> ClaimRecord:
        after = msgspec.structs.replace(record, phase_since=self._clock.now(), **changes)
        return self._claims.change(record, after)


def _with_partition(record: ClaimRecord, reader: NodeStateReader) -> ClaimRecord:
    """Return the claim with the partition that EC2 chose, if any: pods may select on the label (Karpenter).

    Raises:
        ConflictError: If EC2 does not report it yet.
    """
    machine = record.machine
    if machine is None or not lacks_partition(machine):
        return record
    instance = reader.instance(machine.instance_id)
    machine_now = machine if instance is None else with_partition(machine, instance)
    if lacks_partition(machine_now):
        raise ConflictError("ec2:DescribeInstances", f"the partition of {machine.instance_id} is not known yet")
    return msgspec.structs.replace(record, machine=machine_now)


# Carries out single steps of claims; the intent is stored first if its loss could lose an instance.


class ClaimSteps:
    """Carries out each step with the controller that knows how."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        stores: Stores,
        launch: ClaimLaunch,
        failed_starts: FailedStarts,
        deletion: ClaimDeletion,
        settings: Settings,
        queues: FunctionQueues,
        clock: Clock,
    ) -> None:
        self._launch = launch
        self._failed_starts = failed_starts
        self._deletion = deletion
        self._claims = stores.claims
        self._nodes = NodeRegistration(kubernetes, stores, settings, clock)
        self._node_events = NodeEvents(kubernetes, clock)
        surge = Surge(kubernetes, is_on=settings.surge_restarts)
        self._draining = Draining(kubernetes, stores.claims, surge, clock)
        self._cancellation = DrainCancellation(kubernetes, stores.claims, clock)
        self._wake_ups, self._work = queues.wake_ups, queues.work

    def take(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Take one step; return the claim after it, None if its row is deleted."""
        after = self._taken(record, step, reader, report)
        if after is None and record.machine is None and record.deletion is None and record.plan.made_by_hand:
            self._node_events.not_launched(record.name, report.decisions)
        return after

    def drain(self, record: ClaimRecord, step: steps.Drain, facts: ClaimFacts, report: RunReport) -> timedelta:
        """Continue the drain of the claim's node; return when to check it again."""
        return self._draining.drain(record, step, facts, report)

    def _taken(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        match step:
            case steps.Launch():
                return self._launch.launch(record, reader, report)
            case steps.Adopt():
                return self._launch.adopt(record, step, reader, report)
            case steps.Register():
                return self._register(record, step, reader, report)
            case steps.NoteUsable():
                return self._nodes.note_usable(record)
            case steps.MarkInitialized():
                return self._initialize(record, step, reader, report)
            case steps.ReportNode():
                return self._report(record, step, reader, report)
            case steps.BeginTermination():
                return self._begin_termination(record, step, report)
            case steps.Forget():
                self._deletion.forget(record, step, report)
                return None
            case _:
                return self._take_to_its_end(record, step, reader, report)

    def _register(
        self, record: ClaimRecord, step: steps.Register, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Register the node; launches that waited for a node to join continue."""
        registered = self._nodes.register(record, step, reader, report)
        if record.tries:
            self._failed_starts.disprove(record, report)
            self._wake_ups.send([wake_up("a node joined")])
        return registered

    def _begin_termination(self, record: ClaimRecord, step: steps.BeginTermination, report: RunReport) -> ClaimRecord:
        """Begin to remove the claim; if its instance ended before it joined, learn the reason first, for further launches."""
        reason, message = step.reason, step.message
        if reason is TerminationReason.INSTANCE_GONE:
            reason, message = self._failed_starts.explain_loss(record, message, report)
        return self._deletion.begin(record, reason, message, report)

    def _initialize(
        self, record: ClaimRecord, step: steps.MarkInitialized, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Open the node; a command that waits for it continues at once."""
        opened = self._nodes.mark_initialized(record, step, reader, report)
        if opened.command:
            self._work.send([check_command(opened.command)])
        return opened

    def _take_to_its_end(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Take one step of a leaving claim."""
        match step:
            case steps.NoteEmpty():
                return self._draining.note_empty(record)
            case steps.CancelDrain():
                return self._cancellation.carry_out(record, step, reader, report)
            case steps.Escalate():
                return self._draining.escalate(record, step, report)
            case steps.TaintNode():
                return self._draining.taint(record, step, reader)
            case steps.TerminateInstance():
                return self._deletion.terminate_instance(record, report)
            case steps.DeleteNode():
                return self._draining.delete_node(record, step, reader, report)
            case _:
                invariant(False, f"{step} is not a step of a claim")
                return None

    def _report(
        self, record: ClaimRecord, step: steps.ReportNode, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Store the report first, so that it is published only once."""
        reported = msgspec.structs.replace(record, reason=step.reason, message=step.message)
        changed = self._claims.change(record, reported)
        report.decide(DecisionKind.SKIP, step.node, step.reason, step.message)
        self._node_events.publish(step, reader.unbound_pods(step.pods) if step.pods else ())
        return changed
