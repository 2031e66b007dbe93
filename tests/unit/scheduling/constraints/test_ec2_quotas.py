"""Plans under quotas that fall short."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.plan import NodeClaim, Plan
from core.model.snapshot import Options
from core.model.state_node import state_nodes
from core.model.values import quantity
from core.model.values.commitment import ReservedInstances
from core.model.values.quotas import STANDARD, quota_of
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from core.scheduling.constraints.ec2_quotas import (
    VCPU,
    Ec2Quotas,
    RemainingCapacity,
    RemainingQuotas,
    fit,
    launch_capacity_type,
    no_larger_than_cheapest,
    quotas_left,
)
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim
from core.scheduling.planner import Planner
from core.scheduling.pods import Avoids
from core.scheduling.scheduler import GreedyScheduler, queue_of
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, plan_of, reasons_of

# What quotas leave.


SMALL = a_type("m5.large", cpu="2", price=0.1)
LARGE = a_type("m5.4xlarge", cpu="16", price=0.8)
OTHER = a_type("p4d.24xlarge", cpu="96", price=32)
QUOTA_ACCOUNTING_TYPES = (SMALL, LARGE, OTHER)


def test_types_of_other_quotas_are_not_limited() -> None:
    """Otherwise, a spent quota of one family closes all."""
    (template,) = context_of(types=QUOTA_ACCOUNTING_TYPES).templates
    quotas = RemainingQuotas({STANDARD.on_demand: 4 * VCPU})
    kept = quotas.mask(template.types, template.mask, labels.ON_DEMAND)
    assert template.types.names(kept) == ("m5.large", "p4d.24xlarge")
    assert quotas.mask(template.types, template.mask, labels.SPOT) == template.mask


def test_a_quota_that_is_exceeded_already_admits_nothing() -> None:
    """Others in the account may have started more than the quota allows for a while."""
    (template,) = context_of(types=QUOTA_ACCOUNTING_TYPES).templates
    kept = RemainingQuotas({STANDARD.on_demand: -1}).mask(template.types, template.mask, labels.ON_DEMAND)
    assert template.types.names(kept) == ("p4d.24xlarge",)


def test_a_charge_is_the_largest_type_of_each_quota() -> None:
    """The claim may become any of them."""
    (template,) = context_of(types=QUOTA_ACCOUNTING_TYPES).templates
    quotas = RemainingQuotas({STANDARD.on_demand: 100 * VCPU, "L-417A185B": 100 * VCPU})
    charge = quotas.charge_of(template.types, template.mask, labels.ON_DEMAND)
    assert charge == {STANDARD.on_demand: 16 * VCPU, "L-417A185B": 96 * VCPU}
    quotas.take(charge)
    other = quotas.copy()
    other.refund(charge)
    assert (quotas.left[STANDARD.on_demand], other.left[STANDARD.on_demand]) == (84 * VCPU, 100 * VCPU)


def test_spot_is_requested_only_where_it_costs_no_more() -> None:
    """The launch leaves out spot that costs more than on-demand capacity, so the other quota is charged."""
    context = context_of(types=(SMALL,))
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert launch_capacity_type(claim, template.mask) == labels.SPOT
    only = template.types.table.with_value(template.offered, labels.CAPACITY_TYPE, labels.ON_DEMAND)
    assert launch_capacity_type(InFlightClaim(0, template, only, template.mask, ()), template.mask) == labels.ON_DEMAND
    held = InFlightClaim(0, template, template.offered, template.mask, (), reservations=("cr-1",))
    assert launch_capacity_type(held, template.mask) == labels.RESERVED


def test_types_near_the_cheapest_share_its_quota() -> None:
    """A multiple of its size bounds the others."""
    context = context_of(types=QUOTA_ACCOUNTING_TYPES)
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    names = {
        times: template.types.names(no_larger_than_cheapest(claim, template.mask, labels.SPOT, times=times))
        for times in (1, 8, 64)
    }
    assert names == {1: ("m5.large",), 8: ("m5.4xlarge", "m5.large"), 64: ("m5.4xlarge", "m5.large")}


def test_nodes_and_claims_take_their_share() -> None:
    """Spot and on-demand capacity separately; what runs in a reservation was charged with the reservation."""
    pairs = [
        a_node_of(LARGE, "a"),
        a_node_of(SMALL, "b", capacity_type=labels.SPOT),
        a_node_of(LARGE, "c", capacity_type=labels.RESERVED),
    ]
    foreign = a_node_of(LARGE, "d")[1]
    snapshot = a_snapshot(
        types=QUOTA_ACCOUNTING_TYPES,
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=(*(node for _, node in pairs), foreign),
    )
    unlaunched = NodeClaim(
        name="new",
        requirements=(
            Requirement.one_of(labels.INSTANCE_TYPE, "m5.large", "m5.4xlarge"),
            Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND, labels.SPOT),
            Requirement.one_of(labels.ZONE, ZONES[0]),
        ),
    )
    quotas = {STANDARD.on_demand: 32, STANDARD.spot: 32}
    remaining_quotas = quotas_left(quotas, state_nodes(snapshot), [unlaunched], QUOTA_ACCOUNTING_TYPES)
    assert remaining_quotas == {STANDARD.on_demand: 16 * VCPU, STANDARD.spot: 14 * VCPU}


@pytest.mark.parametrize(
    ("on_demand", "spot", "min_values", "requested"),
    [
        (100, 99, {}, labels.SPOT),
        (100, 100, {}, labels.SPOT),
        (100, 101, {}, labels.ON_DEMAND),
        (100, 101, {labels.INSTANCE_TYPE: 1}, labels.SPOT),
        (None, 101, {}, labels.SPOT),
        (100, None, {}, labels.ON_DEMAND),
        (100, None, {labels.INSTANCE_TYPE: 1}, labels.ON_DEMAND),
    ],
)
def test_spot_counts_unless_it_costs_more(
    on_demand: int | None, spot: int | None, min_values: dict[str, int], requested: str
) -> None:
    """With minValues the launch takes spot at any price (Karpenter)."""
    prices = {labels.ON_DEMAND: on_demand, labels.SPOT: spot}
    offerings = tuple(
        Offering("m5.large", ZONES[0], kind, price) for kind, price in prices.items() if price is not None
    )
    context = context_of(types=(msgspec.structs.replace(SMALL, offerings=offerings),))
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    claim.min_values = min_values
    assert launch_capacity_type(claim, template.mask) == requested


TYPE, KIND = labels.INSTANCE_TYPE, labels.CAPACITY_TYPE


@pytest.mark.parametrize(
    ("requirements", "on_demand", "spot"),
    [
        ([(TYPE, ["m5.large"]), (KIND, [labels.ON_DEMAND])], 2, 0),
        ([(TYPE, ["m5.large"]), (KIND, [labels.SPOT])], 0, 2),
        ([(TYPE, ["m5.large", "m5.4xlarge"]), (KIND, [labels.ON_DEMAND, labels.SPOT])], 0, 16),
        ([(TYPE, ["m5.large"])], 2, 0),
        ([(TYPE, ["m5.large"]), (KIND, [labels.RESERVED])], 0, 0),
        ([(TYPE, ["m5.large"]), (KIND, [labels.ON_DEMAND, labels.RESERVED])], 2, 0),
        ([(TYPE, ["m5.large"]), (KIND, [labels.RESERVED, labels.SPOT])], 0, 2),
        ([(KIND, [labels.SPOT])], 0, 0),
        ([(TYPE, ["m5.gone", "m5.large"])], 2, 0),
        ([(TYPE, ["m5.gone"])], 0, 0),
        ([], 0, 0),
    ],
)
def test_a_claim_without_an_instance_counts_at_its_largest_type(
    requirements: list[tuple[str, list[str]]], on_demand: int, spot: int
) -> None:
    """It may still be launched as any of them; a type that nobody knows has no size."""
    claim = NodeClaim(name="new", requirements=tuple(Requirement.one_of(key, *values) for key, values in requirements))
    remaining_quotas = quotas_left({STANDARD.on_demand: 32, STANDARD.spot: 32}, [], [claim], QUOTA_ACCOUNTING_TYPES)
    assert remaining_quotas == {STANDARD.on_demand: (32 - on_demand) * VCPU, STANDARD.spot: (32 - spot) * VCPU}


@pytest.mark.parametrize(("shown", "taken"), [({"cpu": 3000}, 3), ({"cpu": 0}, 16), ({}, 16)])
def test_a_node_counts_with_what_it_shows_else_with_its_type(shown: dict[str, int], taken: int) -> None:
    """A node that has just registered shows no capacity yet."""
    claim, node = a_node_of(LARGE, capacity=shown)
    claim = msgspec.structs.replace(claim, capacity=shown)
    snapshot = a_snapshot(types=QUOTA_ACCOUNTING_TYPES, node_claims=(claim,), nodes=(node,))
    assert quotas_left({STANDARD.on_demand: 32}, state_nodes(snapshot), [], QUOTA_ACCOUNTING_TYPES) == {
        STANDARD.on_demand: (32 - taken) * VCPU
    }


# Fitting claims into quotas.


QUOTA_FIT_TYPES = tuple(
    a_type(name, cpu=str(vcpus), price=0.05 * vcpus, capacity_types=(labels.ON_DEMAND,))
    for name, vcpus in (("m5.large", 2), ("m5.xlarge", 4), ("m5.4xlarge", 16), ("m5.24xlarge", 96), ("p3.2xlarge", 8))
)


def _claims(number: int) -> list[InFlightClaim]:
    context = context_of(types=QUOTA_FIT_TYPES)
    (template,) = context.templates
    return [
        InFlightClaim(index, template, template.offered, template.mask, context.axis.zero) for index in range(number)
    ]


def _names(claims: list[InFlightClaim]) -> list[tuple[str, ...]]:
    return [claim.template.types.names(claim.allowed) for claim in claims]


def test_nothing_changes_far_from_a_quota() -> None:
    """The choice of types is worth something."""
    claims = _claims(2)
    assert fit(claims, RemainingQuotas({STANDARD.on_demand: 192 * VCPU}))
    assert [len(names) for names in _names(claims)] == [5, 5]


def test_a_spent_quota_of_another_family_costs_only_its_types() -> None:
    """New accounts have no quota for accelerated families at all, and every claim of a wide NodePool names them."""
    claims = _claims(1)
    assert fit(claims, RemainingQuotas({"L-417A185B": 0}))
    assert _names(claims) == [("m5.24xlarge", "m5.4xlarge", "m5.large", "m5.xlarge")]


def test_the_loosest_bound_that_fits_is_kept() -> None:
    """Two claims of 2 vCPUs within 40: types of up to 16 fit, of 96 do not."""
    claims = _claims(2)
    assert fit(claims, RemainingQuotas({STANDARD.on_demand: 40 * VCPU}))
    assert _names(claims) == [("m5.4xlarge", "m5.large", "m5.xlarge", "p3.2xlarge")] * 2
    claims = _claims(2)
    assert fit(claims, RemainingQuotas({STANDARD.on_demand: 5 * VCPU}))
    assert _names(claims) == [("m5.large", "p3.2xlarge")] * 2


def test_claims_that_cannot_fit_stay_as_they_are() -> None:
    """There must be another plan."""
    claims = _claims(3)
    assert not fit(claims, RemainingQuotas({STANDARD.on_demand: 5 * VCPU}))
    assert [len(names) for names in _names(claims)] == [5, 5, 5]


BOTH = (labels.ON_DEMAND, labels.SPOT)
SIZES = (2, 4, 8, 16, 32, 64)
TYPES = tuple(a_type(f"m5.{n}", cpu=str(n), memory=f"{4 * n}Gi", pods="110", price=0.05 * n) for n in SIZES)
VCPUS = dict(zip((instance_type.name for instance_type in TYPES), SIZES, strict=True))


def _taken(plan: Plan, capacity_type: str) -> int:
    """The vCPUs that the claims of a plan may turn out to have of the standard quota: each its largest type."""
    return sum(
        max(VCPUS[name] for name in claim.instance_types)
        for claim in plan.claims
        if capacity_type == (labels.SPOT if labels.SPOT in claim.capacity_types else labels.ON_DEMAND)
    )


@pytest.mark.parametrize("quota", [0, 1, 3, 7, 20, 31, 48, 200])
def test_no_plan_may_exceed_a_quota(quota: int) -> None:
    """And no more than one node's worth of it is left while pods wait."""
    pods = tuple(a_pod(f"p{n:02}", cpu="900m") for n in range(60))
    on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    plan = plan_of(types=TYPES, pods=pods, node_pools=(on_demand,), vcpu_quotas={STANDARD.on_demand: quota})
    taken = _taken(plan, labels.ON_DEMAND)
    assert taken <= quota
    if plan.unschedulable:
        assert quota - taken < min(VCPUS.values())
        assert set(reasons_of(plan).values()) == {PodReason.QUOTA_REACHED}


