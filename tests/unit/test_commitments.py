"""Which nodes commitments cover, and what is left."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.commitments import NO_COVERAGE, Coverage, coverage_of, paid_price
from core.model.catalogue import Offering
from core.model.plan import NodeClaim
from core.model.snapshot import Options, Snapshot
from core.model.state_node import state_nodes
from core.model.values.commitment import CommittedRate, ReservedInstances, SavingsPlan
from core.model.values.requirements import Requirement
from tests.builders import CLASS_REF, NOW, ZONES, a_node_of, a_pod, a_snapshot, a_type

LARGE = a_type("m7.large", price=0.1)
XLARGE = a_type("m7.xlarge", cpu="4", memory="16Gi", price=0.2)
DOLLAR = 10**9
RESERVED = ReservedInstances(name="ri", instance_type="m7.large", count=2)
PLAN = SavingsPlan(name="sp", amount=DOLLAR // 10, rates=(CommittedRate(ppm=500_000),))


def _world(*commitments: Any, machines: Any = (), **changes: Any) -> Snapshot:
    nodes = [a_node_of(kind, name) if isinstance(name, str) else name for kind, name in machines]
    fields = {
        "types": (LARGE, XLARGE),
        "nodes": tuple(node for _, node in nodes),
        "node_claims": tuple(claim for claim, _ in nodes),
        "options": Options(commitments=commitments),
    }
    return a_snapshot(**{**fields, **changes})


def _prices(world: Snapshot) -> dict[str, float]:
    return {state.name: paid_price(state, world) / DOLLAR for state in state_nodes(world)}


def test_nodes_beyond_what_is_committed_cost_the_whole_price() -> None:
    """A factor on all of them would be wrong for each."""
    world = _world(RESERVED, machines=[(LARGE, f"n{n}") for n in range(4)])
    assert _prices(world) == {"n0": 0, "n1": 0, "n2": 0.1, "n3": 0.1}
    assert coverage_of(world).left == {"ri": 0}


def test_a_node_may_be_covered_in_part() -> None:
    """EC2 charges the rest of a larger size in proportion."""
    world = _world(msgspec.structs.replace(RESERVED, count=1), machines=[(XLARGE, "n0")])
    assert _prices(world) == {"n0": 0.1}
    both = _world(msgspec.structs.replace(RESERVED, count=1), PLAN, machines=[(XLARGE, "n0"), (LARGE, "n1")])
    assert _prices(both) == {"n0": 0, "n1": 0}
    assert coverage_of(both).left == {"ri": 0, "sp": 0}


def test_the_fullest_nodes_are_covered() -> None:
    """What consolidation can empty most easily is what there is to save."""
    pods = tuple(a_pod(f"p{n}", node_name="n1", cpu="500m") for n in range(2))
    world = _world(msgspec.structs.replace(RESERVED, count=1), machines=[(LARGE, "n0"), (LARGE, "n1")], pods=pods)
    assert _prices(world) == {"n0": 0.1, "n1": 0}


def test_nodes_of_others_are_covered_first() -> None:
    """They run whatever we do, and EC2 does not ask whose they are."""
    _, ours = a_node_of(LARGE, "n0")
    others = msgspec.structs.replace(ours, name="other", provider_id="aws:///z/i-other", labels={
        labels.INSTANCE_TYPE: "m7.large", labels.ZONE: ZONES[0], labels.EKS_CAPACITY_TYPE: "ON_DEMAND"})  # fmt: skip
    spot = msgspec.structs.replace(others, name="spot", provider_id="aws:///z/i-spot", labels={
        **others.labels, labels.EKS_CAPACITY_TYPE: "SPOT"})  # fmt: skip
    claim, _ = a_node_of(LARGE, "n0")
    world = _world(RESERVED, nodes=(ours, others, spot), node_claims=(claim,))
    assert sorted(coverage_of(world).nodes) == ["n0", "other"]
    assert coverage_of(_world(msgspec.structs.replace(RESERVED, count=1), nodes=(ours, others), node_claims=(claim,))
                       ).nodes["n0"].price == DOLLAR // 10  # fmt: skip


def test_nodes_that_leave_and_spot_and_dedicated_nodes_take_nothing() -> None:
    """What leaves is replaced with what it frees; the others are not what was bought."""
    leaving = _world(RESERVED, machines=[(LARGE, "n0")])
    leaving = msgspec.structs.replace(leaving, marked_for_deletion=(leaving.node_claims[0].name,))
    spot = _world(RESERVED, machines=[(LARGE, a_node_of(LARGE, "n0", capacity_type=labels.SPOT))])
    claim, node = a_node_of(LARGE, "n0")
    alone = msgspec.structs.replace(node, labels={**node.labels, labels.TENANCY: "dedicated"})
    dedicated = _world(RESERVED, machines=[(LARGE, (claim, alone))])
    for world in (leaving, spot, dedicated):
        assert coverage_of(world).left == {"ri": RESERVED.amount}


@pytest.mark.parametrize(
    ("capacity_types", "tenancy", "left"),
    [
        (("on-demand",), "default", 0),
        (("on-demand", "spot"), "default", RESERVED.amount),
        (("on-demand",), "dedicated", RESERVED.amount),
    ],
)
def test_a_claim_on_its_way_holds_what_its_largest_type_takes(
    capacity_types: tuple[str, ...], tenancy: str, left: int
) -> None:
    """Otherwise, the next plan counts on the same hour again."""
    claim = NodeClaim(
        name="c",
        node_class=CLASS_REF,
        labels={labels.NODEPOOL: "default"},
        requirements=(
            Requirement.one_of(labels.INSTANCE_TYPE, "m7.large", "m7.xlarge"),
            Requirement.one_of(labels.CAPACITY_TYPE, *capacity_types),
            Requirement.one_of(labels.TENANCY, tenancy),
        ),
    )
    assert coverage_of(_world(RESERVED, node_claims=(claim,))).left == {"ri": left}


def test_a_claim_on_its_way_holds_what_it_costs_where_it_may_run() -> None:
    """Neither spot capacity nor another zone, which it may not become."""
    offers = (
        Offering("m7.large", "us-east-1a", labels.ON_DEMAND, DOLLAR // 10),
        Offering("m7.large", "us-east-1a", labels.SPOT, DOLLAR),
        Offering("m7.large", "us-east-1b", labels.ON_DEMAND, DOLLAR // 5),
    )
    types = (msgspec.structs.replace(LARGE, offerings=offers),)
    for zones, left in (((), 0), (("us-east-1a",), DOLLAR // 20), (("us-east-1c",), DOLLAR // 10)):
        where = [Requirement.one_of(labels.ZONE, *zones)] if zones else []
        claim = NodeClaim(
            name="c",
            node_class=CLASS_REF,
            labels={labels.NODEPOOL: "default"},
            requirements=(
                Requirement.one_of(labels.INSTANCE_TYPE, "m7.large"),
                Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),
                *where,
            ),
        )
        assert coverage_of(_world(PLAN, types=types, node_claims=(claim,))).left == {"sp": left}


def test_what_has_ended_covers_nothing() -> None:
    """The last hour of a commitment is not the first of the next."""
    machines = [(LARGE, "n0")]
    ended = _world(msgspec.structs.replace(RESERVED, ends_at=NOW), machines=machines)
    assert coverage_of(ended) == NO_COVERAGE
    assert _prices(ended) == {"n0": 0.1}
    assert _prices(
        _world(msgspec.structs.replace(RESERVED, ends_at=NOW + timedelta(seconds=1)), machines=machines)
    ) == {"n0": 0}


def test_a_node_of_unknown_price_uses_reserved_instances_up() -> None:
    """It runs, so the hour is gone; what it costs nobody knows."""
    unknown = a_type("m7.2xlarge", cpu="8", price=0.4)
    world = _world(RESERVED, machines=[(unknown, "n0")])
    assert (coverage_of(world).left, _prices(world)) == ({"ri": 0}, {"n0": 0})


def test_nodes_that_go_give_back_what_they_took() -> None:
    """A replacement takes the hours of what it replaces."""
    coverage = coverage_of(_world(RESERVED, machines=[(LARGE, "n0"), (LARGE, "n1")]))
    assert isinstance(coverage, Coverage)
    assert coverage.without(("n1", "unknown")) == {"ri": RESERVED.amount // 2}


def test_a_claim_on_its_way_of_a_type_that_is_not_sold_any_more_holds_nothing() -> None:
    """Its type may have left the catalogue between the request and this plan."""
    claim = NodeClaim(
        name="c",
        node_class=CLASS_REF,
        labels={labels.NODEPOOL: "default"},
        requirements=(
            Requirement.one_of(labels.INSTANCE_TYPE, "m1.gone"),
            Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),
        ),
    )
    assert coverage_of(_world(RESERVED, node_claims=(claim,))).left == {"ri": RESERVED.amount}
