"""Sweeps over instances: unknown, lost, impaired or untracked ones, and ending capacity blocks.

Removes instances with our claim tag for which no claim can be rebuilt: after a delay, drained, and few at a time.

Many unknown instances at once are probably a mistake: the table of another cluster, NodePools deleted by mistake, an API server
that answers with an empty list. Then no instance is terminated, and voluntary disruption stops until fewer are unknown.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from adapters.brakes import Brakes, HeldBrakes, skipped
from adapters.messages import wake_up, work_on_claim
from adapters.observation.cluster_reader import offering_of
from adapters.observation.observer import ClusterState, Observer
from adapters.ports import CloudProvider, FunctionQueues, Impairment, Instance, JsonObject, Kubernetes
from adapters.store import ClaimStore
from core import labels
from core.brakes import Action, Brake, BrakeKind
from core.catalogue.node_class import CAPACITY_BLOCK, CapacityReservation, read_node_class
from core.catalogue.reservations import ends_at, leaves_at, reclaimed_before, reservations_of
from core.disruption.expiration import objections
from core.errors import InvalidInputError
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.launching import name_tags
from core.lifecycle.metering import offered_as
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Machine
from core.lifecycle.steps import INSTANCE_CHECK_AFTER
from core.manifests.wire import resources
from core.model.snapshot import Snapshot
from core.reasons.code import ClaimReason, DecisionKind, Refusal, TerminationReason
from core.reasons.nodes import NodeNotToDisrupt
from installation.metric_names import LOST_INSTANCES_HELD, SWEEP_BRAKE, UNKNOWN_INSTANCES
from lambdas.controllers.launch_answers import FailedStarts
from lambdas.controllers.status_writer import tolerate_gone
from lambdas.controllers.sweeps.rebuilding import Rebuilding, UnclaimedInstance, untracked
from lambdas.controllers.sweeps.sweep import BudgetPlaces, ClaimTerminator, ReconcileRound, Sweep

# Removes claims in a capacity block before EC2 ends the block's instances.


class CapacityBlocks(Sweep):
    """Removes these claims regardless of budgets, since EC2 ends them anyway; replacements come first while there is time."""

    name = "capacityBlocks"
    is_urgent = True

    def __init__(self, terminator: ClaimTerminator) -> None:
        self._terminator = terminator

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims in a block that ends soon."""
        in_blocks = [record for record in round_.view.claims.values() if _block_of(record)]
        if not in_blocks:
            return
        now = round_.clock.now()
        ending = _ending(round_.view.node_classes.values(), now)
        due = [record for record in in_blocks if _block_of(record) in ending]

        def terminate(record: ClaimRecord) -> None:
            end, lead = ending[_block_of(record)]
            message = f"capacity block {_block_of(record)} ends at {end:%Y-%m-%dT%H:%M:%SZ}"
            reason = TerminationReason.CAPACITY_BLOCK_ENDS
            self._terminator.begin(record.name, reason, message, round_.report, ends_at=max(now, end - lead))

        round_.each(due, terminate, subject=lambda record: record.name)


def _block_of(record: ClaimRecord) -> str:
    """Return the id of the claim's capacity block, empty if it is in none."""
    offering = record.machine.offering if record.machine is not None else None
    return offering.reservation_id if offering is not None and offering.reservation_type == CAPACITY_BLOCK else ""


def _ending(node_classes: Iterable[JsonObject], now: datetime) -> dict[str, tuple[datetime, timedelta]]:
    """Return for each block that its nodes have to leave now: its end, and how long before that EC2 takes the instances."""
    reservations = (reservation for manifest in node_classes for reservation in _reservations(manifest))
    return {
        reservation.id: (end, reclaimed_before(reservation))
        for reservation in reservations
        if (end := ends_at(reservation)) is not None
        and (leaves := leaves_at(reservation)) is not None
        and leaves <= now
    }


def _reservations(manifest: JsonObject) -> tuple[CapacityReservation, ...]:
    try:
        return reservations_of(read_node_class(manifest))
    except InvalidInputError:
        return ()


# Relabels instances whose capacity reservation has ended: they keep running at the on-demand price.


