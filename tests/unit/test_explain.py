"""Explanations for people."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from core import labels
from core.calendars import with_calendars
from core.explain import explain_node, explain_node_now, explain_pod, explain_pods, explain_pool, with_missing_capacity
from core.model.node_pool import Budget, Calendar, CalendarRule, CalendarSettings, Disruption, NodeClass
from core.model.plan import DISRUPTION_REASON, Blocked, Command, Condition, DisruptionPlan, Move, PlannedClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import Options, Snapshot
from core.model.values.commitment import ReservedInstances
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.reasons.code import PAGE
from core.reasons.pods import PodReason
from core.reasons.runs import GroupFate, GroupLeaves
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


@pytest.mark.ci
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


# Explanations of a whole workload and of a NodePool.


def test_a_workload_says_where_its_pods_go_and_why_one_has_no_place() -> None:
    pods = (a_pod("web-0", cpu="1"), a_pod("web-1", cpu="64"), a_pod("web-2", cpu="64"))
    snapshot = a_snapshot(types=(a_type(),), pods=pods, node_pools=(a_pool("general"),))
    found = explain_pods(snapshot, "Deployment default/web", pods)
    text = str(found)
    assert text.startswith("Deployment default/web has 3 pods, 2 of them without a place [NoOfferingFits]\n")
    assert "  1 gets a new node, general-0\n" in text
    assert "  2 have no place [NoOfferingFits]\n  default/web-1:\n" in text
    assert found.has_no_place
    assert [pool.node_pool for pool in found.pools] == ["general"]


def test_a_workload_whose_pods_all_run_or_have_a_place_is_no_negative_answer() -> None:
    pods = (a_pod("web-0", node_name="n", phase="Running"), a_pod("web-1"))
    snapshot = a_snapshot(types=(a_type(),), pods=pods, node_pools=(a_pool("general"),))
    found = explain_pods(snapshot, "Deployment default/web", pods)
    assert not found.has_no_place
    assert found.details == ("1 runs on n", "1 gets a new node, general-0")


def test_a_node_pool_says_what_it_can_launch_what_limits_leave_and_what_is_launched() -> None:
    pool = a_pool("general", limits={"cpu": 8_000}, taints=(Taint("team", "NoSchedule", "a"),))
    pod = a_pod("web-0")
    snapshot = a_snapshot(types=(a_type(),), pods=(pod,), node_pools=(pool,))
    text = str(explain_pool(snapshot, pool))
    assert text.startswith("NodePool general can launch 1 instance type, from ")
    assert "limit of cpu: 8 of 8 left" in text
    assert "pods need a toleration of team=a:NoSchedule" in text
    assert "this plan launches nothing from it" in text


def test_a_node_pool_that_launches_nothing_says_why() -> None:
    pool = a_pool("general", replicas=2)
    snapshot = a_snapshot(types=(a_type(),), node_pools=(pool,))
    assert explain_pool(snapshot, pool).outcome.startswith("is static")


# Explanations of nodes with what they cost and who holds their NodePool's budgets.


def closed(*budgets: Budget) -> Snapshot:
    """One nearly empty node of a NodePool with these budgets."""
    pool = a_pool("default", disruption=Disruption(consolidate_after=timedelta(0), budgets=budgets))
    claim, node = a_node_of(a_type(), "busy")
    pods = (a_pod("web", cpu="100m", node_name=node.name, phase="Running"),)
    return a_snapshot(types=(a_type(),), node_pools=(pool,), nodes=(node,), node_claims=(claim,), pods=pods)


def test_a_node_that_budgets_keep_says_what_it_costs_and_when_they_change() -> None:
    """The words "let no more nodes go" alone do not say whether to wait an hour or a week."""
    window = Budget("0", schedule="0 0 * * *", duration=timedelta(hours=23))
    snapshot = closed(window)
    snapshot = msgspec.structs.replace(snapshot, now=NOW.replace(hour=12, minute=0))
    text = str(explain_node_now(snapshot, "busy"))
    assert "[Budget]" in text
    assert " an hour in NodePool default" in text
    assert "the budgets let go now: 0 Drifted, 0 Empty, 0 Underutilized" in text
    assert "the budgets change at " in text
    assert "23:00 UTC" in text


def test_a_node_that_leaves_names_the_groups_of_its_pods() -> None:
    """Whoever asks about a worker's node wants to know whether the whole training starts again."""
    kind = a_type("m", cpu="4")
    claim, node = a_node_of(kind)
    notes = {labels.GROUP: "train", labels.GROUP_MINIMUM: "2"}
    pods = tuple(a_pod(name, node_name=node.name, annotations=notes) for name in ("a", "b"))
    snapshot = a_snapshot(
        types=(kind,), pods=pods, nodes=(node,), node_claims=(claim,), marked_for_deletion=(claim.name,)
    )
    said = "group default/train (2 members, all leave): it loses them, and mostly starts again as a whole"
    assert said in explain_node_now(snapshot, node.name).details
    waiting = msgspec.structs.replace(claim, lets_groups_end=True)
    told = Condition("True", "Expired")
    bound = msgspec.structs.replace(
        claim, termination_grace_period=timedelta(hours=1), conditions={**claim.conditions, DISRUPTION_REASON: told}
    )
    stay = "they stay until it ends, or until the node's terminationGracePeriod does"
    for one in (waiting, bound):
        details = explain_node_now(msgspec.structs.replace(snapshot, node_claims=(one,)), node.name).details
        assert f"group default/train (2 members, all leave): {stay}" in details
    going = Command(reason="Drifted", method="drift", nodes=("a",), claims=("c",), groups=(LEAVES,))
    assert LEAVES.sentence in explain_node(DisruptionPlan(now=NOW, commands=(going,)), "a").details


