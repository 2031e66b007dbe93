"""The shared state of all plans of one snapshot: prepared once, read by hundreds of what-ifs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from core import labels
from core.commitments import coverage_of
from core.model.plan import PlannedClaim, Unschedulable, WaitingPod
from core.model.pod import Pod, PodSpec
from core.model.snapshot import CapacityBuffer, DaemonSet, Snapshot
from core.model.state_node import KnownStateNodes, StateNode, state_nodes
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import PREFER_NO_SCHEDULE, Toleration, first_untolerated
from core.pod_disruption_budgets import DisruptionBudgets
from core.pods import (
    is_pending,
    is_to_come,
    mark_untried_pods,
    may_wait,
    names_group,
    reschedulable,
    successor,
    why_waits,
)
from core.reasons.code import Refusal, on_one_line
from core.reasons.pods import PodReason
from core.scheduling.constraints.caps import PARTIAL_PLANS_MAX, price_for, without_fallback
from core.scheduling.constraints.commitments import Commitments, LateCommitments
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.constraints.ec2_quotas import Ec2Quotas, RemainingCapacity
from core.scheduling.constraints.registry import CONSTRAINTS, ConstraintTypes, PlanConstraints, reads_of
from core.scheduling.existing_node import ExistingNodes, KnownRooms, NodeIndex, daemon_pods, fits_nowhere
from core.scheduling.instance_types import index_of
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate, paid_for_waiting, templates_of
from core.scheduling.pods import (
    NO_HOLDS,
    KnownQuestions,
    PodDemands,
    PodGroup,
    PodSignature,
    PodSignatures,
    RelaxationStep,
    TopologyRule,
    may_join_existing,
    relaxation_steps,
    why_unsupported,
    within_preferences,
)
from core.scheduling.primitives import (
    IMPOSSIBLE,
    PodGroupId,
    RequirementId,
    RequirementTable,
    ResourceAxis,
    StepId,
    Vector,
    memo,
)
from core.scheduling.topology.groups import AFFINITY, SPREAD, Namespaces, Topology
from core.scheduling.volume_binding import FIRST_CHOICE, NO_VOLUMES, VolumeChoice, VolumeIndex, VolumeNeeds
from core.spending import holds_back

if TYPE_CHECKING:
    from core.gangs import Gang

# Sorts pods into groups of equal ones, and computes each group's relaxation steps.


Steps = tuple[tuple[RelaxationStep, ...], Refusal | None, bool]
"""Relaxation steps of pods, also for those that only existing nodes may take; why no new node could help, if none could;
whether no constraint concerns the pods."""


_IN_A_GROUP: Final = VolumeNeeds(is_group=True)


class PodGroups:
    """The groups of the pods that need a place."""

    def __init__(
        self,
        snapshot: Snapshot,
        signatures: PodSignatures,
        volumes: VolumeIndex,
        topology: Topology,
        table: RequirementTable,
        constraints: Sequence[type[Constraint]],
        successors: Mapping[int, Pod],
        watch: Callable[[], None],
    ) -> None:
        self._signatures = signatures
        self._successors = successors
        self._volumes = volumes
        self._pins: Mapping[str, Requirements] = {}
        self._of_groups = False
        self._known: dict[int, tuple[Pod, PodGroup]] = {}
        self._restricted: Callable[[VolumeNeeds, Requirements], VolumeNeeds] = memo(VolumeNeeds.restricted_to)
        builder = _StepBuilder(snapshot, topology, table, constraints, watch)
        steps: Callable[[PodSignature, VolumeNeeds], Steps] = memo(builder.steps)
        self._group: Callable[[PodSignature, Vector, VolumeNeeds], PodGroup] = memo(partial(_group, count(), steps))

    def pinned(self, pins: Mapping[str, Requirements], *, of_groups: bool = False) -> PodGroups:
        """Return the same groups with additional node requirements for some pods, by key.

        Unlike a node selector, a pin does not change which nodes the pods' spreads consider.

        Args:
            pins: The requirements.
            of_groups: Whether they are the domains of groups, within which repacking may move pods.
        """
        pinned = copy(self)
        pinned._pins = {**self._pins, **pins}  # noqa: SLF001 - a copy of our own kind
        pinned._of_groups, pinned._known = of_groups, {}  # noqa: SLF001
        return pinned

    def of(self, pod: Pod) -> PodGroup:
        """Return the group of a pod that needs a place; that of its successor if it has a node and must leave it."""
        entry = self._known.get(id(pod))
        if entry is None:
            # An entry keeps its pod alive, so no other pod has its identity.
            entry = self._known[id(pod)] = pod, self._group_of(pod)
        return entry[1]

    def _group_of(self, pod: Pod) -> PodGroup:
        coming = self._successors.get(id(pod), pod) if self._successors else pod
        sized = self._signatures.of(coming)
        pin = self._pins.get(pod.key) if self._pins else None
        if pin is not None:
            needs = self._needs(coming) if coming.spec.volumes else _IN_A_GROUP if self._of_groups else NO_VOLUMES
            return self._group(sized.signature, sized.requests, self._restricted(needs, pin))
        if coming.spec.volumes:
            return self._group(sized.signature, sized.requests, self._needs(coming))
        if sized.group is None:
            sized.group = self._group(sized.signature, sized.requests, NO_VOLUMES)
        return sized.group

    def _needs(self, pod: Pod) -> VolumeNeeds:
        return self._volumes.needs(pod, is_moved=bool(pod.node_name))


def _group(
    numbers: Iterator[int],
    steps: Callable[[PodSignature, VolumeNeeds], Steps],
    signature: PodSignature,
    requests: Vector,
    needs: VolumeNeeds,
) -> PodGroup:
    return PodGroup(PodGroupId(next(numbers)), signature, requests, needs, *steps(signature, needs))


class _StepBuilder:
    """Builds the relaxation steps of pods, regardless of requests; each step has a unique number."""

    def __init__(
        self,
        snapshot: Snapshot,
        topology: Topology,
        table: RequirementTable,
        constraints: Sequence[type[Constraint]],
        watch: Callable[[], None],
    ) -> None:
        self._constraints = constraints
        self._watch = watch
        self._topology = topology
        self._table = table
        self._respects_preferences = snapshot.options.preference_policy != "Ignore"
        taints = [t for pool in snapshot.node_pools for t in pool.taints]
        taints += [t for node in snapshot.nodes for t in node.taints]
        self._tolerates_at_last = any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)
        self._numbers = count(1)

    def steps(self, signature: PodSignature, needs: VolumeNeeds) -> Steps:
        """Return the relaxation steps of a signature's pods."""
        self._watch()
        refusal = why_unsupported(signature.spec, needs, self._table.well_known)
        is_plain = not any(constraint.concerns(signature, needs) for constraint in self._constraints)
        has_steps = refusal is None or may_join_existing(refusal, signature.spec, needs)
        return tuple(self._built(signature, needs)) if has_steps else (), refusal, is_plain

    def _built(self, signature: PodSignature, needs: VolumeNeeds) -> Iterator[RelaxationStep]:
        steps = relaxation_steps(
            signature.spec,
            signature.spreads,
            respect=self._respects_preferences,
            tolerate_at_last=self._tolerates_at_last,
        )
        for number, demands in enumerate(steps):
            rules = self._topology.rules(signature, number, demands)
            zone_rules = tuple(rule for rule in rules if not rule.is_hostname)
            rule_keys = {rule.key for rule in zone_rules}
            yield RelaxationStep(
                index=StepId(next(self._numbers)),
                number=number,
                demands=demands,
                alternatives=self._alternatives(signature.spec, demands, needs),
                host_rules=tuple(rule for rule in rules if rule.is_hostname),
                zone_rules=zone_rules,
                keys=tuple(sorted({*rule_keys, *signature.domain_keys})),
                is_monotone=all(_is_monotone(rule) for rule in rules),
            )

    def _alternatives(self, spec: PodSpec, demands: PodDemands, needs: VolumeNeeds) -> tuple[RequirementId, ...]:
        required = demands.terms[0].requirements if demands.terms else ()
        preferred = demands.preferred_terms[0].term.requirements if demands.preferred_terms else ()
        fixed = (*spec.node_selector, *required, *preferred)
        conjunctions = (self._table.conjunction((*fixed, *volume.values())) for volume in needs.alternatives)
        return tuple(dict.fromkeys(number for number in conjunctions if number != IMPOSSIBLE))


