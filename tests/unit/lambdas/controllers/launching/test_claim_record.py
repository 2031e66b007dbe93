"""The launch order that EC2 gets from a claim's record."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.api.schemas.ec2_node_class_rules import TAGS_MAX
from core.catalogue.node_class import read_node_class
from core.launch.selection import TYPES_MAX
from core.launch.template import ownership_tags
from core.lifecycle.rebuilding import HASHES
from core.lifecycle.records import ClaimRecord
from core.model.launch_order import LaunchOrder
from core.model.snapshot import BEST_EFFORT, STRICT, Options
from core.model.values.requirements import Requirement
from core.reasons.refusal import Refusal
from core.scheduling import schedule
from lambdas.controllers.launching.claim_record import order_of, requested, with_decision
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type

EC2_TAGS_MAX = 50


def test_a_class_with_as_many_tags_as_it_may_have_is_launched() -> None:
    """Otherwise, EC2 would refuse every launch of a class that is valid."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    planned = with_decision(msgspec.structs.replace(planned, annotations=dict.fromkeys(HASHES, "x")), "d-1")
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    shared = msgspec.structs.replace(record, shares=2)
    order = order_of(shared, {}, snapshot.catalogue, cluster="shop")
    node_class = read_node_class({"metadata": {"name": "default"}})
    own = {"Name": "", **order.tags, **ownership_tags(node_class, cluster="shop", node_pool="default")}
    assert len(own) + TAGS_MAX == EC2_TAGS_MAX


@pytest.mark.parametrize(("asked", "expected"), [(("dedicated",), "dedicated"), (("default", "dedicated"), "default")])
def test_an_order_keeps_the_tenancy_that_was_asked_for(asked: tuple[str, ...], expected: str) -> None:
    """A pod that must not share its machine with other accounts would share it."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    planned = msgspec.structs.replace(planned, requirements=(Requirement.one_of(labels.TENANCY, *asked),))
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    assert order_of(record, {}, snapshot.catalogue, cluster="shop").tenancy == expected


@pytest.mark.parametrize("own", [False, True])
def test_a_launch_follows_our_prices_where_they_rank_otherwise_than_ec2s(own: bool) -> None:
    """EC2 does not know of discounts and licences, and would launch what is cheapest by its list."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    snapshot = msgspec.structs.replace(
        snapshot, options=msgspec.structs.replace(snapshot.options, ranks_by_own_prices=own)
    )
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    assert record.is_ranked is own


def test_every_field_of_an_order_comes_from_the_claim() -> None:
    """EC2 launches what a lost field would have kept it from."""
    asked = (
        Requirement.one_of(labels.TENANCY, "dedicated"),
        Requirement.one_of(labels.PLACEMENT_GROUP_PARTITION, "2"),
    )
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    planned = msgspec.structs.replace(planned, requirements=asked)
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    record = msgspec.structs.replace(record, shares=2, is_ranked=True, subnets={"us-east-1a": "subnet-2"})
    order = order_of(
        record, {"a": 1}, snapshot.catalogue, cluster="shop", avoided_subnets=("subnet-1",), uses_reservations=False
    )
    names = ("claim", "node_pool", "token", "offerings", "node_class", "node_labels", "taints", "tags")
    empty = LaunchOrder(**dict.fromkeys(names))  # type: ignore[arg-type] - fields without a default
    assert [name for name in LaunchOrder.__struct_fields__ if getattr(order, name) == getattr(empty, name)] == []


def test_a_claim_says_that_its_min_values_were_lowered() -> None:
    """EC2 is asked for sixty types: with BestEffort, a claim that needs more is launched with less, and its object says so."""
    types = tuple(a_type(f"type-{number:02}") for number in range(TYPES_MAX + 1))
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=len(types)))
    snapshot = a_snapshot(types=types, node_pools=(pool,), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    for policy, relaxed in ((STRICT, None), (BEST_EFFORT, True)):
        later = a_snapshot(types=types, node_pools=(pool,), options=Options(min_values_policy=policy))
        record = requested(planned, "default-1", "token", later, NOW)
        if relaxed is None:
            assert isinstance(record, Refusal)
            continue
        assert isinstance(record, ClaimRecord)
        assert (record.name, record.plan.name, record.plan.min_values_relaxed) == ("default-1", "default-1", True)
        assert record.plan.annotations == planned.annotations | {labels.MIN_VALUES_RELAXED: "true"}
