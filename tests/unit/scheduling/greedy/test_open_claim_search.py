"""Which open claim takes a pod."""

from __future__ import annotations

from functools import partial

from core import labels
from core.model.pod import PodAffinityTerm
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from tests.builders import a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of

TYPE = a_type("m", cpu="8")
APART = {"labels": {"app": "a"}, "anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="a")),)}


def planned(context: SchedulingContext, *names: str) -> GreedyScheduler:
    """A plan for these pods alone, so that the others can be tried on its claims."""
    pods = tuple(pod for pod in context.pending if pod.name in names)
    run = GreedyScheduler(context, queue_of(context, [(pods, False)]), frozenset(), frozenset())
    run.run()
    return run


def test_the_claim_with_the_fewest_pods_takes_the_next_one_and_the_oldest_of_equal_ones() -> None:
    """Otherwise, equal snapshots give other plans, or one node takes all small pods."""
    pods = (*(a_pod(f"a{n}", cpu="3", **APART) for n in range(2)), a_pod("first"), a_pod("second"), a_pod("third"))
    context = context_of(types=(TYPE,), pods=pods)
    run = planned(context, "a0", "a1", "first")
    assert [len(claim.pods) for claim in run.claims.claims] == [2, 1]
    for name, index in (("second", 1), ("third", 0)):
        group = group_of(context, name)
        found = run.claims.find(group, group.steps[0], partial(getattr, group, "requests"))
        assert found is not None
        assert found.claim.index == index
        run.claims.place(found, next(pod for pod in pods if pod.name == name), group)
    assert [len(claim.pods) for claim in run.claims.claims] == [3, 2]


def test_no_claim_takes_more_than_its_largest_type_has() -> None:
    """Otherwise, a pod is planned onto a node on which it never starts."""
    context = context_of(types=(TYPE,), pods=(a_pod("a", cpu="6"), a_pod("fits", cpu="2"), a_pod("not", cpu="2500m")))
    run = planned(context, "a")
    fits, larger = group_of(context, "fits"), group_of(context, "not")
    assert run.claims.find(larger, larger.steps[0], lambda: fits.requests) is None
    assert run.claims.find(fits, fits.steps[0], lambda: fits.requests) is not None


def test_a_claim_without_room_for_the_smallest_pod_is_closed() -> None:
    """It is passed over for good: the next pods do not try it again."""
    context = context_of(types=(TYPE,), pods=(a_pod("a", cpu="6"), a_pod("fits", cpu="2"), a_pod("not", cpu="2500m")))
    run = planned(context, "a")
    larger, fits = group_of(context, "not"), group_of(context, "fits")
    assert run.claims.find(larger, larger.steps[0], lambda: larger.requests) is None
    assert run.claims.find(fits, fits.steps[0], lambda: fits.requests) is None


def test_labels_that_a_claim_leaves_open_are_fixed_once() -> None:
    """Otherwise, pods that wait for it are tried again for ever, or never."""
    context = context_of(
        types=(TYPE, a_type("n", cpu="4")), pods=(a_pod("a"), a_pod("b", **APART), a_pod("c", **APART))
    )
    run = planned(context, "a", "b", "c")
    before = [claim.reqs for claim in run.claims.claims]
    assert run.claims.fix_open_labels()
    after = [claim.reqs for claim in run.claims.claims]
    assert all(fixed != open_ for fixed, open_ in zip(after, before, strict=True))
    assert not run.claims.fix_open_labels()
    assert [claim.reqs for claim in run.claims.claims] == after