def _is_monotone(rule: TopologyRule) -> bool:
    """Whether placing pods never makes the rule easier to meet.

    It does for affinities, which need a matching pod, and for spreads over shared domains, whose skew falls when the emptiest
    domain gets a pod. A spread along hostnames is monotone: its emptiest domain is always an empty node.
    """
    return rule.kind != AFFINITY and (rule.kind != SPREAD or rule.is_hostname)


# Selects the pods to plan for: pods that the scheduler could not bind, and virtual pods of capacity buffers.


BUFFER_MARK: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME: Final = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE: Final = "karpenter.sh/capacity-buffer-namespace"
_NAMED: Final = "capacity-buffer-"


def pending_pods(snapshot: Snapshot, gangs: Iterable[Gang] = (), booked: Iterable[Pod] = ()) -> tuple[Pod, ...]:
    """Return pods that wait for a node, members that groups await, booked places, and buffers' virtual pods; by key."""
    mark, gangs = snapshot.options.requires_unschedulable_mark, tuple(gangs)
    pods = mark_untried_pods(snapshot.pods, snapshot.options) if mark else snapshot.pods
    pending = [pod for pod in pods if is_pending(pod, requires_mark=mark)]
    if gangs:
        if mark:
            # An incomplete group has no verdict of a scheduler: nobody else would say why its pods wait.
            members = {pod.key for gang in gangs for pod in gang.waiting}
            marked = {pod.key for pod in pending}
            others = (pod for pod in pods if pod.key in members and pod.key not in marked)
            pending += [pod for pod in others if is_pending(pod, requires_mark=False)]
        pending += [pod for gang in gangs for pod in gang.coming]
    has_buffers = snapshot.options.feature_gates.capacity_buffer
    buffers = (buffer for buffer in snapshot.buffers if has_buffers or buffer.calendar)
    pending += [pod for buffer in buffers for pod in _virtual_pods(buffer)]
    pending += booked
    return tuple(sorted(pending, key=lambda pod: pod.key))


