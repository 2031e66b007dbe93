"""Tracks what one plan has used: pods in topology domains, and the resources of constraints."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.constraints.plan_constraints import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.topology.domain_counts import DomainCounts


class PlanState(msgspec.Struct, frozen=True, eq=False):
    """Changes with every placed pod; shared by all searches that place pods.

    Attributes:
        context: The snapshot.
        domain_counts: The pods of every topology group by domain.
        constraints: The reservations of the constraints.
    """

    context: SchedulingContext
    domain_counts: DomainCounts
    constraints: PlanConstraints

    @property
    def limits(self) -> Sequence[RemainingLimits]:
        """[template], the rest of its NodePool's limits."""
        return self.constraints.limits.remaining

    def copy(self) -> PlanState:
        """Return an independent copy."""
        return replace(self, domain_counts=self.domain_counts.copy(), constraints=self.constraints.copy())
