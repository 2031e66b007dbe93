"""Which PodDisruptionBudgets apply to a pod, and whether they allow its eviction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.model.pod import LabelSelector, Owner, Pod
from core.model.snapshot import ALWAYS_ALLOW, PodDisruptionBudget, WorkloadSelector
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration
from core.pod_disruption_budgets import (
    BudgetIndex,
    DisruptionBudgets,
    RemainingEvictions,
    disruptions_allowed,
    never_allows,
)
from core.reasons.code import Refusal
from core.reasons.pods import GuardedTwice, NeverEvicted, NotEvictedNow, SparesNone, WantsAll
from tests.builders import NOW, a_pod, a_selector, a_snapshot

# Which PodDisruptionBudgets select a pod.


NAMES = st.sampled_from(["a", "b"])
VALUES = st.sets(NAMES, max_size=2)
REQUIREMENTS = st.one_of(
    st.builds(lambda key, values: Requirement(key, False, tuple(sorted(values))), NAMES, VALUES),
    st.builds(lambda key, values: Requirement(key, True, tuple(sorted(values))), NAMES, VALUES),
)
SELECTORS = st.none() | st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple))
LABELS = st.dictionaries(NAMES, NAMES)


@given(st.lists(st.tuples(NAMES, SELECTORS), max_size=6), st.lists(st.tuples(NAMES, LABELS), max_size=6))
def test_exactly_the_budgets_that_select_the_pod_are_found_in_order_of_name(
    written: list[tuple[str, LabelSelector | None]], pods: list[tuple[str, dict[str, str]]]
) -> None:
    budgets = [
        PodDisruptionBudget(namespace=where, name=f"budget-{number}", selector=selector)
        for number, (where, selector) in enumerate(written)
    ]
    index = BudgetIndex(reversed(budgets))
    for namespace, pod_labels in pods:
        pod = a_pod(namespace=namespace, labels=pod_labels)
        assert index.selecting(pod) == tuple(budget for budget in budgets if budget.selects(pod))


def running(name: str, **changes: Any) -> Pod:
    """A ready pod of the app `web`."""
    fields = {"node_name": "node-1", "phase": "Running", "is_ready": True, "labels": {"app": "web"}, **changes}
    return a_pod(name, **fields)


def budget(name: str = "web", **changes: Any) -> PodDisruptionBudget:
    """A budget over the app `web`."""
    return PodDisruptionBudget(**{"namespace": "default", "name": name, "selector": a_selector(app="web"), **changes})


def judged(pods: list[Pod], *budgets: PodDisruptionBudget) -> DisruptionBudgets:
    """The budgets of a snapshot with these objects."""
    return DisruptionBudgets.of(a_snapshot(pods=tuple(pods), budgets=budgets))


def test_blocked_pod_is_named() -> None:
    """The message says which pod and which budget."""
    pods = [running("a")]
    said = judged(pods, budget(disruptions_allowed=0, min_available="1")).not_evicted_now(pods[0])
    assert said == NeverEvicted("default/a", "web", WantsAll("1", 1, 1))
    later = judged(pods, budget(disruptions_allowed=0, expected_pods=2)).not_evicted_now(pods[0])
    assert later == NotEvictedNow("default/a", "web")


def test_two_budgets_on_one_pod_block() -> None:
    """The eviction API refuses a pod with two budgets, however generous."""
    pods = [running("a")]
    assert judged(pods, budget(disruptions_allowed=5), budget("more", disruptions_allowed=5)).not_evicted_now(pods[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"namespace": "other"},
        {"labels": {"app": "db"}},
        {"phase": "Succeeded"},
        {"deleted_at": NOW},
        {"owners": (Owner("Node", "node-1"),)},
        {"tolerations": (Toleration(labels.DISRUPTED_TAINT, "Exists"),)},
    ],
)
def test_budget_does_not_concern(changes: dict[str, Any]) -> None:
    """Not evicted: pods of another namespace or app, finished, terminating and mirror pods, and pods that outlast a drain."""
    pods = [running("a", **changes)]
    assert not judged(pods, budget(disruptions_allowed=0)).not_evicted_now(pods[0])


def test_always_allow_frees_only_unready_pods() -> None:
    """AlwaysAllow admits the eviction of an unready pod; one that is ready or not known to be unready stays protected."""
    guard = budget(disruptions_allowed=0, unhealthy_pod_eviction_policy=ALWAYS_ALLOW)
    broken = running("a", is_ready=False)
    assert not judged([broken], guard).not_evicted_now(broken)
    for fine in (running("b"), running("b", is_ready=None)):
        assert judged([fine], guard).not_evicted_now(fine)


def test_several_budgets_refuse_an_unready_pod_too() -> None:
    """The eviction API counts budgets before it checks the pod's health: no node is needed for a pod that stays."""
    generous = budget("one", max_unavailable="1", unhealthy_pod_eviction_policy=ALWAYS_ALLOW)
    for other in (budget("two", max_unavailable="0", disruptions_allowed=0), budget("two", disruptions_allowed=5)):
        broken = running("a", is_ready=False)
        found = judged([broken], generous, other)
        assert found.is_fully_blocked(broken)
        assert found.currently_reschedulable([broken]) == ()
        said = GuardedTwice("default/a", "one, two")
        assert (found.never_evicted(broken), found.not_evicted_now(broken)) == (said, said)


