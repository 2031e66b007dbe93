"""Constraints of single nodes: attach limits, host ports, limits of NodePools, places in reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from operator import or_
from typing import Final, NamedTuple

from msgspec.structs import replace

from core import labels
from core.model.pod import EBS_DRIVER, HostPort, any_conflict
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements
from core.reasons.code import Refusal
from core.reasons.pods import RESERVATIONS_FULL, AmountSpent, LimitsSpent, PodReason
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.existing_node import Attachments, ExistingNode
from core.scheduling.instance_types import OFFERING_KEYS, unmet
from core.scheduling.new_node import (
    ClaimDraft,
    InFlightClaim,
    NodeClaimTemplate,
    RemainingLimits,
    copies,
    group_or_cap,
    in_group,
    is_cap,
)
from core.scheduling.pods import PodGroup, PodSignature
from core.scheduling.primitives import IMPOSSIBLE, NO_TYPES, RequirementId, TypeMask, positions
from core.scheduling.volume_binding import NO_VOLUMES, VolumeNeeds

# Limits how many volumes a node can attach.


_NONE: Final[Attachments] = frozenset()


class AttachLimits(Constraint):
    """Counts volumes by CSI driver: on existing nodes by their CSINodes, on new ones EBS volumes by instance type.

    A volume that several pods of a node use is attached once. An EBS volume that pods name themselves, without a claim, is for
    one pod of a node (kube-scheduler, volumerestrictions).
    """

    label = "attachments"
    reason = PodReason.ATTACH_LIMIT

    def __init__(self, start: PlanStart) -> None:
        self._on_nodes: dict[int, Attachments] = {}
        self._on_claims: dict[int, Attachments] = {}

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the pods attach any volumes."""
        return bool(volumes.attachments)

    @classmethod
    def may_move(cls, pods: PodGroup) -> bool:
        """Only pods without volumes may move: a volume's zone decides the pod's, whether or not it is attached."""
        return pods.volumes == NO_VOLUMES or pods.volumes.is_group

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        """Whether the limits of the pods' own drivers hold; a driver without a stated limit has none (kube-scheduler)."""
        return self.admits_beside(node, pods, _NONE)

    def admits_beside(self, node: ExistingNode, pods: PodGroup, others: Attachments) -> bool:
        """Whether the limits hold once the volumes of other pods are attached to the node, too."""
        present = node.attached | self._on_nodes.get(node.index, _NONE) | others
        if _names_taken(pods, present):
            return False
        attached = present | set(pods.volumes.attachments)
        for driver in sorted({driver for driver, _ in pods.volumes.attachments}):
            limit = node.attach_limits.get(driver)
            if limit is not None and sum(1 for owner, _ in attached if owner == driver) > limit:
                return False
        return True

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Attach the volumes."""
        self._on_nodes[node.index] = self._on_nodes.get(node.index, _NONE).union(pods.volumes.attachments)

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        """Types that can attach the volumes of the claim's pods and these."""
        present = self._on_claims.get(claim.index, _NONE)
        if _names_taken(pods, present):
            return NO_TYPES
        attached = present.union(pods.volumes.attachments)
        return claim.template.types.room.attach_mask(sum(1 for driver, _ in attached if driver == EBS_DRIVER))

    def nearest_miss(self, template: NodeClaimTemplate, mask: TypeMask, pods: PodGroup) -> str:
        """Return the type that can attach most."""
        types = [template.types.types[position] for position in positions(mask)]
        limits = [
            (instance_type.attach_limit, instance_type.name)
            for instance_type in types
            if instance_type.attach_limit is not None
        ]
        if not limits:
            return ""
        volumes = sum(1 for driver, _ in pods.volumes.attachments if driver == EBS_DRIVER)
        most = max(limit for limit, _ in limits)
        name = min(name for limit, name in limits if limit == most)
        return f"the pod has {volumes} EBS volumes, and {name} attaches {most}"

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Attach the volumes."""
        self._on_claims[claim.index] = self._on_claims.get(claim.index, _NONE).union(pods.volumes.attachments)


def _names_taken(pods: PodGroup, attached: Attachments) -> bool:
    """Whether the pods name an EBS volume that another pod of the node uses."""
    return any(volume in attached for volume in pods.volumes.inline)


# Host ports: two pods cannot open the same one on one node.


Ports = tuple[HostPort, ...]


class HostPorts(Constraint):
    """Keeps pods off nodes on which their port is used by a pod, or by a DaemonSet pod that the node has yet to get."""

    label = "host ports"
    reason = PodReason.HOST_PORT_TAKEN

    def __init__(self, start: PlanStart) -> None:
        self._on_nodes: dict[int, Ports] = {}
        self._on_claims: dict[int, Ports] = {}

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the pods open any host ports."""
        return bool(signature.spec.host_ports)

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        """Whether the ports are free on the node."""
        taken = (*node.ports, *self._on_nodes.get(node.index, ()))
        return not any_conflict(pods.signature.spec.host_ports, taken)

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Reserve the ports."""
        self._on_nodes[node.index] = self._on_nodes.get(node.index, ()) + pods.signature.spec.host_ports

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        """Return types whose DaemonSet pods leave the ports free; none if a pod of the claim uses one."""
        wanted = pods.signature.spec.host_ports
        if any_conflict(wanted, self._on_claims.get(claim.index, ())):
            return NO_TYPES
        return claim.template.types.room.port_mask(wanted)

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Reserve the ports."""
        self._on_claims[claim.index] = self._on_claims.get(claim.index, ()) + pods.signature.spec.host_ports


