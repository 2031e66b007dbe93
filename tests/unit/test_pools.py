"""NodeOverlays with and without conflicts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.api.older_versions import problems
from core.api.translation import node_pool
from core.disruption.decision import disrupt
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.snapshot import FeatureGates, NodeOverlay, Options
from core.model.values.quantity import HOURLY, nanodollars
from core.model.values.requirements import Requirement, Requirements
from core.pools import (
    adjusted_price,
    is_dedicated,
    node_price,
    overlaid,
    pool_types,
    template_labels,
    template_parts,
    template_requirements,
    type_of,
)
from core.scheduling import schedule
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.api.objects import NODE_POOL

# Dedicated hardware costs more than the catalogue says.


DEDICATED = Requirement.one_of(labels.TENANCY, "dedicated")
SURCHARGE = Options(dedicated_ppm=62_500)
TYPE = a_type(price=0.1, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND, labels.RESERVED))


def prices(pool: NodePool, options: Options = SURCHARGE) -> dict[str, int]:
    snapshot = a_snapshot(types=(TYPE,), node_pools=(pool,), options=options)
    (found,) = pool_types(snapshot).of("default")
    return {one.capacity_type: one.price for one in found.offerings}


def test_nodes_of_a_pool_for_dedicated_hardware_alone_cost_more() -> None:
    """Places in reservations are paid for, whatever hardware they are on."""
    assert prices(a_pool("default", DEDICATED)) == {"on-demand": 106_250_000, "reserved": 0}


def test_a_pool_that_admits_shared_hardware_is_launched_on_it() -> None:
    either = Requirement.one_of(labels.TENANCY, "dedicated", "default")
    for pool in (a_pool("default"), a_pool("default", either)):
        assert not is_dedicated(pool)
        assert prices(pool)["on-demand"] == 100_000_000


def test_without_a_surcharge_the_types_are_the_catalogues_own() -> None:
    snapshot = a_snapshot(types=(TYPE,), node_pools=(a_pool("default", DEDICATED),))
    assert pool_types(snapshot).of("default") is snapshot.catalogue.default


# Prices of running nodes.


NODE_PRICES_SMALL = a_type("small", price=0.1)
NODE_PRICES_LARGE = a_type("large", price=0.4, size="l")


def test_the_price_of_a_node_ignores_availability() -> None:
    """A running node is paid for, sold out or not."""
    _, node = a_node_of(NODE_PRICES_SMALL)
    gone = InstanceType(
        name="small",
        labels={},
        capacity={},
        offerings=(Offering("small", ZONES[0], labels.ON_DEMAND, 7, available=False),),
    )
    assert node_price(node.labels, NODE_PRICES_SMALL) == nanodollars(0.1)
    assert node_price(node.labels, gone) == 7


def test_unknown_node_costs_nothing() -> None:
    """Without a price no saving can be computed: such nodes are not consolidated."""
    _, node = a_node_of(NODE_PRICES_SMALL)
    assert type_of(node.labels, {NODE_PRICES_LARGE.name: NODE_PRICES_LARGE}) is None
    assert node_price(node.labels, None) == 0
    assert node_price({**node.labels, labels.ZONE: "elsewhere"}, NODE_PRICES_SMALL) == 0


ON = Options(feature_gates=FeatureGates(node_overlay=True))
SMALL = a_type("m5.large", price=0.1, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND,))
LARGE = a_type("m5.xlarge", price=0.2, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND,))
POOLS = (a_pool("one"), a_pool("two"))
DEVICE = "example.com/device"


def found(*overlays: NodeOverlay, pool: str = "one") -> dict[str, tuple[int, int]]:
    """Type → its price in thousandths of a dollar and its devices, as a NodePool sees them."""
    snapshot = a_snapshot(types=(SMALL, LARGE), node_pools=POOLS, overlays=overlays, options=ON)
    types = pool_types(snapshot).of(pool)
    return {t.name: (t.offerings[0].price // 1_000_000, t.capacity.get(DEVICE, 0)) for t in types}


def of_type(name: str) -> tuple[Requirement, ...]:
    """The resources that an overlay of one type adds."""
    return (Requirement.one_of(labels.INSTANCE_TYPE, name),)


@pytest.mark.parametrize("pool", ["one", "two"])
def test_of_two_overlays_with_one_weight_and_one_price_the_other_is_left_out_completely(pool: str) -> None:
    """This includes its undisputed fields, and NodePools where the two do not meet: Karpenter calls it a conflict."""
    wide = NodeOverlay(name="a", weight=10, price=5_000_000, capacity={DEVICE: 1})
    here = (*of_type("m5.xlarge"), Requirement.one_of(labels.NODEPOOL, "one"))
    narrow = NodeOverlay(name="b", weight=10, price=7_000_000, requirements=here)
    assert found(wide, narrow, pool=pool) == {"m5.large": (100, 0), "m5.xlarge": (7 if pool == "one" else 200, 0)}


def test_of_two_overlays_with_one_weight_and_one_resource_the_last_by_name_counts() -> None:
    """The other's price is left out with its capacity, because both belong to one object."""
    first = NodeOverlay(name="a", price=5_000_000, capacity={DEVICE: 1})
    last = NodeOverlay(name="b", capacity={DEVICE: 2})
    assert found(first, last) == {"m5.large": (100, 2), "m5.xlarge": (200, 2)}


