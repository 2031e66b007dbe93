"""The interface of a constraint, following kube-scheduler's plugins: filter, then reserve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import Pod
from core.model.values.commitment import Commitment
from core.reasons.code import Refusal, Stated
from core.reasons.pods import PodReason
from core.scheduling.existing_node import ExistingNode
from core.scheduling.new_node import ClaimDraft, InFlightClaim, NodeClaimTemplate, RemainingLimits
from core.scheduling.pods import PodGroup, PodSignature
from core.scheduling.primitives import RequirementTable, ThresholdIndex, TypeMask, memo
from core.scheduling.volume_binding import VolumeNeeds

if TYPE_CHECKING:
    from core.scheduling.addresses import RemainingAddresses


# Computes how much of each commitment launches of each NodePool's instance types would use.


class TypeCharges:
    """The charges of one commitment for one NodePool's types, by position: the maximum over the type's zones."""

    def __init__(self, commitment: Commitment, types: Sequence[InstanceType]) -> None:
        charges = [
            max((commitment.charge(instance_type.name, o.zone, o.price) for o in _on_demand(instance_type)), default=0)
            for instance_type in types
        ]
        self._index = ThresholdIndex(charges)
        self._uncovered = self._index.at_most(0)

    def within(self, amount: int) -> TypeMask:
        """Return the types that this amount covers completely."""
        return TypeMask(self._index.at_most(amount) & ~self._uncovered)

    def largest(self, among: TypeMask) -> int:
        """Return the most that any of these types uses."""
        return self._index.largest(among)


class CommitmentCharges:
    """The charges of all commitments for all NodePools.

    Attributes:
        commitments: The commitments in force, in the order in which EC2 applies them.
        of: Position of a commitment, index of a template → the charges of its types.
    """

    def __init__(self, commitments: Sequence[Commitment], templates: Sequence[NodeClaimTemplate]) -> None:
        self.commitments = commitments
        self._templates = templates
        self.of: Callable[[int, int], TypeCharges] = memo(partial(_of, commitments, templates))

    def worth(self, position: int, amount: int) -> int:
        """Return the most that this amount of a commitment can save on new nodes, in nano-dollars per hour."""
        commitment = self.commitments[position]
        offers = (
            o
            for template in self._templates
            for instance_type in template.types.types
            for o in _on_demand(instance_type)
        )
        charged = ((o.price, commitment.charge(o.instance_type, o.zone, o.price)) for o in offers)
        return max((-(-price * amount // charge) for price, charge in charged if charge), default=0)


def _of(
    commitments: Sequence[Commitment], templates: Sequence[NodeClaimTemplate], position: int, index: int
) -> TypeCharges:
    return TypeCharges(commitments[position], templates[index].types.types)


def _on_demand(instance_type: InstanceType) -> list[Offering]:
    return [o for o in instance_type.offerings if o.capacity_type == labels.ON_DEMAND and o.available]


class PlanStart(msgspec.Struct, frozen=True):
    """The initial state of one plan's constraints.

    Attributes:
        templates: The NodePools.
        limits: [template], what remains of the NodePool's limits.
        table: The numbers of requirements.
        quotas: EC2's quota code → the rest of it (`RemainingQuotas.left`).
        charges: How much of commitments launches would use.
        uncommitted: [commitment], the amount that nodes leave unused.
        addresses: What the subnets with few free addresses have left; None if all have plenty.
    """

    templates: Sequence[NodeClaimTemplate]
    limits: Sequence[RemainingLimits]
    table: RequirementTable
    quotas: Mapping[str, int] = msgspec.field(default_factory=dict)
    charges: CommitmentCharges = msgspec.field(default_factory=lambda: CommitmentCharges((), ()))
    uncommitted: Sequence[int] = ()
    addresses: RemainingAddresses | None = None


class Constraint:
    """One rule besides requirements, taints, topology and resources.

    Every method's default is that the rule does not apply.

    A constraint decides for the pods that it concerns which existing nodes may take one more of them, and for claims which
    instance types (as a bit mask). It is not called for other pods, so these cost no time. Its answers only get stricter as
    pods are placed: a node that refuses a pod refuses it permanently. An object serves one plan and holds what the plan's pods
    have reserved; to undo placements, continue with an earlier `copy`.

    Attributes:
        label: Its name in explanations.
        reason: The code of a pod for which it leaves no instance type.
        takes_most_important: Whether kube-scheduler gives what the pods share to the one with the highest priority, so that
            their queue is in that order.
    """

    label: ClassVar[str] = ""
    reason: ClassVar[PodReason] = PodReason.NO_OFFERING_FITS
    takes_most_important: ClassVar[bool] = False

    def __init__(self, start: PlanStart) -> None:
        """Begin a plan."""

    def copy(self) -> Constraint:
        """Return an independent copy of the reservations."""
        return self

    @classmethod
    def reads(cls, pod: Pod) -> Hashable:
        """Return what the rule reads of a pod besides its spec, namespace and labels: pods that differ in it are not one group.

        It is available as `pods.signature.facts[cls]`.
        """
        return None

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the rule concerns pods with this signature and these volumes, whatever they request."""
        return False

    @classmethod
    def may_move(cls, pods: PodGroup) -> bool:
        """Whether repacking may move such pods between new nodes without checking the rule again."""
        return not cls.concerns(pods.signature, pods.volumes)

    def exhausted(self, pods: PodGroup) -> Refusal | None:
        """Return why no node at all may take one more of these pods; None by default."""
        return None

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        """Whether an existing node may take one more of these pods."""
        return True

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Reserve room for one of these pods on an existing node."""

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        """Return the types that a claim may become with one more of these pods."""
        return claim.template.types.full

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Reserve room for one of these pods on a claim."""

    def launchable(self, template: NodeClaimTemplate, among: TypeMask) -> TypeMask:
        """Return those of a NodePool's types that a new claim may become."""
        return among

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft of a new claim, narrowed before its topology domains are chosen."""
        return draft

    def narrowed_after_topology(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft of a new claim, narrowed once its topology domains are chosen; it must stay possible."""
        return draft

    @property
    def changes_drafts(self) -> bool:
        """Whether the result of `narrowed` may change when further claims are opened."""
        return False

    def open(self, claim: InFlightClaim) -> None:
        """Record that the plan opens a claim; its first pod is not added yet."""

    def make_room(self, claims: Sequence[InFlightClaim], restrict: Callable[[InFlightClaim, TypeMask], None]) -> bool:
        """If the rule has kept pods out, restrict open claims with `restrict` to make room; return whether that makes any.

        It restricts each claim at most once, since it is called until it returns False.
        """
        return False

    def nearest_miss(self, template: NodeClaimTemplate, mask: TypeMask, pods: PodGroup) -> str:
        """Return which of the types comes nearest and what it lacks, if `types` excludes all; empty by default."""
        return ""

    def shortage(self, draft: ClaimDraft) -> Refusal:
        """Return why a pod has no new node that could have one if `narrowed` or `launchable` left one."""
        return Stated(self.reason, self.label)

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Whether repacking may replace a claim; `pods_wait` if the plan left pods that could use the claim's NodePool."""
        return True

    def replace(self, replaced: Sequence[InFlightClaim], cheaper: Sequence[InFlightClaim]) -> bool:
        """Charge claims found by repacking in place of others; if there is no room, change nothing and return False."""
        return True
