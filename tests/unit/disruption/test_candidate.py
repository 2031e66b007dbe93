"""Which nodes may be disrupted, and in which order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.candidate import Candidate, PoolTotals, Survey, pool_totals, rejecting_pool, survey
from core.disruption.deletion_costs import UNIT, eviction_cost, reschedule_cost
from core.disruption.disruption_pass import DisruptionPass
from core.model.catalogue import Catalogue
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import DRIFTED, INITIALIZED, Condition, Hold, NodeClaim
from core.model.pod import GroupObject, GroupSource, MemberTemplate, Owner, Pod
from core.model.snapshot import Node, PodDisruptionBudget, Snapshot
from core.model.state_node import state_nodes
from core.pod_disruption_budgets import DisruptionBudgets
from core.reasons.code import Refusal, Stated
from core.reasons.nodes import (
    NodePoolMissing,
    NodePoolObserved,
    NodePoolWithoutTypes,
    NodeReason,
    NotJoined,
    PodUnreadable,
)
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, SMALL, pod_on
from tests.unit.disruption.nodes_for_tests import world as balanced_policy_world

# The policy Balanced: a pool's share of the savings is compared with its share of the disruption.


POOLS = (a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),))),)


def a_candidate(**changes: object) -> Candidate:
    (candidate,) = DisruptionPass(balanced_policy_world(a_node_of(SMALL), node_pools=POOLS)).survey.candidates
    return msgspec.structs.replace(candidate, **changes)


@pytest.mark.parametrize(("savings", "is_rejected"), [(49, True), (50, False), (0, True)])
def test_the_savings_share_must_be_half_the_disruption_share(savings: int, is_rejected: bool) -> None:
    """Karpenter's k is 2: a pool of price 1000 whose pods all count 10 units, one of which moves, must save 50."""
    totals = {"default": PoolTotals(price=1000, cost=10 * UNIT)}
    rejecting = rejecting_pool([a_candidate(price=100, cost=UNIT)], savings, totals)
    assert rejecting == ("default" if is_rejected else "")


def test_a_pool_without_a_known_price_rejects_every_move() -> None:
    """Nothing can be said of the share that the move would save."""
    assert rejecting_pool([a_candidate(price=100, cost=UNIT)], 50, {}) == "default"
    assert rejecting_pool([a_candidate(price=100, cost=0)], 50, {}) == "default"
    assert rejecting_pool([a_candidate(price=0, cost=0)], 50, {"default": PoolTotals(price=0, cost=0)}) == "default"


def test_nodes_that_cost_nothing_have_the_whole_of_the_savings() -> None:
    """Reserved nodes are paid for anyway: their share of the price says nothing."""
    totals = {"default": PoolTotals(price=1000, cost=10 * UNIT)}
    free = [a_candidate(price=0, cost=UNIT)]
    assert [rejecting_pool(free, savings, totals) for savings in (1, 49, 50)] == ["default", "default", ""]


def test_a_pool_that_approves_lets_the_next_one_be_asked() -> None:
    """The savings are divided by what the nodes cost: a tenth of them is too little for the second pool."""
    totals = {"a": PoolTotals(price=1000, cost=10 * UNIT), "b": PoolTotals(price=1000, cost=10 * UNIT)}
    balanced = Disruption(policy=BALANCED, budgets=(Budget("100%"),))
    first, second = (
        a_candidate(price=p, cost=UNIT, pool=a_pool(n, disruption=balanced)) for n, p in (("a", 900), ("b", 100))
    )
    assert rejecting_pool([first, second], 100, totals) == "b"
    assert rejecting_pool([second, first], 1000, totals) == ""
    assert rejecting_pool([first, second], 50, totals) == "a"


def test_other_policies_reject_nothing() -> None:
    assert rejecting_pool([a_candidate(pool=a_pool("default", ON_DEMAND))], 0, {}) == ""


