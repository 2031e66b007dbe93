"""Laws of plans under commitments, over random clusters."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.model.values.commitment import CommittedRate, SavingsPlan
from core.scheduling import schedule
from tests.property.naive.clusters import random_cluster
from tests.property.naive.commitments import DOLLAR, coverage_violations, with_commitments
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import improving
from tests.property.naive.judge import violations


def _without(snapshot: Snapshot) -> Snapshot:
    return msgspec.structs.replace(snapshot, options=msgspec.structs.replace(snapshot.options, commitments=()))


def _rank(plan: Plan) -> tuple[int, int]:
    return len(plan.unschedulable), plan.cost.hourly


def _committed(seed: int) -> Snapshot:
    cluster = rich_cluster(seed) if seed % 2 else random_cluster(seed)
    return with_commitments(Random(seed), improving(cluster))  # noqa: S311 - a seeded draw


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_plan_covers_more_than_was_committed(first: int) -> None:
    """Otherwise, nodes are launched as if they were free, and are billed in full. All other rules hold, too."""
    covered = 0
    for seed in range(first, first + 20):
        snapshot = _committed(seed)
        plan = schedule(snapshot)
        assert [*coverage_violations(snapshot, plan), *violations(snapshot, plan)] == [], f"seed {seed}"
        covered += sum(bool(claim.commitment) for claim in plan.claims)
    assert covered


@pytest.mark.parametrize("first", range(200, 240, 20))
def test_no_plan_costs_more_because_something_is_paid_for(first: int) -> None:
    """Committed capacity must not lead to a more expensive fleet, or to pods without a place."""
    for seed in range(first, first + 20):
        snapshot = _committed(seed)
        plan = schedule(snapshot)
        assert _rank(plan) <= _rank(schedule(_without(snapshot))), f"seed {seed}"
        assert (plan.cost.lower_bound or 0) <= plan.cost.hourly, f"seed {seed}"


def test_commitments_that_cover_nothing_here_change_nothing() -> None:
    """A Savings Plan of another family must not move a byte of the plan."""
    for seed in range(20):
        snapshot = improving(random_cluster(seed))
        other = SavingsPlan(name="sp", amount=DOLLAR, rates=(CommittedRate(ppm=0, families=("elsewhere",)),))
        changed = msgspec.structs.replace(snapshot.options, commitments=(other,))
        found, plain = schedule(msgspec.structs.replace(snapshot, options=changed)), schedule(snapshot)
        assert found == plain, f"seed {seed}"