class DemotedInstances(Sweep):
    """Changes the claims and nodes of such instances to on-demand (Karpenter). Nothing is replaced."""

    name = "demotedInstances"
    is_urgent = True

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, observer: Observer) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._observer = observer

    def run(self, round_: ReconcileRound) -> None:
        """Relabel the claims whose instance is listed as on-demand."""
        reserved = {
            record.instance_id: record
            for record in round_.view.claims.values()
            if record.machine is not None and record.machine.offering.capacity_type == labels.RESERVED
        }
        if not reserved:
            return
        reclaimed = [i for i in round_.instances if i.instance_id in reserved and i.capacity_type == labels.ON_DEMAND]

        def demote(instance: Instance) -> None:
            record = reserved[instance.instance_id]
            self._demote(record, instance, round_)
            message = f"instance {instance.instance_id} is on-demand now"
            round_.report.decide(DecisionKind.RELABEL, record.name, ClaimReason.RESERVATION_ENDED, message)

        round_.each(reclaimed, demote, subject=lambda instance: instance.instance_id)

    def _demote(self, record: ClaimRecord, instance: Instance, round_: ReconcileRound) -> None:
        """Relabel the node, then the claim: while the claim is still reserved, the next round repeats both."""
        if record.machine is None:
            return
        if record.node_name:
            dropped: JsonObject = dict.fromkeys(labels.RESERVATION_LABELS)
            body = {"metadata": {"labels": {**dropped, labels.CAPACITY_TYPE: labels.ON_DEMAND}}}
            tolerate_gone(partial(self._kubernetes.patch, resources.NODES, record.node_name, body))
        machine = self._on_demand(record.machine, instance, record.plan.node_class.name, round_)
        self._claims.change(record, offered_as(record, machine))

    def _on_demand(self, machine: Machine, instance: Instance, class_name: str, round_: ReconcileRound) -> Machine:
        node_class = round_.view.node_classes.get(class_name)
        market = self._observer.open_market.catalogue([node_class] if node_class else [], round_.clock.now())
        types = (
            instance_type
            for instance_type in market.types_for(class_name)
            if instance_type.name == instance.instance_type
        )
        kept = {key: value for key, value in machine.labels.items() if key not in labels.RESERVATION_LABELS}
        return msgspec.structs.replace(
            machine,
            offering=offering_of(instance, next(types, None)),
            labels={**kept, labels.CAPACITY_TYPE: labels.ON_DEMAND},
        )


# Replaces instances that fail EC2's status checks.


IMPAIRED_FOR: Final = timedelta(minutes=5)
"""How long a check must fail: EC2 itself recovers many hosts within minutes.

Karpenter waits two minutes, then forces the pods off.
"""