def test_totals_count_every_node_of_the_pool() -> None:
    snapshot = balanced_policy_world(
        a_node_of(SMALL), a_node_of(SMALL, "node-2"), pods=(pod_on("node-1"),), node_pools=POOLS
    )
    totals = pool_totals(snapshot, state_nodes(snapshot))
    assert totals["default"].cost == 3 * UNIT
    assert totals["default"].price == 2 * min(o.price for o in SMALL.offerings if o.capacity_type == "on-demand")


def test_totals_leave_out_nodes_that_go_and_pools_of_other_policies() -> None:
    pools = (a_pool("lazy", ON_DEMAND), *POOLS)
    nodes = (a_node_of(SMALL, "a", pool="lazy"), a_node_of(SMALL, "b"), a_node_of(SMALL, "c"), a_node_of(SMALL, "d"))
    marked = (nodes[1][0].name,)
    snapshot = balanced_policy_world(
        *nodes, pods=(pod_on("a"), pod_on("b"), pod_on("d")), node_pools=pools, marked_for_deletion=marked
    )
    price = min(o.price for o in SMALL.offerings if o.capacity_type == "on-demand")
    assert pool_totals(snapshot, state_nodes(snapshot)) == {"default": PoolTotals(price=2 * price, cost=3 * UNIT)}


def test_no_totals_are_computed_for_other_policies() -> None:
    """They go through every pod of the cluster, and nothing asks for them."""
    snapshot = balanced_policy_world(a_node_of(SMALL), pods=(pod_on("node-1"),))
    assert pool_totals(snapshot, state_nodes(snapshot)) == {}


def test_a_move_that_saves_nothing_is_rejected_even_if_it_disturbs_nobody() -> None:
    totals = {"default": PoolTotals(price=1000, cost=10 * UNIT)}
    assert [rejecting_pool([a_candidate(price=100, cost=0)], saved, totals) for saved in (-1, 0, 1)] == [
        "default",
        "default",
        "",
    ]


def test_a_pool_of_another_policy_lets_the_next_one_be_asked() -> None:
    """Otherwise, a pool of policy Balanced takes part in every move that a pool before it takes part in."""
    other = a_candidate(price=100, cost=UNIT, pool=a_pool("a", ON_DEMAND))
    of_other_pool = a_candidate(price=100, cost=UNIT, pool=a_pool("b", disruption=POOLS[0].disruption))
    totals = {"b": PoolTotals(price=1000, cost=10 * UNIT)}
    assert [rejecting_pool([other, of_other_pool], savings, totals) for savings in (99, 100)] == ["b", ""]


TYPE = a_type(price=0.2)
CLAIM, NODE = a_node_of(TYPE)


def pod(name: str = "web-0", **changes: Any) -> Pod:
    """A pod that runs on the node."""
    return a_pod(name, **{"node_name": NODE.name, "phase": "Running", **changes})


def world(*pods: Pod, node: Node = NODE, claim: NodeClaim | None = CLAIM, **changes: Any) -> Snapshot:
    """One node with these pods."""
    claims = () if claim is None else (claim,)
    return a_snapshot(types=(TYPE,), **{"pods": pods, "nodes": (node,), "node_claims": claims, **changes})


def look(snapshot: Snapshot, nominated: dict[str, str] | None = None) -> Survey:
    """Survey it."""
    return survey(snapshot, state_nodes(snapshot), DisruptionBudgets.of(snapshot), nominated or {})


def codes(snapshot: Snapshot, nominated: dict[str, str] | None = None) -> list[str]:
    """Everything that blocks the node's disruption, its pods included."""
    found = look(snapshot, nominated)
    return [why.reason for kept in (*found.blocked.values(), *(c.protected for c in found.candidates)) for why in kept]


def only(snapshot: Snapshot) -> Candidate:
    """The one candidate."""
    (candidate,) = look(snapshot).candidates
    return candidate


def without_label(node: Node, key: str) -> Node:
    """The node without a label."""
    return msgspec.structs.replace(node, labels={k: v for k, v in node.labels.items() if k != key})


def marked(text: str, age: timedelta) -> Node:
    """A node of this age that is protected for this long after its start."""
    return msgspec.structs.replace(NODE, annotations={labels.DO_NOT_DISRUPT: text}, created_at=NOW - age)


