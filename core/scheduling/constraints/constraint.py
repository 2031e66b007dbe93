"""The interface of a constraint, following kube-scheduler's plugins: filter, then reserve."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from core.model.pod import Pod
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.existing_node import ExistingNode
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.constraints.commitment_charges import CommitmentCharges
from core.scheduling.pods.pod_group import PodGroup, PodSignature
from core.scheduling.pods.volumes import VolumeNeeds
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.requirement_table import RequirementTable

if TYPE_CHECKING:
    from core.scheduling.capacity.addresses.address_accounting import RemainingAddresses


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
    """

    label: ClassVar[str] = ""
    reason: ClassVar[str] = ""

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

    def shortage(self, draft: ClaimDraft) -> tuple[str, str]:
        """Return code and text for a pod that could have a new node if `narrowed` or `launchable` left one."""
        return self.reason, self.label

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Whether repacking may replace a claim; `pods_wait` if the plan left pods that could use the claim's NodePool."""
        return True

    def replace(self, replaced: Sequence[InFlightClaim], found: Sequence[InFlightClaim]) -> bool:
        """Charge claims found by repacking in place of others; if there is no room, change nothing and return False."""
        return True
