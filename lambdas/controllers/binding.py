"""Runs turns of binding: observes again, decides which pods to bind, writes the bindings, and marks finished claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final

import msgspec

from adapters.observability import logger
from adapters.observation.observer import Observer
from adapters.ports import Clock, ConflictError, DeniedError, Kubernetes, NotFoundError, PortError
from adapters.run_report import RunReport
from adapters.runtime import RunTasks
from adapters.store import BINDER, ClaimStore, Leases
from core.lifecycle.binding import (
    AWAITS_OTHERS,
    BindingTurn,
    DecidedBinding,
    PlacedPods,
    accepts_bindings,
    apart_from_scheduler,
    covers_plan,
    in_chains,
    is_hold_over,
    is_seen_by_kubelet,
    may_have_a_turn,
    next_turn,
    opening_nodes,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import STARTED, waits_for
from core.manifests.pods import PodTranslator
from core.manifests.wire import resources
from core.model.pod import Pod
from core.model.snapshot import Node
from core.reasons.code import DecisionKind
from core.reasons.pods import BindingReason
from installation.settings import Settings
from lambdas.controllers.events import about_pod, normal, write_together
from lambdas.controllers.nodes import readable

# Writes an event on each pod that was bound, as kube-scheduler does.


EVENTS_AT_MOST: Final = 500
"""The most pods of a turn that get an event: events are for people, and each takes a call."""


class BindingEvents:
    """Writes an event `Scheduled` for each bound pod."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, run_tasks: RunTasks) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._run_tasks = run_tasks

    def publish(self, bindings: Sequence[DecidedBinding]) -> None:
        """Write the events; one that cannot be written is logged."""
        now = self._clock.now()
        events = [_scheduled(binding, now) for binding in bindings[:EVENTS_AT_MOST]]
        write_together(self._kubernetes, events, self._run_tasks)


def _scheduled(binding: DecidedBinding, now: datetime) -> dict[str, object]:
    pod = binding.pod
    message = f"bound to {binding.node}, which was launched for it"
    return normal(about_pod(pod.namespace, pod.name, pod.uid), "Scheduled", message, now, identity=pod.uid)


# Writes decided bindings, in parallel where no rule connects them.


REFUSALS: Final = 3
"""After this many refusals, a claim's other pods are left to kube-scheduler: we are evidently not permitted to bind them."""

WRITE_WITHIN: Final = timedelta(seconds=10)
"""Time for the bindings of a turn; the rest are written in the next turn."""


class WrittenBindings:
    """The results of a turn's bindings; threads add to it.

    Attributes:
        refusals: By claim and pod, the API server's answer to bindings that it does not permit.
        taken: Pods that already had a node, or were gone.
    """

    def __init__(self) -> None:
        self.bound: list[DecidedBinding] = []
        self.refusals: dict[str, dict[str, str]] = {}
        self.taken = 0
        self._lock = Lock()

    def note(self, binding: DecidedBinding, error: PortError | None) -> None:
        """Record a binding as written, or with the API server's refusal."""
        with self._lock:
            if error is None:
                self.bound.append(binding)
            elif isinstance(error, NotFoundError | ConflictError):
                self.taken += 1
            elif isinstance(error, DeniedError):
                self.refusals.setdefault(binding.claim, {})[binding.pod.key] = str(error)

    def is_refused(self, claim: str) -> bool:
        """Whether no more of the claim's bindings should be tried."""
        return len(self.refusals.get(claim, ())) >= REFUSALS


