"""Drifted nodes are replaced, within budgets, one rollout at a time."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core import labels
from core.disruption import disrupt, startable
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import drift
from core.model.node import Node
from core.model.node_claim import DRIFTED, NodeClaim
from core.model.node_pool import Budget, Disruption, RolloutGate
from core.model.plan import StoredDrain, StoredTarget
from core.model.pod import PodAffinityTerm
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_stored_target
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    drifted,
    expiring,
    pod_on,
    world,
)


def test_a_drifted_node_is_replaced_even_by_a_more_expensive_one() -> None:
    """The new template counts more than the cost."""
    pair = drifted(a_node_of(SMALL, capacity_type=labels.SPOT))
    (command,) = disrupt(world(pair, pods=(pod_on("node-1"),))).commands
    assert command.reason == TerminationReason.DRIFTED
    assert command.savings < 0


def test_drift_overrides_pods_only_with_a_grace_period() -> None:
    """Without a bound on draining, one protected pod would keep a half-drained node forever."""
    claim, node = drifted(a_node_of(MIDDLE))
    guard = pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    bounded = msgspec.structs.replace(claim, termination_grace_period=timedelta(hours=1))
    assert disrupt(world((claim, node), pods=(guard,))).commands == ()
    assert disrupt(world((bounded, node), pods=(guard,))).commands[0].reason == TerminationReason.DRIFTED


def test_an_empty_drifted_node_goes_before_one_with_pods() -> None:
    """It disrupts no pod, and waits for no other node."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")), a_node_of(SMALL, "node-3"))
    snapshot = world(*nodes, pods=(pod_on("node-1"), pod_on("node-3")))
    as_karpenter = msgspec.structs.replace(snapshot, options=KARPENTER)
    for cluster, gone in ((snapshot, [("node-2",)]), (as_karpenter, [("node-2",), ("node-1",)])):
        assert [command.nodes for command in drift.find(DisruptionPass(cluster))] == gone


def test_pods_of_a_drifted_node_move_to_no_other_drifted_node() -> None:
    """Otherwise, they move again, up to five times in a fleet of drifted nodes."""
    nodes = (drifted(a_node_of(LARGE)), drifted(a_node_of(LARGE, "node-2")))
    found = drift.find_left(DisruptionPass(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))))
    assert [command.nodes for command in found] == [("node-1",), ("node-2",)]
    assert [len(command.replacements) for command in found] == [1, 1]
    assert (
        startable(disrupt(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))).commands)
        == disrupt(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))).commands
    )


def test_pods_of_a_drifted_node_move_to_no_node_that_expires_soon() -> None:
    """Otherwise, they move again when it expires."""
    nodes = (drifted(a_node_of(LARGE)), expiring(a_node_of(LARGE, "node-2")))
    (found,) = drift.find_left(DisruptionPass(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))))
    assert (found.nodes, len(found.replacements)) == (("node-1",), 1)


