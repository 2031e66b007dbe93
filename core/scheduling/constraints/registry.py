"""The constraints of a plan: those of the plan as a whole, and all of them combined, with what one plan has reserved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from core.model.pod import Pod
from core.model.values.requirements import Requirement, Requirements
from core.reasons.code import Refusal
from core.reasons.pods import PodReason, SpreadsBroken, VolumeCause, VolumeUnusable
from core.scheduling.constraints.commitments import Commitments
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.constraints.per_node import AttachLimits, DaemonCompany, HostPorts, NodePoolLimits, Reservations
from core.scheduling.existing_node import ExistingNode
from core.scheduling.new_node import ClaimDraft, InFlightClaim, NodeClaimTemplate
from core.scheduling.pods import ConstraintFacts, PodGroup, PodSignature
from core.scheduling.primitives import IMPOSSIBLE, RequirementId, TopologyGroupId, memo
from core.scheduling.volume_binding import VolumeNeeds

# Constraints of a plan as a whole: claims that one pod uses alone, and domains that must stay without nodes.


# ReadWriteOncePod claims: one pod at a time uses one, on whichever node.


class ExclusiveClaims(Constraint):
    """Gives each ReadWriteOncePod claim to the first pod that gets a place (kube-scheduler, volumerestrictions).

    A pod that would come first but has no place leaves it to the next. Where a pod on a node uses the claim, `VolumeNeeds` says
    so.
    """

    label = "ReadWriteOncePod claims"
    reason = PodReason.VOLUME_IN_USE
    takes_most_important = True

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._users: set[str] = set()

    def copy(self) -> ExclusiveClaims:
        """Return an independent copy of the claims in use."""
        other = ExclusiveClaims(self._start)
        other._users = set(self._users)
        return other

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the pods use such a claim."""
        return bool(volumes.exclusive)

    def exhausted(self, pods: PodGroup) -> Refusal | None:
        """Return which claim another pod of the plan uses; None if all are free."""
        taken = next((name for name in pods.volumes.exclusive if name in self._users), "")
        return VolumeUnusable(VolumeCause.USED_IN_PLAN, taken) if taken else None

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Record the pod's claims as used."""
        self._users.update(pods.volumes.exclusive)

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Record the pod's claims as used."""
        self._users.update(pods.volumes.exclusive)


# Domains without nodes, on which places of a spread depend.


class VacantDomain(NamedTuple):
    """A domain without nodes; a placed pod's spread would not admit its place if a node came there.

    Attributes:
        value: None stands for any further node, where each node is a domain.
    """

    group: TopologyGroupId
    key: str
    value: str | None


CountsNewNode = Callable[[TopologyGroupId, RequirementId, NodeClaimTemplate], bool]
"""Whether a new node with these requirements might count for a topology group."""


class VacantDomains(Constraint):
    """Keeps new nodes out of domains whose absence has let a pod have its place.

    For kube-scheduler, a domain exists once any node is there. A pod that was placed because its spread counts no pod of such a
    domain would be refused after a node for other pods had come up there.
    """

    label = "domains that spreads need without nodes"
    reason = PodReason.TOPOLOGY_SPREAD

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self._vacant: tuple[VacantDomain, ...] = ()
        self._counts: CountsNewNode = lambda *_: False

    def copy(self) -> VacantDomains:
        """Return an independent copy of the domains."""
        other = VacantDomains(self._start)
        other._vacant, other._counts = self._vacant, self._counts
        return other

    def keep(self, domains: Iterable[VacantDomain], counts: CountsNewNode) -> bool:
        """Keep these domains without nodes, too, and return whether that restricts new claims further."""
        before, self._counts = self._vacant, counts
        self._vacant = tuple(dict.fromkeys((*before, *domains)))
        return self._vacant != before

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft outside the domains."""
        if not self._vacant:
            return draft
        barred: dict[str, list[str]] = {}
        for group, key, value in self._vacant:
            there = draft if value is None else draft.narrowed(self._table.with_value(draft.reqs, key, value))
            if not there.is_possible or not self._counts(group, there.reqs, draft.template):
                continue
            if value is None:
                return draft.narrowed(IMPOSSIBLE)
            barred.setdefault(key, []).append(value)
        if not barred:
            return draft
        outside = Requirements(Requirement(key, True, tuple(sorted(barred[key]))) for key in sorted(barred))
        return draft.narrowed(self._table.narrowed(draft.reqs, required=self._table.intern(outside)))

    def shortage(self, draft: ClaimDraft) -> Refusal:
        """Report the domains."""
        return SpreadsBroken(tuple((domain.key, domain.value) for domain in self._vacant))

    def replace(self, replaced: Sequence[InFlightClaim], cheaper: Sequence[InFlightClaim]) -> bool:
        """Whether none of the claims found by repacking may enter a domain."""
        return not self._vacant or all(self.narrowed(draft) is draft for draft in (claim.draft for claim in cheaper))


ConstraintTypes = tuple[type[Constraint], ...]

CONSTRAINTS: Final[ConstraintTypes] = (
    HostPorts,
    AttachLimits,
    ExclusiveClaims,
    DaemonCompany,
    NodePoolLimits,
    VacantDomains,
    Reservations,
)
"""The constraints of every plan, in the order in which explanations name them. A new constraint is one more entry.