class ImpairedInstances(Sweep):
    """Replaces impaired instances like node repair: within the NodePools' budgets and the pods' rules.

    See docs/engineering/handbook/expiry-and-repair.md.

    Pods are evicted normally, since many failed checks are false alarms.
    """

    name = "impairedInstances"

    def __init__(self, cloud: CloudProvider, terminator: ClaimTerminator) -> None:
        self._cloud = cloud
        self._terminator = terminator

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims whose instance has failed a check for long."""
        view, now = round_.view, round_.clock.now()
        claims = {record.instance_id: record for record in view.claims.values() if record.deletion is None}
        ours = (
            [impairment for impairment in self._cloud.impaired() if impairment.instance_id in claims] if claims else []
        )
        round_.report.count("impairedInstances", len({impairment.instance_id for impairment in ours}))
        due = [
            impairment
            for impairment in ours
            if now - impairment.since >= IMPAIRED_FOR and not _is_left_alone(claims[impairment.instance_id], now)
        ]
        if not due:
            return
        names = {claims[impairment.instance_id].name for impairment in due}
        # An instance that fails a check is rarely Ready: the places that such nodes use up must not keep them all.
        places = BudgetPlaces(view, TerminationReason.UNHEALTHY, round_.clock, together=names)
        kept = {**objections(view.snapshot, names), **_protected(view)}

        def replace(impairment: Impairment) -> None:
            name = claims[impairment.instance_id].name
            check, since = impairment.check, impairment.since
            message = f"instance {impairment.instance_id} fails EC2's {check} status check since {since:%H:%M} UTC"
            why: Refusal | str | None = kept.get(name)
            if not why and not self._terminator.begin_within(
                name, TerminationReason.UNHEALTHY, message, places.now, round_.report
            ):
                why = "its NodePool's budgets have no place"
            if why:
                round_.report.decide(DecisionKind.SKIP, name, ClaimReason.UNHEALTHY_BUT_BLOCKED, f"{message}; {why}")

        round_.each(due, replace, subject=lambda impairment: impairment.instance_id)


def _is_left_alone(record: ClaimRecord, now: datetime) -> bool:
    """Whether a command already replaces it, or it is exempt because its last drain was cancelled."""
    return record.is_disrupting or (record.hold is not None and now < record.hold.until)


def _protected(view: ClusterState) -> dict[str, Refusal]:
    """Return claim → why its node is left for a person to find the cause, as in node repair."""
    nodes = {node.name for node in view.snapshot.nodes if node.blocks_disruption(view.snapshot.now)}
    records = [record for record in view.claims.values() if record.node_name in nodes]
    return {record.name: NodeNotToDisrupt(record.node_name) for record in records}


# Completes the index from instance to claim: for claims that are older than the index, or whose index row is lost.


class InstanceIndex(Sweep):
    """Adds missing claims to the index; otherwise, their spot interruption would be ignored as that of a foreign instance."""

    name = "instanceIndex"
    is_urgent = True

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def run(self, round_: ReconcileRound) -> None:
        """Add missing entries; a concurrently launched claim adds its own."""
        launched = [claim for claim in round_.view.claims.values() if claim.machine]
        indexed = self._claims.indexed() if launched else frozenset()
        missing = [claim for claim in launched if claim.instance_id not in indexed]

        def add(claim: ClaimRecord) -> None:
            self._claims.index(claim)
            round_.report.count("indexedInstances")

        round_.each(missing, add, subject=lambda claim: claim.name)


NAMED_MAX: Final = 10
"""The most instances that a brake's message names."""

UNKNOWN_AFTER: Final = REGISTRATION_TIMEOUT + timedelta(minutes=5)
"""The age from which an instance is unknown.

A younger one may still join: until `REGISTRATION_TIMEOUT` its claim is rebuilt without its node.
"""

SHARE_PERCENT: Final = 5
"""The share of the fleet's instances, rounded down but at least one, that may be removed or considered gone in a round."""