def _booked(snapshot: Snapshot) -> tuple[Pod, ...]:
    if not snapshot.provisioning_requests:
        return ()
    from core.provisioning_requests import booked_places  # most clusters have none

    return booked_places(snapshot)


def _gangs(snapshot: Snapshot) -> tuple[Gang, ...]:
    if not snapshot.provisioning_requests and not any(map(names_group, snapshot.pods)):
        return ()
    from core.gangs import gangs_of  # most clusters have none

    return gangs_of(snapshot)


def is_spare(pod: Pod) -> bool:
    """Whether a pod only keeps room free for a capacity buffer."""
    return pod.annotations.get(BUFFER_MARK) == "true"


def is_virtual(pod: Pod) -> bool:
    """Whether a pod does not exist: it keeps room free for a capacity buffer, or for a member that a group awaits."""
    return is_spare(pod) or is_to_come(pod)


def buffer_of(pod: Pod) -> str:
    """Return `namespace/name` of a virtual pod's buffer."""
    return f"{pod.annotations[BUFFER_NAMESPACE]}/{pod.annotations[BUFFER_NAME]}"


def buffer_of_key(key: str) -> str:
    """Return `namespace/name` of the buffer by the key of its virtual pod; empty for the key of another pod."""
    namespace, _, name = key.partition("/")
    buffer, _, number = name.removeprefix(_NAMED).rpartition("-")
    return f"{namespace}/{buffer}" if name.startswith(_NAMED) and buffer and number.isdecimal() else ""


def _virtual_pods(buffer: CapacityBuffer) -> Iterable[Pod]:
    """Return a buffer's virtual pods, named as in Karpenter."""
    marks = {BUFFER_MARK: "true", BUFFER_NAME: buffer.name, BUFFER_NAMESPACE: buffer.namespace}
    for number in range(buffer.taken + 1, buffer.pods + 1):
        name = f"{_NAMED}{buffer.name}-{number}"
        if name not in buffer.requested:
            yield Pod(
                namespace=buffer.namespace,
                name=name,
                uid=f"{buffer.uid}-{number}",
                spec=buffer.spec,
                labels=buffer.labels,
                annotations=marks,
            )


