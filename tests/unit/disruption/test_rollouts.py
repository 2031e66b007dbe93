"""A rollout begins with one node, stops at the first failure, and goes on when pods are ready."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from core import labels
from core.disruption.rollouts import FIRST_STOP, LONGEST_STOP, READY_WITHIN, WATCHED_FOR, Rollout, rollouts
from core.model.node import Node
from core.model.node_claim import INITIALIZED, NodeClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, drifted, pod_on, world

MINUTE = timedelta(minutes=1)
OLD = drifted(a_node_of(MIDDLE))
WEB = (Owner("ReplicaSet", "web", is_controller=True),)


def a_new_node(name: str = "node-2", *, age: timedelta = 10 * MINUTE) -> tuple[NodeClaim, Node]:
    """A node that was launched this long ago, ready at once."""
    claim, node = a_node_of(MIDDLE, name)
    conditions = {key: msgspec.structs.replace(c, changed_at=NOW - age) for key, c in claim.conditions.items()}
    return msgspec.structs.replace(claim, created_at=NOW - age, conditions=conditions), node


def a_pod_on(node: str, name: str = "", *, age: timedelta = 10 * MINUTE, is_ready: bool = True, **changes: Any) -> Pod:
    fields = {"owners": WEB, **changes}
    return pod_on(node, name or f"p-{node}", started_at=NOW - age, is_ready=is_ready, **fields)


def begun(snapshot: Snapshot, *, ago: timedelta = 20 * MINUTE, **changes: Any) -> dict[str, Rollout]:
    """The rollout as it was stored when it began."""
    rollout = rollouts(snapshot, {})["default"].rollout
    return {"default": msgspec.structs.replace(rollout, started_at=NOW - ago, **changes)}


def test_the_first_node_goes_alone() -> None:
    cluster = world(OLD, drifted(a_node_of(MIDDLE, "node-3")))
    gate = rollouts(cluster, {})["default"].gate
    assert gate is not None
    assert (gate.allowed, gate.is_stopped) == (1, False)


def test_nothing_follows_while_the_first_node_goes_or_its_pods_are_not_ready() -> None:
    leaving = msgspec.structs.replace(OLD[0], deleted_at=NOW)
    for cluster in (
        world((leaving, OLD[1])),
        world(OLD, marked_for_deletion=(OLD[0].name,)),
        world(OLD, a_new_node(age=MINUTE)),
        world(OLD, a_new_node(), pods=(a_pod_on("node-2", age=MINUTE),)),
        world(OLD, a_new_node(), pods=(a_pod_on("node-2", age=4 * MINUTE, is_ready=False),)),
    ):
        gate = rollouts(cluster, begun(cluster))["default"].gate
        assert gate is not None
        assert gate.allowed == 0
        assert not gate.is_stopped


def test_only_budgets_limit_a_rollout_once_pods_are_ready_on_a_new_node() -> None:
    cluster = world(OLD, a_new_node(), pods=(a_pod_on("node-2", age=WATCHED_FOR),))
    found = rollouts(cluster, begun(cluster, failures=2))["default"]
    assert found.gate is None
    assert found.rollout.is_proven
    assert found.rollout.failures == 0


def test_a_new_node_that_is_not_initialized_proves_nothing() -> None:
    """Nor does a claim whose age is unknown: it may be older than the rollout."""
    claim, node = a_new_node()
    late = msgspec.structs.replace(claim.conditions[INITIALIZED], status="False")
    uninitialized = msgspec.structs.replace(claim, conditions={**claim.conditions, INITIALIZED: late})
    ageless = msgspec.structs.replace(claim, created_at=None)
    for pair, allowed in (((uninitialized, node), 0), ((ageless, node), 1)):
        cluster = world(OLD, pair, pods=(a_pod_on("node-2", age=WATCHED_FOR),))
        gate = rollouts(cluster, begun(cluster))["default"].gate
        assert gate is not None
        assert gate.allowed == allowed


def test_a_pod_that_does_not_become_ready_stops_it() -> None:
    """This holds after the canary too: a fault may appear on the tenth node only."""
    ill = a_pod_on("node-2", age=READY_WITHIN, is_ready=False)
    cluster = world(OLD, a_new_node(), pods=(ill,))
    for proven in (False, True):
        found = rollouts(cluster, begun(cluster, is_proven=proven))["default"]
        assert found.gate is not None
        assert found.gate.is_stopped
        assert found.rollout.stopped_until == NOW + FIRST_STOP
        assert ill.key in found.gate.message


def test_pods_that_fail_on_old_nodes_too_do_not_stop_it() -> None:
    """Otherwise, one Deployment that crashes everywhere stops the rollout of a kernel fix forever."""
    pods = (
        a_pod_on("node-2", age=READY_WITHIN, is_ready=False),
        a_pod_on("node-1", age=READY_WITHIN, is_ready=False),
    )
    cluster = world(OLD, a_new_node(), pods=pods)
    gate = rollouts(cluster, begun(cluster))["default"].gate
    assert gate is None or not gate.is_stopped


def test_stops_double_up_to_a_day_and_one_failure_counts_once() -> None:
    rollout, now, stops = Rollout(node_pool="default", target="t", started_at=NOW), NOW, []
    for _ in range(8):
        rollout = rollout.after_failure("no", now)
        assert rollout.after_failure("late news", now) == rollout
        assert rollout.stopped_until is not None
        stops.append(rollout.stopped_until - now)
        now = rollout.stopped_until
    assert stops[:3] == [FIRST_STOP, 2 * FIRST_STOP, 4 * FIRST_STOP]
    assert stops[-1] == LONGEST_STOP


def test_one_node_tries_again_when_the_stop_is_over() -> None:
    cluster = world(OLD, a_new_node(age=MINUTE))
    known = begun(cluster, failures=1, stopped_until=NOW, message="no")
    gate = rollouts(cluster, known)["default"].gate
    assert gate is not None
    assert gate.allowed == 1


def test_a_changed_template_begins_a_new_rollout() -> None:
    """Otherwise, a corrected image waits for the end of the stop."""
    cluster = world(OLD)
    known = begun(cluster, failures=3, stopped_until=NOW + 9 * MINUTE, message="no")
    (pool,) = cluster.node_pools
    changed = msgspec.structs.replace(pool, own_annotations={labels.NODEPOOL_HASH: "another"})
    found = rollouts(msgspec.structs.replace(cluster, node_pools=(changed,)), known)["default"]
    assert found.rollout.failures == 0
    assert found.rollout.started_at == NOW


def test_pools_without_drifted_nodes_have_no_rollout() -> None:
    assert rollouts(world(a_node_of(MIDDLE)), {}) == {}
