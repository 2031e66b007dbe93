"""Which nodes consolidation may take: policies and capacity buffers."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation.eligibility import objection, underutilized
from core.disruption.disruption_pass import DisruptionPass
from core.model.feature_gates import FeatureGates
from core.model.moved_workload import MovedWorkload
from core.model.node_pool import WHEN_EMPTY, RolloutGate
from core.model.overlay import CapacityBuffer
from core.model.plan import Blocked
from core.model.snapshot import Options
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of, a_pod, a_pool
from tests.unit.disruption.nodes_for_tests import (
    LARGE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    drifted,
    pod_on,
    world,
)


class TestRoomForCapacityBuffers:
    """Nodes on which the virtual pods of buffers have places."""

    SPARE = CapacityBuffer(namespace="shop", name="spare", pods=2, spec=a_pod("x", cpu="400m", memory="64Mi").spec)
    OPTIONS = Options(feature_gates=FeatureGates(capacity_buffer=True))

    def test_an_empty_node_stays(self) -> None:
        """Otherwise, its room is launched again a minute later, removed, and launched again."""
        plan = disrupt(world(a_node_of(SMALL), buffers=(self.SPARE,), options=self.OPTIONS))
        assert plan.commands == ()
        assert blocked(plan) == {"node-1": NodeReason.CAPACITY_BUFFER}

    def test_a_drifted_node_goes_nevertheless(self) -> None:
        """Otherwise, a buffer keeps old images forever."""
        cluster = world(
            drifted(a_node_of(LARGE)), pods=(pod_on("node-1"),), buffers=(self.SPARE,), options=self.OPTIONS
        )
        (command,) = disrupt(cluster).commands
        assert command.reason == TerminationReason.DRIFTED
        assert command.replacements[0].buffer_pods

    def test_an_oversized_node_becomes_one_that_still_has_the_room(self) -> None:
        cluster = world(
            a_node_of(LARGE), pods=(pod_on("node-1", cpu="1"),), buffers=(self.SPARE,), options=self.OPTIONS
        )
        (command,) = disrupt(cluster).commands
        assert command.replacements[0].instance_types[0] == "t-4"


def test_the_most_expensive_node_for_its_pods_comes_first() -> None:
    """Empty nodes are handled by another method."""
    nodes = (a_node_of(SMALL), a_node_of(LARGE, "node-2"), a_node_of(SMALL, "node-3"))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2"))))
    assert [candidate.name for candidate in underutilized(this_pass)] == ["node-2", "node-1"]


def test_a_node_with_a_recently_moved_pod_stays() -> None:
    """Otherwise, a pod is evicted three times in a quarter of an hour to save cents."""
    moved = MovedWorkload(name="default/ReplicaSet/web", moving_since=NOW - timedelta(minutes=5), moved_at=NOW)
    pod = pod_on("node-1", started_at=NOW - timedelta(minutes=1))
    cluster = world(a_node_of(LARGE), pods=(pod,), moved_workloads={moved.name: moved})
    assert blocked(disrupt(cluster)) == {"node-1": NodeReason.RECENTLY_MOVED}
    settled = msgspec.structs.replace(moved, moved_at=NOW - timedelta(minutes=15))
    assert disrupt(msgspec.structs.replace(cluster, moved_workloads={moved.name: settled})).commands


@pytest.mark.parametrize("label", [labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE])
def test_a_node_without_a_known_price_stays(label: str) -> None:
    """Nobody can say that anything else is cheaper."""
    claim, node = a_node_of(LARGE)
    kept = {key: value for key, value in node.labels.items() if key != label}
    nameless = (
        msgspec.structs.replace(claim, labels=kept),
        msgspec.structs.replace(node, labels=kept),
    )
    this_pass = DisruptionPass(world(nameless, pods=(pod_on("node-1"),)))
    (candidate,) = this_pass.survey.candidates
    found = objection(candidate, this_pass)
    assert found is not None
    assert found.reason == NodeReason.UNKNOWN_INSTANCE_TYPE
    assert f"instance type {kept.get(labels.INSTANCE_TYPE, '(none)')}" in found.message


@pytest.mark.parametrize(
    ("is_stopped", "reason"), [(True, NodeReason.ROLLOUT_STOPPED), (False, NodeReason.ROLLOUT_CANARY)]
)
def test_a_drifted_node_waits_for_the_rollout_of_its_pool(is_stopped: bool, reason: NodeReason) -> None:
    """Consolidation would replace it by a node of the same untried image."""
    gates = {"default": RolloutGate(0, "waits", is_stopped=is_stopped)}
    this_pass = DisruptionPass(
        world(
            drifted(a_node_of(LARGE)), a_node_of(LARGE, "same"), pods=(pod_on("node-1"), pod_on("same")), rollouts=gates
        )
    )
    found = {c.name: objection(c, this_pass) for c in this_pass.survey.candidates}
    assert found == {"node-1": Blocked("node-1", reason, "waits"), "same": None}


@pytest.mark.parametrize(("minutes", "over"), [(31, True), (30, True), (29, False)])
def test_a_node_whose_last_pod_came_or_went_a_short_time_ago_waits_and_says_until_when(
    minutes: int, over: bool
) -> None:
    """From that moment on, not from when somebody asks: otherwise the moment that it names moves on forever."""
    claim, node = a_node_of(LARGE)
    busy = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=minutes))
    half_an_hour = msgspec.structs.replace(OPEN, consolidate_after=timedelta(minutes=30))
    pools = (a_pool("default", ON_DEMAND, disruption=half_an_hour),)
    this_pass = DisruptionPass(world((busy, node), pods=(pod_on("node-1"),), node_pools=pools))
    (candidate,) = this_pass.survey.candidates
    says = "consolidateAfter of NodePool default is over at 2026-11-20T00:01:00Z"
    assert objection(candidate, this_pass) == (None if over else Blocked("node-1", NodeReason.CONSOLIDATE_AFTER, says))


def test_a_node_whose_pool_never_consolidates_or_whose_pods_its_policy_leaves_says_so() -> None:
    for changes, says in (
        ({"consolidate_after": None}, (NodeReason.CONSOLIDATE_AFTER, "consolidateAfter of NodePool default is Never")),
        (
            {"policy": WHEN_EMPTY},
            (
                NodeReason.POLICY_WHEN_EMPTY,
                "NodePool default consolidates empty nodes only, and pod default/on-node-1 runs on node node-1",
            ),
        ),
    ):
        pools = (a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, **changes)),)
        this_pass = DisruptionPass(world(a_node_of(LARGE), pods=(pod_on("node-1"),), node_pools=pools))
        (candidate,) = this_pass.survey.candidates
        assert objection(candidate, this_pass) == Blocked("node-1", *says)
