"""Pods whose rules leave few zones: the best of several choices of zones and orders places the most of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from core import labels
from core.model.pod import DO_NOT_SCHEDULE, Pod, PodAffinityTerm, TopologySpread
from core.reasons.pod import PodReason
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.replanning import varied_plans
from core.scheduling.replanning.leftovers import leftovers_of
from core.scheduling.replanning.requeue import RequeuingScheduler
from core.scheduling.replanning.variation_search import VariationResult
from core.scheduling.replanning.varied_plans import PLAN_WORK, UNLIKELY_WORK_MAX, VariedPlans
from tests.builders import a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, plan_of, reasons_of, zones

TYPE = a_type("m", cpu="4", memory="16Gi")


def away_from(app: str) -> PodAffinityTerm:
    return PodAffinityTerm(labels.ZONE, a_selector(app=app))


def evenly(app: str) -> TopologySpread:
    return TopologySpread(labels.ZONE, 1, DO_NOT_SCHEDULE, a_selector(app=app))


def workload(app: str, count: int, **rules: object) -> tuple[Pod, ...]:
    return tuple(a_pod(f"{app}-{number}", labels={"app": app}, **rules) for number in range(count))


def test_pods_that_others_follow_evenly_go_to_every_zone() -> None:
    """With two caches in one zone, eight of the nine pods that spread beside them would have no place."""
    caches = workload("cache", 3, cpu="100m")
    readers = workload("reader", 9, cpu="2", spreads=(evenly("reader"),), affinity=(away_from("cache"),))
    plan = plan_of(types=(TYPE,), pods=(*caches, *readers))
    assert plan.unschedulable == ()
    assert len({zones(plan)[pod.name] for pod in caches}) == 3


def test_thirteen_pods_do_not_wait_because_of_two() -> None:
    """The two large pods go first and use the zone that the spread of thirteen needs."""
    isolated = workload("isolated", 2, cpu="3", anti_affinity=(away_from("web"),))
    web = workload("web", 16, cpu="500m", spreads=(evenly("web"),))
    plan = plan_of(types=(TYPE,), pods=(*isolated, *web))
    assert sorted(reasons_of(plan)) == ["isolated-0", "isolated-1"]


def test_pods_of_a_higher_priority_keep_their_places() -> None:
    isolated = workload("isolated", 2, cpu="3", anti_affinity=(away_from("web"),), priority=1000)
    web = workload("web", 16, cpu="500m", spreads=(evenly("web"),))
    left = reasons_of(plan_of(types=(TYPE,), pods=(*isolated, *web)))
    assert not {"isolated-0", "isolated-1"} & set(left)


def test_a_large_pod_keeps_its_place_where_only_a_limit_is_in_the_way() -> None:
    web = workload("web", 3, cpu="2", spreads=(evenly("web"),))
    left = reasons_of(
        plan_of(types=(TYPE,), pods=(a_pod("large", cpu="3"), *web), node_pools=(a_pool(limits={"nodes": 1}),))
    )
    assert Counter(left.values()) == {PodReason.LIMIT_REACHED: 3}


def test_pods_that_fit_no_node_cause_no_further_plan() -> None:
    """They may wait for days, and every run would plan sixty times."""
    nowhere = a_pod("nowhere", labels={"app": "x"}, spreads=(evenly("x"),), cpu="400")
    context = context_of(types=(TYPE,), pods=(nowhere, *workload("x", 4)))
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, False)]))
        return queues[-1]

    solution = RequeuingScheduler(context, queue).solution()
    assert leftovers_of(solution).total() == 1
    assert len(queues) <= 8
    assert [c.pods for c in solution.claims] == [
        c.pods for c in GreedyScheduler(context, queue(), frozenset(), frozenset()).run().claims
    ]


def test_few_plans_are_made_for_pods_that_a_plan_of_their_own_would_leave_too() -> None:
    """They may wait for days, too; but some have a place under another order of zones, so a few are made."""
    context = context_of(types=(TYPE,), pods=workload("x", 4, anti_affinity=(away_from("x"),)))
    queues = []

    def queue() -> list[object]:
        queues.append(queue_of(context, [(context.pending, False)]))
        return queues[-1]

    assert leftovers_of(RequeuingScheduler(context, queue).solution()).total() == 1
    assert len(queues) <= 8 + UNLIKELY_WORK_MAX // (4 + PLAN_WORK)


@pytest.mark.parametrize("pods", [25, 29, 303, 2951])
@pytest.mark.parametrize("is_likely", [True, False])
def test_the_more_pods_a_plan_has_the_fewer_variations_are_made(
    pods: int, is_likely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together are a third of a second of work; a plan of many pods leaves time for none."""
    searches: list[dict[str, Any]] = []

    class Search:
        def __init__(self, **asked: Any) -> None:
            searches.append(asked)

        def best(self, start: VariationResult) -> None:
            assert start.left == 2

    context = context_of(types=(TYPE,), pods=workload("x", 1, anti_affinity=(away_from("x"),)))
    (pending,) = queue_of(context, [(context.pending, False)])
    pending.pods *= pods
    solution = GreedyScheduler(context, [], frozenset(), frozenset()).run()
    monkeypatch.setattr(varied_plans, "VariationSearch", Search)
    monkeypatch.setattr(VariedPlans, "_gains_alone", lambda *_: is_likely)
    plans = VariedPlans(context, lambda: [pending])
    assert plans.improved(solution, Counter({pending.pod_group.index: 2})) is solution
    ((most, idle, others),) = ((one["plans_max"], one["idle_max"], len(list(one["others"]))) for one in searches)
    assert most == (6000 if is_likely else 1500) // (pods + 50)
    assert idle == 3000 // (pods + 50)
    assert others == 2 * 3 + 64, "each order of three zones, and as many drawn ones"