def test_only_a_plan_that_would_exceed_a_quota_is_made_with_the_constraint() -> None:
    """It charges each claim its largest type, which costs every plan that is far from its quotas."""
    world = {"types": TYPES, "pods": (a_pod(cpu="7"),), "vcpu_quotas": {STANDARD.on_demand: 5, STANDARD.spot: 5}}
    context = context_of(**world)
    assert Ec2Quotas not in context.constraints
    queue = queue_of(context, [(context.pending, Avoids.NO_NODE)])
    claims = GreedyScheduler(context, queue, frozenset(), frozenset()).run().claims
    other = context.for_another_plan(claims)
    assert other is not None
    assert Ec2Quotas in other.constraints
    assert other.for_another_plan(claims) is None, "its plan keeps to them already"


@pytest.mark.parametrize(
    ("quota", "sizes"), [(6, [2, 2, 2]), (7, [2, 2, 2]), (5, [2, 2]), (4, [2, 2]), (200, [64, 64, 64])]
)
def test_claims_are_made_smaller_until_all_have_room_in_the_quota(quota: int, sizes: list[int]) -> None:
    """A node for each zone: the first claim's choice of larger types must not keep the last pod out."""
    pods = tuple(
        a_pod(f"p{n}", cpu="1500m", node_selector=(Requirement.one_of(labels.ZONE, zone),))
        for n, zone in enumerate(ZONES)
    )
    on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    plan = plan_of(types=TYPES, pods=pods, node_pools=(on_demand,), vcpu_quotas={STANDARD.on_demand: quota})
    assert sorted(max(VCPUS[name] for name in claim.instance_types) for claim in plan.claims) == sizes
    assert len(reasons_of(plan)) == 3 - len(sizes)