def _labels_of_nodes(snapshot: Snapshot) -> frozenset[str]:
    """Return the labels that nodes get without a NodePool that names them."""
    requested = {labels.PROVISIONING_REQUEST} if snapshot.provisioning_requests else set()
    return labels.WELL_KNOWN | snapshot.catalogue.label_keys() | requested


class KnownParts:
    """What one snapshot's context keeps for the next of nodes and pods that both have; results are those of each alone."""

    def __init__(self) -> None:
        self.states = KnownStateNodes()
        self.questions = KnownQuestions()
        self.rooms = KnownRooms()


class HeldGang(msgspec.Struct, frozen=True):
    """A group for which nothing is planned, and why."""

    gang: Gang
    placed: int
    refusal: Refusal


class GangPlan(msgspec.Struct, frozen=True):
    """What is decided about groups before pods are placed.

    Attributes:
        turns: Key of a member that must have a place, or of a pod that comes before a group → its turn.
        uses_turns: Whether pods are placed in their turns, before all others. Where nothing is scarce, the usual order is
            cheaper.
        is_guess: Whether groups were tried one by one, not beside each other.
        domains: Name of a group → the value of each topology key that it gets.
        held: The groups for which nothing is planned.
    """

    turns: Mapping[str, int] = {}
    domains: Mapping[str, Mapping[str, str]] = {}
    held: tuple[HeldGang, ...] = ()
    uses_turns: bool = False
    is_guess: bool = False
    is_made: bool = False


NO_GANG_PLAN: Final = GangPlan()


_CHEAP: Final = Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED, labels.SPOT)