# Rules between pods and the DaemonSets' pods that come with a new node.


class DaemonCompany(Constraint):
    """Keeps pods on new nodes with the DaemonSet's pod that their affinity needs, and off those with one that excludes them.

    Pods of DaemonSets that run already count like any others (`core.scheduling.topology`). Those that an existing node has yet
    to get keep pods away, too.
    """

    label = "DaemonSets' pods"
    reason = PodReason.POD_AFFINITY

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether a rule connects the pods with any DaemonSet."""
        return bool(signature.daemons_near or signature.daemons_away)

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        """Whether no DaemonSet's pod that is yet to come to the node excludes the pods."""
        return not node.due or not any(
            position in node.due and any(node.domain(key) is not None for key in keys)
            for position, keys in pods.signature.daemons_away
        )

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        """Return types that carry one of the DaemonSets to be near, for certain, and none of those to be away from."""
        signature, carriers = pods.signature, claim.template.carriers
        mask = claim.template.types.full
        if signature.daemons_near:
            near = NO_TYPES
            for position in signature.daemons_near:
                near |= carriers[position][1]
            mask &= near
        for position, keys in signature.daemons_away:
            if any(_may_have(claim.template, key) for key in keys):
                mask &= ~carriers[position][0]
        return mask


def _may_have(template: NodeClaimTemplate, key: str) -> bool:
    """Whether a NodePool's nodes may have a label; along a key that they lack, no anti-affinity excludes anything."""
    pool, types = template.pool, template.types
    if key == labels.HOSTNAME or key in pool.labels or any(demand.key == key for demand in pool.requirements):
        return True
    return bool(types.values(template.mask, template.offered, key))


# Applies the limits of NodePools.
#
# Limits are never exceeded: each new claim is charged its largest type until it is launched.


