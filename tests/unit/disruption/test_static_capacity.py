"""How many nodes a static NodePool lacks, and which ones are surplus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.static_capacity import (
    AddressRoom,
    lacks_nodes,
    static_claims,
    surplus,
    template_claim,
    waiting_for_addresses,
    waiting_for_limits,
)
from core.model.catalogue import Catalogue
from core.model.node_pool import NodeClass
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT, STRICT, FeatureGates, Options, Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.builders import NOW, a_node_of, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, SMALL, TYPES, pod_on, world

# Static NodePools keep within the free addresses of subnets.


A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"
ZONE_OF = {"a": A, "a2": A, "b": B, "b2": B, "c": C}
ON = Options(feature_gates=FeatureGates(static_capacity=True))


def address_room_fleet(
    replicas: int, free: Mapping[str, int], *, subnets: str = "a b c", per_node: int = 1
) -> Snapshot:
    """A static pool without nodes, in the zones of these subnets, of which some have few addresses."""
    pool = a_pool("default", ON_DEMAND, replicas=replicas)
    subnet_zones = tuple((subnet, ZONE_OF[subnet]) for subnet in subnets.split())
    node_class = NodeClass(name="default", subnets=subnet_zones, addresses_per_node=per_node)
    return world(node_pools=(pool,), options=ON, node_classes=(node_class,), subnet_addresses=dict(free))


def zones(snapshot: Snapshot, planned: tuple[PlannedClaim, ...] = ()) -> list[tuple[str, ...]]:
    return [claim.zones for claim in static_claims(snapshot, planned)]


@pytest.mark.parametrize("free", [{}, {"a": 5, "b": 5, "c": 5}, {"a": 3}])
def test_nodes_that_fit_wherever_ec2_launches_them_keep_their_zones(free: dict[str, int]) -> None:
    assert zones(address_room_fleet(3, free)) == [(A, B, C)] * 3


def test_zones_with_few_addresses_are_left_to_others_where_one_has_plenty() -> None:
    snapshot = address_room_fleet(3, {"a": 2, "b": 2})
    assert zones(snapshot) == [(C,)] * 3
    assert waiting_for_addresses(snapshot, static_claims(snapshot)) == {}


def test_the_last_addresses_go_to_one_node_each() -> None:
    snapshot = address_room_fleet(9, {"a": 3, "b": 1, "c": 0})
    assert Counter(zones(snapshot)) == {(A,): 3, (B,): 1}
    assert waiting_for_addresses(snapshot, static_claims(snapshot)) == {"default": 5}


@pytest.mark.parametrize("limited", ["cpu", "fleetwright.dev/dollars-per-hour", "nodes", ""])
def test_a_static_node_reserves_no_more_of_a_shared_limit_than_its_cheapest_type(limited: str) -> None:
    """Its claim reserved the largest type that the template allows, for which a cap had no room for ever (seed 127)."""
    shared = {"all": {limited: 10**15}} if limited else {}
    pool = a_pool("default", ON_DEMAND, replicas=2, shared_limits=shared)
    (first, _) = static_claims(world(node_pools=(pool,), options=ON))
    cheapest = min(TYPES, key=lambda t: t.offerings[0].price).name
    assert (first.instance_types == (cheapest,)) is (limited not in ("nodes", ""))
    assert cheapest in first.instance_types


@pytest.mark.parametrize("limited", ["cpu", quantity.HOURLY])
def test_the_cheapest_type_is_so_at_prices_that_the_template_allows(limited: str) -> None:
    """A large type that is cheap as spot alone was reserved for an on-demand node, and dearer than a small one."""
    large = a_type("large", cpu="16", price=1.0)
    spot = [msgspec.structs.replace(o, price=o.price // 10) for o in large.offerings if o.capacity_type == labels.SPOT]
    others = [o for o in large.offerings if o.capacity_type != labels.SPOT]
    small = a_type("small", cpu="4", price=0.5, capacity_types=(labels.ON_DEMAND,))
    pool = a_pool("default", ON_DEMAND, replicas=1, shared_limits={"all": {limited: 10**15}})
    types = (msgspec.structs.replace(large, offerings=(*spot, *others)), small)
    (claim,) = static_claims(a_snapshot(types=types, node_pools=(pool,), options=ON))
    assert claim.instance_types == ("small",)


@pytest.mark.parametrize("limited", ["cpu", quantity.HOURLY])
def test_a_limited_static_node_names_as_many_types_as_min_values_demand(limited: str) -> None:
    """With the cheapest type alone, the NodePool launched nothing for ever."""
    flexible = Requirement.one_of(labels.INSTANCE_TYPE, *(t.name for t in TYPES))
    flexible = msgspec.structs.replace(flexible, min_values=2)
    pool = a_pool("default", ON_DEMAND, flexible, replicas=1, shared_limits={"all": {limited: 10**15}})
    (claim,) = static_claims(world(node_pools=(pool,), options=ON))
    assert len(claim.instance_types) >= 2


@pytest.mark.parametrize(
    ("limit", "number"), [({"cpu": 0}, 0), ({"cpu": 9000}, 2), ({"cpu": 10**9}, 3), ({"nodes": 2}, 2), ({}, 3)]
)
@pytest.mark.parametrize("group", ["all", "costs/all"])
def test_static_nodes_stay_within_limits_and_caps_that_they_share(
    group: str, limit: dict[str, int], number: int
) -> None:
    """Each minute a node was planned and told that the cap refused when its row was stored (seed 339)."""
    small = a_type("small", cpu="4")
    pool = a_pool("default", ON_DEMAND, replicas=3, shared_limits={group: limit})
    snapshot = a_snapshot(types=(small,), node_pools=(pool,), options=ON)
    assert (len(static_claims(snapshot)), lacks_nodes(snapshot)) == (number, number > 0)
    assert waiting_for_limits(snapshot) == ({"default": (3 - number, group)} if number < 3 else {})


def test_claims_for_pods_and_running_nodes_of_the_group_take_their_part_of_it_first() -> None:
    small = a_type("small", cpu="4")
    pool = a_pool("default", ON_DEMAND, replicas=2, shared_limits={"costs/all": {"cpu": 9000}})
    snapshot = a_snapshot(types=(small,), node_pools=(pool,), options=ON)
    (first, _) = static_claims(snapshot)
    assert len(static_claims(snapshot, (first,))) == 1
    assert waiting_for_limits(snapshot, (first,)) == {"default": (1, "costs/all")}
    (other,) = fleet(1, 0).node_claims
    of_group = a_pool("other", ON_DEMAND, shared_limits=pool.shared_limits)
    running = msgspec.structs.replace(other, labels={labels.NODEPOOL: "other"}, capacity={"cpu": 8000})
    full = msgspec.structs.replace(snapshot, node_pools=(pool, of_group), node_claims=(running,))
    assert (static_claims(full), lacks_nodes(full)) == ((), False)


def test_a_node_may_take_several_addresses() -> None:
    assert Counter(zones(address_room_fleet(9, {"a": 5, "b": 2, "c": 1}, per_node=2))) == {(A,): 2, (B,): 1}


def test_the_subnets_of_a_zone_count_together() -> None:
    assert Counter(zones(address_room_fleet(9, {"a": 2, "a2": 1, "b": 1, "c": 0}, subnets="a a2 b c"))) == {
        (A,): 3,
        (B,): 1,
    }


def test_a_zone_counts_only_if_all_of_its_subnets_have_few_addresses() -> None:
    assert zones(address_room_fleet(9, {"a": 0, "b": 0, "c": 0}, subnets="a a2 b c")) == [(A,)] * 9


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
    snapshot = address_room_fleet(3, {"a": 2, "b": 5})
    catalogue = Catalogue(default=types)
    assert zones(msgspec.structs.replace(snapshot, node_pools=(pool,), options=options, catalogue=catalogue)) == found


def test_pods_go_first() -> None:
    """They wait for a node; replicas are there for later."""
    snapshot = address_room_fleet(4, {"a": 2, "b": 2, "c": 0})
    (first, *_) = static_claims(snapshot)
    planned = tuple(msgspec.structs.replace(first, zones=(A,), pods=(f"default/{n}",)) for n in range(2))
    assert zones(snapshot, planned) == [(B,)] * 2


def test_classes_that_share_a_subnet_share_its_addresses() -> None:
    snapshot = address_room_fleet(2, {"a": 3, "b": 0, "c": 0})
    pools = (*snapshot.node_pools, msgspec.structs.replace(snapshot.node_pools[0], name="other"))
    snapshot = msgspec.structs.replace(snapshot, node_pools=pools)
    claims = static_claims(snapshot)
    assert [claim.node_pool for claim in claims] == ["default", "default", "other"]
    assert waiting_for_addresses(snapshot, claims) == {"other": 1}


def test_without_the_gate_nothing_waits() -> None:
    snapshot = msgspec.structs.replace(address_room_fleet(3, {"a": 0, "b": 0, "c": 0}), options=Options())
    assert (static_claims(snapshot), waiting_for_addresses(snapshot, ())) == ((), {})


def test_two_requests_take_from_the_same_addresses() -> None:
    snapshot = address_room_fleet(1, {"a": 2, "b": 1, "c": 0})
    (claim,) = static_claims(snapshot)
    room = AddressRoom(snapshot)
    assert [len(room.fitting(msgspec.structs.replace(claim, zones=(A, B)), 2)) for _ in range(3)] == [2, 1, 0]


def fleet(nodes: int, replicas: int, *, gate: Options = ON, **changes: Any) -> Snapshot:
    """A static pool with this many nodes and replicas."""
    limits = changes.pop("limits", {})
    pool = a_pool("default", ON_DEMAND, replicas=replicas, limits=limits)
    pairs = [a_node_of(SMALL, name=f"n-{number}") for number in range(nodes)]
    return world(*pairs, node_pools=(pool,), options=gate, **changes)


@pytest.mark.parametrize(
    ("nodes", "replicas", "limits", "missing", "spare"),
    [
        (0, 3, {}, 3, 0),
        (2, 3, {}, 1, 0),
        (3, 3, {}, 0, 0),
        (4, 3, {}, 0, 1),
        (1, 0, {}, 0, 1),
        (0, 0, {}, 0, 0),
        (1, 4, {"nodes": 3}, 2, 0),
    ],
)
def test_the_number_is_kept_within_the_limit(
    nodes: int, replicas: int, limits: dict[str, int], missing: int, spare: int
) -> None:
    snapshot = fleet(nodes, replicas, limits=limits)
    assert (len(static_claims(snapshot)), len(surplus(snapshot))) == (missing, spare)
    assert lacks_nodes(snapshot) is (missing > 0)


def test_without_the_gate_replicas_are_ignored() -> None:
    for nodes in (0, 5):
        snapshot = fleet(nodes, 2, gate=Options())
        assert (static_claims(snapshot), surplus(snapshot), lacks_nodes(snapshot)) == ((), (), False)


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": None},
        {"own_annotations": {labels.MODE: labels.OBSERVE}},
        {"problem": "spec.limits: is invalid"},
        {"deleted_at": NOW},
    ],
)
@pytest.mark.parametrize("nodes", [1, 5])
def test_some_pools_keep_no_number(changes: dict[str, Any], nodes: int) -> None:
    """Pools for pods, those that are only observed or invalid, and those that are being deleted."""
    snapshot = fleet(nodes, 3)
    pool = msgspec.structs.replace(snapshot.node_pools[0], **changes)
    changed = msgspec.structs.replace(snapshot, node_pools=(pool,))
    assert (static_claims(changed), surplus(changed), lacks_nodes(changed)) == ((), (), False)


def test_the_least_needed_node_goes_first() -> None:
    """Empty nodes go before nodes with pods, and nodes with a protected pod go last."""
    protected = pod_on("n-0", annotations={labels.DO_NOT_DISRUPT: "true"})
    pods = (protected, pod_on("n-1", "a"), pod_on("n-1", "b"), pod_on("n-2"))
    surplus_claims = surplus(fleet(4, 0, pods=pods))
    assert [claim.node_name for claim in surplus_claims] == ["n-3", "n-2", "n-1", "n-0"]


def test_an_empty_node_goes_before_one_with_pods_however_cheap_to_move() -> None:
    """A negative deletion cost orders nodes with pods, and says nothing against one that has none."""
    cheap = pod_on("n-0", annotations={labels.POD_DELETION_COST: "-1000000000"})
    assert [claim.node_name for claim in surplus(fleet(3, 0, pods=(cheap,)))] == ["n-1", "n-2", "n-0"]


def test_a_node_that_a_command_replaces_is_neither_surplus_nor_counted() -> None:
    """Otherwise, the replacement counts as surplus, or is launched twice."""
    snapshot = fleet(3, 2)
    going = snapshot.node_claims[0].name
    marked = msgspec.structs.replace(snapshot, marked_for_deletion=(going,))
    assert (static_claims(marked), surplus(marked)) == ((), ())


def test_a_leaving_node_is_replaced_once_the_limit_has_room() -> None:
    snapshot = fleet(2, 2)
    first, second = snapshot.node_claims
    leaving = (msgspec.structs.replace(first, deleted_at=NOW), second)
    assert len(static_claims(msgspec.structs.replace(snapshot, node_claims=leaving))) == 1
    bounded = msgspec.structs.replace(fleet(2, 2, limits={"nodes": 2}), node_claims=leaving)
    assert static_claims(bounded) == ()


def test_a_static_claim_has_the_terms_of_its_node_pool() -> None:
    """It is planned by another way than those for pods: a term lost here would be seen on static nodes only."""
    terms = {
        "taints": (Taint("a", "NoSchedule"),),
        "startup_taints": (Taint("b", "NoSchedule"),),
        "expire_after": timedelta(hours=1),
        "termination_grace_period": timedelta(minutes=1),
    }
    snapshot = fleet(0, 1)
    pool = msgspec.structs.replace(snapshot.node_pools[0], labels={"team": "a"}, annotations={"note": "x"}, **terms)
    (claim,) = static_claims(msgspec.structs.replace(snapshot, node_pools=(pool,)))
    assert {name: getattr(claim, name) for name in terms} == terms
    assert (claim.labels["team"], claim.annotations["note"], claim.node_class) == ("a", "x", pool.node_class)
    assert (claim.zones, claim.capacity_types) == (("us-east-1a", "us-east-1b", "us-east-1c"), ("on-demand",))


def two_pools(*, default: int, other: int, **changes: Any) -> Snapshot:
    """Two nodes in each of two static pools, which want so many."""
    pools = (a_pool("other", ON_DEMAND, replicas=other), a_pool("default", ON_DEMAND, replicas=default))
    pairs = [a_node_of(SMALL, name=f"{pool[0]}-{n}", pool=pool) for pool in ("default", "other") for n in range(2)]
    return world(*pairs, node_pools=pools, options=ON, **changes)


def test_each_pool_keeps_its_own_number() -> None:
    """By name of the pools, whichever comes first in the snapshot."""
    assert [claim.node_pool for claim in static_claims(two_pools(default=3, other=4))] == ["default", "other", "other"]
    assert [claim.node_name for claim in surplus(two_pools(default=1, other=0))] == ["d-0", "o-0", "o-1"]
    mixed = two_pools(default=1, other=3)
    assert ([c.node_pool for c in static_claims(mixed)], [c.node_name for c in surplus(mixed)]) == (["other"], ["d-0"])
    assert lacks_nodes(mixed)


def test_a_pool_that_is_not_ready_gets_no_nodes_and_keeps_those_it_has() -> None:
    snapshot = fleet(1, 3)
    pool = msgspec.structs.replace(snapshot.node_pools[0], is_ready=False)
    assert static_claims(msgspec.structs.replace(snapshot, node_pools=(pool,))) == ()
    assert not lacks_nodes(msgspec.structs.replace(snapshot, node_pools=(pool,)))


def test_a_limit_below_what_runs_takes_nothing_away_and_adds_nothing() -> None:
    snapshot = fleet(3, 4, limits={"nodes": 2})
    assert (static_claims(snapshot), surplus(snapshot)) == ((), ())


def test_one_plan_makes_a_thousand_nodes_of_a_pool_at_most() -> None:
    assert len(static_claims(fleet(0, 1002))) == 1000


def test_a_claim_whose_node_has_not_joined_is_missed_least_and_equals_go_by_name() -> None:
    snapshot = fleet(3, 1)
    nodes = tuple(node for node in snapshot.nodes if node.name != "n-2")
    first, *_, last = snapshot.node_claims
    for provider_id in ("", last.provider_id):
        joining = msgspec.structs.replace(last, node_name="", provider_id=provider_id)
        changed = msgspec.structs.replace(snapshot, nodes=nodes, node_claims=(*snapshot.node_claims[:-1], joining))
        assert [claim.name for claim in surplus(changed)] == [last.name, first.name]


def test_among_nodes_that_must_not_be_disrupted_the_one_with_fewer_pods_goes_first() -> None:
    kept = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    pods = (pod_on("n-0", "a", **kept), pod_on("n-0", "b"), pod_on("n-1", **kept))
    assert [claim.node_name for claim in surplus(fleet(2, 0, pods=pods))] == ["n-1", "n-0"]


def test_no_node_waits_for_addresses_where_none_are_counted() -> None:
    """It waits for the next plan, which is another reason to wait."""
    assert waiting_for_addresses(fleet(0, 2), ()) == {}
    few = msgspec.structs.replace(fleet(0, 2), subnet_addresses={"subnet": 1})
    assert waiting_for_addresses(few, ()) == {"default": 2}
    assert waiting_for_addresses(few, static_claims(fleet(0, 1))) == {"default": 1}
    assert waiting_for_addresses(msgspec.structs.replace(few, options=Options()), ()) == {}


# Claims made from a template alone, without pods.


def test_it_has_every_type_that_the_template_allows_and_its_hash() -> None:
    """Without the hash, a later change of the template cannot be detected on the node."""
    pool = a_pool("default", ON_DEMAND, replicas=1, template_hash="h")
    claim = template_claim(pool, world(node_pools=(pool,)))
    assert claim is not None
    assert claim.instance_types == tuple(instance_type.name for instance_type in TYPES)
    assert (claim.annotations[labels.NODEPOOL_HASH], claim.pods) == ("h", ())


def test_there_is_none_if_no_type_fits() -> None:
    pool = a_pool("default", Requirement.one_of(labels.INSTANCE_TYPE, "no-such"), replicas=1)
    assert template_claim(pool, world(node_pools=(pool,))) is None


def test_a_type_without_a_label_that_is_demanded_is_not_among_them() -> None:
    """Otherwise, a static NodePool of GPUs launches the cheapest machine without one."""
    key = f"{labels.AWS_GROUP}/instance-gpu-count"
    gpu = msgspec.structs.replace(TYPES[-1], labels={**TYPES[-1].labels, key: ("1",)})
    pool = a_pool("default", Requirement.of(key, "Gt", ["0"]), replicas=1)
    snapshot = world(node_pools=(pool,))
    snapshot = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(*TYPES[:-1], gpu)))
    claim = template_claim(pool, snapshot)
    assert claim is not None
    assert claim.instance_types == (gpu.name,)


@pytest.mark.parametrize(("policy", "is_made"), [(STRICT, False), (BEST_EFFORT, True)])
def test_types_that_do_not_meet_min_values_are_not_launched(policy: str, is_made: bool) -> None:
    """EC2 would get fewer types to choose from than the NodePool demands; Karpenter's launch refuses such a claim."""
    many = Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=len(TYPES) + 1)
    pool = a_pool("default", ON_DEMAND, many, replicas=1)
    options = Options(min_values_policy=policy)
    assert (template_claim(pool, world(node_pools=(pool,), options=options)) is not None) is is_made