@pytest.mark.parametrize(
    "other",
    [
        NodeOverlay(name="b", weight=10, price=7_000_000, requirements=of_type("m5.xlarge")),
        NodeOverlay(name="b", weight=10, capacity={DEVICE: 0}, requirements=of_type("m5.xlarge")),
    ],
    ids=["another type", "another thing"],
)
def test_overlays_of_one_weight_that_do_not_meet_both_count(other: NodeOverlay) -> None:
    """Most users give no weight; otherwise, their overlays conflict without need."""
    own = NodeOverlay(name="a", weight=10, price=5_000_000, requirements=of_type("m5.large"))
    assert found(own, other)["m5.large"] == (5, 0)
    assert found(own, other)["m5.xlarge"] == (7 if other.price else 200, 0)


def test_a_heavier_overlay_hides_a_lighter_one_only_where_they_meet() -> None:
    """A general rule with heavier exceptions is the usual way to write them."""
    rule = NodeOverlay(name="a", weight=1, price=5_000_000, capacity={DEVICE: 1})
    exception = NodeOverlay(name="b", weight=2, price=7_000_000, requirements=of_type("m5.xlarge"))
    assert found(rule, exception) == {"m5.large": (5, 1), "m5.xlarge": (7, 1)}


def test_the_overlaid_types_are_cached_until_an_overlay_or_a_type_changes() -> None:
    """Otherwise, each plan checks thousands of offerings again, or uses an outdated overlay."""

    def priced(price: int, *types: InstanceType) -> tuple[InstanceType, ...]:
        overlay = NodeOverlay(name="a", requirements=of_type("m5.large"), price=price)
        return pool_types(a_snapshot(types=types, node_pools=POOLS, overlays=(overlay,), options=ON)).of("one")

    (first,), (again, _), (other,) = priced(7, SMALL), priced(7, SMALL, LARGE), priced(8, SMALL)
    assert first is again
    assert [one.offerings[0].price for one in (first, other)] == [7, 8]


