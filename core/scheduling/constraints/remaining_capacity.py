"""What limits outside the nodes leave for a plan: NodePool limits, EC2 quotas, free addresses and commitments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from core.commitments.coverage import Coverage
from core.model.node_claim import NodeClaim
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.model.values.resources import subtract
from core.scheduling.capacity.existing_node import ExistingNode
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import RemainingLimits, used_by_pool
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.capacity.quota_accounting import RemainingQuotas, quotas_left
from core.scheduling.capacity.quota_fit import fit
from core.scheduling.constraints.commitment_charges import CommitmentCharges
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.constraints.plan_constraints import ConstraintTypes

if TYPE_CHECKING:
    from core.scheduling.capacity.addresses.address_accounting import RemainingAddresses


class RemainingCapacity:
    """What running nodes and claims leave of each limit, counted once for all plans of a snapshot.

    Attributes:
        quotas: EC2's quota code → vCPUs that nodes and claims leave of it.
        addresses: The free addresses of subnets; None if all have plenty.
        charges: How much of commitments launches would use.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: Sequence[ExistingNode],
        templates: Sequence[NodeClaimTemplate],
        coverage: Coverage,
    ) -> None:
        self._nodes = nodes
        self._pools = tuple(template.pool for template in templates)
        self._coverage = coverage
        unlaunched = _unlaunched(snapshot, nodes)
        staying = (node.state for node in nodes if not node.is_leaving)
        self._used = used_by_pool(staying, self._pools, unlaunched)
        self.quotas = _quotas(snapshot, nodes, unlaunched)
        self.addresses = _free_addresses(snapshot, templates)
        self.charges = CommitmentCharges(coverage.commitments, templates)

    def limits(self, vanished: Iterable[int]) -> tuple[RemainingLimits, ...]:
        """Return for each template the rest of its NodePool's limits; leaving and vanished nodes use nothing."""
        freed: dict[str, list[StateNode]] = {}
        for position in vanished:
            state = self._nodes[position].state
            freed.setdefault(state.node_pool, []).append(state)
        limits = []
        for pool in self._pools:
            gone = used_by_pool(freed.get(pool.name, ()), (pool,), ())[pool.name]
            limits.append(RemainingLimits(pool.limits, subtract(self._used[pool.name], gone)))
        return tuple(limits)

    def uncommitted(self, vanished: Iterable[int]) -> tuple[int, ...]:
        """Return for each commitment in force the amount that nodes leave unused; vanished nodes use nothing."""
        left = self._coverage.without(self._nodes[position].name for position in vanished)
        return tuple(left[one.name] for one in self._coverage.commitments)

    def committed_worth(self) -> int:
        """Return the most that commitments can save on new nodes, in nano-dollars per hour."""
        return sum(self.charges.worth(position, amount) for position, amount in enumerate(self.uncommitted(())))

    def broken_by(self, claims: Sequence[InFlightClaim], constraints: ConstraintTypes) -> ConstraintTypes:
        """Restrict a plan's claims so that they keep to quotas and free addresses; return the constraints that they break.

        Constraints that the plan already keeps to are not checked again.
        """
        # Addresses close zones, and a quota's charge depends on the zones that are left.
        return (*self._broken_addresses(claims, constraints), *self._broken_quotas(claims, constraints))

    def _broken_quotas(self, claims: Sequence[InFlightClaim], constraints: ConstraintTypes) -> ConstraintTypes:
        if not self.quotas or Ec2Quotas in constraints:
            return ()
        return () if fit(claims, RemainingQuotas(self.quotas)) else (Ec2Quotas,)

    def _broken_addresses(self, claims: Sequence[InFlightClaim], constraints: ConstraintTypes) -> ConstraintTypes:
        if self.addresses is None:
            return ()
        from core.scheduling.capacity.addresses.address_fit import fitted
        from core.scheduling.constraints.free_addresses import FreeAddresses

        if FreeAddresses in constraints or fitted(claims, self.addresses) is not None:
            return ()
        return (FreeAddresses,)


def _unlaunched(snapshot: Snapshot, nodes: Sequence[ExistingNode]) -> list[NodeClaim]:
    """Return the claims without an instance, except leaving ones."""
    launched = {node.state.claim_name for node in nodes}
    return [c for c in snapshot.node_claims if c.name not in launched and c.deleted_at is None]


def _quotas(snapshot: Snapshot, nodes: Sequence[ExistingNode], unlaunched: Sequence[NodeClaim]) -> dict[str, int]:
    """Return the rest of each quota. Nodes that a plan removes still count: their replacements launch before they go."""
    if not snapshot.vcpu_quotas:
        return {}
    every = (snapshot.catalogue.default, *snapshot.catalogue.by_node_class.values())
    types = {found.name: found for types in every for found in types}
    return quotas_left(snapshot.vcpu_quotas, [node.state for node in nodes], unlaunched, types.values())


def _free_addresses(snapshot: Snapshot, templates: Sequence[NodeClaimTemplate]) -> RemainingAddresses | None:
    """Return the free addresses of subnets. Nodes that a plan removes keep theirs until their replacements run."""
    if not snapshot.subnet_addresses:
        return None
    from core.scheduling.capacity.addresses.address_accounting import RemainingAddresses

    return RemainingAddresses.of(snapshot, templates)
