"""The part of a NodePool's limits that one plan may use."""

from __future__ import annotations

from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.constraint import PlanStart
from core.scheduling.constraints.node_pool_limits import NodePoolLimits
from core.scheduling.primitives.handles import NO_TYPES
from tests.builders import a_pool, a_type
from tests.unit.scheduling.reading import context_of

SMALL, LARGE = a_type("a", cpu="4"), a_type("b", cpu="8")


def test_a_claim_is_charged_its_largest_type_and_a_copy_is_not() -> None:
    """Otherwise, a plan exceeds the limit, or a discarded plan has used it up."""
    context = context_of(types=(SMALL, LARGE), node_pools=(a_pool(limits={"cpu": 12_000}),))
    constraints, (template,) = context.plan_constraints(()), context.templates
    limits, before = constraints.limits, constraints.copy().limits
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert limits.launchable(template, template.mask) == template.mask
    limits.open(claim)
    assert (limits.remaining[0].left, before.remaining[0].left) == ({"cpu": 4_000}, {"cpu": 12_000})
    assert template.types.names(limits.launchable(template, template.mask)) == ("a",)
    limits.open(claim)
    assert limits.launchable(template, template.mask) == NO_TYPES
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero)
    assert limits.shortage(draft) == (PodReason.LIMIT_REACHED, "its limits leave cpu 0, too little for another node")


def test_with_pods_left_over_a_pool_with_limits_is_not_repacked() -> None:
    """Otherwise, the search for cheaper nodes gives the last of a limit to other pods."""
    pools = (a_pool("free"), a_pool("limited", limits={"cpu": 100_000}))
    context = context_of(types=(SMALL,), node_pools=pools)
    limits = NodePoolLimits(PlanStart(context.templates, context.remaining.limits(()), context.table))
    answers = {
        template.pool.name: limits.may_replace(
            InFlightClaim(0, template, template.offered, template.mask, context.axis.zero), pods_wait=True
        )
        for template in context.templates
    }
    assert answers == {"free": True, "limited": False}
