"""Laws of using one planner repeatedly, over random clusters."""

from __future__ import annotations

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.pods.disposition import is_reschedulable
from core.scheduling import Planner, schedule
from tests.property.naive.clusters import random_cluster
from tests.property.naive.extras import rich_cluster

SEEDS = st.integers(0, 2**40)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_planner_can_be_used_again(seed: int) -> None:
    """Otherwise, state of one what-if leaks into the next."""
    snapshot = rich_cluster(seed)
    planner = Planner(snapshot)
    before = planner.plan()
    for node in snapshot.nodes[:4]:
        planner.what_if([node.name], consolidation=True)
    assert planner.plan() == before == planner.what_if([], consolidation=False).plan


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_what_if_agrees_with_a_cluster_without_the_node(seed: int) -> None:
    """Otherwise, counts, limits or capacity of the removed node remain."""
    snapshot = random_cluster(seed, most_pods=25)
    free = [node.name for node in snapshot.nodes if not node.provider_id and node.deleted_at is None]
    assume(free)
    asked = Planner(snapshot).what_if(free[:1], consolidation=False).plan
    plan = schedule(_without(snapshot, free[0]))
    if (
        asked.unschedulable
    ):  # a plan tries other orders of pods and zones, in which fewer pods are left, perhaps others (ADR 58)
        assert len(plan.unschedulable) <= len(asked.unschedulable)
    else:
        assert _decided(asked) == _decided(plan)


def _decided(plan: Plan) -> object:
    """Placements and prices.

    Which dearer types a claim keeps may differ: a rule of a pod that goes with its node still names its key.
    """
    return [(claim.node_pool, claim.pods, claim.price) for claim in plan.claims], plan.bindings


def _without(snapshot: Snapshot, name: str) -> Snapshot:
    """The cluster without a node, whose running pods become pending."""
    pods = (_unbound(pod) if pod.node_name == name and is_reschedulable(pod) else pod for pod in snapshot.pods)
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name != name),
        pods=tuple(pod for pod in pods if pod.node_name != name),
    )


def _unbound(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, node_name="", phase="Pending")
