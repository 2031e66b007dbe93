"""Runs turns of binding: observes again, decides which pods to bind, writes the bindings, and marks finished claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.observation.observer import Observer
from adapters.ports import Clock, ConflictError, Kubernetes, PortError
from adapters.run_report import RunReport
from adapters.runtime.parallel_tasks import RunTasks
from adapters.store import BINDER, ClaimStore, Leases
from core.lifecycle.binding.admission import AWAITS_OTHERS
from core.lifecycle.binding.chains import in_chains
from core.lifecycle.binding.eligibility import accepts_bindings, covers_plan, is_seen_by_kubelet
from core.lifecycle.binding.holding import is_hold_over, may_have_a_turn
from core.lifecycle.binding.open_nodes import apart_from_scheduler, opening_nodes
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.turn import DecidedBinding, next_turn
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import STARTED, waits_for
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.model.node import Node
from core.reasons.binding import BindingReason
from core.reasons.decision import DecisionKind
from installation.settings import Settings
from lambdas.controllers.batches.binding.binding_events import BindingEvents
from lambdas.controllers.batches.binding.binding_writer import BindingWriter, WrittenBindings
from lambdas.controllers.batches.binding.turn_end import TurnEnd, turn_end
from lambdas.controllers.nodes.node_lists import readable

NEXT_TURN: Final = timedelta(seconds=1)
"""Time until a claim that had a turn is checked again: to open its node, or for another turn."""

STALLED_AFTER: Final = timedelta(seconds=15)
STALLED_TURN: Final = timedelta(seconds=3)
"""Time until the next turn after a turn without bindings whose nodes have all been ready for this long. A turn lists all claims
and pods, and the missing pods rarely arrive within a second."""

PODS_AT_MOST: Final = 10_000
"""Clusters with more pods have no turns: each turn lists all pods, which takes two seconds and some 50 MB.

Rules among pods may depend on any of them, so in larger clusters pods are nominated instead (docs/adr/0050).
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
            left = self._idle.next_at - now
            if timedelta(0) < left <= STALLED_TURN:
                return TurnResult(left)
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
        count = self._kubernetes.count(kinds.PODS)
        if not self._is_on or (count is not None and count > PODS_AT_MOST):
            report.count("unboundClaims", len(names))
            self._leave(names)
            return TurnResult(NEXT_TURN)
        default_spreads = (
            self._observer.default_spreads()
        )  # first: lists of nodes and pods should be new when it decides
        nodes = {seen.node.name: seen.node for seen in readable(self._kubernetes.list(kinds.NODES).items)}
        pods = tuple(map(PodTranslator().readable_or_not, self._kubernetes.list(kinds.PODS).items))
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
    found = [
        record for record in records if _has_turn(record) and (record.name in names or is_seen_by_kubelet(record, now))
    ]
    with_nodes = [(record, nodes[record.node_name]) for record in found if record.node_name in nodes]
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