Three join a plan only where they apply (`SchedulingContext`): `Commitments` where some are in force, `Ec2Quotas` where a quota
falls short, `FreeAddresses` where subnets lack addresses."""

_BY_PRIORITY: Final = tuple(kind for kind in CONSTRAINTS if kind.takes_most_important)

_AT_LAUNCH: Final = (Constraint.launchable, Constraint.narrowed, Constraint.open)

_Kind = TypeVar("_Kind", bound=Constraint)


def go_by_priority(pods: PodGroup) -> bool:
    """Whether a rule gives what these pods share to the most important one: they wait in the order of their priority."""
    return any(kind.concerns(pods.signature, pods.volumes) for kind in _BY_PRIORITY)


class PlanConstraints:
    """The constraints of one plan.

    Attributes:
        all: All of them.
        concerning: Group of pods → the constraints that concern it; none for most groups.
        at_launch: The constraints on new claims: types to launch, requirements to keep, reservations to record.
        after_topology: Those among them that narrow a new claim once more when its topology domains are chosen.
        limits: The NodePool limits, for code that makes room in them.
        reservations: The capacity reservations, for code that chooses among them.
        commitments: The commitments for new claims, None if there are none.
        attach_limits: The limits of volumes on nodes, for code that expects further pods there; None if the plan has none.
        vacant: The domains that must stay without nodes, None if the plan does not keep any.
        changes_drafts: Whether any of them may narrow a new claim differently after further claims are opened.
    """

    def __init__(self, constraints: Sequence[Constraint]) -> None:
        self.all = tuple(constraints)
        self.concerning: Callable[[PodGroup], tuple[Constraint, ...]] = memo(partial(_concerning, self.all))
        self.at_launch = tuple(constraint for constraint in self.all if _has(constraint, *_AT_LAUNCH))
        self.after_topology = tuple(
            constraint for constraint in self.all if _has(constraint, Constraint.narrowed_after_topology)
        )
        self.limits = _only(self.all, NodePoolLimits)
        self.reservations = _only(self.all, Reservations)
        self.commitments = next((constraint for constraint in self.all if isinstance(constraint, Commitments)), None)
        self.attach_limits = next((constraint for constraint in self.all if isinstance(constraint, AttachLimits)), None)
        self.vacant = next((constraint for constraint in self.all if isinstance(constraint, VacantDomains)), None)
        self.changes_drafts = any(constraint.changes_drafts for constraint in self.all)

    @classmethod
    def of(cls, types: ConstraintTypes, start: PlanStart) -> PlanConstraints:
        """Begin a plan."""
        return cls([constraint(start) for constraint in types])

    def exhausted(self, pods: PodGroup) -> Refusal | None:
        """Return why no node at all may take one more of these pods; None if one may."""
        refusals = (constraint.exhausted(pods) for constraint in (() if pods.is_plain else self.concerning(pods)))
        return next(filter(None, refusals), None)

    def copy(self) -> PlanConstraints:
        """Return an independent copy of the reservations."""
        return PlanConstraints([constraint.copy() for constraint in self.all])


def reads_of(types: ConstraintTypes) -> Callable[[Pod], ConstraintFacts] | None:
    """Return what the constraints read of a pod besides its spec, namespace and labels; None if they read nothing."""
    reading = [constraint for constraint in types if "reads" in vars(constraint)]
    return partial(_read, reading) if reading else None


def _read(reading: Sequence[type[Constraint]], pod: Pod) -> ConstraintFacts:
    return tuple((constraint, constraint.reads(pod)) for constraint in reading)


def _has(constraint: Constraint, *hooks: Callable[..., object]) -> bool:
    """Whether a constraint has its own version of one of these methods."""
    return any(getattr(type(constraint), hook.__name__) is not hook for hook in hooks)


def _concerning(constraints: Sequence[Constraint], pods: PodGroup) -> tuple[Constraint, ...]:
    return tuple(constraint for constraint in constraints if constraint.concerns(pods.signature, pods.volumes))


def _only(constraints: Sequence[Constraint], kind: type[_Kind]) -> _Kind:
    return next(constraint for constraint in constraints if isinstance(constraint, kind))
