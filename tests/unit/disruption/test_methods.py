"""Drifted nodes are replaced, within budgets, one rollout at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, methods, startable
from core.disruption.disruption_pass import DisruptionPass
from core.model.catalogue import Catalogue
from core.model.node_pool import BALANCED, Budget, Disruption, NodePool, RolloutGate
from core.model.plan import (
    DRIFTED,
    INITIALIZED,
    Blocked,
    Command,
    Condition,
    DisruptionPlan,
    Move,
    NodeClaim,
    StoredDrain,
    StoredTarget,
)
from core.model.pod import Pod, PodAffinityTerm
from core.model.snapshot import FeatureGates, Node, NodeCondition, Options, PodDisruptionBudget, Snapshot
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.model.values.taints import REBOOTING
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import (
    DeletionBelowMoves,
    NodeReason,
    NoRoomForReplacement,
    NotToRepair,
    NotTried,
    NoTypeToLaunch,
)
from core.scheduling.planner import schedule
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_stored_target, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    checked,
    drifted,
    expiring,
    pod_on,
)
from tests.unit.disruption.nodes_for_tests import world as a_world


def test_a_drifted_node_is_replaced_even_by_a_more_expensive_one() -> None:
    """The new template counts more than the cost."""
    pair = drifted(a_node_of(SMALL, capacity_type=labels.SPOT))
    (command,) = disrupt(a_world(pair, pods=(pod_on("node-1"),))).commands
    assert command.reason == TerminationReason.DRIFTED
    assert command.savings < 0


def test_drift_overrides_pods_only_with_a_grace_period() -> None:
    """Without a bound on draining, one protected pod would keep a half-drained node forever."""
    claim, node = drifted(a_node_of(MIDDLE))
    guard = pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    bounded = msgspec.structs.replace(claim, termination_grace_period=timedelta(hours=1))
    assert disrupt(a_world((claim, node), pods=(guard,))).commands == ()
    assert disrupt(a_world((bounded, node), pods=(guard,))).commands[0].reason == TerminationReason.DRIFTED


def test_an_empty_drifted_node_goes_before_one_with_pods() -> None:
    """It disrupts no pod, and waits for no other node."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")), a_node_of(SMALL, "node-3"))
    snapshot = a_world(*nodes, pods=(pod_on("node-1"), pod_on("node-3")))
    as_karpenter = msgspec.structs.replace(snapshot, options=KARPENTER)
    for cluster, gone in ((snapshot, [("node-2",)]), (as_karpenter, [("node-2",), ("node-1",)])):
        assert [command.nodes for command in methods.find_drifted(DisruptionPass(cluster))] == gone


def test_pods_of_a_drifted_node_move_to_no_other_drifted_node() -> None:
    """Otherwise, they move again, up to five times in a fleet of drifted nodes."""
    nodes = (drifted(a_node_of(LARGE)), drifted(a_node_of(LARGE, "node-2")))
    commands = methods.find_left(DisruptionPass(a_world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))))
    assert [command.nodes for command in commands] == [("node-1",), ("node-2",)]
    assert [len(command.replacements) for command in commands] == [1, 1]
    assert (
        startable(disrupt(a_world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))).commands)
        == disrupt(a_world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))).commands
    )


def test_pods_of_a_drifted_node_move_to_no_node_that_expires_soon() -> None:
    """Otherwise, they move again when it expires."""
    nodes = (drifted(a_node_of(LARGE)), expiring(a_node_of(LARGE, "node-2")))
    (command,) = methods.find_left(DisruptionPass(a_world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))))
    assert (command.nodes, len(command.replacements)) == (("node-1",), 1)


