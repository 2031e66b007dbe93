"""Prices count alike in planning, launching and replacing, so that nodes do not come and go."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.api.translation import node_pool
from core.api.validation import problems
from core.disruption.decision import disrupt
from core.model.catalogue import Catalogue
from core.model.feature_gates import FeatureGates
from core.model.overlay import NodeOverlay
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.pools.pool_types import pool_types
from core.scheduling import schedule
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.api.objects import NODE_POOL

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
