"""Explanations for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.explain import explain_node, explain_pod
from core.model.plan import Blocked, Command, DisruptionPlan, Move, PlannedClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import Options
from core.reasons.code import PAGE
from core.reasons.pod import PodReason
from core.scheduling import schedule
from tests.builders import CLASS_REF, NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import improving


def outcome_of(pod: Pod) -> str:
    return explain_pod(a_snapshot(types=(a_type(),), pods=(pod,)), pod).outcome


def test_a_pod_without_a_place_learns_what_each_pool_lacks() -> None:
    """Pool by pool, and how near the nearest came."""
    pod = a_pod("huge", cpu="64")
    pools = (a_pool("general"), a_pool("zz"))
    text = str(explain_pod(a_snapshot(types=(a_type(),), pods=(pod,), node_pools=pools), pod))
    assert text.startswith("pod default/huge is unschedulable [NoOfferingFits]\n")
    assert "  NodePool general  1 type: 1 ruled out by cpu\n" in text
    assert "  NodePool zz       1 type: 1 ruled out by cpu\n" in text
    assert "hint: nearest miss in general: m5.large lacks" in text


@pytest.mark.parametrize(
    ("price", "says"), [(40, "+0%"), (40.1, "+0.2%"), (43.9, "+9.7%"), (44.5, "+11%"), (80, "+100%")]
)
def test_a_price_that_is_a_little_higher_is_not_called_the_same(price: float, says: str) -> None:
    """`$0.6160 (+0%)` stood beside $0.6120."""
    cheapest, other = a_type("m1", price=0.1), a_type("m2", price=price / 400)
    text = str(explain_pod(a_snapshot(types=(cheapest, other), pods=(pod := a_pod(),)), pod))
    assert f"next best: m2 ${price / 1000:.4f} ({says})" in text


def test_without_any_pool_the_reason_stands_alone() -> None:
    """There is nothing to compare."""
    pod = a_pod()
    text = str(explain_pod(a_snapshot(pods=(pod,), node_pools=()), pod))
    assert "[NoNodePool]" in text
    assert "hint" not in text


@pytest.mark.parametrize(
    ("pod", "outcome"),
    [
        (a_pod(node_name="n", phase="Running"), "runs on n"),
        (a_pod(node_name="n", phase="Succeeded"), "is done on n"),
        (a_pod(phase="Failed"), "is done: phase Failed"),
        (a_pod(is_gated=True), "waits for its scheduling gates, not for a node"),
        (a_pod(nominated_node_name="n"), "waits for pods to leave n, where it was promised a place"),
        (a_pod(owners=(Owner("DaemonSet", "d", "apps/v1"),)), "belongs to its node: nothing is launched for it"),
    ],
)
def test_a_pod_that_does_not_wait_says_why(pod: Pod, outcome: str) -> None:
    """Otherwise, people look for it in vain among the decisions."""
    assert outcome_of(pod) == outcome


def test_in_a_live_cluster_the_scheduler_speaks_first() -> None:
    """It may be about to bind the pod."""
    pod = a_pod()
    snapshot = a_snapshot(types=(a_type(),), pods=(pod,), options=Options(requires_unschedulable_mark=True))
    assert explain_pod(snapshot, pod).outcome == "has not been marked unschedulable by the scheduler yet"


def test_a_node_that_goes_says_with_whom_and_what_for() -> None:
    """The people on call ask exactly this."""
    claim = PlannedClaim(name="default-0", node_pool="default", node_class=CLASS_REF, instance_types=("m7g.large",))
    command = Command(
        reason="Underutilized",
        method="multi",
        nodes=("a", "b"),
        claims=("ca", "cb"),
        replacements=(claim,),
        moves=(Move("shop/x", "default-0"),),
        savings=250_000_000,
    )
    plan = DisruptionPlan(now=NOW, commands=(command,), blocked=(Blocked("c", "Budget", "no node may go"),))
    gone = str(explain_node(plan, "a"))
    for part in (
        "node a goes [Underutilized]",
        "saves $0.2500 an hour",
        "together with b",
        "m7g.large",
        "shop/x moves to",
    ):
        assert part in gone
    stays = str(explain_node(plan, "c"))
    assert stays.startswith("node c stays [Budget]\n")
    assert "no node may go" in stays
    assert explain_node(plan, "d").reason == "NotManaged"


def test_a_placed_pod_is_told_why_there_and_what_the_next_best_would_cost() -> None:
    """What keeps the pod from other places now that it has one is no answer, and contradicts the plan."""
    types = tuple(a_type(f"m{n}", cpu=str(2 * n), price=0.1 * n) for n in (1, 2, 3, 4, 5))
    pod = a_pod("web", cpu="1")
    text = str(explain_pod(a_snapshot(types=types, pods=(pod,)), pod))
    assert "needs a new node, default-0" in text
    assert "why: m1 is the cheapest type that holds its pods; next best: m2 $0.0800 (+100%), m3" in text
    assert "m5 0." not in text
    assert "NodePool default  " not in text


def test_a_pod_on_a_node_that_exists_is_told_what_its_own_would_cost() -> None:
    kind = a_type("m", cpu="4")
    claim, node = a_node_of(kind)
    pod = a_pod("web")
    snapshot = a_snapshot(types=(kind,), pods=(pod,), nodes=(node,), node_claims=(claim,))
    assert explain_pod(snapshot, pod).details == (
        "existing nodes come first: they cost nothing extra",
        "a node of its own, next best: m of NodePool default $0.0400 an hour",
    )


def test_a_reason_names_its_page() -> None:
    pod = a_pod("huge", cpu="64")
    assert explain_pod(a_snapshot(types=(a_type(),), pods=(pod,)), pod).details[-1] == f"more: {PAGE}#noofferingfits"


def test_the_page_has_an_anchor_for_every_reason() -> None:
    page = (Path(__file__).parents[2] / PAGE).read_text()
    assert [code for code in PodReason if f'<a id="{code.lower()}"></a>' not in page] == []


def test_explain_and_plan_say_the_same_of_every_pod() -> None:
    """Otherwise, people carry out one plan and read about another."""
    for seed in range(15):
        snapshot = improving(rich_cluster(seed))
        plan = schedule(snapshot)
        named = {entry.pod: entry for entry in plan.unschedulable}
        on = {key: claim.name for claim in plan.claims for key in claim.pods} | {b.pod: b.node for b in plan.bindings}
        for pod in [pod for pod in snapshot.pods if pod.key in named or pod.key in on][:4]:
            said = explain_pod(snapshot, pod)
            if pod.key in named:
                assert (said.reason, said.has_no_place) == (named[pod.key].reason, True)
            else:
                assert on[pod.key] in said.outcome