def kept_for_now(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node, which its owner keeps."""
    claim, node = pair
    return claim, msgspec.structs.replace(node, annotations={labels.DO_NOT_DISRUPT: "1000h"})


def test_pods_of_a_drifted_node_move_to_no_drifted_node_that_stays_for_now() -> None:
    """Otherwise, they move again as soon as nothing keeps it any more."""
    nodes = (drifted(a_node_of(LARGE)), kept_for_now(drifted(a_node_of(LARGE, "node-2"))))
    (command,) = methods.find_left(DisruptionPass(a_world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))))
    assert (command.nodes, len(command.replacements)) == (("node-1",), 1)


def test_pods_of_a_drifted_node_move_to_no_drifted_node_of_a_static_pool() -> None:
    """Its replacement is on its way, too."""
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN), a_pool("fixed", ON_DEMAND, disruption=OPEN, replicas=1))
    nodes = (drifted(a_node_of(LARGE)), drifted(a_node_of(LARGE, "node-2", pool="fixed")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    commands = methods.find_left(DisruptionPass(a_world(*nodes, pods=pods, node_pools=pools)))
    assert [(command.nodes, len(command.replacements)) for command in commands] == [(("node-1",), 1)]


def under_way(*drains: str) -> StoredTarget:
    """A target that removes these nodes in later waves."""
    gone = tuple(StoredDrain(name, 10**9, 10**9) for name in drains)
    return a_stored_target(*gone)


def test_pods_of_a_drifted_node_move_to_no_node_that_the_target_removes_later() -> None:
    """Otherwise, they move twice, once for drift and once for consolidation."""
    nodes = (drifted(a_node_of(LARGE)), a_node_of(LARGE, "node-2"), a_node_of(LARGE, "node-3"))
    snapshot = a_world(*nodes, pods=tuple(pod_on(f"node-{n}") for n in (1, 2, 3)))
    for target, place in ((None, "node-2"), (under_way("node-2"), "node-3")):
        (command,) = methods.find_left(DisruptionPass(msgspec.structs.replace(snapshot, stored_target=target)))
        assert {move.to for move in command.moves} == {place}
    (command,) = methods.find_left(
        DisruptionPass(msgspec.structs.replace(snapshot, stored_target=under_way("node-2", "node-3")))
    )
    assert len(command.replacements) == 1, "no room is left on nodes that stay"


def test_a_drifted_node_takes_pods_that_nothing_else_holds() -> None:
    """Otherwise, a pool at its limit keeps its old nodes forever."""
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 2}),)
    nodes = (drifted(a_node_of(LARGE)), drifted(a_node_of(LARGE, "node-2")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    (first, *_) = methods.find_left(DisruptionPass(a_world(*nodes, pods=pods, node_pools=pools)))
    assert first.nodes == ("node-1",)


def test_a_rollout_limits_how_many_go() -> None:
    nodes = tuple(drifted(a_node_of(LARGE, f"node-{number}")) for number in (1, 2, 3))
    pods = tuple(pod_on(f"node-{number}") for number in (1, 2))
    for allowed in (0, 1):
        gate = RolloutGate(allowed, "wait", is_stopped=not allowed)
        this_pass = DisruptionPass(a_world(*nodes, pods=pods, rollouts={"default": gate}))
        nodes_of_commands = [command.nodes for command in methods.find_drifted(this_pass)]
        assert nodes_of_commands[0] == ("node-3",), "nobody misses a node without pods"
        assert len(nodes_of_commands[1:]) == allowed
        code = NodeReason.ROLLOUT_CANARY if allowed else NodeReason.ROLLOUT_STOPPED
        assert {refused.reason for refused in this_pass.refusals.values()} == {code}


def test_consolidation_respects_a_stopped_rollout() -> None:
    """Otherwise, it launches what the rollout has just found to be unhealthy."""
    gate = RolloutGate(0, "stopped", is_stopped=True)
    cluster = a_world(drifted(a_node_of(LARGE)), pods=(pod_on("node-1"),), rollouts={"default": gate})
    assert blocked(disrupt(cluster)) == {"node-1": NodeReason.ROLLOUT_STOPPED}


def test_commands_found_before_time_ran_out_are_kept() -> None:
    """Otherwise, a rollout of thousands of nodes is computed again each minute and never begins."""
    nodes = [drifted(a_node_of(SMALL, f"node-{number}")) for number in range(4)]
    snapshot = a_world(*nodes, pods=tuple(pod_on(f"node-{number}") for number in range(4)), options=KARPENTER)
    whole, readings = disrupt(snapshot), list[float]()

    def clock() -> float:
        readings.append(len(readings) / 4)
        return readings[-1]

    cut = disrupt(snapshot, deadline=clock)
    assert 0 < len(cut.commands) < len(whole.commands)
    assert cut.commands == whole.commands[: len(cut.commands)]
    left = {node.name for _, node in nodes} - {name for command in cut.commands for name in command.nodes}
    assert {block.node for block in cut.blocked if block.reason == NodeReason.NOT_TRIED} == left
    assert disrupt(snapshot, deadline=iter([*readings, *readings]).__next__) == cut, "the ledger plays it back"


def test_a_command_that_takes_a_waiting_pods_place_comes_after_all_others() -> None:
    """The pod of b takes the room on a that a pending pod was to get, and c had the next; found by seed 306570."""
    nodes = (a_node_of(MIDDLE, "a"), drifted(a_node_of(MIDDLE, "b")), drifted(a_node_of(LARGE, "c")))
    running = (pod_on("a", cpu="2"), pod_on("b", cpu="1700m"), pod_on("c", cpu="5"))
    waiting = a_pod("waits", cpu="1500m", memory="64Mi")
    together = DisruptionPass(a_world(*nodes, pods=running, options=KARPENTER))
    assert [command.nodes for command in methods.find_drifted(together)] == [("b",), ("c",)]
    this_pass = DisruptionPass(a_world(*nodes, pods=(*running, waiting), options=KARPENTER))
    first = methods.find_drifted(this_pass)
    assert [command.nodes for command in first] == [("c",)]
    this_pass.carry_out(first)
    assert [command.nodes for command in methods.find_drifted(this_pass)] == [("b",)]


def test_drifted_nodes_go_together_although_a_pod_waits() -> None:
    """One node in each look, while a pod waits or a node drains, would make a rollout of hundreds take hours."""
    names = [f"n{number}" for number in range(6)]
    nodes = [a_node_of(MIDDLE, "a"), *(drifted(a_node_of(SMALL, name)) for name in names)]
    pods = [pod_on("a", cpu="3200m"), pod_on("n0", cpu="50m"), *(pod_on(name, cpu="900m") for name in names[1:])]
    snapshot = a_world(*nodes, pods=(*pods, a_pod("waits", cpu="300m", memory="64Mi")), options=KARPENTER)
    commands = methods.find_drifted(DisruptionPass(snapshot))
    assert [command.nodes[0] for command in commands] == names
    assert [move.to for move in commands[0].moves] == ["a"]


def test_nodes_go_in_the_order_in_which_they_drifted_and_those_without_a_moment_last() -> None:
    """Equals go by name, whichever comes first in the snapshot."""
    moments = {"a": NOW, "b": NOW - timedelta(seconds=1), "c": NOW - timedelta(hours=1), "d": None}
    nodes = []
    for name, since in moments.items():
        claim, node = drifted(a_node_of(SMALL, name))
        condition = msgspec.structs.replace(claim.conditions[DRIFTED], changed_at=since)
        changed = msgspec.structs.replace(claim, conditions={**claim.conditions, DRIFTED: condition})
        nodes.append((changed, node))
    snapshot = a_world(*nodes, pods=tuple(pod_on(name, cpu="900m") for name in moments))
    commands = methods.find_left(DisruptionPass(snapshot))
    assert [command.nodes for command in commands] == [("c",), ("b",), ("a",), ("d",)]


def test_a_command_that_depends_on_another_waits_for_the_next_call_and_uses_no_budget() -> None:
    """Which pod comes first decides where the other may go."""
    avoids = PodAffinityTerm(labels.ZONE, a_selector(app="web"))
    pods = (
        pod_on("a", cpu="900m", labels={"app": "web"}),
        pod_on("b", cpu="900m", anti_affinity=(avoids,)),
        pod_on("c", cpu="900m"),
    )
    two = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),))),)
    zones = (ZONES[0], ZONES[1], ZONES[0])
    nodes = [drifted(a_node_of(SMALL, name, zone=zone)) for name, zone in zip("abc", zones, strict=True)]
    commands = methods.find_left(DisruptionPass(a_world(*nodes, pods=pods, node_pools=two)))
    assert [command.nodes for command in commands] == [("a",), ("c",)]


# Nodes without pods are deleted.


def test_empty_node_is_deleted() -> None:
    """Otherwise, a node without pods is paid for."""
    (command,) = disrupt(a_world(a_node_of(SMALL))).commands
    assert (command.reason, command.method, command.nodes) == (TerminationReason.EMPTY, "emptiness", ("node-1",))
    assert command.savings == nanodollars(0.05)


def test_the_most_expensive_empty_node_goes_first_within_budgets() -> None:
    """Each removal disrupts the same, so the largest saving comes first."""
    pools = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),))),)
    nodes = (a_node_of(SMALL), a_node_of(LARGE, "node-2"), a_node_of(MIDDLE, "node-3"))
    assert [c.nodes for c in methods.find_empty(DisruptionPass(a_world(*nodes)))] == [
        ("node-2",),
        ("node-3",),
        ("node-1",),
    ]
    assert [c.nodes for c in methods.find_empty(DisruptionPass(a_world(*nodes, node_pools=pools)))] == [("node-2",)]


@pytest.mark.parametrize(("fits", "gone"), [(False, [("node-1",)]), (True, [])])
def test_half_a_group_is_given_back_before_consolidate_after(*, fits: bool, gone: list[tuple[str, ...]]) -> None:
    """Where its other part cannot be bought, its nodes cost and do nothing."""
    claim, node = a_node_of(MIDDLE)
    claim = msgspec.structs.replace(
        claim, annotations={labels.GROUP_OF_CLAIM: "Annotation/default/train"}, last_pod_event_at=NOW
    )
    slow = a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, consolidate_after=timedelta(hours=1)))
    marks = {labels.GROUP: "train", labels.GROUP_MINIMUM: "2"}
    pods = (a_pod("a", cpu="3", annotations=marks), a_pod("b", cpu="3" if fits else "99", annotations=marks))
    world = a_world((claim, node), pods=pods, node_pools=(slow,))
    assert [command.nodes for command in methods.find_empty(DisruptionPass(world))] == gone


@pytest.mark.parametrize(
    ("seconds", "gone"), [(None, []), (44, []), (45, [("node-1",)])], ids=["one look", "a moment", "lasting"]
)
def test_a_ready_node_waits_for_a_member_that_is_created_again(
    seconds: int | None, gone: list[tuple[str, ...]]
) -> None:
    """One look between a member's deletion and its replacement ended all ready nodes of the group."""
    claim, node = a_node_of(MIDDLE)
    claim = msgspec.structs.replace(
        claim,
        annotations={labels.GROUP_OF_CLAIM: "Annotation/default/train"},
        last_pod_event_at=NOW,
        unneeded_at=None if seconds is None else NOW - timedelta(seconds=seconds),
    )
    slow = a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, consolidate_after=timedelta(hours=1)))
    alone = a_pod("a", cpu="3", annotations={labels.GROUP: "train", labels.GROUP_MINIMUM: "2"})
    world = a_world((claim, node), pods=(alone,), node_pools=(slow,))
    assert [command.nodes for command in methods.find_empty(DisruptionPass(world))] == gone