class BindingWriter:
    """Writes bindings; each is a single attempt, and a pod bound by another writer stays where it is."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, run_tasks: RunTasks) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._run_tasks = run_tasks

    def write(self, chains: Sequence[Sequence[DecidedBinding]]) -> WrittenBindings:
        """Write the bindings of each chain in their order, up to the first failure, on which the later ones depend."""
        written, until = WrittenBindings(), self._clock.now() + WRITE_WITHIN
        self._run_tasks([partial(self._write, chain, written, until) for chain in chains], WRITE_WITHIN)
        return written

    def _write(self, chain: Sequence[DecidedBinding], written: WrittenBindings, until: datetime) -> None:
        for binding in chain:
            if self._clock.now() >= until or written.is_refused(binding.claim):
                return
            pod = binding.pod
            try:
                self._kubernetes.bind(pod.namespace, pod.name, uid=pod.uid, node=binding.node)
            except PortError as error:
                logger.warning("pod could not be bound", extra={"pod": pod.key, "problem": str(error)})
                written.note(binding, error)
                return
            written.note(binding, None)


# Decides the end of a turn of binding for one claim: the pods that are left, and whether they wait for a further turn.


class TurnEnd(msgspec.Struct, frozen=True):
    """The result of a turn for one claim.

    Attributes:
        left: Unbound pods, with the objection of each.
        may_go_on: Whether one of them waits for a further turn.
        is_again: Whether a decided binding was not written, so that another turn is certain.
    """

    left: tuple[tuple[Pod, BindingReason], ...] = ()
    may_go_on: bool = False
    is_again: bool = False


def turn_end(
    record: ClaimRecord,
    node: Node,
    turn: BindingTurn,
    written: WrittenBindings,
    waiting: Mapping[str, Pod],
) -> TurnEnd:
    """Return the end of a turn for a claim. `waiting`: the unbound pods by key."""
    if not covers_plan(record, node):
        pods = [waiting[key] for key in record.plan.pods if key in waiting]
        return TurnEnd(tuple((pod, BindingReason.SMALLER_THAN_PLANNED) for pod in pods))
    done = {binding.pod.key for binding in written.bound}
    unwritten = [
        binding.pod for binding in turn.bindings if binding.claim == record.name and binding.pod.key not in done
    ]
    unbound = turn.left.get(record.name, ())
    refusals = written.refusals.get(record.name, {})
    refused = tuple((pod, BindingReason.BINDING_REFUSED) for pod in unwritten if pod.key in refusals)
    again = tuple((pod, BindingReason.TOPOLOGY_SPREAD) for pod in unwritten if pod.key not in refusals)
    if written.is_refused(record.name):
        return TurnEnd((*unbound, *((pod, BindingReason.BINDING_REFUSED) for pod in unwritten)))
    waits = any(reason in AWAITS_OTHERS for _, reason in unbound)
    return TurnEnd((*unbound, *refused, *again), may_go_on=waits or bool(again), is_again=bool(again))


NEXT_TURN: Final = timedelta(seconds=1)
"""Time until a claim that had a turn is checked again: to open its node, or for another turn."""

STALLED_AFTER: Final = timedelta(seconds=15)
STALLED_TURN: Final = timedelta(seconds=3)
"""Time until the next turn after a turn without bindings whose nodes have all been ready for this long. A turn lists all claims
and pods, and the missing pods rarely arrive within a second."""

PODS_AT_MOST: Final = 10_000
"""Clusters with more pods have no turns: each turn lists all pods, which takes two seconds and some 50 MB.

Rules among pods may depend on any of them, so in larger clusters pods are nominated instead
(docs/engineering/handbook/binding.md).
"""

TURN_AT_MOST: Final = timedelta(seconds=20)
"""Duration of the lease of a turn, which covers its lists and bindings.

