"""What limits, quotas and commitments leave for a plan."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.model.snapshot import Options
from core.model.values.commitment import ReservedInstances
from core.model.values.vcpu_quotas import STANDARD
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.quota_accounting import VCPU
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.constraints.remaining_capacity import RemainingCapacity
from core.scheduling.context import SchedulingContext
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of

SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)
MEDIUM = a_type("m7.large", cpu="2", price=0.1)


def _remaining(context: SchedulingContext) -> RemainingCapacity:
    return RemainingCapacity(context.snapshot, context.existing_nodes, context.templates, context.coverage)


def test_a_vanished_node_gives_back_what_it_used_of_the_limits() -> None:
    """Otherwise, a NodePool at its limit can never replace a node."""
    claim, node = a_node_of(LARGE)
    pool = a_pool(limits={"cpu": 10_000})
    context = context_of(types=(SMALL, LARGE), nodes=(node,), node_claims=(claim,), node_pools=(pool,), pods=(a_pod(),))
    assert _remaining(context).limits(())[0].left == {"cpu": 2_000}
    assert _remaining(context).limits([context.positions["node-1"]])[0].left == {"cpu": 10_000}


def test_a_leaving_node_counts_against_a_quota_but_not_against_a_limit() -> None:
    """EC2 counts it until it is gone; Karpenter counts it against its NodePool no longer."""
    claim, node = a_node_of(MEDIUM)
    claim = msgspec.structs.replace(claim, deleted_at=NOW - timedelta(minutes=1))
    context = context_of(
        types=(MEDIUM,),
        nodes=(node,),
        node_claims=(claim,),
        node_pools=(a_pool(limits={"cpu": 10_000}),),
        pods=(a_pod(),),
        vcpu_quotas={STANDARD.on_demand: 5},
    )
    assert _remaining(context).limits(())[0].left == {"cpu": 10_000}
    assert _remaining(context).quotas == {STANDARD.on_demand: 3 * VCPU}


def test_a_vanished_node_leaves_its_commitment_unused() -> None:
    """Otherwise, its replacement would be planned as if it were billed a second time."""
    claim, node = a_node_of(MEDIUM)
    reserved = ReservedInstances(name="r", instance_type="m7.large", count=1)
    context = context_of(
        types=(MEDIUM,), nodes=(node,), node_claims=(claim,), pods=(a_pod(),), options=Options(commitments=(reserved,))
    )
    assert _remaining(context).uncommitted(()) == (0,)
    assert _remaining(context).uncommitted([0]) == (reserved.amount,)


def test_a_constraint_that_a_plan_keeps_to_is_not_broken_again() -> None:
    """Otherwise, planning would never end where a quota is spent."""
    context = context_of(types=(MEDIUM,), vcpu_quotas={STANDARD.on_demand: 0, STANDARD.spot: 0})
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert _remaining(context).broken_by([claim], ()) == (Ec2Quotas,)
    assert _remaining(context).broken_by([claim], (Ec2Quotas,)) == ()