@pytest.mark.parametrize(
    ("changes", "price"),
    [
        ({"price": 7}, 7),
        ({"price": 7, "price_adjustment": "+1"}, 7),
        ({"price_adjustment": "+0.5"}, 600_000_000),
        ({"price_adjustment": "-0.01"}, 90_000_000),
        ({"price_adjustment": "-0.2"}, 0),
        ({"price_adjustment": "+10%"}, 110_000_000),
        ({"price_adjustment": "-25%"}, 75_000_000),
        ({"price_adjustment": "-150%"}, 0),
        ({}, 100_000_000),
    ],
)
def test_an_adjustment_replaces_a_price_or_moves_it_by_dollars_or_a_percentage(
    changes: dict[str, Any], price: int
) -> None:
    assert adjusted_price(100_000_000, NodeOverlay(name="a", **changes)) == price


@pytest.mark.parametrize("text", ["cheap", "%", "+5$"])
def test_an_adjustment_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        adjusted_price(1, NodeOverlay(name="deal", price_adjustment=text))
    assert (caught.value.subject, caught.value.field) == ("NodeOverlay deal", "spec.priceAdjustment")


def test_without_overlays_the_types_stay_the_same() -> None:
    assert overlaid([SMALL, LARGE], (), Requirements(), frozenset()) == (SMALL, LARGE)


TEAM = "example.com/team"


@pytest.mark.parametrize(
    ("offered", "applies"),
    [
        ((), False),
        ((Requirement.one_of(TEAM, "red"),), True),
        ((Requirement.one_of(TEAM, "red", "blue"),), False),
        ((Requirement.one_of(TEAM, "blue"),), False),
    ],
)
def test_an_overlay_goes_by_a_label_of_the_pool_only_where_it_is_certain(
    offered: tuple[Requirement, ...], applies: bool
) -> None:
    """Which of two teams a node is for is not known before it is launched."""
    overlay = NodeOverlay(name="a", price=7, requirements=(Requirement.one_of(TEAM, "red"),))
    assert priced(a_pool("one", *offered), overlay) == {"us-east-1a": 7 if applies else 100_000_000}


def test_an_overlay_applies_to_no_offering_that_the_pool_does_not_buy() -> None:
    zones = ("us-east-1a", "us-east-1b", "us-east-1c")
    some = a_pool("one", Requirement.one_of(labels.ZONE, *zones[:2]))
    kind = a_type("m5.large", price=0.1, zones=zones, capacity_types=(labels.ON_DEMAND,))
    assert priced(some, NodeOverlay(name="a", price=7), kind) == dict(zip(zones, (7, 7, 100_000_000), strict=True))
    in_one = NodeOverlay(name="a", price=7, requirements=(Requirement.one_of(labels.ZONE, zones[1]),))
    assert priced(some, in_one, kind)[zones[1]] == 7
    assert priced(some, in_one, kind)[zones[0]] == 100_000_000


def priced(pool: NodePool, overlay: NodeOverlay, kind: InstanceType = SMALL) -> dict[str, int]:
    """Zone → price in nano-dollars of the type in that NodePool."""
    snapshot = a_snapshot(types=(kind,), node_pools=(pool,), overlays=(overlay,), options=ON)
    (found,) = pool_types(snapshot).of(pool.name)
    return {offering.zone: offering.price for offering in found.offerings}


# What limits and caps in dollars count: never less than the bill, which no steering of the choice changes.


def counted(pool: NodePool, *overlays: NodeOverlay, **options: Any) -> tuple[int, int]:
    """Return what a new node of the type counts at its worst, and what a running one does, in nano-dollars an hour."""
    priced_pool = msgspec.structs.replace(pool, limits={HOURLY: nanodollars(9)})
    kind = a_type("m5.large", price=0.1, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND,))
    gates = FeatureGates(node_overlay=True)
    snapshot = a_snapshot(
        types=(kind,),
        node_pools=(priced_pool,),
        overlays=overlays,
        options=msgspec.structs.replace(Options(**options), feature_gates=gates),
    )
    (of_pool,) = pool_types(snapshot).of("default")
    _, node = a_node_of(kind)
    return of_pool.capacity[HOURLY], pool_types(snapshot).counted_price("default", node.labels)