@pytest.mark.parametrize(
    ("age", "has_had_pods", "gone"),
    [(60, False, [("node-1",)]), (30, False, []), (60, True, [])],
    ids=["its members are late", "members may come", "it has served"],
)
@pytest.mark.parametrize("after", [timedelta(hours=1), None])
def test_a_node_of_a_group_that_is_gone_is_given_back_before_consolidate_after(
    after: timedelta | None, age: int, *, has_had_pods: bool, gone: list[tuple[str, ...]]
) -> None:
    """The group was deleted while its nodes started: no pod has come, and none is expected."""
    claim, node = a_node_of(MIDDLE)
    began = NOW - timedelta(seconds=age)
    claim = msgspec.structs.replace(
        claim,
        annotations={labels.GROUP_OF_CLAIM: "Annotation/default/train"},
        conditions={**claim.conditions, INITIALIZED: Condition("True", changed_at=began)},
        last_pod_event_at=began if has_had_pods else None,
    )
    slow = a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, consolidate_after=after))
    world = a_world((claim, node), node_pools=(slow,))
    assert [command.nodes for command in methods.find_empty(DisruptionPass(world))] == gone


@pytest.mark.parametrize("ill", [0, 1, 2])
def test_no_more_nodes_go_than_the_answer_says_may_go_whether_they_are_ready_or_not(ill: int) -> None:
    """A node that is not Ready takes a place of the budgets, and another one when it goes, as in Karpenter."""
    three = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("3"),))),)
    pairs = [a_node_of(SMALL, f"node-{number}") for number in range(5)]
    pairs = [(claim, msgspec.structs.replace(node, is_ready=n >= ill)) for n, (claim, node) in enumerate(pairs)]
    plan = disrupt(a_world(*pairs, node_pools=three))
    assert plan.budgets["default"]["Empty"] == 3 - ill
    assert sum(len(command.nodes) for command in plan.commands) == 3 - ill


# Several nodes are replaced by fewer.


def test_several_nodes_become_fewer() -> None:
    nodes = tuple(a_node_of(MIDDLE, f"node-{n}") for n in range(4))
    pods = tuple(pod_on(f"node-{n}", cpu="100m") for n in range(4))
    (command,) = methods.find_multi_node(DisruptionPass(a_world(*nodes, pods=pods)))
    assert (command.method, len(command.nodes), len(command.replacements)) == ("multi", 4, 1)
    assert command.savings == 4 * MIDDLE.offerings[0].price - command.replacements[0].price


def test_one_node_alone_is_not_several() -> None:
    assert methods.find_multi_node(DisruptionPass(a_world(a_node_of(MIDDLE), pods=(pod_on("node-1"),)))) == []


def test_a_long_run_goes_though_a_shorter_one_may_not() -> None:
    """Three nodes cost as much as the large one that replaces them; bisection then ended with pairs, and a second move each."""
    types = tuple(a_type(f"r-{cpu}", cpu=str(cpu), price=price) for cpu, price in ((4, 0.2), (8, 0.34), (16, 0.6)))
    nodes = tuple(a_node_of(types[0], f"node-{n}") for n in range(4))
    pods = tuple(pod_on(f"node-{n}", cpu="3700m") for n in range(4))
    full = msgspec.structs.replace(a_world(*nodes, pods=pods), catalogue=Catalogue(default=types))
    (command,) = methods.find_multi_node(DisruptionPass(full))
    assert len(command.nodes) == 4
    assert [claim.instance_types for claim in command.replacements] == [("r-16",)]