class UnknownInstances:
    """Removes unknown instances, or engages the brake."""

    def __init__(
        self,
        rebuilding: Rebuilding,
        claims: ClaimStore,
        brakes: Brakes,
        *,
        held: HeldBrakes,
        queues: FunctionQueues,
    ) -> None:
        self._rebuilding = rebuilding
        self._claims = claims
        self._brakes = brakes
        self._held = held
        self._wake_ups, self._work = queues.wake_ups, queues.work

    def settle(self, unknown: Sequence[UnclaimedInstance], fleet: int, round_: ReconcileRound) -> None:
        """Remove them if they are few among the `fleet` of tagged instances; otherwise engage a brake.

        Only instances with a node, whose claims have no other instance, show that the table may be lost, and stop voluntary
        disruption: tags can be copied by whoever may launch instances, and the others are left alone and named.
        """
        report = round_.report
        report.count(UNKNOWN_INSTANCES, len(unknown))
        may_end = max(1, fleet * SHARE_PERCENT // 100)
        joined = [stray for stray in unknown if stray.node is not None and not stray.is_copy]
        wanted: Brake | None = None
        if len(joined) > may_end:
            wanted = _brake(joined, fleet, may_end)
        elif len(unknown) > may_end:
            foreign = [stray for stray in unknown if stray.node is None or stray.is_copy]
            wanted = _foreign(foreign, len(joined), may_end)
        held = self._held.held()
        if wanted is not None:
            report.count(SWEEP_BRAKE)
            skipped(wanted, f"{len(unknown)} instances", report)
            if wanted not in held:
                self._held.hold(wanted, round_.clock.now())
        ended = [
            kind
            for kind in (BrakeKind.UNKNOWN_INSTANCES, BrakeKind.FOREIGN_INSTANCES)
            if any(brake.kind is kind for brake in held) and (wanted is None or wanted.kind is not kind)
        ]
        for kind in ended:
            self._held.release(kind)
            report.decide(DecisionKind.ABANDON, "brake", kind, f"{len(unknown)} instances are unknown")
        if wanted is not None or ended:
            return
        brakes = self._brakes.engaged()
        stopping = brakes.stopping(Action.END_UNKNOWN)
        if stopping is not None and unknown:
            skipped(stopping, f"{len(unknown)} instances", report)
            return
        free = [stray for stray in unknown if brakes.stopping(Action.END_UNKNOWN, _pool_of(stray)) is None]
        round_.each(
            free,
            lambda stray: self._end(stray, round_),
            subject=lambda stray: stray.instance.instance_id,
        )

    def _end(self, stray: UnclaimedInstance, round_: ReconcileRound) -> None:
        """Store a claim that is to be removed; it is then drained like any other, if it has a node."""
        now, instance = round_.clock.now(), stray.instance
        record = self._rebuilding.record(f"unknown-{instance.instance_id}", stray, round_.view)
        going = msgspec.structs.replace(
            record,
            phase=ClaimPhase.REGISTERED if stray.node is not None else ClaimPhase.LAUNCHED,
            node_name=stray.node.name if stray.node is not None else "",
            deletion=Deletion(reason=TerminationReason.UNKNOWN_INSTANCE, message=stray.problem, asked_at=now),
            reserved={},
        )
        if self._claims.restore(going) is None:
            return
        round_.report.decide(
            DecisionKind.TERMINATE, instance.instance_id, TerminationReason.UNKNOWN_INSTANCE, stray.problem
        )
        self._work.send([work_on_claim(going.name, now)])
        self._wake_ups.send([wake_up(TerminationReason.UNKNOWN_INSTANCE)])


def _pool_of(stray: UnclaimedInstance) -> str:
    return stray.instance.tags.get(labels.NODEPOOL, "")


def _brake(unknown: Sequence[UnclaimedInstance], fleet: int, may_end: int) -> Brake:
    """Return the brake; its text is equal for equal unknown instances, so that it is written once."""
    return Brake(
        BrakeKind.UNKNOWN_INSTANCES,
        f"{len(unknown)} of {fleet} instances with our tag have no claim, and at most {may_end} are terminated at once: "
        f"{_named(unknown)}. Of the first: {unknown[0].problem}. Nothing is terminated until there are fewer. Check that "
        "TABLE_NAME names this cluster's table and that the NodePools exist; of instances that are not this cluster's, take "
        "the tag fleetwright.dev/claim off; terminate those that nothing uses yourself",
    )


def _foreign(foreign: Sequence[UnclaimedInstance], joined: int, may_end: int) -> Brake:
    """Return the brake for instances without a node or with copied tags; it names them, and says how to clear it.

    The nodes of the `joined` others may run pods: they are counted, and drained as soon as there are fewer.
    """
    others = (
        f"; {joined} more that have a node of their own are drained once there are no more than that" if joined else ""
    )
    return Brake(
        BrakeKind.FOREIGN_INSTANCES,
        f"{len(foreign)} instances have this cluster's tags but no claim, and no node or the tags of another instance: "
        f"{_named(foreign)}. At most {may_end} unknown instances are terminated at once{others}. Find out who launched them "
        "(CloudTrail, RunInstances); of those named, terminate the ones that nothing uses, or take the tag "
        "fleetwright.dev/claim off them",
    )


def _named(unknown: Sequence[UnclaimedInstance]) -> str:
    ids = sorted(stray.instance.instance_id for stray in unknown)
    return ", ".join(ids[:NAMED_MAX]) + (f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else "")


# Removes claims whose instance is gone.


class LostInstances(Sweep):
    """Terminates a claim once its node is not Ready either (Karpenter checks both) and EC2 does not find the instance by id.

    A list may be incomplete; if a zone is disconnected, no node in it is Ready. Only a share of the claims is therefore removed
    in a round (docs/engineering/handbook/state.md): a real end is also reported by EC2's events and the Node object, which do
    not wait.
    """

    name = "lostInstances"
    is_urgent = True

    def __init__(self, cloud: CloudProvider, terminator: ClaimTerminator, failed_starts: FailedStarts) -> None:
        self._cloud = cloud
        self._terminator = terminator
        self._failed_starts = failed_starts

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims whose instance EC2 neither lists nor finds."""
        view, present = round_.view, {instance.instance_id for instance in round_.instances}
        now = round_.clock.now()
        missing = [record for record in view.claims.values() if _is_lost(record, present, view.snapshot, now)]
        if not missing:
            return
        alive = {instance.instance_id for instance in self._cloud.instances([record.instance_id for record in missing])}
        lost = [record for record in missing if record.instance_id not in alive]

        def terminate(record: ClaimRecord) -> None:
            message = f"instance {record.instance_id} is gone and its node is not ready"
            reason, message = self._failed_starts.explain_loss(record, message, round_.report)
            self._terminator.begin(record.name, reason, message, round_.report)

        may_go = max(1, len(view.claims) * SHARE_PERCENT // 100)
        round_.each(lost[:may_go], terminate, subject=lambda record: record.name)
        if len(lost) > may_go:
            later, first = len(lost) - may_go, lost[may_go]
            message = (
                f"EC2 no longer lists the instances of {len(lost)} of {len(view.claims)} claims, such as {first.instance_id}; "
                f"{may_go} are removed per round, the others later: check that region, account and permissions are right"
            )
            round_.report.count(LOST_INSTANCES_HELD, later)
            round_.report.decide(DecisionKind.SKIP, first.name, ClaimReason.MANY_INSTANCES_GONE, message)


def _is_lost(record: ClaimRecord, present: Container[str], snapshot: Snapshot, now: datetime) -> bool:
    if record.machine is None or record.deletion is not None or record.instance_id in present:
        return False
    if now - record.phase_since < INSTANCE_CHECK_AFTER:
        return False
    of_instance = (
        nodes_of_instance for nodes_of_instance in snapshot.nodes if nodes_of_instance.provider_id == record.provider_id
    )
    node = next(
        (nodes_of_instance for nodes_of_instance in of_instance if record.node_name in ("", nodes_of_instance.name)),
        None,
    )
    return node is None or not node.is_ready


# Handles instances with our claim tag and no known claim: existence is decided by the tag, not by the table.


GRACE: Final = timedelta(minutes=1)
"""The minimum age: the launch response of a younger instance may not be stored yet."""

NAMED_IN_A_ROUND: Final = 100
"""The most instances that are named in a round: EC2 accepts about 100 CreateTags at once, and 10 a second afterwards."""


class UntrackedInstances(Sweep):
    """Each instance is adopted by the claim that waits for it, or its claim is rebuilt, or it is unknown.

    Instances of shared launches are named after their claims, so that their tags identify these.
    """

    name = "untrackedInstances"
    is_urgent = True

    def __init__(self, cloud: CloudProvider, rebuilding: Rebuilding, unknown: UnknownInstances) -> None:
        self._cloud = cloud
        self._rebuilding = rebuilding
        self._unknown = unknown

    def run(self, round_: ReconcileRound) -> None:
        """Handle all such instances."""
        view, report, now = round_.view, round_.report, round_.clock.now()
        strays = untracked(round_.instances, view, now, min_age=GRACE)
        round_.each(
            strays.awaited, lambda awaited: self._rebuilding.adopt(*awaited, view, report), subject=lambda a: a[1]
        )
        round_.each(
            strays.unnamed[:NAMED_IN_A_ROUND],
            lambda unnamed: self._cloud.tag(unnamed[0].instance_id, name_tags(unnamed[1])),
            subject=lambda unnamed: unnamed[1],
        )
        report.count("untrackedInstances", len(strays.unclaimed))
        unclaimed = [stray for stray in strays.unclaimed if stray.problem]

        def rebuild(stray: UnclaimedInstance) -> None:
            judged = self._rebuilding.judged(stray)
            if judged.problem:
                unclaimed.append(judged)
            else:
                self._rebuilding.rebuild(judged, view, report)

        rebuildable = self._rebuilding.still_there(strays.rebuildable)
        round_.each(rebuildable, rebuild, subject=lambda stray: stray.instance.instance_id)
        unknown = [stray for stray in unclaimed if now - stray.instance.launched_at >= UNKNOWN_AFTER]
        self._unknown.settle(unknown, strays.tagged, round_)