class NodePoolLimits(Constraint):
    """The remaining NodePool limits of the plan.

    Attributes:
        remaining: [template], the rest of its NodePool's limits.
    """

    def __init__(self, start: PlanStart) -> None:
        self.remaining = copies(start.limits)
        self._start = start

    def copy(self) -> NodePoolLimits:
        """Return an independent copy of the remaining limits."""
        return NodePoolLimits(replace(self._start, limits=self.remaining))

    def launchable(self, template: NodeClaimTemplate, among: TypeMask) -> TypeMask:
        """Return types that fit the remaining limits."""
        limits = self.remaining[template.index]
        return limits.mask(template.types, among) if limits.left else among

    def open(self, claim: InFlightClaim) -> None:
        """Charge the limits for the largest type that the claim may become."""
        limits, types = self.remaining[claim.template.index], claim.template.types
        if limits.left:
            claim.charged = claim.fitting_types
            limits.charge(types, claim.charged)

    def shortage(self, draft: ClaimDraft) -> Refusal:
        """Report the remaining limits."""
        remaining, types = self.remaining[draft.template.index], draft.template.types
        limits_left = remaining.left
        dollars_left = limits_left.get(quantity.HOURLY)
        prices = types.room.capacities(quantity.HOURLY)
        if dollars_left is not None and not prices.at_most(dollars_left) & draft.mask:
            group = remaining.binding(quantity.HOURLY)
            cap = remaining.bounds(draft.template.pool)[quantity.HOURLY]
            cheapest = min((types.types[p].capacity.get(quantity.HOURLY, 0) for p in positions(draft.mask)), default=0)
            rest, limit, price, lacking = (
                quantity.render(max(0, amount), quantity.HOURLY)
                for amount in (dollars_left, cap, cheapest, cheapest - dollars_left)
            )
            return AmountSpent(
                owner=_owner(group),
                resource=quantity.HOURLY,
                left=rest,
                whole=limit,
                spent=remaining.spending_of(group) if group else "",
                price=price,
                lacking=lacking,
            )
        if (spent := _cap_spent(remaining, draft)) is not None:
            return spent
        amounts = (
            (name, quantity.render(max(0, amount), name), in_group(remaining.binding(name)))
            for name, amount in limits_left.items()
        )
        return LimitsSpent(tuple(amounts))

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Not if pods wait for a NodePool with limits: the greedy plan decides which pods get its last room."""
        return not (pods_wait and self.remaining[claim.template.index].left)


def _cap_spent(remaining: RemainingLimits, draft: ClaimDraft) -> AmountSpent | None:
    """Return the first cap on another resource than dollars that leaves too little for any type; None if none does."""
    types = [draft.template.types.types[position] for position in positions(draft.mask)]
    for name, amount in remaining.left.items():
        cap = remaining.binding(name)
        amounts = (1 if name == quantity.NODES else t.capacity.get(name, 0) for t in types)
        least = min(amounts, default=0)
        if name != quantity.HOURLY and is_cap(cap) and least > amount:
            whole = remaining.bounds(draft.template.pool)[name]
            room, limit, taken, lacking = (
                quantity.render(max(0, value), name) for value in (amount, whole, least, least - amount)
            )
            return AmountSpent(
                owner=_owner(cap), resource=name, unit="", left=room, whole=limit, price=taken, lacking=lacking
            )
    return None


def _owner(group: str) -> str:
    return f"{group_or_cap(group)}'s" if group else "its"


class _ReservationChoice(NamedTuple):
    """A reservation that can take a claim; the order is that of preference.

    Attributes:
        price: Its lowest price, in nano-dollars per hour.
        identity: Its id.
        types: Its types that have room.
        values: (key, value) of its offerings of these types, for the labels of offerings that minValues name.
    """

    price: int
    identity: str
    types: TypeMask
    values: frozenset[tuple[str, str]]


class Reservations(Constraint):
    """The remaining places of every capacity reservation in one plan.

    A claim that can use a reservation takes one place in the cheapest and is restricted to it, or a place in each of several if
    minValues need the types of all of them. Other claims are kept out of reserved capacity, so no plan uses more places than
    exist.
    """

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self.left: dict[str, int] = {}
        for template in start.templates:
            for identity, capacity in template.types.offerings.reservations.items():
                self.left[identity] = min(capacity, self.left.get(identity, capacity))
        unreserved = Requirements([Requirement(labels.CAPACITY_TYPE, True, (labels.RESERVED,))])
        self._unreserved = start.table.intern(unreserved)

    def copy(self) -> Reservations:
        """Return an independent copy of the remaining places."""
        other = Reservations(self._start)
        other.left = dict(self.left)
        return other

    @property
    def changes_drafts(self) -> bool:
        """Whether there are any reservations."""
        return bool(self.left)

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft without full reservations."""
        spent = tuple(sorted(identity for identity, places in self.left.items() if places <= 0))
        if not spent:
            return draft
        others = Requirements([Requirement(labels.RESERVATION_ID, True, spent)])
        kept_out = self._unreserved if len(spent) == len(self.left) else self._table.intern(others)
        return draft.narrowed(self._table.narrowed(draft.reqs, required=kept_out))

    def without_any(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft without any reserved capacity."""
        return draft.narrowed(self._table.narrowed(draft.reqs, required=self._unreserved))

    def choose(self, draft: ClaimDraft) -> tuple[RequirementId, tuple[str, ...]] | None:
        """Return requirements and reservations for a new claim; no reservations if it can do without.

        Return None if it needs one and there is none.

        A claim with minValues does without if all reservations together have too few types.
        """
        choices = self._choices(draft)
        for choice in choices:
            if not self._lacks_values(draft, choice.types, choice.values):
                return self._restricted_to(draft, choice.identity).reqs, (choice.identity,)
        several = self._several(draft, choices)
        if several:
            return self._restricted_to(draft, *several).reqs, several
        free = self.without_any(draft) if self.left else draft
        if free.is_possible and (not choices or not free.missing_values()):
            return free.reqs, ()
        if not choices:
            return None
        return self._restricted_to(draft, choices[0].identity).reqs, (choices[0].identity,)

    def _choices(self, draft: ClaimDraft) -> list[_ReservationChoice]:
        """Return the reservations with places and room for the draft, the cheapest first, ties by identity.

        The draft is narrowed to reserved capacity once, and each reservation is a mask of types from there on: narrowing it to
        every reservation for every claim would take time in proportion to the product of both.
        """
        reserved = draft.narrowed(self._table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED))
        if reserved.reqs == IMPOSSIBLE:
            return []
        types, mask = draft.template.types, reserved.mask
        fitting_types = types.room.fitting(mask, draft.total)
        keys = [key for key in OFFERING_KEYS if key in draft.min_values]
        choices: list[_ReservationChoice] = []
        for identity, offerings in types.offerings.of_reservations(reserved.reqs).items():
            if self.left.get(identity, 0) > 0 and offerings.types & fitting_types:
                # As for every draft, the price is that of the types regardless of room.
                price = offerings.price(TypeMask(offerings.types & mask))
                kept = TypeMask(offerings.types & fitting_types)
                choices.append(_ReservationChoice(price, identity, kept, offerings.values(kept, keys)))
        return sorted(choices, key=lambda choice: (choice.price, choice.identity))

    def _lacks_values(self, draft: ClaimDraft, types: TypeMask, values: frozenset[tuple[str, str]]) -> bool:
        """Whether reservations with these types and labels of offerings have too few values for the draft's minValues."""
        if not draft.min_values:
            return False
        of_offerings = Counter(key for key, _ in values)
        if any(of_offerings[key] < draft.min_values.get(key, 0) for key in OFFERING_KEYS):
            return True
        of_types = {key: number for key, number in draft.min_values.items() if key not in OFFERING_KEYS}
        return bool(unmet(draft.template.types, types, of_types, draft.reqs))

    def _several(self, draft: ClaimDraft, ranked: Sequence[_ReservationChoice]) -> tuple[str, ...]:
        """Return a minimal selection, in order, with enough types for minValues; empty if all together have too few."""
        # before[k] has the types of the first k reservations, and `later` those of the selected ones after them: each of
        # them is left out, from the last to the first, if the others have enough types. Values are joined likewise.
        before = list(accumulate((choice.types for choice in ranked), or_, initial=NO_TYPES))
        values_before = list(
            accumulate((choice.values for choice in ranked), or_, initial=frozenset[tuple[str, str]]())
        )
        if len(ranked) < 2 or self._lacks_values(draft, TypeMask(before[-1]), values_before[-1]):
            return ()
        selected, later, values_later = list[str](), NO_TYPES, frozenset[tuple[str, str]]()
        for choice, types, values in reversed(list(zip(ranked, before, values_before, strict=False))):
            if self._lacks_values(draft, TypeMask(types | later), values | values_later):
                selected.append(choice.identity)
                later, values_later = TypeMask(later | choice.types), values_later | choice.values
        return tuple(reversed(selected))

    def _restricted_to(self, draft: ClaimDraft, *identities: str) -> ClaimDraft:
        """Return the draft restricted to these reservations."""
        reserved = self._table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED)
        if reserved == IMPOSSIBLE:
            return draft.narrowed(IMPOSSIBLE)
        if len(identities) == 1:
            return draft.narrowed(self._table.with_value(reserved, labels.RESERVATION_ID, identities[0]))
        reserved_only = self._table.intern(Requirements([Requirement.one_of(labels.RESERVATION_ID, *identities)]))
        return draft.narrowed(self._table.narrowed(reserved, required=reserved_only))

    def open(self, claim: InFlightClaim) -> None:
        """Assign the claim one place in each reservation that was chosen for it."""
        for identity in claim.reservations:
            self.left[identity] -= 1

    def shortage(self, draft: ClaimDraft) -> Refusal:
        """Report that all places are assigned."""
        return RESERVATIONS_FULL

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Only claims without a reservation: the greedy plan decides who gets the places."""
        return not claim.reservations