def test_bisection_begins_in_the_middle_although_the_longest_run_was_tried() -> None:
    """Four nodes cost as much as what replaces them, two would get the type that one of them has (Karpenter takes three)."""
    types = tuple(a_type(f"s-{cpu}", cpu=str(cpu), price=cpu / 20) for cpu in (1, 2, 4))
    nodes = tuple(a_node_of(types[0], f"node-{n}") for n in range(4))
    pods = tuple(pod_on(f"node-{n}", cpu="700m" if n else "50m") for n in range(4))
    full = msgspec.structs.replace(a_world(*nodes, pods=pods), catalogue=Catalogue(default=types))
    (command,) = methods.find_multi_node(DisruptionPass(full))
    assert command.nodes == ("node-0", "node-1", "node-2")
    assert [claim.instance_types for claim in command.replacements] == [("s-2",)]


# Unhealthy nodes are replaced, and only those.


TYPE = a_type("m5.large")
MINUTE = timedelta(minutes=1)
REPAIRS = Options(feature_gates=FeatureGates(node_repair=True))
DEAD = NodeCondition("Ready", "Unknown", NOW - 30 * MINUTE)


def world(*ill: NodeCondition, nodes: int = 3, pods: tuple[Pod, ...] = (), **changes: Any) -> Snapshot:
    """Nodes, the first with these conditions; nothing can be consolidated."""
    budgets = changes.pop("budgets", (Budget("1"),))
    pairs = [a_node_of(TYPE, f"node-{n}") for n in range(nodes)]
    first = msgspec.structs.replace(
        pairs[0][1],
        conditions=ill,
        is_ready=not any(c.type == "Ready" for c in ill),
        annotations={**pairs[0][1].annotations, **changes.pop("annotations", {})},
    )
    return a_snapshot(
        types=(TYPE,),
        node_pools=(a_pool(disruption=Disruption(budgets=budgets, consolidate_after=None)),),
        nodes=(first, *(node for _, node in pairs[1:])),
        node_claims=tuple(claim for claim, _ in pairs),
        pods=pods,
        options=changes.pop("options", REPAIRS),
        **changes,
    )


def a_running(name: str, node: str, **changes: Any) -> Pod:
    return a_pod(name, node_name=node, **changes)


def repaired(snapshot: Snapshot) -> list[str]:
    """Nodes that go because they are unhealthy."""
    return [
        node
        for command in disrupt(snapshot).commands
        if command.reason == TerminationReason.UNHEALTHY
        for node in command.nodes
    ]


@pytest.mark.parametrize(
    ("ill", "goes"),
    [
        (DEAD, True),
        (NodeCondition("Ready", "False", NOW - 30 * MINUTE), True),
        (NodeCondition("Ready", "False", NOW - 29 * MINUTE), False),
        (NodeCondition("Ready", "True", NOW - 90 * MINUTE), False),
        (NodeCondition("AcceleratedHardwareReady", "False", NOW - 10 * MINUTE, "XID79"), True),
        (NodeCondition("AcceleratedHardwareReady", "False", NOW - 10 * MINUTE, "XID13"), False),
        (NodeCondition("KernelReady", "Unknown", NOW - 90 * MINUTE), False),
        (NodeCondition("MemoryPressure", "True", NOW - 90 * MINUTE), False),
        (NodeCondition("Ready", "False"), True),
    ],
)
def test_a_node_that_stays_unhealthy_goes(ill: NodeCondition, *, goes: bool) -> None:
    """After the times of Karpenter's policies on AWS, to the minute."""
    assert repaired(world(ill)) == (["node-0"] if goes else [])


def test_nothing_is_repaired_without_the_feature_gate() -> None:
    """As in Karpenter it is off by default."""
    assert repaired(world(DEAD, options=Options())) == []


def test_pods_of_an_unhealthy_node_get_a_place_first() -> None:
    """Otherwise, the repair itself is an outage."""
    pods = tuple(a_running(f"p{n}", f"node-{n % 3}", cpu="1500m") for n in range(3))
    (command,) = disrupt(world(DEAD, pods=pods)).commands
    assert (command.method, command.nodes, len(command.replacements)) == ("repair", ("node-0",), 1)
    assert checked(command, world(DEAD, pods=pods)) == command


def test_an_unhealthy_node_does_not_use_up_its_own_budget() -> None:
    """Budgets count nodes that are not Ready: with a budget of one, no node could ever be repaired."""
    assert repaired(world(DEAD, budgets=(Budget("1"),))) == ["node-0"]
    assert repaired(world(DEAD, budgets=(Budget("0"),))) == []


def test_two_unhealthy_nodes_do_not_block_each_other() -> None:
    """Found by review: each unready node uses up a place, so a budget of one kept both of them."""
    snapshot = world(DEAD, nodes=10)
    second = msgspec.structs.replace(snapshot.nodes[1], is_ready=False, conditions=(DEAD,))
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    (command,) = disrupt(snapshot).commands
    assert command.nodes == ("node-0",)
    assert checked(command, snapshot) == command
    going = msgspec.structs.replace(snapshot, marked_for_deletion=command.claims)
    assert disrupt(going).commands == ()


def test_a_budget_for_other_reasons_is_no_budget_for_repair() -> None:
    """Budgets of zero without reasons for repair are common; the cluster must still heal."""
    assert repaired(world(DEAD, budgets=(Budget("10%"), Budget("0", reasons=(TerminationReason.UNDERUTILIZED,))))) == [
        "node-0"
    ]


def test_its_own_annotation_stops_a_repair() -> None:
    """Its owner may be looking for the cause on that very node; do-not-disrupt does not strand a dead one (Karpenter 1.15)."""
    snapshot = world(DEAD, annotations={labels.DO_NOT_REPAIR: "true"})
    plan = disrupt(snapshot)
    assert plan.commands == ()
    assert Blocked("node-0", NodeReason.DO_NOT_REPAIR, NotToRepair("node-0").message) in plan.blocked
    claim = msgspec.structs.replace(snapshot.node_claims[0], annotations={labels.DO_NOT_REPAIR: "true"})
    on_claim = msgspec.structs.replace(world(DEAD), node_claims=(claim, *snapshot.node_claims[1:]))
    assert repaired(on_claim) == []
    assert repaired(world(DEAD, annotations={labels.DO_NOT_REPAIR: "yes"})) == ["node-0"]
    assert repaired(world(DEAD, annotations={labels.DO_NOT_DISRUPT: "true"})) == ["node-0"]
    (command,) = disrupt(world(DEAD)).commands
    assert isinstance(checked(command, snapshot), Refusal)


