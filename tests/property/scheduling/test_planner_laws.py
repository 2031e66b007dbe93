"""Laws of using one planner repeatedly, over random clusters."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values.commitment import CommittedRate, SavingsPlan
from core.pods import is_reschedulable
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.planner import Planner
from core.scheduling.pods import Avoids
from core.scheduling.scheduler import GreedyScheduler, queue_of
from tests.property.naive.clusters import random_cluster
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import check_tight, improving
from tests.property.naive.left_over import violations
from tests.property.naive.limits import (
    DOLLAR,
    address_violations,
    coverage_violations,
    with_addresses,
    with_commitments,
)
from tests.property.naive.tight import tight_cluster
from tests.property.naive.trivial import TrivialPlanner, beaten, zone_orders

SEEDS = st.integers(0, 2**40)


@pytest.mark.ci
@given(SEEDS)
def test_a_planner_can_be_used_again(seed: int) -> None:
    """Otherwise, state of one what-if leaks into the next."""
    snapshot = rich_cluster(seed)
    planner = Planner(snapshot)
    before = planner.plan()
    for node in snapshot.nodes[:4]:
        planner.what_if([node.name], consolidation=True)
    assert planner.plan() == before == planner.what_if([], consolidation=False).plan


@given(SEEDS)
@example(
    222944790
)  # a DaemonSet's pod counted for an anti-affinity in its zone, where the other cluster had no such pod
def test_a_what_if_agrees_with_a_cluster_without_the_node(seed: int) -> None:
    """Otherwise, counts, limits or capacity of the removed node remain.

    Where pods are left over, which of them may differ: the next law bounds their number. Pods that stay until the node is gone
    are taken out of both: they count in a what-if (Karpenter, kube-scheduler), and nowhere without the node. In both, pods
    that wait already have their places first.
    """
    snapshot = random_cluster(seed, most_pods=25)
    free = _free_nodes(snapshot)
    assume(free)
    snapshot = msgspec.structs.replace(
        snapshot, pods=tuple(p for p in snapshot.pods if p.node_name != free[0] or is_reschedulable(p))
    )
    context = SchedulingContext(snapshot)
    what_if = Planner(snapshot, context).what_if(free[:1], consolidation=False).plan
    without = SchedulingContext(_without(snapshot, free[0]))
    waiting = {pod.key for pod in (*context.pending, *context.moving)}
    pods = (*without.pending, *without.moving)
    first = frozenset(without.pod_groups.of(pod).index for pod in pods if pod.key in waiting)
    queue = queue_of(without, [(pods, Avoids.NO_NODE)])
    alone = GreedyScheduler(without, queue, without.leaving, frozenset(), first, shares_node=True).run()
    assert what_if.unschedulable or _decided(what_if) == _decided(
        Planner(without.snapshot, without)._results(alone, []).plan
    )


@given(SEEDS)
@example(106)  # pods that should share a node choose other zones
def test_a_plan_says_it_is_the_same_on_a_shared_node_only_if_it_is(seed: int) -> None:
    """Otherwise, the plan that has all pods share one node is left out where it would cost less."""
    context = SchedulingContext(random_cluster(seed))

    def planned(*, shares_node: bool) -> Solution:
        queue = queue_of(context, [((*context.pending, *context.moving), Avoids.NO_NODE)])
        return GreedyScheduler(
            context, queue, context.leaving, frozenset(), shares_node=shares_node, compares_sharing=not shares_node
        ).run()

    apart, together = planned(shares_node=False), planned(shares_node=True)
    assert not apart.is_same_if_shared or _places(apart) == _places(together)


@given(SEEDS)
@example(692)  # the pods of one node got three, each where a node for it alone is cheapest
@example(2850)  # pods that need several nodes went to the more expensive zone, as if one had to hold them all
@example(7213120905)  # the retry for a pod that was left over costs three times as much
def test_a_plan_leaves_no_more_pods_than_a_what_if_and_costs_no_more(seed: int) -> None:
    """Otherwise, pods that wait get other nodes than pods that move, for a multiple of the price."""
    snapshot = random_cluster(seed, most_pods=25)
    free = _free_nodes(snapshot)
    assume(free)
    what_if = Planner(snapshot).what_if(free[:1], consolidation=False).plan
    plan = schedule(_without(snapshot, free[0]))
    assert len(plan.unschedulable) <= len(what_if.unschedulable)
    assert what_if.unschedulable or plan.cost.hourly <= what_if.cost.hourly


def _free_nodes(snapshot: Snapshot) -> list[str]:
    """The names of nodes without a NodeClaim that are not being deleted."""
    return [node.name for node in snapshot.nodes if not node.provider_id and node.deleted_at is None]


def _decided(plan: Plan) -> object:
    """Placements and prices.

    The more expensive types of a claim may differ: a rule of a pod that goes with its node still names its topology key.
    """
    return [(claim.node_pool, claim.pods, claim.price) for claim in plan.claims], plan.bindings


def _places(solution: Solution) -> object:
    claims = [
        (claim.template.index, claim.reqs, claim.allowed, [pod.key for pod in claim.pods]) for claim in solution.claims
    ]
    return claims, [(pod.key, position) for pod, position in solution.bound]


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


# Laws of plans under commitments, over random clusters.


def _without_commitments(snapshot: Snapshot) -> Snapshot:
    return msgspec.structs.replace(snapshot, options=msgspec.structs.replace(snapshot.options, commitments=()))


def _rank(plan: Plan) -> tuple[int, int]:
    return len(plan.unschedulable), plan.cost.hourly


def _committed(seed: int) -> Snapshot:
    cluster = rich_cluster(seed) if seed % 2 else random_cluster(seed)
    return with_commitments(Random(seed), improving(cluster))  # noqa: S311 - a seeded draw


@pytest.mark.ci
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_no_plan_covers_more_than_was_committed(first: int) -> None:
    """Otherwise, nodes are launched as if they were free, and are billed in full. All other rules hold, too."""
    covered = 0
    for seed in range(first, first + 20):
        snapshot = _committed(seed)
        plan = schedule(snapshot)
        assert [*coverage_violations(snapshot, plan), *violations(snapshot, plan)] == [], f"seed {seed}"
        covered += sum(bool(claim.commitment) for claim in plan.claims)
    assert covered


@pytest.mark.ci
@pytest.mark.parametrize("first", range(200, 220, 20))
def test_no_plan_costs_more_because_something_is_paid_for(first: int) -> None:
    """Committed capacity must not lead to a more expensive fleet, or to pods without a place."""
    for seed in range(first, first + 20):
        snapshot = _committed(seed)
        plan = schedule(snapshot)
        assert _rank(plan) <= _rank(schedule(_without_commitments(snapshot))), f"seed {seed}"
        assert (plan.cost.lower_bound or 0) <= plan.cost.hourly, f"seed {seed}"


@pytest.mark.ci
def test_commitments_that_cover_nothing_here_change_nothing() -> None:
    """A Savings Plan of another family must not move a byte of the plan."""
    for seed in range(20):
        snapshot = improving(random_cluster(seed))
        other = SavingsPlan(name="sp", amount=DOLLAR, rates=(CommittedRate(ppm=0, families=("elsewhere",)),))
        changed = msgspec.structs.replace(snapshot.options, commitments=(other,))
        with_commitment, plain = schedule(msgspec.structs.replace(snapshot, options=changed)), schedule(snapshot)
        assert with_commitment == plain, f"seed {seed}"


# Laws of plans where subnets have few addresses, over random clusters.


def _cluster(seed: int) -> Snapshot:
    return with_addresses(Random(seed), improving(rich_cluster(seed)))  # noqa: S311 - a seeded draw


@pytest.mark.ci
@pytest.mark.parametrize("first", range(0, 40, 20))
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


@pytest.mark.parametrize("first", range(100, 120, 20))
def test_no_what_if_takes_one_either(first: int) -> None:
    """Its replacements are launched while the nodes that go still run."""
    for seed in range(first, first + 20):
        snapshot = _cluster(seed)
        plan = Planner(snapshot).what_if([node.name for node in snapshot.nodes[:2]], consolidation=True).plan
        assert list(address_violations(snapshot, plan)) == [], f"seed {seed}"


@pytest.mark.ci
def test_addresses_that_suffice_change_nothing() -> None:
    """A plan far from the last address is the same byte for byte."""
    for seed in range(20):
        snapshot = _cluster(seed)
        many = msgspec.structs.replace(snapshot, subnet_addresses=dict.fromkeys(snapshot.subnet_addresses, 5000))
        plenty = msgspec.structs.replace(snapshot, subnet_addresses={})
        assert msgspec.json.encode(schedule(many)) == msgspec.json.encode(schedule(plenty)), f"seed {seed}"


# Law: no trivial planner does better, which gives each pod its own node, the largest first, with several choices of zones.


_FAST = 75


@pytest.mark.ci
@pytest.mark.parametrize("first", range(0, _FAST, 25))
def test_no_trivial_planner_places_more_pods_or_pays_less(first: int) -> None:
    for seed in range(first, first + 25):
        assert check_tight(seed)[1] == [], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, 1000))
def test_ten_thousand_clusters(first: int) -> None:
    failing = {seed: problems[0] for seed, problems, _ in map(check_tight, range(first, first + 1000)) if problems}
    assert failing == {}


@pytest.mark.parametrize("seed", [127, 205, 250, 252, 272, 1793, 4721, 700183, 700449, 700730, 701923, 701989])
def test_pods_once_left_over_without_need_have_their_places(seed: int) -> None:
    """Zones were chosen one workload at a time: 14 pods stayed pending where 12 must, and 3 where none must.

    In the seeds from 700,000 on no change to one or two workloads helped: all had to try the zones in another order.
    In seed 1793 one workload had to leave the zones that another one takes in turn.
    In seed 4721 the workload that a leftover follows follows another one itself.
    """
    snapshot = improving(tight_cluster(seed))
    assert beaten(snapshot, schedule(snapshot)) == []


def test_the_trivial_planners_place_most_pods() -> None:
    """A trivial planner that places nothing would never beat ours."""
    most = [max(len(planner.placed(order)) for order in zone_orders(0)) for planner in _planners()]
    assert sum(most) > sum(len(planner.waiting) for planner in _planners()) // 2


def _planners() -> list[TrivialPlanner]:
    return [TrivialPlanner(tight_cluster(seed)) for seed in range(10)]
