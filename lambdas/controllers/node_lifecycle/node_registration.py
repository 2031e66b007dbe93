"""Registers a node that has joined and opens it to pods: what is written to it and to its claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from adapters.brakes.joining import became_ready
from adapters.observation.instance_description import lacks_partition, with_partition
from adapters.observation.stores import Stores
from adapters.ports import Clock, ConflictError, Kubernetes
from adapters.run_report import RunReport
from core import labels
from core.lifecycle import steps
from core.lifecycle.binding.eligibility import is_held
from core.lifecycle.rebuilding import with_labels_of
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import registration_of
from core.model.values.taints import HELD
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from installation.settings import Settings
from lambdas.controllers.nodes.node_lists import ObservedNode
from lambdas.controllers.nodes.node_patches import patch_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.controllers.nodes.nominating import Nominator

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
        known = with_labels_of(record, seen.node)
        # The taints must be those of the patched version: an earlier list would restore taints that were removed since.
        step = registration_of(known, seen.node, binds=self._binds)
        patch_node(
            self._kubernetes,
            seen,
            labels=step.labels,
            annotations=step.annotations,
            taints=step.taints,
            finalizers=step.finalizers,
        )
        return known

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
        moments = msgspec.structs.replace(record.moments, opened_at=now)
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
    found = machine if instance is None else with_partition(machine, instance)
    if lacks_partition(found):
        raise ConflictError("ec2:DescribeInstances", f"the partition of {machine.instance_id} is not known yet")
    return msgspec.structs.replace(record, machine=found)