@pytest.mark.parametrize("karpenter", [False, True])
@pytest.mark.parametrize("kept_by", ["annotation", "many unhealthy"])
def test_what_stops_a_repair_does_not_stop_drift(kept_by: str, *, karpenter: bool) -> None:
    """Karpenter 1.15's own program drifts such a node."""
    marks = {"annotations": {labels.DO_NOT_REPAIR: "true"}} if kept_by == "annotation" else {}
    options = msgspec.structs.replace(REPAIRS, karpenter_moves_only=karpenter)
    snapshot = world(DEAD, options=options, nodes=3 if kept_by == "annotation" else 4, **marks)
    if kept_by == "many unhealthy":
        others = [msgspec.structs.replace(node, is_ready=False, conditions=(DEAD,)) for node in snapshot.nodes[1:2]]
        snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], *others, *snapshot.nodes[2:]))
    first, *rest = snapshot.node_claims
    old = Condition("True", "NodePoolDrifted", changed_at=NOW)
    first = msgspec.structs.replace(first, conditions={**first.conditions, DRIFTED: old})
    (pool,) = snapshot.node_pools
    open_pool = msgspec.structs.replace(
        pool, disruption=msgspec.structs.replace(pool.disruption, budgets=(Budget("100%"),))
    )
    commands = disrupt(msgspec.structs.replace(snapshot, node_pools=(open_pool,), node_claims=(first, *rest))).commands
    assert [(command.nodes, command.reason) for command in commands] == [(("node-0",), TerminationReason.DRIFTED)]


def test_protected_pods_do_not_keep_an_unhealthy_node() -> None:
    """Its drain is bounded. A PodDisruptionBudget that never opens would keep the dead node for ever."""
    guard = PodDisruptionBudget(
        namespace="default", name="all", selector=a_selector(app="web"), max_unavailable="0", disruptions_allowed=0
    )
    for pods, budgets in (
        ((a_running("p", "node-0", annotations={labels.DO_NOT_DISRUPT: "true"}),), ()),
        ((a_running("p", "node-0", labels={"app": "web"}),), (guard,)),
    ):
        snapshot = msgspec.structs.replace(world(DEAD, pods=pods), budgets=budgets)
        (command,) = disrupt(snapshot).commands
        assert [move.pod for move in command.moves] == ["default/p"]
        assert checked(command, snapshot) == command


@pytest.mark.parametrize("budget", ["1", "0"])
def test_a_node_that_never_initializes_is_repaired_without_a_budget(budget: str) -> None:
    """Nothing else replaces it, and it runs nothing that a budget protects."""
    snapshot = world(DEAD, budgets=(Budget(budget),))
    node = snapshot.nodes[0]
    bare = {key: value for key, value in node.labels.items() if key != labels.INITIALIZED}
    late = msgspec.structs.replace(node, labels=bare)
    snapshot = msgspec.structs.replace(snapshot, nodes=(late, *snapshot.nodes[1:]))
    (command,) = disrupt(snapshot).commands
    assert (command.method, command.nodes) == ("repair", ("node-0",))
    assert checked(command, snapshot) == command
    unregistered = msgspec.structs.replace(late, labels={k: v for k, v in bare.items() if k != labels.REGISTERED})
    assert repaired(msgspec.structs.replace(snapshot, nodes=(unregistered, *snapshot.nodes[1:]))) == []


def test_a_node_that_never_initializes_is_left_to_whoever_takes_it_already() -> None:
    """A second command for it would launch a second replacement."""
    snapshot = world(DEAD)
    node = snapshot.nodes[0]
    late = msgspec.structs.replace(
        node, labels={key: value for key, value in node.labels.items() if key != labels.INITIALIZED}
    )
    for leaving in (
        {"nodes": (msgspec.structs.replace(late, deleted_at=NOW), *snapshot.nodes[1:])},
        {"nodes": (late, *snapshot.nodes[1:]), "marked_for_deletion": (snapshot.node_claims[0].name,)},
    ):
        assert repaired(msgspec.structs.replace(snapshot, **leaving)) == []


def test_the_node_that_waits_longest_is_repaired_first() -> None:
    snapshot = world(DEAD, nodes=10)
    earlier = NodeCondition("Ready", "Unknown", NOW - 90 * MINUTE)
    second = msgspec.structs.replace(snapshot.nodes[1], is_ready=False, conditions=(earlier,))
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    assert repaired(snapshot) == ["node-1"]


def test_of_nodes_that_wait_equally_long_the_one_that_costs_less_to_disrupt_is_repaired_first() -> None:
    """Its pods count less, the nearer it is to its expiry (Karpenter)."""
    snapshot = world(DEAD, nodes=10, pods=(a_running("a", "node-0"), a_running("b", "node-1")))
    second = msgspec.structs.replace(snapshot.nodes[1], is_ready=False, conditions=(DEAD,))
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    assert repaired(snapshot) == ["node-0"]
    first, cheap = snapshot.pods
    cheap = msgspec.structs.replace(cheap, annotations={labels.DISRUPTION_COST: "-1"})
    assert repaired(msgspec.structs.replace(snapshot, pods=(first, cheap))) == ["node-1"]
    kept, old, *others = snapshot.node_claims
    old = msgspec.structs.replace(old, created_at=NOW - 90 * MINUTE, expire_after=30 * timedelta(days=1))
    assert repaired(msgspec.structs.replace(snapshot, node_claims=(kept, old, *others))) == ["node-1"]


def test_a_node_that_is_not_due_yet_leaves_the_budget_to_one_that_is() -> None:
    """Each would wait for the other; other reasons count it (Karpenter)."""
    snapshot = world(DEAD, nodes=10)
    recent = NodeCondition("Ready", "Unknown", NOW - 10 * MINUTE)
    second = msgspec.structs.replace(snapshot.nodes[1], is_ready=False, conditions=(recent,))
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    assert repaired(snapshot) == ["node-0"]
    closed = disrupt(world(DEAD, budgets=(Budget("100%"), Budget("0", reasons=("Unhealthy",)))))
    assert closed.commands == ()
    assert [(why.node, why.reason) for why in closed.blocked if "Unhealthy" in why.message] == [
        ("node-0", NodeReason.BUDGET)
    ]