class SchedulingContext:
    """A snapshot, prepared for planning.

    Attributes:
        pending: Pods that wait for a node, virtual ones of capacity buffers included; by key.
        moving: Pods of leaving nodes that need another place; by key.
        leaving: Positions of the nodes that are leaving.
        constraints: The constraints to plan by.
        coverage: The commitments' coverage of running nodes, and their unused amounts.
        volumes: The requirements of pods' volumes.
        positions: Names of nodes and of their claims → position.
        nominated: Position of a node → pods that wait for room there, which preemption makes.
        remaining: What running nodes and claims leave of limits, quotas, addresses and commitments.
        watch: Ends the decision when its time is over.
        released: Keys of the pods that a pinned context lets leave a domain which has too many of them.
        gangs: The groups of pods that start together.
        booked: Places that ProvisioningRequests have booked: virtual pods, which are placed before all others.
        gang_plan: Which of them are planned for, and where (`core.scheduling.gangs`).
        holds: The pods that caps or their own patience keep from new nodes.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        constraints: ConstraintTypes = CONSTRAINTS,
        known: KnownParts | None = None,
        watch: Callable[[], None] = lambda: None,
        volume_choice: VolumeChoice = FIRST_CHOICE,
    ) -> None:
        """Prepare the snapshot.

        Args:
            snapshot: The cluster.
            constraints: The constraints to plan by.
            known: Keeps parts of it for the next.
            watch: Called often; raises OutOfTimeError when the time for the decision is over.
            volume_choice: Who gets which free volume.
        """
        self.snapshot = snapshot
        self.watch = watch
        self._volume_choice = volume_choice
        self.coverage = coverage_of(snapshot)
        self.constraints: ConstraintTypes = (*constraints, Commitments) if self.coverage.commitments else constraints
        self.states: tuple[StateNode, ...] = state_nodes(snapshot) if known is None else known.states.of(snapshot)
        self.gangs = _gangs(snapshot)
        self.gang_plan, self.holds = NO_GANG_PLAN, NO_HOLDS
        self.booked = _booked(snapshot)
        self.pending = within_preferences(pending_pods(snapshot, self.gangs, self.booked))
        self.released: frozenset[str] = frozenset()
        bound = [pod for state in self.states for pod in state.pods]
        successors = {id(pod): successor(pod) for pod in bound if pod.successor is not None}
        concerned = (*self.pending, *bound, *successors.values(), *_with_nominations(snapshot))
        self.axis = ResourceAxis(_requested(snapshot, concerned), _offered(snapshot, self.states))
        self.table = RequirementTable(_labels_of_nodes(snapshot))
        self.volumes = volumes = VolumeIndex(snapshot, volume_choice)
        self.daemons = daemons = daemon_pods(snapshot.daemon_sets, self.axis, self.table)
        reads, questions = reads_of(constraints), known.questions if known is not None else None
        shared_claims = volumes.binding.shared_claims((*self.pending, *bound))
        signatures = PodSignatures(snapshot, concerned, self.axis, reads, questions, shared_claims)
        self.existing_nodes = ExistingNodes(snapshot, self.axis, self.table, volumes, daemons, signatures).of(
            self.states, known.rooms if known is not None else None
        )
        self._index_nodes(snapshot)
        self._count_bound(signatures)
        self._signatures = signatures
        self._group_pods(snapshot, constraints, successors)

    def _index_nodes(self, snapshot: Snapshot) -> None:
        """Derive what plans read of nodes, templates and limits."""
        self.positions = {node.name: node.index for node in self.existing_nodes}
        self.positions |= {node.state.claim_name: node.index for node in self.existing_nodes if node.state.claim_name}
        self.node_index = NodeIndex(self.existing_nodes, self.table)
        self.templates = templates_of(snapshot, self.table, self.axis, self.daemons)
        self.remaining = RemainingCapacity(snapshot, self.existing_nodes, self.templates, self.coverage)
        self.budgets = DisruptionBudgets.of(snapshot)
        self.leaving = frozenset(node.index for node in self.existing_nodes if node.is_leaving)
        self.nominated = _nominated(snapshot, self.positions)
        self.moving = tuple(
            pod for node in self.existing_nodes if node.is_leaving for pod in self._moved_from(node.state)
        )

    def _group_pods(self, snapshot: Snapshot, constraints: ConstraintTypes, successors: Mapping[int, Pod]) -> None:
        """Group the pods, and collect the rules between them."""
        namespaces = Namespaces.of(snapshot)
        of_daemons = tuple(daemon.source for daemon in self.daemons)
        self.topology = Topology(
            self._signatures.all, self.node_index, self.templates, namespaces, self.table, of_daemons
        )
        self.pod_groups = PodGroups(
            snapshot,
            self._signatures,
            self.volumes,
            self.topology,
            self.table,
            constraints,
            successors,
            self.watch,
        )
        self._tolerated: Callable[[tuple[Toleration, ...]], tuple[bool, ...]] = memo(
            partial(_tolerated, self.templates)
        )

    def oversized_daemons(self) -> tuple[DaemonSet, ...]:
        """Return the DaemonSets whose pod is too large for every node; no room is kept for them."""
        pools = [(template.types, template.offered, template.taints) for template in self.templates]
        rooms = [self.axis.vector(state.allocatable) for state in self.states]
        return tuple(d.source for d in self.daemons if fits_nowhere(d, pools, self.axis, rooms))

    def pinned(
        self,
        leaving: Iterable[int],
        slots: Mapping[str, int] = MappingProxyType({}),
        new_nodes: Mapping[str, PlannedClaim] = MappingProxyType({}),
    ) -> SchedulingContext:
        """Return the same context in which pods of these nodes stay in their shared domains, see `DomainPins`.

        A pod whose slot (pod → position of a node) is in another domain may leave its own: when the slot was chosen, its spread
        had too many pods there, and commands that came first may have moved the others (docs/engineering/handbook/topology.md).
        A pod whose place is on a new node (pod → claim) must go to that node's domains
        (docs/engineering/handbook/command-validation.md).
        """
        # Plans for waiting pods need none.
        from core.scheduling.topology.pins import DomainPins, launched_domains

        pins: dict[str, Requirements] = {}
        released: set[str] = set()
        domain_pins = DomainPins(self.topology)
        for position in leaving:
            for pod in self.existing_nodes[position].state.pods:
                if pod.key in new_nodes:
                    pins[pod.key] = launched_domains(new_nodes[pod.key], self.pod_groups.of(pod).topology_keys)
                    continue
                domains = self._domains_to_keep(pod, position, slots.get(pod.key, position))
                pin = domain_pins.of(self.pod_groups.of(pod), domains) if domains else None
                if pin is not None:
                    pins[pod.key] = pin
                if len(pin or ()) < len(domains):
                    released.add(pod.key)
        if not pins and not released:
            return self
        other = copy(self)
        other.released = frozenset(released)
        other.pod_groups = self.pod_groups.pinned(pins)
        other.gang_plan = msgspec.structs.replace(self.gang_plan, is_guess=False)
        return other

    def _domains_to_keep(self, pod: Pod, position: int, slot: int) -> dict[str, str]:
        """Return topology key → domain for the keys along which rules count a pod, where its node and its slot agree."""
        here, there = self.existing_nodes[position], self.existing_nodes[slot]
        keys = () if pod.is_daemon else self._signatures.of(pod).signature.domain_keys
        return {key: domain for key in keys if (domain := here.domain(key)) is not None and there.domain(key) == domain}

    def may_wait(self, pod: Pod) -> bool:
        """Whether a pod needs no node yet."""
        return labels.START_BEFORE in pod.annotations and may_wait(pod, self.snapshot.now) is not None

    def held_pods(self) -> Iterator[Unschedulable]:
        """Return the pods of groups for which nothing is planned, each with its group's reason."""
        for held in self.gang_plan.held:
            reason, message = held.refusal.reason, on_one_line(held.refusal.message)  # shared by all its pods
            yield from (Unschedulable(pod.key, reason, message) for pod in held.gang.waiting)

    def with_gangs(
        self, plan: GangPlan, pins: Mapping[str, Requirements], withdrawn: Collection[str]
    ) -> SchedulingContext:
        """Return the same context with groups planned for as decided.

        Args:
            plan: The decision.
            pins: Key of a member → the domain that it must be in.
            withdrawn: Keys of the members for which nothing is planned.
        """
        other = copy(self)
        other.gang_plan = plan
        if withdrawn:
            other.pending = tuple(pod for pod in self.pending if pod.key not in withdrawn)
        if pins:
            other.pod_groups = self.pod_groups.pinned(pins, of_groups=True)
        return other

    def below(self, price: int) -> SchedulingContext:
        """Return the same context with NodePools restricted to what costs less than `price`; everything else is shared."""
        cheap = copy(self)
        cheap.templates = tuple(template.below(price) for template in self.templates)
        cheap.gang_plan = msgspec.structs.replace(self.gang_plan, is_guess=False)
        return cheap

    def signature_of(self, pod: Pod) -> PodSignature:
        """Return the signature of a pod of the snapshot that waits, runs, or is nominated to a node."""
        return self._signatures.of(pod).signature

    def open_templates(self, step: RelaxationStep) -> tuple[bool, ...]:
        """For each template, whether the relaxation step tolerates its taints."""
        return self._tolerated(step.demands.tolerations)

    def closed_templates(self) -> tuple[NodeClaimTemplate, ...]:
        """Return the NodePools that only their hours keep from launching, for explanations."""
        closed = (pool for pool in self.snapshot.node_pools if pool.is_closed)
        open_again = tuple(msgspec.structs.replace(pool, hours=None) for pool in closed)
        snapshot = msgspec.structs.replace(self.snapshot, node_pools=open_again)
        return templates_of(snapshot, self.table, self.axis, self.daemons) if open_again else ()

    def with_other_volumes(self, waiting: Iterable[Pod]) -> SchedulingContext | None:
        """Return the snapshot, prepared with other free volumes for the claims of pods that found no place with theirs.

        A volume that is kept for a pod with a nominated node is given up, too: whoever comes first takes it. None if no free
        volume is kept for any of these.
        """
        other = self.volumes.binding.other_choice(waiting, _with_nominations(self.snapshot))
        return self._again(other) if other is not None else None

    def before_gangs(self) -> SchedulingContext:
        """Return the snapshot, prepared once more, without a decision about groups."""
        return self._again(self._volume_choice)

    def _again(self, choice: VolumeChoice) -> SchedulingContext:
        without_commitments = tuple(constraint for constraint in self.constraints if constraint is not Commitments)
        return SchedulingContext(self.snapshot, without_commitments, watch=self.watch, volume_choice=choice)

    def plan_constraints(self, vanished: Iterable[int]) -> PlanConstraints:
        """Return the constraints of a new plan; nodes at the positions `vanished` use nothing of the limits."""
        vanished = tuple(vanished)
        remaining = self.remaining
        start = PlanStart(
            self.templates,
            remaining.limits(vanished),
            self.table,
            remaining.quotas,
            remaining.charges,
            remaining.uncommitted(vanished),
            remaining.addresses,
        )
        return PlanConstraints.of(self.constraints, start)

    def with_commitments_last(self) -> SchedulingContext:
        """Return the same context in which plans ignore commitments, which then cover finished claims."""
        other = copy(self)
        others = (constraint for constraint in self.constraints if constraint is not Commitments)
        other.constraints = (*others, LateCommitments)
        return other

    def for_another_plan(self, claims: Sequence[InFlightClaim]) -> SchedulingContext | None:
        """Restrict the claims of a plan so that they exceed no EC2 quota and no cap, and no subnet runs out of addresses.

        Pods that may wait get no node at any price either.

        Returns:
            None if that is possible, else the context in which another plan has to replace this one: the same with the
            constraints that this one breaks, or without the pods that caps hold back. The plan of a context always keeps to its
            own constraints.
        """
        broken = self.remaining.broken_by(claims, self.constraints) if claims else ()
        if not broken:
            return self._without_waiting(claims) or self._without_fallback(claims) or self._within_caps(claims)
        other = copy(self)
        other.constraints = tuple(sorted((*self.constraints, *broken), key=lambda constraint: constraint is Ec2Quotas))
        return other

    def _without_waiting(self, claims: Sequence[InFlightClaim]) -> SchedulingContext | None:
        """Return the context without new nodes for pods that may wait, except spot and prepaid ones; None if the plan has none.

        Members of groups that start together do not wait: a group is complete or has nothing.
        """
        earlier, now, members = self.holds.waiting, self.snapshot.now, self._members()
        paid = paid_for_waiting(claims, self.may_wait)
        placed = [(pod, claim) for claim in paid for pod in claim.pods if pod.annotations]
        waiting = {
            pod.key: WaitingPod(
                pod.key,
                patience.deadline,
                patience.launch_at,
                patience.takes_spot and not holds_back(claim.template.pool.saving_caps, pod),
                price_for(claim, pod),
            )
            for pod, claim in placed
            if pod.key not in earlier and pod.key not in members and (patience := may_wait(pod, now)) is not None
        }
        if not waiting:
            return None
        spot = [key for key in sorted(waiting) if waiting[key].takes_spot]
        whys = {key: Unschedulable(key, PodReason.HELD_BACK, why_waits(waiting[key])) for key in sorted(waiting)}
        held = {key: why for key, why in whys.items() if key not in spot}
        other = copy(self)
        other.holds = msgspec.structs.replace(
            self.holds, held={**self.holds.held, **held}, waiting={**earlier, **waiting}
        )
        other.pod_groups = self.pod_groups.pinned(dict.fromkeys(spot, Requirements([_CHEAP])))
        return other

    def _without_fallback(self, claims: Sequence[InFlightClaim]) -> SchedulingContext | None:
        """Return the context without on-demand nodes for pods that may have spot ones, as caps say; None if there are none."""
        saved = without_fallback(claims, self._members() | self.holds.saving.keys())
        if not saved:
            return None
        other = copy(self)
        other.holds = msgspec.structs.replace(self.holds, saving={**self.holds.saving, **saved})
        other.pod_groups = self.pod_groups.pinned(dict.fromkeys(sorted(saved), Requirements([_CHEAP])))
        return other

    def _members(self) -> set[str]:
        """Return the keys of pods that start together with others."""
        return {pod.key for gang in self.gangs for pod in (*gang.waiting, *gang.coming)}

    def _within_caps(self, claims: Sequence[InFlightClaim]) -> SchedulingContext | None:
        """Return the context for a plan within caps: with smaller nodes first, then without the pods that caps hold back.

        None if these claims are within caps.
        """
        caps = self.remaining.caps
        exceeded = caps.exceeded_by(claims)
        if not exceeded:
            return None
        other, plan = copy(self), self.holds
        if any(cap.name not in plan.sized_for for cap in exceeded):
            sized_for = plan.sized_for | {cap.name for cap in exceeded}
            other.holds = msgspec.structs.replace(plan, sized_for=sized_for)
            pins, members = caps.sizes(exceeded, self.templates, claims), self._members()
            cheap = {key for key, pod in self.holds.waiting.items() if pod.takes_spot} | self.holds.saving.keys()
            pins = {
                key: pins[key].merged([_CHEAP]) if key in cheap else pins[key] for key in pins if key not in members
            }
            other.pod_groups = self.pod_groups.pinned(pins)
            return other
        held = caps.held(exceeded, claims, keeps_part=plan.plans < PARTIAL_PLANS_MAX)
        for gang in self.gangs:
            keys = [pod.key for pod in (*gang.waiting, *gang.coming)]
            why = next((held[key] for key in keys if key in held), None)
            if why is not None:
                held |= {key: msgspec.structs.replace(why, pod=key) for key in keys}
        other.holds = msgspec.structs.replace(plan, held={**plan.held, **held}, plans=plan.plans + 1)
        return other

    def _moved_from(self, state: StateNode) -> tuple[Pod, ...]:
        """Return the pods of a leaving node that get another place; all of them if EC2 takes the instance anyway."""
        if state.claim is not None and state.claim.ends_at is not None:
            return reschedulable(state.pods)
        return self.budgets.currently_reschedulable(state.pods)

    def _count_bound(self, signatures: PodSignatures) -> None:
        """Count for every signature how many of its pods are on each node, without pods that get another place in this plan.

        Pods of a vanished node do not count (as in Karpenter).
        """
        moving, of = {id(pod) for pod in self.moving}, signatures.of
        for node in self.existing_nodes:
            position = node.index
            for pod in () if node.state.has_vanished else node.state.pods:
                if not moving or id(pod) not in moving:
                    signature = of(pod).signature
                    counts = signature.ending if pod.is_terminating else signature.bound
                    counts[position] = counts.get(position, 0) + 1