@pytest.mark.parametrize(
    ("changes", "is_moved"),
    [
        ({"max_unavailable": "0"}, False),
        ({"max_unavailable": "0%"}, False),
        ({"min_available": "100%"}, False),
        ({"min_available": "1"}, True),
        ({"min_available": "100%", "unhealthy_pod_eviction_policy": ALWAYS_ALLOW}, True),
    ],
)
def test_plans_reserve_room_for_all_but_fully_blocked_pods(changes: dict[str, Any], is_moved: bool) -> None:
    """A node can end against our will; then the pod of an exhausted budget needs room like any other."""
    broken = running("a", is_ready=False)
    found = judged([broken], budget(disruptions_allowed=0, **changes))
    assert found.currently_reschedulable([broken]) == ((broken,) if is_moved else ())


def test_a_plan_reserves_no_room_for_protected_and_node_bound_pods() -> None:
    protected = running("a", annotations={labels.DO_NOT_DISRUPT: "true"})
    daemon = running("b", owners=(Owner("DaemonSet", "d"),))
    assert judged([]).currently_reschedulable([protected, daemon, running("c")]) == (running("c"),)


def test_selectors() -> None:
    """No selector selects nothing, an empty one everything in the namespace."""
    pods = [running("a", labels={})]
    assert not judged(pods, budget(selector=None, disruptions_allowed=0)).not_evicted_now(pods[0])
    assert judged(pods, budget(selector=a_selector(), disruptions_allowed=0)).not_evicted_now(pods[0])


def test_nodes_that_go_together_share_the_allowance() -> None:
    """One pod may go at a time: one node may, even with two such pods, but not two nodes."""
    first, second, third = running("a"), running("b"), running("c")
    found = RemainingEvictions(judged([first, second, third], budget(disruptions_allowed=1)))
    assert found.allows_together([[first, second]])
    assert not found.allows_together([[first], [second]])
    found.take([first])
    assert not found.allows_together([[second]])
    assert found.allows_together([[]])


def test_without_a_status_the_owners_scale_counts() -> None:
    """A Deployment of three with one pod so far has two to spare later, whatever its ReplicaSets say."""
    owner = Owner("ReplicaSet", "web-1", "apps/v1", is_controller=True)
    pods = (running("a", owners=(owner,), is_ready=False),)
    scales = (
        WorkloadSelector(namespace="default", kind="ReplicaSet", name="web-1", replicas=1),
        WorkloadSelector(
            namespace="default", kind="Deployment", name="web", selector=a_selector(app="web"), replicas=3
        ),
    )
    guard = budget(min_available="1")
    alone = a_snapshot(pods=pods, budgets=(guard,), workload_selectors=scales[:1])
    scaled = a_snapshot(pods=pods, budgets=(guard,), workload_selectors=scales)
    assert DisruptionBudgets.of(alone).never_evicted(pods[0])
    assert not DisruptionBudgets.of(scaled).never_evicted(pods[0])


@pytest.mark.parametrize(("replicas", "allowed"), [(2, 1), (3, 0), (5, 0), (1, 2)])
def test_pods_that_are_missing_use_up_the_allowance(replicas: int, allowed: int) -> None:
    """The controller compares healthy pods with the workload's scale (pkg/controller/disruption/disruption.go)."""
    owner = (Owner("ReplicaSet", "web", is_controller=True),)
    pods = [running(str(n), owners=owner) for n in range(2)]
    workload = WorkloadSelector(namespace="default", kind="ReplicaSet", name="web", selector=None, replicas=replicas)
    limited = budget(max_unavailable="1")
    budgets = DisruptionBudgets([limited], NOW, pods, [workload])
    assert budgets.allowed_now(limited) == allowed
    assert (budgets.not_evicted_now(pods[0]) is None) == (allowed > 0)


