"""The result of one plan: where pods go, and the claims of new nodes, before they become the plan's output."""

from __future__ import annotations

import msgspec

from core.model.pod import Pod
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.pods.pod_group import PendingGroup


class Solution(msgspec.Struct, eq=False):
    """The places of all pods.

    Attributes:
        bound: (pod, position of the node) for pods that an existing node takes.
        unplaced: Groups with pods left over.
        state: The state after the placements.
        before_buffers: The state before the virtual pods of capacity buffers, if real pods were left over then.
        is_same_if_shared: Whether the plan is known to be the same if one new node should take all pods.
        fixed_pods: Keys of pods that wait in any case, if a target moves others: their claims stay as they are.
    """

    claims: list[InFlightClaim]
    bound: list[tuple[Pod, int]]
    unplaced: list[PendingGroup]
    state: PlanState
    before_buffers: PlanState | None = None
    fixed_pods: frozenset[str] = frozenset()
    is_same_if_shared: bool = False

    @property
    def refusing_state(self) -> PlanState:
        """The state in which unplaced pods were refused: without virtual pods, which are placed after them."""
        return self.before_buffers or self.state

    def settle_commitments(self) -> Solution:
        """Let commitments cover the present claims, and return this solution.

        With EC2's quotas among the constraints, no claim becomes on-demand capacity for this: the quotas chose its capacity
        type.
        """
        constraints = self.state.constraints
        if constraints.commitments is not None:
            constraints.commitments.settle(self.claims, extends=Ec2Quotas not in map(type, constraints.all))
        return self