def held(for_: timedelta, reason: str = NodeReason.TAINT_REMOVED) -> NodeClaim:
    return msgspec.structs.replace(CLAIM, hold=Hold(NOW + for_, reason, ""))


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (world(), []),
        (world(claim=None), [NodeReason.NOT_MANAGED]),
        (world(node=msgspec.structs.replace(NODE, deleted_at=NOW)), [NodeReason.DELETING]),
        (world(claim=msgspec.structs.replace(CLAIM, deleted_at=NOW)), [NodeReason.DELETING]),
        (world(marked_for_deletion=(CLAIM.name,)), [NodeReason.DELETING]),
        (world(node=without_label(NODE, labels.INITIALIZED)), [NodeReason.NOT_INITIALIZED]),
        (world(node=without_label(NODE, labels.NODEPOOL)), [NodeReason.NODE_POOL_NOT_FOUND]),
        (world(node_pools=()), [NodeReason.NODE_POOL_NOT_FOUND]),
        (world(node_pools=(a_pool(problem="spec: bad"),)), [NodeReason.NODE_POOL_INVALID]),
        (
            world(node=msgspec.structs.replace(NODE, annotations={labels.DO_NOT_DISRUPT: "true"})),
            [NodeReason.DO_NOT_DISRUPT],
        ),
        (world(node=msgspec.structs.replace(NODE, annotations={labels.DO_NOT_DISRUPT: "True"})), []),
        (world(node=marked("2h", timedelta(hours=1))), [NodeReason.DO_NOT_DISRUPT]),
        (world(node=marked("2h", timedelta(hours=2))), []),
        (world(node=msgspec.structs.replace(NODE, unreadable="status: odd")), [NodeReason.UNREADABLE_NODE]),
        (world(claim=held(timedelta(microseconds=1))), [NodeReason.TAINT_REMOVED]),
        (world(claim=held(timedelta(microseconds=1), "FromTheFuture")), [NodeReason.DRAIN_BLOCKED]),
        (world(claim=held(timedelta(0))), []),
        (world(pod(unreadable="spec.tolerations: odd")), [NodeReason.UNREADABLE_POD]),
        (world(pod(annotations={labels.DO_NOT_DISRUPT: "true"})), [NodeReason.DO_NOT_DISRUPT]),
        (world(pod(annotations={labels.DO_NOT_DISRUPT: "1h"}, started_at=NOW)), [NodeReason.DO_NOT_DISRUPT]),
        (world(pod(annotations={labels.DO_NOT_DISRUPT: "1h"}, started_at=NOW - timedelta(hours=1))), []),
        (world(pod(annotations={labels.DO_NOT_DISRUPT: "true"}, phase="Succeeded")), []),
        (
            world(pod(annotations={labels.DO_NOT_DISRUPT: "true"}, owners=(Owner("DaemonSet", "d"),))),
            [NodeReason.DO_NOT_DISRUPT],
        ),
    ],
)
def test_reasons_that_block_a_node(snapshot: Snapshot, expected: list[str]) -> None:
    """Karpenter's list of disqualifiers, one by one."""
    assert codes(snapshot) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nodes": ()}, NotJoined(CLAIM.name)),
        ({"paused_pools": {"default": "paused by a person"}}, Stated(NodeReason.PAUSED, "paused by a person")),
        ({"node_pools": (a_pool(own_annotations={labels.MODE: labels.OBSERVE}),)}, NodePoolObserved("default")),
        ({"catalogue": Catalogue()}, NodePoolWithoutTypes("default")),
        ({"node_pools": ()}, NodePoolMissing("default", "node-1")),
    ],
)
def test_a_node_that_its_pool_or_its_start_keeps_is_told(changes: dict[str, Any], expected: Refusal) -> None:
    surveyed = look(msgspec.structs.replace(world(), **changes))
    assert (surveyed.candidates, list(surveyed.blocked.values())) == ((), [(expected,)])