@pytest.mark.parametrize("drifts", [True, False])
@pytest.mark.parametrize("gate", [True, False])
def test_at_the_limit_a_static_node_goes_first_only_with_its_gate(*, drifts: bool, gate: bool) -> None:
    """With its own gate for drift and for repair, as in Karpenter; the one for drift is on here."""
    gates = {"terminate_first_drift" if drifts else "terminate_first_repair": gate}
    options = Options(feature_gates=FeatureGates(static_capacity=True, node_repair=True, **gates))
    conditions = {DRIFTED: Condition("True", "NodePoolDrifted", changed_at=NOW)} if drifts else {}
    snapshot = world(*(() if drifts else (DEAD,)), options=options)
    (pool,), (first, *others) = snapshot.node_pools, snapshot.node_claims
    static = msgspec.structs.replace(pool, replicas=3, limits={"nodes": 3})
    gone = msgspec.structs.replace(first, conditions={**first.conditions, **conditions})
    full = msgspec.structs.replace(snapshot, node_pools=(static,), node_claims=(gone, *others))
    assert [(c.nodes, c.replacements) for c in disrupt(full).commands] == ([(("node-0",), ())] if gate else [])
    spacious = msgspec.structs.replace(full, node_pools=(msgspec.structs.replace(static, limits={"nodes": 4}),))
    assert [(c.nodes, len(c.replacements)) for c in disrupt(spacious).commands] == [(("node-0",), 1)]
    assert checked(disrupt(spacious).commands[0], spacious) == disrupt(spacious).commands[0]


def test_a_node_of_another_pool_that_goes_without_replacement_keeps_no_static_node() -> None:
    """Only the pool's own node that goes first keeps the others waiting: `limits.nodes` counts one pool."""
    options = Options(feature_gates=FeatureGates(static_capacity=True, node_repair=True))
    snapshot = world(DEAD, nodes=10, options=options)
    pool = a_pool("static", ON_DEMAND, disruption=OPEN, replicas=1, limits={"nodes": 2})
    claim, node = drifted(a_node_of(SMALL, name="s", pool="static"))
    both = msgspec.structs.replace(
        snapshot,
        node_pools=(*snapshot.node_pools, pool),
        nodes=(*snapshot.nodes, node),
        node_claims=(*snapshot.node_claims, claim),
    )
    found = {command.nodes: (command.method, len(command.replacements)) for command in disrupt(both).commands}
    assert (found["node-0",], found["s",]) == (("repair", 0), ("static-drift", 1))


def test_a_rebooting_node_is_left_alone_and_its_room_comes_back() -> None:
    """Karpenter's reboot ends by itself; at a takeover a second node would be launched for its pods."""
    snapshot = world(DEAD, nodes=1, pods=(a_pod("waiting"),))
    (node,), (claim,) = snapshot.nodes, snapshot.node_claims
    tainted = msgspec.structs.replace(node, taints=(REBOOTING,))
    rebooting = {**claim.conditions, "Rebooting": Condition("True", "RebootIssued")}
    for conditions, stays in ((rebooting, True), (claim.conditions, False)):
        told = msgspec.structs.replace(claim, conditions=conditions)
        found = msgspec.structs.replace(snapshot, nodes=(tainted,), node_claims=(told,))
        assert (NodeReason.REBOOTING in [block.reason for block in disrupt(found).blocked]) is stays
        assert (repaired(found) == []) is stays
        assert [len(schedule(found).claims), len(schedule(found).bindings)] == ([0, 1] if stays else [1, 0])


@pytest.mark.parametrize(("nodes", "goes"), [(5, False), (6, True), (10, True), (11, True)])
def test_no_node_is_repaired_where_many_are_unhealthy(nodes: int, *, goes: bool) -> None:
    """A fifth, rounded up: an outage of the API server makes every node look dead, and new ones would look the same."""
    snapshot = world(DEAD, nodes=nodes, budgets=(Budget("100%"),))
    second = msgspec.structs.replace(
        snapshot.nodes[1], is_ready=False, conditions=(NodeCondition("Ready", "Unknown", NOW),)
    )
    snapshot = msgspec.structs.replace(snapshot, nodes=(snapshot.nodes[0], second, *snapshot.nodes[2:]))
    plan = disrupt(snapshot)
    assert [command.nodes for command in plan.commands] == ([("node-0",)] if goes else [])
    assert ("ManyUnhealthy" in [block.reason for block in plan.blocked]) != goes


def test_a_recovered_node_stays() -> None:
    """A kubelet that restarted in between reports at once."""
    (command,) = disrupt(world(DEAD)).commands
    assert isinstance(checked(command, world()), Refusal)
    assert isinstance(checked(command, world(DEAD)), Command)


def test_an_unready_node_uses_the_budgets_once() -> None:
    """It uses a place as long as it is not Ready: counted twice, it would keep another unneeded node."""
    snapshot = world(DEAD, nodes=2, budgets=(Budget("2"),))
    (pool,) = snapshot.node_pools
    idle = msgspec.structs.replace(pool, disruption=Disruption(budgets=pool.disruption.budgets))
    plan = disrupt(msgspec.structs.replace(snapshot, node_pools=(idle,)))
    assert [(command.method, command.nodes) for command in plan.commands] == [
        ("repair", ("node-0",)),
        ("emptiness", ("node-1",)),
    ]


def test_the_method_finds_one_node_at_a_time() -> None:
    """The next node is judged in the world after the first."""
    (command,) = methods.find_unhealthy(DisruptionPass(world(DEAD)))
    assert (command.method, len(command.nodes)) == ("repair", 1)


def test_the_method_finds_nothing_without_the_feature_gate_or_an_unhealthy_node() -> None:
    assert methods.find_unhealthy(DisruptionPass(world(DEAD, options=Options()))) == []
    assert methods.find_unhealthy(DisruptionPass(world())) == []