A run that crashes blocks others for no longer than that.
"""


class TurnResult(msgspec.Struct, frozen=True):
    """The result of a turn.

    Attributes:
        delay: When to check its claims again.
        bound: The bindings that were written.
    """

    delay: timedelta
    bound: tuple[DecidedBinding, ...] = ()


class PodBinder:
    """Binds the pods of claims whose nodes are held. It holds a lease, since rules across nodes count the bindings of all runs.

    A turn serves the nodes of other messages as well. A spread over zones admits the pods of one node only after those of
    another
    node: with separate turns, each node would take a few pods per second.
    """

    def __init__(
        self,
        kubernetes: Kubernetes,
        claims: ClaimStore,
        leases: Leases,
        observer: Observer,
        settings: Settings,
        clock: Clock,
        run_tasks: RunTasks,
    ) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._leases = leases
        self._observer = observer
        self._clock = clock
        self._writer = BindingWriter(kubernetes, clock, run_tasks)
        self._events = BindingEvents(kubernetes, clock, run_tasks)
        self._is_on = settings.bind_pods
        self._idle: _IdleTurn | None = None

    def run(self, names: Sequence[str], report: RunReport) -> TurnResult:
        """Give these claims a turn, unless another message's turn has just served all of them, and changed nothing.

        Raises:
            PortError: If the observation fails.
        """
        now = self._clock.now()
        if self._idle is not None and self._idle.served.issuperset(names):
            wait = self._idle.next_at - now
            if timedelta(0) < wait <= STALLED_TURN:
                return TurnResult(wait)
        lease = self._leases.acquire(BINDER, f"{names[0]}/{now.isoformat()}", now=now, for_=TURN_AT_MOST)
        if lease is None:
            report.count("binderBusy")
            return TurnResult(NEXT_TURN)
        try:
            return self._turn(names, report)
        finally:
            with suppress(PortError):  # the lease expires on its own
                self._leases.release(lease)

    def publish(self, turn: TurnResult) -> None:
        """Write events about a turn's bindings. They take seconds in a burst, so the next turn is requested before."""
        self._events.publish(turn.bound)

    def _turn(self, names: Sequence[str], report: RunReport) -> TurnResult:
        count = self._kubernetes.count(resources.PODS)
        if not self._is_on or (count is not None and count > PODS_AT_MOST):
            report.count("unboundClaims", len(names))
            self._leave(names)
            return TurnResult(NEXT_TURN)
        default_spreads = (
            self._observer.default_spreads()
        )  # first: lists of nodes and pods should be new when it decides
        nodes = {seen.node.name: seen.node for seen in readable(self._kubernetes.list(resources.NODES).items)}
        pods = tuple(map(PodTranslator().readable_or_not, self._kubernetes.list(resources.PODS).items))
        # Last: a row that says that a node is open is newer than a list in which it is held.
        records = self._claims.all()
        held = _held(records, frozenset(names), nodes, self._clock.now())
        unbound = default_spreads.as_own(pod for pod in pods if not pod.node_name and pod.is_active)
        waiting = {pod.key: pod for pod in unbound}
        planned = [(record, node) for record, node in held if covers_plan(record, node)]
        expected = frozenset(key for record in records if record.deletion is None for key in record.plan.pods)
        placed = PlacedPods(nodes.values(), pods)
        turn = next_turn(planned, waiting, expected, placed)
        opening = opening_nodes(records, placed, self._clock.now())
        safe = apart_from_scheduler(turn.bindings, waiting.values(), opening, placed)
        report.count("postponedBindings", len(turn.bindings) - len(safe))
        written = self._writer.write(in_chains(safe))
        report.count("boundPods", len(written.bound))
        report.count("boundByOthers", written.taken)
        report.count("refusedBindings", sum(len(pods) for pods in written.refusals.values()))
        ends = {record.name: turn_end(record, node, turn, written, waiting) for record, node in held}
        has_ended = self._store(held, ends, written, records, report)
        now = self._clock.now()
        is_stalled = bool(held) and all(now - record.phase_since >= STALLED_AFTER for record, _ in held)
        has_progress = bool(written.bound) or has_ended
        delay = STALLED_TURN if is_stalled and not has_progress else NEXT_TURN
        self._idle = None if has_progress else _IdleTurn(now + delay, frozenset(record.name for record, _ in held))
        return TurnResult(delay, tuple(written.bound))

    def _leave(self, names: Sequence[str]) -> None:
        """Leave the claims' pods to kube-scheduler: their nodes are opened at the next check."""
        for name in names:
            record = self._claims.get(name)
            if record is not None and _has_turn(record):
                with suppress(ConflictError):
                    self._claims.change(record, msgspec.structs.replace(record, is_bound=True))

    def _store(
        self,
        held: Sequence[tuple[ClaimRecord, Node]],
        ends: Mapping[str, TurnEnd],
        written: WrittenBindings,
        records: Iterable[ClaimRecord],
        report: RunReport,
    ) -> bool:
        """Store each claim's progress, and return whether any claim had its last turn.

        A claim whose row changed meanwhile is left to the next turn.
        """
        now, has_ended = self._clock.now(), False
        with_new_pods = {binding.claim for binding in written.bound}
        present = {record.name: record for record in records}
        for record, _ in held:
            present[record.name] = _after(record, now, has_new_pods=record.name in with_new_pods)
        for record, _ in held:
            after, end = present[record.name], ends[record.name]
            may_go_on = end.is_again or (end.may_go_on and may_have_a_turn(after, present.values(), now))
            if not may_go_on or is_hold_over(after, now):
                # A crashed run may have just bound some pods without recording it.
                after = msgspec.structs.replace(_after(after, now, has_new_pods=True), is_bound=True)
                for pod, reason in end.left:
                    why = BindingReason.HELD_TOO_LONG if reason in AWAITS_OTHERS and end.may_go_on else reason
                    report.decide(DecisionKind.SKIP, pod.key, why, f"left to kube-scheduler, planned for {record.name}")
            if after is not record:
                with suppress(ConflictError):
                    self._claims.change(record, after)
                    has_ended |= after.is_bound
        return has_ended


class _IdleTurn(msgspec.Struct, frozen=True):
    """A turn that bound no pod and opened no node: for its claims, another one before `next_at` would read all of it again."""

    next_at: datetime
    served: frozenset[str]


def _held(
    records: Iterable[ClaimRecord], names: frozenset[str], nodes: Mapping[str, Node], now: datetime
) -> list[tuple[ClaimRecord, Node]]:
    """Return the claims that get a turn, in their current state, each with its node: these, and all that are settled."""
    held = [
        record for record in records if _has_turn(record) and (record.name in names or is_seen_by_kubelet(record, now))
    ]
    with_nodes = [(record, nodes[record.node_name]) for record in held if record.node_name in nodes]
    return [
        (record, node)
        for record, node in with_nodes
        if accepts_bindings(node, now) and waits_for(record, node) == STARTED
    ]


def _has_turn(record: ClaimRecord) -> bool:
    return record.phase is ClaimPhase.REGISTERED and record.deletion is None and not record.is_bound


def _after(record: ClaimRecord, now: datetime, *, has_new_pods: bool) -> ClaimRecord:
    """Return the claim after a turn of its node; `has_new_pods` if pods were bound to it."""
    if not has_new_pods:
        return record
    return msgspec.structs.replace(record, moments=msgspec.structs.replace(record.moments, bound_at=now))