def test_if_only_some_pods_are_known_a_budget_without_a_status_is_waited_for() -> None:
    """A drain knows the pods of its node; the budget may select others."""
    for guard in (budget(min_available="1"), budget(max_unavailable="0")):
        assert not DisruptionBudgets([guard], NOW).never_evicted(running("a"))


def test_a_budget_that_allows_an_eviction_now_is_not_reported_as_closed() -> None:
    """A rollout may have one pod more than its replicas."""
    pods = [running("a"), running("b")]
    assert not judged(pods, budget(min_available="1", disruptions_allowed=1, expected_pods=1)).not_evicted_now(pods[0])


def test_a_pod_that_may_surge_does_not_block_its_node() -> None:
    """Its owner opted in; otherwise, nodes with such a pod are never consolidated."""
    owner = Owner("ReplicaSet", "web-1", "apps/v1", is_controller=True)
    surging = running("a", owners=(owner,), annotations={labels.SURGE: "true"})
    never = budget(min_available="1", disruptions_allowed=0, expected_pods=1)
    closed = budget(min_available="1", disruptions_allowed=0, expected_pods=2)
    assert not judged([surging], never).not_evicted_now(surging)
    assert judged([surging], closed).not_evicted_now(surging)
    assert judged([surging], never, budget("more")).not_evicted_now(surging)
    assert judged([surging], never, budget("more")).never_evicted(surging)


def test_nodes_that_are_taken_count_with_their_pods() -> None:
    """One pod too many would keep a node that may go; one too few would end two pods at once."""
    first, second, third = running("a"), running("b"), running("c")
    found = RemainingEvictions(judged([first, second, third], budget(disruptions_allowed=2)))
    found.take([first])
    assert found.allows_together([[second]])
    assert not found.allows_together([[second], [third]])
    found.take([second])
    assert not found.allows_together([[third]])


@pytest.mark.parametrize(
    ("status", "allowed"),
    [({"disruptions_allowed": None, "expected_pods": 3}, 2), ({"disruptions_allowed": None, "expected_pods": None}, 2),
     ({"disruptions_allowed": 1, "expected_pods": None}, 1)],
)  # fmt: skip
def test_what_a_status_leaves_out_follows_from_the_pods(status: dict[str, int | None], allowed: int) -> None:
    """A budget of a moment ago has no status yet, or only a part of it."""
    pods, guard = [running("a"), running("b"), running("c")], budget(min_available="1", **status)
    assert judged(pods, guard).allowed_now(guard) == allowed
    closed = budget(
        max_unavailable="0", **{**status, "disruptions_allowed": 0 if status["disruptions_allowed"] else None}
    )
    assert judged(pods, closed).never_evicted(pods[0])


# How many evictions a PodDisruptionBudget allows, now and ever.


@pytest.mark.parametrize(
    ("changes", "pods", "expected"),
    [
        ({"disruptions_allowed": 2, "max_unavailable": "0"}, 4, 2),
        ({"max_unavailable": "0"}, 4, 0),
        ({"max_unavailable": "1"}, 4, 1),
        ({"max_unavailable": "30%"}, 4, 2),
        ({"min_available": "100%"}, 4, 0),
        ({"min_available": "50%"}, 3, 1),
        ({"min_available": "3"}, 4, 1),
        ({"min_available": "9"}, 4, 0),
        ({"min_available": "some"}, 4, 0),
        ({}, 4, 4),
    ],
)
def test_allowance(changes: dict[str, Any], pods: int, expected: int) -> None:
    """The status counts if there is one; before the controller has written it, the computed value does."""
    assert disruptions_allowed(budget(**changes), [running(str(n)) for n in range(pods)]) == expected


def test_unready_pods_use_up_the_allowance() -> None:
    """One of three is down already: with at most one unavailable, no other may go."""
    pods = [running("a"), running("b"), running("c", is_ready=False)]
    assert disruptions_allowed(budget(max_unavailable="1"), pods) == 0


def test_a_pod_that_does_not_run_yet_is_not_healthy() -> None:
    pods = [running("a"), running("b"), running("c", phase="Pending")]
    assert disruptions_allowed(budget(max_unavailable="1"), pods) == 0