def test_pods_of_an_unhealthy_node_go_to_no_node_that_leaves_soon_if_another_holds_them() -> None:
    """Otherwise, they move again as soon as the drifted node is replaced."""
    snapshot = world(DEAD, nodes=2, pods=(a_running("p", "node-0"), a_running("q", "node-1")))
    beside = snapshot.node_claims[1]
    conditions = {**beside.conditions, DRIFTED: Condition("True", "NodePoolDrifted", changed_at=NOW)}
    drifts = msgspec.structs.replace(beside, conditions=conditions)
    healthy, drifted = (
        methods.find_unhealthy(
            DisruptionPass(msgspec.structs.replace(snapshot, node_claims=(snapshot.node_claims[0], claim)))
        )
        for claim in (beside, drifts)
    )
    assert [move.to for command in healthy for move in command.moves] == ["node-1"]
    assert [len(command.replacements) for command in drifted] == [1]


# One node is replaced by a cheaper one, or its pods move to other nodes.


def test_oversized_node_is_replaced_by_a_cheaper_type() -> None:
    """The replacement is strictly cheaper at its highest possible price, and the pod moves there."""
    plan = disrupt(a_world(a_node_of(LARGE), pods=(pod_on("node-1"),)))
    (command,) = plan.commands
    assert command.reason == TerminationReason.UNDERUTILIZED
    assert command.replacements[0].instance_types[0] == "t-1"
    assert "t-16" not in command.replacements[0].instance_types
    assert command.moves == (Move("default/on-node-1", command.replacements[0].name),)
    assert plan.cost.after < plan.cost.before


def test_node_that_fits_its_pods_stays() -> None:
    """Replacing a node by an equal one is churn."""
    plan = disrupt(a_world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NO_CHEAPER_OPTION}


def test_pods_move_to_a_node_that_has_room() -> None:
    """Of nodes with the same number of pods, the more expensive one goes; its pods fit on the other."""
    pairs = (a_node_of(MIDDLE, "a"), a_node_of(SMALL, "b"))
    plan = disrupt(a_world(*pairs, pods=(pod_on("a", cpu="200m"), pod_on("b", cpu="200m"))))
    assert [command.nodes for command in plan.commands] == [("a",)]
    assert plan.commands[0].moves == (Move("default/on-a", "b"),)


