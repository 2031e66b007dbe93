"""What one plan has used up so far: places beside other pods, and what constraints ration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.constraints.plan_constraints import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.topology.domain_counts import DomainCounts


@dataclass(eq=False, slots=True, frozen=True)
class PlanState:
    """Changes with every pod that gets its place; shared by all who place pods.

    Attributes:
        context: The snapshot.
        domain_counts: Where the pods of every topology group are.
        constraints: What is reserved.
    """

    context: SchedulingContext
    domain_counts: DomainCounts
    constraints: PlanConstraints

    @property
    def limits(self) -> Sequence[RemainingLimits]:
        """[template], what its NodePool's limits leave."""
        return self.constraints.limits.remaining

    def copy(self) -> PlanState:
        """The state now; what is placed later counts in one of the two only."""
        return replace(self, domain_counts=self.domain_counts.copy(), constraints=self.constraints.copy())
