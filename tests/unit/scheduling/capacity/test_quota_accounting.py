"""What quotas leave."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.node_claim import NodeClaim
from core.model.state_node import state_nodes
from core.model.values.requirements import Requirement
from core.model.values.vcpu_quotas import STANDARD
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.quota_accounting import (
    VCPU,
    RemainingQuotas,
    launch_capacity_type,
    no_larger_than_cheapest,
    quotas_left,
)
from tests.builders import ZONES, a_node_of, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of

SMALL = a_type("m5.large", cpu="2", price=0.1)
LARGE = a_type("m5.4xlarge", cpu="16", price=0.8)
OTHER = a_type("p4d.24xlarge", cpu="96", price=32)
TYPES = (SMALL, LARGE, OTHER)


def test_types_of_other_quotas_are_not_limited() -> None:
    """Otherwise, a spent quota of one family closes all."""
    (template,) = context_of(types=TYPES).templates
    quotas = RemainingQuotas({STANDARD.on_demand: 4 * VCPU})
    kept = quotas.mask(template.types, template.mask, labels.ON_DEMAND)
    assert template.types.names(kept) == ("m5.large", "p4d.24xlarge")
    assert quotas.mask(template.types, template.mask, labels.SPOT) == template.mask


def test_a_quota_that_is_exceeded_already_admits_nothing() -> None:
    """Others in the account may have started more than the quota allows for a while."""
    (template,) = context_of(types=TYPES).templates
    kept = RemainingQuotas({STANDARD.on_demand: -1}).mask(template.types, template.mask, labels.ON_DEMAND)
    assert template.types.names(kept) == ("p4d.24xlarge",)


def test_a_charge_is_the_largest_type_of_each_quota() -> None:
    """The claim may become any of them."""
    (template,) = context_of(types=TYPES).templates
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
    context = context_of(types=TYPES)
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
        types=TYPES, node_claims=tuple(claim for claim, _ in pairs), nodes=(*(node for _, node in pairs), foreign)
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
    left = quotas_left(quotas, state_nodes(snapshot), [unlaunched], TYPES)
    assert left == {STANDARD.on_demand: 16 * VCPU, STANDARD.spot: 14 * VCPU}


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
    left = quotas_left({STANDARD.on_demand: 32, STANDARD.spot: 32}, [], [claim], TYPES)
    assert left == {STANDARD.on_demand: (32 - on_demand) * VCPU, STANDARD.spot: (32 - spot) * VCPU}


@pytest.mark.parametrize(("shown", "taken"), [({"cpu": 3000}, 3), ({"cpu": 0}, 16), ({}, 16)])
def test_a_node_counts_with_what_it_shows_else_with_its_type(shown: dict[str, int], taken: int) -> None:
    """A node that has just registered shows no capacity yet."""
    claim, node = a_node_of(LARGE, capacity=shown)
    claim = msgspec.structs.replace(claim, capacity=shown)
    snapshot = a_snapshot(types=TYPES, node_claims=(claim,), nodes=(node,))
    assert quotas_left({STANDARD.on_demand: 32}, state_nodes(snapshot), [], TYPES) == {
        STANDARD.on_demand: (32 - taken) * VCPU
    }
