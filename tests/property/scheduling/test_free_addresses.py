"""Laws of plans where subnets have few addresses, over random clusters."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from core.model.snapshot import Snapshot
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.scheduling.planner import Planner
from tests.property.naive.addresses import address_violations, with_addresses
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import improving


def _cluster(seed: int) -> Snapshot:
    return with_addresses(Random(seed), improving(rich_cluster(seed)))  # noqa: S311 - a seeded draw


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_no_plan_takes_an_address_that_does_not_exist(first: int) -> None:
    """EC2 would refuse the launch, and the refusal would close the subnet for minutes."""
    refused = 0
    for seed in range(first, first + 20):
        snapshot = _cluster(seed)
        plan = schedule(snapshot)
        assert list(address_violations(snapshot, plan)) == [], f"seed {seed}"
        assert plan.cost.hourly == sum(claim.price for claim in plan.claims), f"seed {seed}"
        refused += sum(pod.reason == PodReason.NO_FREE_ADDRESS for pod in plan.unschedulable)
    assert refused


@pytest.mark.parametrize("first", range(100, 140, 20))
def test_no_what_if_takes_one_either(first: int) -> None:
    """Its replacements are launched while the nodes that go still run."""
    for seed in range(first, first + 20):
        snapshot = _cluster(seed)
        plan = Planner(snapshot).what_if([node.name for node in snapshot.nodes[:2]], consolidation=True).plan
        assert list(address_violations(snapshot, plan)) == [], f"seed {seed}"


def test_addresses_that_suffice_change_nothing() -> None:
    """A plan far from the last address is the same byte for byte."""
    for seed in range(20):
        snapshot = _cluster(seed)
        many = msgspec.structs.replace(snapshot, subnet_addresses=dict.fromkeys(snapshot.subnet_addresses, 5000))
        plenty = msgspec.structs.replace(snapshot, subnet_addresses={})
        assert msgspec.json.encode(schedule(many)) == msgspec.json.encode(schedule(plenty)), f"seed {seed}"