@pytest.mark.parametrize(
    ("changes", "replicas", "why"),
    [
        ({"max_unavailable": "0"}, 3, SparesNone("0", 3)),
        ({"max_unavailable": "0%"}, 3, SparesNone("0%", 3)),
        ({"max_unavailable": "1%"}, 3, None),
        ({"min_available": "1"}, 1, WantsAll("1", 1, 1)),
        ({"min_available": "3"}, 3, WantsAll("3", 3, 3)),
        ({"min_available": "2"}, 3, None),
        ({"min_available": "100%"}, 3, WantsAll("100%", 3, 3)),
        ({"min_available": "67%"}, 3, WantsAll("67%", 3, 3)),
        ({"min_available": "66%"}, 3, None),
        ({"min_available": "50%"}, 1, WantsAll("50%", 1, 1)),
        ({"min_available": "1"}, 0, None),
        ({}, 1, None),
    ],
)
def test_budgets_that_never_let_a_pod_go(changes: dict[str, Any], replicas: int, why: Refusal | None) -> None:
    """A node under such a budget cannot be drained; a node under another one only has to wait."""
    assert never_allows(budget(**changes), replicas) == why


@pytest.mark.parametrize(
    ("pod", "changes", "guarded"),
    [
        ({"phase": "Pending", "is_ready": False}, {}, False),
        ({"phase": "Pending", "is_ready": None}, {}, False),
        ({"phase": "Unknown"}, {}, True),
        ({"is_ready": False}, {"current_healthy": 1, "desired_healthy": 1}, False),
        ({"is_ready": False}, {"current_healthy": 0, "desired_healthy": 1}, True),
        ({"is_ready": False}, {"current_healthy": 0, "desired_healthy": 0}, True),
        ({"is_ready": False}, {"current_healthy": 0, "unhealthy_pod_eviction_policy": ALWAYS_ALLOW}, False),
        ({"is_ready": True}, {"current_healthy": 1, "unhealthy_pod_eviction_policy": ALWAYS_ALLOW}, True),
        ({"is_ready": None}, {"current_healthy": 1, "desired_healthy": 1}, True),
    ],
)
def test_a_budget_guards_what_the_eviction_api_asks_it_about(
    pod: dict[str, Any], changes: dict[str, Any], *, guarded: bool
) -> None:
    """registry/core/pod/storage/eviction.go: a pod that has not started is no disruption, and an unready one may be none."""
    one = running("a", **pod)
    found = judged([one], budget(disruptions_allowed=0, expected_pods=2, min_available="1", **changes))
    assert bool(found.guards(one)) is guarded
    assert bool(found.not_evicted_now(one)) is guarded


def test_several_budgets_refuse_an_unready_pod_but_not_one_that_has_not_started() -> None:
    """The API counts budgets before it looks at health, and looks at the phase before it counts."""
    generous = [budget(name, disruptions_allowed=3, current_healthy=3, desired_healthy=1) for name in ("web", "more")]
    unready, starting = running("a", is_ready=False), running("b", phase="Pending")
    found = judged([unready, starting], *generous)
    assert found.never_evicted(unready)
    assert not found.never_evicted(starting)


@pytest.mark.parametrize(
    ("policy", "healthy", "leaving", "rounds"),
    [
        ("IfHealthyBudget", 3, 0, 3),  # the unready pod goes at any time
        ("IfHealthyBudget", 3, 4, 7),
        ("IfHealthyBudget", 1, 0, 4),  # it waits like the others while too few are healthy
        (ALWAYS_ALLOW, 3, 0, 3),
        (ALWAYS_ALLOW, 1, 0, 3),
        (ALWAYS_ALLOW, 1, 4, 7),
    ],
)
def test_rounds_count_guarded_pods_and_those_of_drains_under_way(
    policy: str, healthy: int, leaving: int, rounds: int
) -> None:
    pods = [running("unready", is_ready=False), *(running(f"ready-{n}") for n in range(3))]
    drained = [running(f"leaving-{n}") for n in range(leaving)]
    status = {"disruptions_allowed": 1, "current_healthy": healthy, "desired_healthy": 2, "expected_pods": 4}
    found = judged([*pods, *drained], budget(max_unavailable="2", unhealthy_pod_eviction_policy=policy, **status))
    strangers = [running("stranger", labels={"app": "db"})]
    assert found.rounds(pods, [*drained, *strangers]) == rounds


def test_without_a_status_healthy_pods_are_counted() -> None:
    """As the budget's controller would."""
    pods = [running("a", is_ready=False), running("b"), running("c")]
    assert not judged(pods, budget(min_available="2")).guards(pods[0])
    assert judged(pods, budget(min_available="3")).guards(pods[0])