def test_moves_name_the_node_that_the_scheduler_chose() -> None:
    """A pod that moves to the node of an earlier command was assigned to its own command's node, which is full."""
    pods = (
        pod_on("node-1", cpu="2500m"),
        pod_on("node-2", "little", cpu="900m"),
        pod_on("node-2", "much", cpu="3"),
    )
    this_pass = DisruptionPass(a_world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"), pods=pods))
    commands = []
    for candidate in this_pass.survey.candidates:
        replaced = this_pass.replaced(candidate, TerminationReason.UNHEALTHY, "repair")
        assert replaced is not None
        this_pass.carry_out([replaced.command])
        commands.append(replaced.command)
    first, second = commands
    assert [claim.pods for claim in second.replacements] == [("default/much",)]
    assert second.moves == (
        Move("default/little", first.replacements[0].name),
        Move("default/much", second.replacements[0].name),
    )


def test_a_refused_node_says_why_and_is_not_tried_twice() -> None:
    """Otherwise, a pass simulates the same node once for each command that it finds."""
    this_pass = DisruptionPass(a_world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    assert methods.find_single_node(this_pass) == []
    assert this_pass.refusals["node-1"].reason == NodeReason.NO_CHEAPER_OPTION


def test_node_pools_take_turns_and_a_refused_node_is_passed_over() -> None:
    """A large pool would leave the others no simulations."""
    pools = tuple(a_pool(name, ON_DEMAND, disruption=OPEN) for name in ("one", "two"))
    nodes = [a_node_of(SMALL, name, pool=pool) for name, pool in (("a", "one"), ("b", "one"), ("c", "two"))]
    pods = tuple(pod_on(name, cpu="900m") for name in "abc")
    this_pass = DisruptionPass(a_world(*nodes, pods=pods, node_pools=pools))
    assert methods.find_single_node(this_pass) == []
    assert list(this_pass.refusals) == ["a", "c", "b"]
    this_pass.refusals.clear()
    this_pass.refuse(this_pass.survey.candidates[0], NotTried("a"))
    assert methods.find_single_node(this_pass) == []
    assert [block.reason for block in this_pass.refusals.values()] == [
        NodeReason.NOT_TRIED,
        NodeReason.NO_CHEAPER_OPTION,
        NodeReason.NO_CHEAPER_OPTION,
    ]


def test_a_node_whose_deletion_saves_too_little_for_its_pool_is_not_simulated() -> None:
    balanced = Disruption(policy=BALANCED, budgets=(Budget("100%"),))
    pools = (a_pool("default", ON_DEMAND, disruption=balanced),)
    nodes = [a_node_of(SMALL, "a"), a_node_of(LARGE, "b")]
    pods = (pod_on("a"), pod_on("b", cpu="14", annotations={labels.DO_NOT_DISRUPT: "true"}))
    this_pass = DisruptionPass(a_world(*nodes, pods=pods, node_pools=pools))
    assert methods.find_single_node(this_pass) == []
    assert this_pass.refusals == {"a": DeletionBelowMoves("default")}


# Drifted nodes of a static NodePool are replaced without exceeding its replicas or limit.


def test_static_pool_replaces_drifted_nodes_one_for_one() -> None:
    """A static pool keeps its number of nodes, whatever its pods; it is never consolidated."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=1)
    snapshot = a_world(drifted(a_node_of(SMALL)), node_pools=(pool,))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("static-drift", 1)
    assert blocked(disrupt(a_world(a_node_of(SMALL), node_pools=(pool,)))) == {"node-1": NodeReason.STATIC_POOL}


@pytest.mark.parametrize(("limits", "replicas"), [({"nodes": 1}, 1), ({}, 0)])
def test_static_pool_without_room_waits(limits: dict[str, int], replicas: int) -> None:
    """It neither exceeds the limit of nodes nor begins while the pool has too many nodes."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=replicas, limits=limits)
    plan = disrupt(a_world(drifted(a_node_of(SMALL)), node_pools=(pool,)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.STATIC_POOL}


def test_a_dynamic_pool_is_left_to_the_other_method() -> None:
    assert methods.find_static_drift(DisruptionPass(a_world(drifted(a_node_of(SMALL))))) == []


@pytest.mark.parametrize(("ready", "commands"), [(True, 1), (False, 0)])
def test_at_the_limit_one_node_goes_first_while_all_others_work(ready: bool, commands: int) -> None:
    """Otherwise, a pool whose limit equals its number of nodes drifts forever, or loses several at once."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=2, limits={"nodes": 2})
    (claim, node), other = drifted(a_node_of(SMALL, name="a")), drifted(a_node_of(SMALL, name="b"))
    late = msgspec.structs.replace(claim, conditions={k: c for k, c in claim.conditions.items() if k != INITIALIZED})
    gate = Options(feature_gates=FeatureGates(static_capacity=True))
    snapshot = a_world(((claim if ready else late), node), other, node_pools=(pool,), options=gate)
    found = disrupt(snapshot).commands
    assert [(command.method, command.replacements) for command in found] == [("static-drift", ())] * commands


GATE = Options(feature_gates=FeatureGates(static_capacity=True))


def a_static(name: str = "default", *, replicas: int = 2, **changes: Any) -> NodePool:
    pool = a_pool(name, ON_DEMAND, disruption=OPEN, replicas=replicas)
    return msgspec.structs.replace(pool, **changes)


def replaced(*nodes: str, pool: NodePool, options: Options = Options(), **changes: Any) -> DisruptionPlan:  # noqa: B008
    """The plan where these nodes of a pool have drifted."""
    pairs = [drifted(a_node_of(LARGE, name=name)) for name in nodes]
    return disrupt(a_world(*pairs, node_pools=(pool,), options=options, **changes))


def test_each_of_several_drifted_nodes_is_replaced_where_nothing_limits_them() -> None:
    """A replacement saves what the template's cheapest type costs less."""
    plan = replaced("a", "b", pool=a_static())
    assert [(command.nodes, len(command.replacements)) for command in plan.commands] == [(("a",), 1), (("b",), 1)]
    command = plan.commands[0]
    assert command.savings == 800_000_000 - command.replacements[0].price == 750_000_000


def test_one_that_goes_before_its_replacement_saves_what_it_costs() -> None:
    (command,) = replaced("a", "b", pool=a_static(limits={"nodes": 2}), options=GATE).commands
    assert (command.nodes, command.replacements, command.savings) == (("a",), (), 800_000_000)


@pytest.mark.parametrize(
    ("pool", "options", "says"),
    [
        (a_static(replicas=1), GATE, "NodePool default has 2 nodes and wants 1: it shrinks first"),
        (a_static(limits={"nodes": 2}), Options(), "limits.nodes of NodePool default leaves no room for a replacement"),
        (
            a_static(replicas=3, limits={"nodes": 2}),
            GATE,
            "limits.nodes of NodePool default leaves no room for a replacement",
        ),
    ],
    ids=["too many", "gate off", "one is missing"],
)
def test_a_drifted_node_that_stays_says_why(pool: NodePool, options: Options, says: str) -> None:
    plan = replaced("a", "b", pool=pool, options=options)
    assert plan.commands == ()
    assert {block.message for block in plan.blocked} == {says}


def test_nodes_of_other_pools_take_no_room_and_a_replacement_that_comes_does() -> None:
    other = a_node_of(SMALL, name="z", pool="other")
    pools = (a_static(limits={"nodes": 3}), a_pool("other", ON_DEMAND, disruption=OPEN))
    pairs = [drifted(a_node_of(LARGE, name=name)) for name in "ab"]
    plan = disrupt(a_world(*pairs, other, node_pools=pools, options=GATE))
    found = {command.nodes: len(command.replacements) for command in plan.commands if command.method == "static-drift"}
    assert found == {("a",): 1}
    told = {block.node: block.message for block in plan.blocked}
    assert told["b"] == NoRoomForReplacement("default").message


def test_a_node_that_goes_already_keeps_the_others_at_the_limit() -> None:
    going = {"marked_for_deletion": ("default-b",)}
    assert replaced("a", "b", pool=a_static(limits={"nodes": 2}), options=GATE, **going).commands == ()


def test_a_pool_without_types_replaces_nothing() -> None:
    none = a_static().requirements[0]
    pool = a_static(limits={"nodes": 5}, requirements=(none, Requirement.one_of(labels.INSTANCE_TYPE, "unknown")))
    plan = replaced("a", "b", pool=pool)
    assert plan.commands == ()
    assert {block.message for block in plan.blocked} == {NoTypeToLaunch("default").message}


def test_its_replacement_comes_although_other_nodes_have_room() -> None:
    """Validated like other drift, it would be a deletion: a static NodePool would lose a node."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=2)
    snapshot = a_world(drifted(a_node_of(SMALL)), a_node_of(LARGE, "spacious"), node_pools=(pool,))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements)) == ("static-drift", 1)
    assert checked(command, snapshot) == command


def test_at_the_limit_no_node_goes_first_while_another_is_being_deleted() -> None:
    """Two of the nodes that somebody counts on would be gone at once."""
    (claim, node), other = drifted(a_node_of(LARGE, name="a")), a_node_of(LARGE, name="b")
    deleted = msgspec.structs.replace(other[0], deleted_at=NOW)
    pool = a_static(limits={"nodes": 2})
    both = ((claim, node), (deleted, other[1]))
    assert disrupt(a_world(*both, node_pools=(pool,), options=GATE)).commands == ()
    (command,) = disrupt(a_world((claim, node), other, node_pools=(pool,), options=GATE)).commands
    assert (command.nodes, command.replacements) == (("a",), ())


def test_a_node_that_was_refused_or_has_not_drifted_is_passed_over() -> None:
    pairs = [drifted(a_node_of(LARGE, name="a")), a_node_of(LARGE, name="b"), drifted(a_node_of(LARGE, name="c"))]
    this_pass = DisruptionPass(a_world(*pairs, node_pools=(a_static(replicas=3),)))
    assert [command.nodes for command in methods.find_static_drift(this_pass)] == [("a",)]
    this_pass.refuse(this_pass.survey.candidates[0], NodeReason.ROLLOUT_CANARY, "the first new node is not ready")
    assert [command.nodes for command in methods.find_static_drift(this_pass)] == [("c",)]