def _with_nominations(snapshot: Snapshot) -> tuple[Pod, ...]:
    nominated = (pod for pod in snapshot.pods if pod.nominated_node_name and not pod.node_name and pod.is_active)
    return tuple(sorted(nominated, key=lambda pod: pod.key))


def _nominated(snapshot: Snapshot, positions: Mapping[str, int]) -> dict[int, tuple[Pod, ...]]:
    by_position: dict[int, tuple[Pod, ...]] = {}
    for pod in _with_nominations(snapshot):
        position = positions.get(pod.nominated_node_name)
        if position is not None:
            by_position[position] = (*by_position.get(position, ()), pod)
    return by_position


def _tolerated(templates: tuple[NodeClaimTemplate, ...], tolerations: tuple[Toleration, ...]) -> tuple[bool, ...]:
    return tuple(first_untolerated(template.taints, tolerations) is None for template in templates)


def _offered(snapshot: Snapshot, states: Iterable[StateNode]) -> set[str]:
    """Return the names of the resources that any instance type, overlay or node has."""
    lists = (snapshot.catalogue.default, *snapshot.catalogue.by_node_class.values())
    resources = set().union(*(index_of(types).resources for types in lists))
    resources.update(*(overlay.capacity for overlay in snapshot.overlays))
    return resources.union(*(state.allocatable for state in states))


def _requested(snapshot: Snapshot, pods: Iterable[Pod]) -> set[str]:
    specs = {id(pod.spec): pod.spec for pod in pods}
    specs |= {id(daemon.spec): daemon.spec for daemon in snapshot.daemon_sets}
    requests = [spec.requests for spec in specs.values()]
    return {name for name in set().union(*requests) if any(amounts.get(name) for amounts in requests)}
