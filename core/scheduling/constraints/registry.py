"""Combines all constraints, with what one plan has reserved under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from core.model.pod import Pod
from core.scheduling.constraints.commitments import Commitments
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.constraints.per_node import (
    AttachLimits,
    DaemonCompany,
    HostPorts,
    NodePoolLimits,
    Reservations,
)
from core.scheduling.constraints.per_plan import ExclusiveClaims, VacantDomains
from core.scheduling.pods import ConstraintFacts, PodGroup
from core.scheduling.primitives import memo

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

_AT_LAUNCH: Final = (Constraint.launchable, Constraint.narrowed, Constraint.open)

_Kind = TypeVar("_Kind", bound=Constraint)


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
        self.at_launch = tuple(each for each in self.all if _has(each, *_AT_LAUNCH))
        self.after_topology = tuple(each for each in self.all if _has(each, Constraint.narrowed_after_topology))
        self.limits = _only(self.all, NodePoolLimits)
        self.reservations = _only(self.all, Reservations)
        self.commitments = next((each for each in self.all if isinstance(each, Commitments)), None)
        self.attach_limits = next((each for each in self.all if isinstance(each, AttachLimits)), None)
        self.vacant = next((each for each in self.all if isinstance(each, VacantDomains)), None)
        self.changes_drafts = any(constraint.changes_drafts for constraint in self.all)

    @classmethod
    def of(cls, types: ConstraintTypes, start: PlanStart) -> PlanConstraints:
        """Begin a plan."""
        return cls([constraint(start) for constraint in types])

    def exhausted(self, pods: PodGroup) -> tuple[str, str]:
        """Return code and text if no node at all may take one more of these pods; empty texts otherwise."""
        refusals = (
            (constraint.reason, constraint.exhausted(pods))
            for constraint in (() if pods.is_plain else self.concerning(pods))
        )
        return next((refusal for refusal in refusals if refusal[1]), ("", ""))

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
