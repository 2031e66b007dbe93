"""Searching all nodes and claims at once finds what checking each of them finds."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.model.pod import LabelSelector, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.scheduling.context import SchedulingContext
from core.scheduling.pods import Avoids
from core.scheduling.primitives import positions
from core.scheduling.scheduler import GreedyScheduler, queue_of
from core.scheduling.topology.domains import HostnameCounts
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.property.naive.clusters import random_cluster
from tests.property.naive.extras import rich_cluster
from tests.property.scheduling.one_by_one import OneByOne

SEEDS = st.integers(0, 2**40)
APPS = ("a", "b", "c")


@given(SEEDS)
def test_plans_are_the_same(seed: int) -> None:
    """Otherwise, bit sets miss or add a claim or node, and plans differ from what the rules say."""
    _agree(random_cluster(seed))


@given(SEEDS)
def test_plans_of_rich_clusters_are_the_same(seed: int) -> None:
    """As above, with reservations, overlays, buffers and default spreads."""
    _agree(rich_cluster(seed))


@pytest.mark.parametrize("seed", range(3))
def test_plans_of_many_pods_on_many_claims_are_the_same(seed: int) -> None:
    """Small clusters never fill a claim, empty a level of pod counts, or pin hundreds of claims to zones."""
    _agree(_crowd(Random(seed), 400))  # noqa: S311 - a test's dice


@given(SEEDS)
def test_what_ifs_are_the_same(seed: int) -> None:
    """Otherwise, a removed node is still offered, or its pods are still counted."""
    snapshot = random_cluster(seed)
    context = SchedulingContext(snapshot)
    for node in context.existing_nodes[:3]:
        _agree_without(context, frozenset({node.index}) - context.leaving)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=20), st.integers(1, 4))
def test_host_counts_agree_with_counting(added: list[tuple[int, int]], highest: int) -> None:
    """Otherwise, a spread over hosts admits one pod too many to a node, or too few."""
    counts, expected = HostnameCounts(highest), Counter[int]()
    for claim, times in added:
        counts.add(claim, times)
        expected[claim] += times
    for claim in list(expected)[::2]:
        counts.add(claim, -1)
        expected[claim] -= 1
    assert counts.total == expected.total()
    for least in range(1, highest + 1):
        assert set(positions(counts.with_at_least(least))) == {c for c, count in expected.items() if count >= least}


def _agree(snapshot: Snapshot) -> None:
    _agree_without(SchedulingContext(snapshot), frozenset())


def _agree_without(context: SchedulingContext, gone: frozenset[int]) -> None:
    displaced = [
        pod
        for p in sorted(gone)
        for pod in context.budgets.currently_reschedulable(context.existing_nodes[p].state.pods)
    ]
    assert _placed(GreedyScheduler, context, gone, displaced) == _placed(OneByOne, context, gone, displaced)


def _placed(
    kind: type[GreedyScheduler], context: SchedulingContext, gone: frozenset[int], displaced: list[Pod]
) -> object:
    """All that a run decides: claims with their requirements, places on nodes, and pods left over."""
    pending_groups = queue_of(
        context, [((*context.pending, *context.moving), Avoids.NO_NODE), (displaced, Avoids.RECENTLY_CHANGED)]
    )
    run = kind(context, pending_groups, context.leaving | gone, gone).run()
    claims = [
        (c.template.index, c.reqs, c.allowed, c.charged, c.used, c.reservations, [pod.key for pod in c.pods])
        for c in run.claims
    ]
    unplaced = [pod.key for pending_group in run.unplaced for pod in pending_group.pods[pending_group.placed :]]
    return claims, [(pod.key, position) for pod, position in run.bound], unplaced


def _crowd(draw: Random, count: int) -> Snapshot:
    """Pods with every kind of rule on few machine sizes; most claims end up full."""
    types = tuple(
        a_type(f"t{cpu}", cpu=str(cpu), memory=f"{memory}Gi", pods="12", price=cpu * 0.04, zones=ZONES[: 2 + cpu % 3])
        for cpu, memory in ((4, 8), (4, 32), (8, 16), (9, 64))
    )
    pods = tuple(_of_a_kind(draw, number) for number in range(count))
    return a_snapshot(types=types, node_pools=(a_pool("default"),), pods=pods)


def _of_a_kind(draw: Random, number: int) -> Pod:
    app, other = draw.choice(APPS), draw.choice(APPS)
    selector: LabelSelector = a_selector(app=other)
    rules: tuple[dict[str, object], ...] = (
        {},
        {"node_selector": (Requirement.one_of(labels.ZONE, draw.choice(ZONES)),)},
        {"spreads": (TopologySpread(labels.ZONE, 1, selector=selector),)},
        {"spreads": (TopologySpread(labels.HOSTNAME, draw.choice((1, 2)), selector=selector),)},
        {"affinity": (PodAffinityTerm(labels.ZONE, a_selector(app=app)),)},
        {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, selector),)},
    )
    sizes = {"cpu": draw.choice(("250m", "500m", "1", "1500m")), "memory": draw.choice(("256Mi", "1Gi", "3Gi"))}
    return a_pod(f"p{number}", labels={"app": app}, **sizes, **draw.choice(rules))  # type: ignore[arg-type]