@pytest.mark.parametrize(
    ("pool", "overlay", "price"),
    [
        (a_pool("default", DEDICATED), None, 0.10625),
        (a_pool("default", Requirement.one_of(labels.TENANCY, "dedicated", "default")), None, 0.1),
        (a_pool("default"), "+0.05", 0.15),
        (a_pool("default"), "+30%", 0.13),
        (a_pool("default"), "-30%", 0.1),
        (a_pool("default", DEDICATED), "+100%", 0.2125),
        (a_pool("default", DEDICATED), "-50%", 0.10625),
        (a_pool("default", price_factors={"m5": 2000}), "+30%", 0.13),
        (a_pool("default", price_factors={"m5": 500}), None, 0.1),
    ],
)
def test_dollars_count_the_higher_price_of_the_market_and_overlays_with_the_surcharge(
    pool: NodePool, overlay: str | None, price: float
) -> None:
    overlays = (NodeOverlay(name="a", price_adjustment=overlay),) if overlay else ()
    assert counted(pool, *overlays, dedicated_ppm=62_500) == (nanodollars(price), nanodollars(price))


# What a NodePool's template gives to each of its nodes.


IN_TEAM = Requirement.one_of("team", "a", "b")


def test_nodes_carry_the_labels_of_the_template_their_pool_and_their_class() -> None:
    found = template_labels(a_pool("default", IN_TEAM, labels={"own": "x", labels.NODEPOOL: "another"}))
    assert found == {"own": "x", labels.NODEPOOL: "default", "karpenter.k8s.aws/ec2nodeclass": "default"}


def test_requirements_on_one_label_are_met_together() -> None:
    """Pods may select what a node gets while it boots, although no claim carries it."""
    narrower = Requirement.one_of("team", "b", "c")
    pool = a_pool("default", IN_TEAM, narrower)
    assert [part for part in template_parts(pool) if part.key == "team"] == [IN_TEAM, narrower]
    found = template_requirements(pool)
    assert found["team"].values == ("b",)
    assert all(found[key].values == ("true",) for key in (labels.REGISTERED, labels.INITIALIZED))


# Prices count alike in planning, launching and replacing, so that nodes do not come and go.


OLD = a_type("m5a.large", price=0.09)
NEW = a_type("m8g.large", price=0.10)
FACTORS = "fleetwright.dev/price-factors"