def test_the_reason_names_the_quota_and_what_is_missing() -> None:
    """A person raises it by its code."""
    on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    plan = plan_of(types=TYPES, pods=(a_pod(cpu="7"),), node_pools=(on_demand,), vcpu_quotas={STANDARD.on_demand: 5})
    (entry,) = plan.unschedulable
    assert entry.reason == PodReason.QUOTA_REACHED
    wanted = "quota L-1216C47A, Standard on-demand, leaves 5 vCPUs and the smallest suitable instance type has 8"
    assert wanted in entry.message


def test_on_demand_capacity_takes_over_where_the_spot_quota_is_spent() -> None:
    """It costs more, but the pods run; the other way round where that is cheaper anyway."""
    pods = tuple(a_pod(f"p{n}", cpu="7") for n in range(3))
    plan = plan_of(types=TYPES, pods=pods, vcpu_quotas={STANDARD.spot: 8, STANDARD.on_demand: 100})
    assert not plan.unschedulable
    assert _taken(plan, labels.SPOT) == 8
    assert 16 <= _taken(plan, labels.ON_DEMAND) <= 100


def test_another_family_takes_over_where_the_pool_admits_it() -> None:
    """Its quota is another one."""
    expensive = a_type("x2.2xlarge", cpu="8", memory="64Gi", price=2)
    plan = plan_of(
        types=(*TYPES, expensive), pods=(a_pod(cpu="7"),), vcpu_quotas={STANDARD.spot: 4, STANDARD.on_demand: 4}
    )
    (claim,) = plan.claims
    assert claim.instance_types == ("x2.2xlarge",)