LEAVES = GroupLeaves("ml/train", GroupFate.RUNS_ON, 1, 8)


def test_a_node_that_a_commitment_covers_says_so() -> None:
    """Zero dollars an hour alone look like a mistake."""
    reserved = ReservedInstances(name="bought", instance_type="m5.large", count=1)
    snapshot = msgspec.structs.replace(closed(), options=Options(commitments=(reserved,)))
    text = str(explain_node_now(snapshot, "busy"))
    assert "costs $0.0000 an hour in NodePool default, covered by commitment bought" in text


def test_a_node_that_is_not_ours_has_no_price() -> None:
    _, node = a_node_of(a_type(), "strange")
    snapshot = a_snapshot(types=(a_type(),), nodes=(node,), node_claims=())
    assert "costs" not in str(explain_node_now(snapshot, "strange"))


def test_a_node_whose_pods_fit_nowhere_else_names_its_own_pod_and_what_that_lacks() -> None:
    """It said `pod web would find no place: `, with a pod of another node and no reason."""
    types = (a_type("small", cpu="4", price=0.1), a_type("large", cpu="8", price=0.2))
    pool = a_pool("default", disruption=Disruption(consolidate_after=timedelta(0), budgets=()))
    claims, nodes = zip(*(a_node_of(types[1], name) for name in ("a", "b")), strict=True)
    pods = tuple(
        a_pod(
            f"web-{node.name}", cpu="100m", node_name=node.name, phase="Running",
            node_selector=(Requirement.one_of("rack", "1"),),
        )
        for node in nodes
    )  # fmt: skip
    snapshot = a_snapshot(types=types, node_pools=(pool,), nodes=nodes, node_claims=claims, pods=pods)
    for node in nodes:
        text = str(explain_node_now(snapshot, node.name))
        assert f"pod default/web-{node.name} would find no place" in text
        assert f"without this node pod default/web-{node.name} lacks a place" in text
        assert "rack" in text


@pytest.mark.parametrize(
    ("kind", "after", "text"),
    [
        (
            "capacity-block",
            1,
            "leaves capacity block cr-1 at 2026-11-20 01:00 UTC; consolidation moves no pod to it before",
        ),
        ("capacity-block", 24, "leaves capacity block cr-1 at 2026-11-21 00:00 UTC"),
        ("default", 24, "is on-demand once capacity reservation cr-1 ends, at 2026-11-21 00:00 UTC"),
    ],
)
def test_a_node_in_a_reservation_says_when_that_ends(kind: str, after: int, text: str) -> None:
    """Its end explains why nothing is moved to a node that costs nothing."""
    snapshot = closed()
    own = {labels.RESERVATION_ID: "cr-1", labels.RESERVATION_TYPE: kind}
    (node,) = snapshot.nodes
    snapshot = msgspec.structs.replace(
        snapshot,
        nodes=(msgspec.structs.replace(node, labels={**node.labels, **own}),),
        node_classes=(NodeClass(name="default", reservation_ends={"cr-1": NOW + timedelta(hours=after)}),),
    )
    assert text in explain_node_now(snapshot, "busy").details


def test_a_node_of_a_closed_pool_leaves_and_a_protected_pod_says_until_when_it_stays() -> None:
    settings = CalendarSettings(closed=True)
    calendar = Calendar(name="office", rules=(CalendarRule(name="office/shut", time_zone="UTC", settings=settings),))
    kind = a_type("m5.large")
    claim, node = a_node_of(kind)
    pod = a_pod("p", node_name=node.name, annotations={labels.DO_NOT_DISRUPT: "true"}, phase="Running")
    snapshot = a_snapshot(
        types=(kind,), node_claims=(claim,), nodes=(node,), calendars=(calendar,), node_pools=(a_pool(),)
    )
    text = str(explain_node_now(with_calendars(snapshot), node.name))
    assert "NodePool default is outside its hours by rule office/shut, which has no end: the node leaves" in text
    assert "do-not-disrupt" not in text
    kept = msgspec.structs.replace(snapshot, pods=(pod,))
    text = str(explain_node_now(with_calendars(kept), node.name))
    assert (
        "pod default/p has karpenter.sh/do-not-disrupt; the node stays until the pod leaves (podsThatStay: Leave)"
        in text
    )


@pytest.mark.parametrize(("cpu", "reason"), [("6", "NoOfferingAvailable"), ("60", "NoOfferingFits")])
def test_a_pod_that_only_missing_capacity_keeps_is_told_when_ec2_is_asked_again(cpu: str, reason: str) -> None:
    """The refused type counts as none of the NodePool's, and the pod was said to be too large for all others."""
    small, large = a_type("small"), a_type("large", cpu="8")
    refused = msgspec.structs.replace(
        large, offerings=tuple(msgspec.structs.replace(offering, available=False) for offering in large.offerings)
    )
    pod = a_pod("web", cpu=cpu)
    snapshot = a_snapshot(types=(small, refused), pods=(pod,))
    explanation = with_missing_capacity(explain_pod(snapshot, pod), snapshot, pod)
    assert (explanation.reason, explanation.has_no_place) == (reason, True)
    assert any("the next request is made within" in line for line in explanation.details) is (cpu == "6")