def kept_for_now(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node, which its owner keeps."""
    claim, node = pair
    return claim, msgspec.structs.replace(node, annotations={labels.DO_NOT_DISRUPT: "1000h"})


def test_pods_of_a_drifted_node_move_to_no_drifted_node_that_stays_for_now() -> None:
    """Otherwise, they move again as soon as nothing keeps it any more."""
    nodes = (drifted(a_node_of(LARGE)), kept_for_now(drifted(a_node_of(LARGE, "node-2"))))
    (found,) = drift.find_left(DisruptionPass(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")))))
    assert (found.nodes, len(found.replacements)) == (("node-1",), 1)


def test_pods_of_a_drifted_node_move_to_no_drifted_node_of_a_static_pool() -> None:
    """Its replacement is on its way, too."""
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN), a_pool("fixed", ON_DEMAND, disruption=OPEN, replicas=1))
    nodes = (drifted(a_node_of(LARGE)), drifted(a_node_of(LARGE, "node-2", pool="fixed")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    found = drift.find_left(DisruptionPass(world(*nodes, pods=pods, node_pools=pools)))
    assert [(command.nodes, len(command.replacements)) for command in found] == [(("node-1",), 1)]


def under_way(*drains: str) -> StoredTarget:
    """A target that removes these nodes in later waves."""
    gone = tuple(StoredDrain(name, 10**9, 10**9) for name in drains)
    return a_stored_target(*gone)


def test_pods_of_a_drifted_node_move_to_no_node_that_the_target_removes_later() -> None:
    """Otherwise, they move twice, once for drift and once for consolidation."""
    nodes = (drifted(a_node_of(LARGE)), a_node_of(LARGE, "node-2"), a_node_of(LARGE, "node-3"))
    snapshot = world(*nodes, pods=tuple(pod_on(f"node-{n}") for n in (1, 2, 3)))
    for target, place in ((None, "node-2"), (under_way("node-2"), "node-3")):
        (found,) = drift.find_left(DisruptionPass(msgspec.structs.replace(snapshot, stored_target=target)))
        assert {move.to for move in found.moves} == {place}
    (found,) = drift.find_left(
        DisruptionPass(msgspec.structs.replace(snapshot, stored_target=under_way("node-2", "node-3")))
    )
    assert len(found.replacements) == 1, "no room is left on nodes that stay"


def test_a_drifted_node_takes_pods_that_nothing_else_holds() -> None:
    """Otherwise, a pool at its limit keeps its old nodes forever."""
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 2}),)
    nodes = (drifted(a_node_of(LARGE)), drifted(a_node_of(LARGE, "node-2")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    (first, *_) = drift.find_left(DisruptionPass(world(*nodes, pods=pods, node_pools=pools)))
    assert first.nodes == ("node-1",)


def test_a_rollout_limits_how_many_go() -> None:
    nodes = tuple(drifted(a_node_of(LARGE, f"node-{number}")) for number in (1, 2, 3))
    pods = tuple(pod_on(f"node-{number}") for number in (1, 2))
    for allowed in (0, 1):
        gate = RolloutGate(allowed, "wait", is_stopped=not allowed)
        this_pass = DisruptionPass(world(*nodes, pods=pods, rollouts={"default": gate}))
        found = [command.nodes for command in drift.find(this_pass)]
        assert found[0] == ("node-3",), "nobody misses a node without pods"
        assert len(found[1:]) == allowed
        code = NodeReason.ROLLOUT_CANARY if allowed else NodeReason.ROLLOUT_STOPPED
        assert {refused.reason for refused in this_pass.refusals.values()} == {code}


def test_consolidation_respects_a_stopped_rollout() -> None:
    """Otherwise, it launches what the rollout has just found to be unhealthy."""
    gate = RolloutGate(0, "stopped", is_stopped=True)
    cluster = world(drifted(a_node_of(LARGE)), pods=(pod_on("node-1"),), rollouts={"default": gate})
    assert blocked(disrupt(cluster)) == {"node-1": NodeReason.ROLLOUT_STOPPED}


def test_commands_found_before_time_ran_out_are_kept() -> None:
    """Otherwise, a rollout of thousands of nodes is computed again each minute and never begins."""
    nodes = [drifted(a_node_of(SMALL, f"node-{number}")) for number in range(4)]
    snapshot = world(*nodes, pods=tuple(pod_on(f"node-{number}") for number in range(4)), options=KARPENTER)
    whole, readings = disrupt(snapshot), list[float]()

    def clock() -> float:
        readings.append(len(readings) / 4)
        return readings[-1]

    cut = disrupt(snapshot, deadline=clock)
    assert 0 < len(cut.commands) < len(whole.commands)
    assert cut.commands == whole.commands[: len(cut.commands)]
    left = {node.name for _, node in nodes} - {name for command in cut.commands for name in command.nodes}
    assert {found.node for found in cut.blocked if found.reason == NodeReason.NOT_TRIED} == left
    assert disrupt(snapshot, deadline=iter([*readings, *readings]).__next__) == cut, "the ledger plays it back"


def test_a_command_that_takes_a_waiting_pods_place_comes_after_all_others() -> None:
    """The pod of b takes the room on a that a pending pod was to get, and c had the next; found by seed 306570."""
    nodes = (a_node_of(MIDDLE, "a"), drifted(a_node_of(MIDDLE, "b")), drifted(a_node_of(LARGE, "c")))
    running = (pod_on("a", cpu="2"), pod_on("b", cpu="1700m"), pod_on("c", cpu="5"))
    waiting = a_pod("waits", cpu="1500m", memory="64Mi")
    together = DisruptionPass(world(*nodes, pods=running, options=KARPENTER))
    assert [command.nodes for command in drift.find(together)] == [("b",), ("c",)]
    this_pass = DisruptionPass(world(*nodes, pods=(*running, waiting), options=KARPENTER))
    first = drift.find(this_pass)
    assert [command.nodes for command in first] == [("c",)]
    this_pass.carry_out(first)
    assert [command.nodes for command in drift.find(this_pass)] == [("b",)]


def test_drifted_nodes_go_together_although_a_pod_waits() -> None:
    """One node in each look, while a pod waits or a node drains, would make a rollout of hundreds take hours."""
    names = [f"n{number}" for number in range(6)]
    nodes = [a_node_of(MIDDLE, "a"), *(drifted(a_node_of(SMALL, name)) for name in names)]
    pods = [pod_on("a", cpu="3200m"), pod_on("n0", cpu="50m"), *(pod_on(name, cpu="900m") for name in names[1:])]
    snapshot = world(*nodes, pods=(*pods, a_pod("waits", cpu="300m", memory="64Mi")), options=KARPENTER)
    found = drift.find(DisruptionPass(snapshot))
    assert [command.nodes[0] for command in found] == names
    assert [move.to for move in found[0].moves] == ["a"]


def test_nodes_go_in_the_order_in_which_they_drifted_and_those_without_a_moment_last() -> None:
    """Equals go by name, whichever comes first in the snapshot."""
    moments = {"a": NOW, "b": NOW - timedelta(seconds=1), "c": NOW - timedelta(hours=1), "d": None}
    nodes = []
    for name, since in moments.items():
        claim, node = drifted(a_node_of(SMALL, name))
        condition = msgspec.structs.replace(claim.conditions[DRIFTED], changed_at=since)
        changed = msgspec.structs.replace(claim, conditions={**claim.conditions, DRIFTED: condition})
        nodes.append((changed, node))
    snapshot = world(*nodes, pods=tuple(pod_on(name, cpu="900m") for name in moments))
    found = drift.find_left(DisruptionPass(snapshot))
    assert [command.nodes for command in found] == [("c",), ("b",), ("a",), ("d",)]


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
    found = drift.find_left(DisruptionPass(world(*nodes, pods=pods, node_pools=two)))
    assert [command.nodes for command in found] == [("a",), ("c",)]