def test_nodes_that_run_use_it_up() -> None:
    """Also nodes that a plan removes: they go only after their replacements came."""
    node, claim = a_node_of(TYPES[3])[1], a_node_of(TYPES[3])[0]
    snapshot = a_snapshot(
        types=TYPES, nodes=(node,), node_claims=(claim,), pods=(a_pod("bound", cpu="2", node_name=node.name),),
        node_pools=(a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)),),
        vcpu_quotas={STANDARD.on_demand: 9},
    )  # fmt: skip
    results = Planner(snapshot).what_if([node.name], consolidation=True)
    assert reasons_of(results.plan) == {"bound": PodReason.QUOTA_REACHED}


def test_a_reservation_needs_no_quota() -> None:
    """It was charged when it was made."""
    reserved = Offering("m5.8", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
    eight = msgspec.structs.replace(TYPES[2], offerings=(*TYPES[2].offerings, reserved))
    types = tuple(eight if instance_type.name == eight.name else instance_type for instance_type in TYPES)
    pods = tuple(a_pod(f"p{n}", cpu="7") for n in range(2))
    plan = plan_of(types=types, pods=pods, vcpu_quotas={STANDARD.spot: 0, STANDARD.on_demand: 0})
    assert [claim.capacity_types for claim in plan.claims] == [(labels.RESERVED,)]
    assert len(plan.unschedulable) == 1


def test_min_values_are_kept_or_the_pod_waits() -> None:
    """Smaller types alone would not be what the NodePool demands."""
    wants = a_pool("default", Requirement(labels.INSTANCE_TYPE, True, (), min_values=3))
    pods = (a_pod(cpu="3"),)
    kept = plan_of(types=TYPES, pods=pods, node_pools=(wants,), vcpu_quotas={STANDARD.spot: 16})
    assert [len(claim.instance_types) for claim in kept.claims] == [3]
    short = plan_of(types=TYPES, pods=pods, node_pools=(wants,), vcpu_quotas={STANDARD.spot: 8, STANDARD.on_demand: 8})
    assert not short.claims


def test_every_type_has_a_quota_code_in_this_test() -> None:
    """The sums above count what the planner counts."""
    assert {quota_of(instance_type.name) for instance_type in TYPES} == {STANDARD}
    assert all(instance_type.capacity[quantity.CPU] == 1000 * VCPUS[instance_type.name] for instance_type in TYPES)


# What limits, quotas and commitments leave for a plan.


REMAINING_CAPACITY_SMALL, REMAINING_CAPACITY_LARGE = (
    a_type("small", cpu="2", price=0.1),
    a_type("large", cpu="8", price=0.4),
)
MEDIUM = a_type("m7.large", cpu="2", price=0.1)


def _remaining(context: SchedulingContext) -> RemainingCapacity:
    return RemainingCapacity(context.snapshot, context.existing_nodes, context.templates, context.coverage)


def test_a_vanished_node_gives_back_what_it_used_of_the_limits() -> None:
    """Otherwise, a NodePool at its limit can never replace a node."""
    claim, node = a_node_of(REMAINING_CAPACITY_LARGE)
    pool = a_pool(limits={"cpu": 10_000})
    context = context_of(
        types=(REMAINING_CAPACITY_SMALL, REMAINING_CAPACITY_LARGE),
        nodes=(node,),
        node_claims=(claim,),
        node_pools=(pool,),
        pods=(a_pod(),),
    )
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
