"""Static NodePools keep within the free addresses of subnets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest

from core import labels
from core.disruption.static_capacity.address_room import AddressRoom
from core.disruption.static_capacity.replicas import static_claims, waiting_for_addresses
from core.model.catalogue import Catalogue
from core.model.feature_gates import FeatureGates
from core.model.node_pool import NodeClass
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT, STRICT, Options, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import a_pool, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, world

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"
ZONE_OF = {"a": A, "a2": A, "b": B, "b2": B, "c": C}
ON = Options(feature_gates=FeatureGates(static_capacity=True))


def fleet(replicas: int, free: Mapping[str, int], *, subnets: str = "a b c", per_node: int = 1) -> Snapshot:
    """A static pool without nodes, in the zones of these subnets, of which some have few addresses."""
    pool = a_pool("default", ON_DEMAND, replicas=replicas)
    own = tuple((subnet, ZONE_OF[subnet]) for subnet in subnets.split())
    node_class = NodeClass(name="default", subnets=own, addresses_per_node=per_node)
    return world(node_pools=(pool,), options=ON, node_classes=(node_class,), subnet_addresses=dict(free))


def zones(snapshot: Snapshot, planned: tuple[PlannedClaim, ...] = ()) -> list[tuple[str, ...]]:
    return [claim.zones for claim in static_claims(snapshot, planned)]


@pytest.mark.parametrize("free", [{}, {"a": 5, "b": 5, "c": 5}, {"a": 3}])
def test_nodes_that_fit_wherever_ec2_launches_them_keep_their_zones(free: dict[str, int]) -> None:
    assert zones(fleet(3, free)) == [(A, B, C)] * 3


def test_zones_with_few_addresses_are_left_to_others_where_one_has_plenty() -> None:
    snapshot = fleet(3, {"a": 2, "b": 2})
    assert zones(snapshot) == [(C,)] * 3
    assert waiting_for_addresses(snapshot, static_claims(snapshot)) == {}


def test_the_last_addresses_go_to_one_node_each() -> None:
    snapshot = fleet(9, {"a": 3, "b": 1, "c": 0})
    assert Counter(zones(snapshot)) == {(A,): 3, (B,): 1}
    assert waiting_for_addresses(snapshot, static_claims(snapshot)) == {"default": 5}


def test_a_node_may_take_several_addresses() -> None:
    assert Counter(zones(fleet(9, {"a": 5, "b": 2, "c": 1}, per_node=2))) == {(A,): 2, (B,): 1}


def test_the_subnets_of_a_zone_count_together() -> None:
    assert Counter(zones(fleet(9, {"a": 2, "a2": 1, "b": 1, "c": 0}, subnets="a a2 b c"))) == {(A,): 3, (B,): 1}


def test_a_zone_counts_only_if_all_of_its_subnets_have_few_addresses() -> None:
    assert zones(fleet(9, {"a": 0, "b": 0, "c": 0}, subnets="a a2 b c")) == [(A,)] * 9


@pytest.mark.parametrize(("policy", "found"), [(STRICT, [(A,)] * 2), (BEST_EFFORT, [(C,)] * 3)])
def test_a_zone_that_offers_less_than_min_values_demand_is_none(policy: str, found: list[tuple[str, ...]]) -> None:
    """Otherwise, nodes are launched from one family where the NodePool demands two."""
    family = f"{labels.AWS_GROUP}/instance-family"
    types = (
        a_type("m5.large", zones=(A, B), **{family: "m5"}),
        a_type("c5.large", zones=(A, C), **{family: "c5"}),
    )
    pool = a_pool("default", ON_DEMAND, Requirement.of(family, "Exists", min_values=2), replicas=3)
    options = msgspec.structs.replace(ON, min_values_policy=policy)
    snapshot = fleet(3, {"a": 2, "b": 5})
    catalogue = Catalogue(default=types)
    assert zones(msgspec.structs.replace(snapshot, node_pools=(pool,), options=options, catalogue=catalogue)) == found


def test_pods_go_first() -> None:
    """They wait for a node; replicas are there for later."""
    snapshot = fleet(4, {"a": 2, "b": 2, "c": 0})
    (first, *_) = static_claims(snapshot)
    planned = tuple(msgspec.structs.replace(first, zones=(A,), pods=(f"default/{n}",)) for n in range(2))
    assert zones(snapshot, planned) == [(B,)] * 2


def test_classes_that_share_a_subnet_share_its_addresses() -> None:
    snapshot = fleet(2, {"a": 3, "b": 0, "c": 0})
    pools = (*snapshot.node_pools, msgspec.structs.replace(snapshot.node_pools[0], name="other"))
    snapshot = msgspec.structs.replace(snapshot, node_pools=pools)
    claims = static_claims(snapshot)
    assert [claim.node_pool for claim in claims] == ["default", "default", "other"]
    assert waiting_for_addresses(snapshot, claims) == {"other": 1}


def test_without_the_gate_nothing_waits() -> None:
    snapshot = msgspec.structs.replace(fleet(3, {"a": 0, "b": 0, "c": 0}), options=Options())
    assert (static_claims(snapshot), waiting_for_addresses(snapshot, ())) == ((), {})


def test_two_requests_take_from_the_same_addresses() -> None:
    snapshot = fleet(1, {"a": 2, "b": 1, "c": 0})
    (claim,) = static_claims(snapshot)
    room = AddressRoom(snapshot)
    assert [len(room.fitting(msgspec.structs.replace(claim, zones=(A, B)), 2)) for _ in range(3)] == [2, 1, 0]