@pytest.mark.parametrize(("status", "drifted_at"), [("True", NOW), ("False", None), ("Unknown", None)])
def test_a_node_has_drifted_since_its_condition_says_so(status: str, drifted_at: object) -> None:
    """Rollouts begin with the node that drifted first."""
    conditions = {**CLAIM.conditions, DRIFTED: Condition(status, "NodePoolDrifted", changed_at=NOW)}
    candidate = only(world(claim=msgspec.structs.replace(CLAIM, conditions=conditions)))
    assert (candidate.drifted_at, bool(candidate.drift)) == (drifted_at, status == "True")


def test_an_unreadable_pod_is_named_with_its_field() -> None:
    """Its owner must correct it; even drift with a deadline does not override it."""
    claim = msgspec.structs.replace(CLAIM, termination_grace_period=timedelta(hours=1))
    kept = look(world(pod(unreadable="spec.tolerations: odd"), claim=claim)).blocked
    assert kept == {NODE.name: (PodUnreadable("default/web-0", "spec.tolerations: odd"),)}


def test_every_blocking_reason_is_reported() -> None:
    """Otherwise, correcting one reason reveals the next only a day later."""
    guard = PodDisruptionBudget(namespace="default", name="db", selector=a_selector(app="db"), disruptions_allowed=0)
    snapshot = world(
        pod(annotations={labels.DO_NOT_DISRUPT: "true"}), pod("db-0", labels={"app": "db"}), budgets=(guard,)
    )
    assert codes(snapshot) == [NodeReason.DO_NOT_DISRUPT, NodeReason.POD_DISRUPTION_BUDGET]


def test_nominated_by_node_or_claim() -> None:
    """A node that pods are expected on stays, whether the node or its claim is nominated."""
    assert codes(world(), {NODE.name: "pod a/b"}) == codes(world(), {CLAIM.name: "pod a/b"}) == [NodeReason.NOMINATED]


@pytest.mark.parametrize(
    ("annotation", "priority", "expected"),
    [
        ("", 0, UNIT),
        (str(2**26), 0, UNIT + 2**26),
        ("-134217728", 0, 0),
        ("nonsense", 0, UNIT),
        (str(2**40), 0, UNIT),
        ("", 2**25, 2 * UNIT),
        ("", 2_000_000_000, 10 * UNIT),
        ("", -2_000_000_000, -10 * UNIT),
    ],
)
def test_eviction_cost(annotation: str, priority: int, expected: int) -> None:
    """One unit, more for pods with a high deletion cost or priority, within bounds."""
    annotations = {labels.POD_DELETION_COST: annotation} if annotation else {}
    assert eviction_cost(a_pod(annotations=annotations, priority=priority)) == expected


def test_pods_without_eviction_cost_do_not_keep_a_node() -> None:
    """Pods of DaemonSets, mirror pods, finished pods and pods with negative costs leave a node empty."""
    free = pod("free", annotations={labels.POD_DELETION_COST: "-2147483648"})
    daemon = pod("agent", owners=(Owner("DaemonSet", "agent"),))
    mirror = pod("kube-proxy", owners=(Owner("Node", NODE.name),))
    assert only(world(free, daemon, mirror, pod("done", phase="Failed"))).is_empty
    assert not only(world(pod())).is_empty
    assert reschedule_cost([free]) == UNIT


def test_savings_ratio() -> None:
    """Expensive nodes with few pods go first."""
    few, many = only(world(pod())), only(world(pod("a"), pod("b")))
    assert few.savings_ratio > many.savings_ratio > 0


@pytest.mark.parametrize(
    ("idle", "after", "expected"),
    [
        (timedelta(minutes=5), timedelta(minutes=5), True),
        (timedelta(minutes=5) - timedelta(seconds=1), timedelta(minutes=5), False),
        (timedelta(0), timedelta(0), True),
        (timedelta(days=9), None, False),
    ],
)
def test_consolidate_after(idle: timedelta, after: timedelta | None, expected: bool) -> None:
    """The duration is over when exactly that time has passed; Never is never over."""
    claim = msgspec.structs.replace(CLAIM, last_pod_event_at=NOW - idle)
    pools = (a_pool(disruption=Disruption(consolidate_after=after)),)
    assert only(world(claim=claim, node_pools=pools)).is_consolidatable(NOW) is expected