def annotated(**annotations: str) -> dict[str, Any]:
    """A NodePool with annotations; `_` replaces characters that keywords cannot contain."""
    named = {f"fleetwright.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {**NODE_POOL, "metadata": {"name": "default", "annotations": named}}


def test_a_factor_changes_the_price_of_its_family_only() -> None:
    """The more expensive of two families is chosen, and the plan shows the adjusted price."""
    snapshot = a_snapshot(
        types=(OLD, NEW), node_pools=(a_pool(price_factors={"m5a": 1200, "c5": 10}),), pods=(a_pod(),)
    )
    assert [claim.instance_types for claim in schedule(snapshot).claims] == [("m8g.large", "m5a.large")]
    prices = [found.offerings[0].price for found in pool_types(snapshot).of("default")]
    assert prices == [108_000_000, 100_000_000]


@pytest.mark.parametrize(("price", "goes"), [(0.09, True), (0.08, False)])
def test_a_running_node_has_the_adjusted_price_of_a_new_one(price: float, goes: bool) -> None:
    """Otherwise, a node of the unwanted family stays because it is cheap, or replaces a wanted one."""
    running = a_type("m5a.large", price=price)
    claim, node = a_node_of(running)
    pods = (a_pod(node_name=node.name, phase="Running"),)
    only_on_demand = Requirement.one_of("karpenter.sh/capacity-type", "on-demand")
    pool = a_pool("default", only_on_demand, price_factors={"m5a": 1200})
    world: dict[str, Any] = {"types": (running, NEW), "node_claims": (claim,), "nodes": (node,), "pods": pods}
    decision = disrupt(a_snapshot(**world, node_pools=(pool,), options=Options(karpenter_moves_only=True)))
    assert [command.replacements[0].instance_types for command in decision.commands] == [("m8g.large",)] * goes


def test_an_overlays_price_applies_to_running_nodes_too() -> None:
    """Otherwise, a discount for new nodes only replaces each node by an equal one, forever."""
    claim, node = a_node_of(OLD)
    cheap = NodeOverlay(name="deal", price=1, requirements=())
    gate = Options(feature_gates=FeatureGates(node_overlay=True))
    pods = (a_pod(node_name=node.name, phase="Running"),)
    world: dict[str, Any] = {"types": (OLD,), "node_claims": (claim,), "nodes": (node,), "pods": pods}
    assert not disrupt(a_snapshot(**world, overlays=(cheap,), options=gate)).commands


@pytest.mark.parametrize(
    "text", ["m5a", "m5a=", "m5a=zero", "m5a=0.0", "=1.2", "m5a=1.2;c6a=2", "m5a=-1", "m5a=1.2345"]
)
def test_an_invalid_factor_closes_the_pool(text: str) -> None:
    """A typo must not silently mean no factor."""
    found = problems(annotated(price_factors=text))
    assert [(problem.field, problem.message) for problem in found] == [
        (f"metadata.annotations[{FACTORS}]", "must be families with factors, such as m5a=1.2,m8g=0.85")
    ]


def test_annotations_are_read_exactly() -> None:
    """They become thousandths and millicores, never floats."""
    pool = node_pool(annotated(price_factors="m5a=1.2, m8g=0.855", largest_node="cpu=64,memory=256Gi"))
    assert pool.price_factors == {"m5a": 1200, "m8g": 855}
    assert pool.largest_node == {"cpu": 64_000, "memory": 256 << 30}
    assert (
        problems(annotated(largest_node="cpu=64,disk=1"))[0].field
        == "metadata.annotations[fleetwright.dev/largest-node]"
    )
    assert node_pool(annotated(evictions_per_hour="50")).evictions_per_hour == 50
    assert pool.evictions_per_hour is None
    for wrong in ({"evictions_per_hour": "many"}, {"moves": "rarely"}):
        (name,) = wrong
        (problem,) = problems(annotated(**wrong))
        assert problem.field == f"metadata.annotations[fleetwright.dev/{name.replace('_', '-')}]"


@pytest.mark.parametrize(
    ("pool", "node_class", "type_name"),
    [
        ("default", "", OLD.name),
        ("default", "default", OLD.name),
        ("default", "other", NEW.name),
        ("gone", "other", NEW.name),
        ("gone", "", OLD.name),
    ],
)
def test_a_node_of_another_class_than_its_pool_has_the_types_of_its_own(
    pool: str, node_class: str, type_name: str
) -> None:
    """Nodes outlive changes and deletions of their NodePool, and keep a price."""
    catalogue = Catalogue(default=(OLD,), by_node_class={"other": (NEW,)})
    found = pool_types(a_snapshot(catalogue=catalogue))
    assert [one.name for one in found.of(pool, node_class)] == [type_name]
    assert list(found.by_name(pool, node_class)) == [type_name]


@pytest.mark.parametrize(("is_on", "bought"), [(True, [labels.RESERVED, labels.SPOT]), (False, [labels.SPOT])])
def test_reservations_are_bought_only_where_the_feature_is_on(is_on: bool, bought: list[str]) -> None:
    reserved = a_type("m5.large", zones=("us-east-1a",), capacity_types=(labels.RESERVED, labels.SPOT))
    gates = Options(feature_gates=FeatureGates(reserved_capacity=is_on))
    first, second = pool_types(a_snapshot(types=(reserved, NEW), options=gates)).of("default")
    assert [offering.capacity_type for offering in first.offerings] == bought
    assert second is NEW