def test_consolidate_after_counts_from_initialization_if_no_pod_came() -> None:
    """For a node that was never used, the time begins with its start."""
    claim = msgspec.structs.replace(CLAIM, last_pod_event_at=None)
    assert only(world(claim=claim)).claim.idle_since == NOW - timedelta(hours=2)


def test_consolidate_after_counts_from_creation_if_nothing_else_is_known() -> None:
    """Otherwise, a node of which no moment is known counts as idle for ever, and goes the moment it is seen."""
    created = NOW - timedelta(minutes=3)
    initialized = {**CLAIM.conditions, INITIALIZED: Condition("True")}
    claim = msgspec.structs.replace(CLAIM, created_at=created, last_pod_event_at=None, conditions=initialized)
    assert only(world(claim=claim)).claim.idle_since == created


@pytest.mark.parametrize(
    ("is_protected", "grace", "may_drift"),
    [
        (False, None, True),
        (False, timedelta(hours=1), True),
        (True, None, False),
        (True, timedelta(hours=1), True),
        (True, timedelta(0), True),
    ],
)
def test_a_termination_grace_period_bounds_the_drain_of_a_drifted_node_whose_pods_are_protected(
    is_protected: bool, grace: timedelta | None, may_drift: bool
) -> None:
    """Karpenter: eventual disruption needs the period, graceful one respects the pods."""
    marks = {labels.DO_NOT_DISRUPT: "true"} if is_protected else {}
    claim = msgspec.structs.replace(CLAIM, termination_grace_period=grace)
    candidate = only(world(pod(annotations=marks), claim=claim))
    assert bool(candidate.protected) is is_protected
    assert candidate.may_drift is may_drift


# Groups of pods that start together.


def member(name: str, node: str, **notes: str) -> Pod:
    marks = {labels.GROUP: "train", labels.GROUP_MINIMUM: "2", **notes}
    return pod_on(node, name, annotations=marks)


def test_a_node_with_a_member_of_a_running_group_stays() -> None:
    """All of the group would start again."""
    found = balanced_policy_world(a_node_of(SMALL, "n1"), pods=(member("a", "n1"), member("b", "n1")))
    (candidate,) = DisruptionPass(found).survey.candidates
    assert [block.reason for block in candidate.protected] == [NodeReason.GROUP_RUNS]
    assert "group default/train, which runs" in candidate.protected[0].message


def test_members_that_may_move_alone_keep_no_node() -> None:
    alone = {labels.GROUP_DISRUPTION: "single"}
    pods = (member("a", "n1", **alone), member("b", "n1", **alone))
    found = balanced_policy_world(a_node_of(SMALL, "n1"), pods=pods)
    (candidate,) = DisruptionPass(found).survey.candidates
    assert candidate.protected == ()


def test_a_node_for_members_to_come_is_not_empty() -> None:
    """The leader runs first, and its workers are created once it is ready: their node waits for them."""
    marks = {labels.LEADER_WORKER_SET: "llm", labels.LEADER_WORKER_GROUP: "0", labels.LEADER_WORKER_INDEX: "0"}
    leader = pod_on("n1", "llm-0", cpu="600m", labels=marks, annotations={labels.LEADER_WORKER_SIZE: "2"})
    member = MemberTemplate(part="leader", spec=leader.spec)
    owner = GroupObject(
        source=GroupSource.LEADER_WORKER_SET,
        namespace="default",
        name="llm",
        minimum=2,
        templates=(member, msgspec.structs.replace(member, part="worker")),
    )
    found = balanced_policy_world(
        a_node_of(SMALL, "n1"), a_node_of(SMALL, "n2"), pods=(leader,), group_objects=(owner,)
    )
    assert DisruptionPass(found).buffer_nodes == {"n2"}
    assert DisruptionPass(msgspec.structs.replace(found, group_objects=())).buffer_nodes == frozenset()
