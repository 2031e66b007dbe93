"""A rollout begins with one node, stops at the first failure, and goes on when pods are ready."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from core import labels
from core.disruption.rollouts import PoolRollout, Rollout, rollouts
from core.model.node import Node
from core.model.node_claim import INITIALIZED, NodeClaim
from core.model.node_pool import NodeClass, NodePool
from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, drifted, pod_on, world

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
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
    cluster = world(OLD, a_new_node(), pods=(a_pod_on("node-2", age=2 * MINUTE),))
    found = rollouts(cluster, begun(cluster, failures=2, stopped_until=NOW, message="no"))["default"]
    assert found.gate is None
    assert found.rollout == msgspec.structs.replace(begun(cluster)["default"], is_proven=True)


def test_a_new_node_that_is_not_initialized_proves_nothing() -> None:
    """Nor does a claim whose age is unknown: it may be older than the rollout."""
    claim, node = a_new_node()
    late = msgspec.structs.replace(claim.conditions[INITIALIZED], status="False")
    uninitialized = msgspec.structs.replace(claim, conditions={**claim.conditions, INITIALIZED: late})
    ageless = msgspec.structs.replace(claim, created_at=None)
    for pair, allowed in (((uninitialized, node), 0), ((ageless, node), 1)):
        cluster = world(OLD, pair, pods=(a_pod_on("node-2", age=2 * MINUTE),))
        gate = rollouts(cluster, begun(cluster))["default"].gate
        assert gate is not None
        assert gate.allowed == allowed


def test_a_pod_that_does_not_become_ready_stops_it() -> None:
    """This holds after the canary too: a fault may appear on the tenth node only."""
    ill = a_pod_on("node-2", age=5 * MINUTE, is_ready=False)
    cluster = world(OLD, a_new_node(), pods=(ill,))
    for proven in (False, True):
        found = rollouts(cluster, begun(cluster, is_proven=proven))["default"]
        assert found.gate is not None
        assert found.gate.is_stopped
        assert not found.rollout.is_proven
        assert found.rollout.stopped_until == NOW + 30 * MINUTE
        assert found.gate.allowed == 0
        assert ill.key in found.gate.message


def test_pods_that_fail_on_old_nodes_too_do_not_stop_it() -> None:
    """Otherwise, one Deployment that crashes everywhere stops the rollout of a kernel fix forever."""
    pods = (
        a_pod_on("node-2", age=5 * MINUTE, is_ready=False),
        a_pod_on("node-1", age=5 * MINUTE, is_ready=False),
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
    assert [stop / MINUTE for stop in stops] == [30, 60, 120, 240, 480, 960, 1440, 1440]


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


def gate_with(*pods: Pod, new: tuple[NodeClaim, Node] | None = None, **rollout: Any) -> PoolRollout:
    """The rollout of a pool with an old node, a new one and these pods."""
    cluster = world(OLD, new or a_new_node(), pods=pods)
    return rollouts(cluster, begun(cluster, **rollout))["default"]


def test_pods_have_five_minutes_to_become_ready() -> None:
    """Counted from their start, or from their creation while the kubelet has not started them."""
    for age, is_stopped in ((5 * MINUTE - SECOND, False), (5 * MINUTE, True)):
        started = a_pod_on("node-2", age=age, is_ready=False)
        created = a_pod_on("node-2", is_ready=False, created_at=NOW - age)
        waiting = msgspec.structs.replace(created, started_at=None)
        for pod in (started, waiting):
            assert gate_with(pod).rollout.is_stopped(NOW) is is_stopped
    ageless = msgspec.structs.replace(a_pod_on("node-2", is_ready=False), started_at=None, created_at=None)
    assert not gate_with(ageless).rollout.is_stopped(NOW)


def test_pods_whose_readiness_is_unknown_neither_stop_nor_hold_up_a_rollout() -> None:
    unknown = msgspec.structs.replace(a_pod_on("node-2"), is_ready=None)
    assert gate_with(unknown).gate is None


def test_pods_that_serve_no_workload_say_nothing() -> None:
    """A DaemonSet that crashes, a mirror pod, and pods that have ended or are being deleted."""
    for changes in (
        {"owners": (Owner("DaemonSet", "agent", is_controller=True),)},
        {"owners": (Owner("Node", "node-2", is_controller=True),)},
        {"phase": "Failed"},
        {"deleted_at": NOW},
    ):
        assert gate_with(a_pod_on("node-2", is_ready=False, **changes)).gate is None


def test_all_pods_of_the_first_new_node_must_be_ready_for_two_minutes() -> None:
    others = (a_pod_on("node-2", "long"), a_pod_on("node-2", "also-long"))
    for late, is_proven in (
        (a_pod_on("node-2", age=2 * MINUTE), True),
        (a_pod_on("node-2", age=2 * MINUTE - SECOND), False),
        (a_pod_on("node-2", age=3 * MINUTE, is_ready=False), False),
        (msgspec.structs.replace(a_pod_on("node-2", created_at=NOW - MINUTE), started_at=None), False),
    ):
        assert gate_with(*others, late).rollout.is_proven is is_proven


def test_a_new_node_without_pods_must_be_ready_for_two_minutes() -> None:
    for age, is_proven in ((2 * MINUTE, True), (2 * MINUTE - SECOND, False)):
        assert gate_with(new=a_new_node(age=age)).rollout.is_proven is is_proven


def test_a_node_that_was_launched_before_the_rollout_proves_nothing() -> None:
    for ago, is_proven in ((10 * MINUTE, True), (10 * MINUTE - SECOND, False)):
        assert gate_with(ago=ago).rollout.is_proven is is_proven


def test_a_node_that_has_drifted_itself_proves_nothing_however_young_it_is() -> None:
    """Nor does one of whose initialization nothing is known."""
    assert not gate_with(new=drifted(a_new_node())).rollout.is_proven
    claim, node = a_new_node()
    unknown = {key: condition for key, condition in claim.conditions.items() if key != INITIALIZED}
    assert not gate_with(new=(msgspec.structs.replace(claim, conditions=unknown), node)).rollout.is_proven


def test_nothing_follows_while_one_of_several_drifted_nodes_goes() -> None:
    third = drifted(a_node_of(MIDDLE, "node-3"))
    cluster = world(OLD, third, marked_for_deletion=(third[0].name,))
    gate = rollouts(cluster, begun(cluster))["default"].gate
    assert gate is not None
    assert gate.allowed == 0


def test_a_second_new_node_does_not_hold_up_a_rollout_that_the_first_has_proven() -> None:
    cluster = world(OLD, a_new_node(), a_new_node("node-3", age=MINUTE))
    assert rollouts(cluster, begun(cluster))["default"].gate is None


def test_pods_on_old_nodes_alone_do_not_stop_a_rollout() -> None:
    assert not gate_with(a_pod_on("node-1", is_ready=False)).rollout.is_stopped(NOW)


def test_a_pod_that_waits_for_a_node_does_not_excuse_one_that_fails_on_a_new_node() -> None:
    waiting = a_pod_on("", "waits", is_ready=False)
    assert gate_with(waiting, a_pod_on("node-2", is_ready=False)).rollout.is_stopped(NOW)


def test_a_workload_that_fails_on_new_nodes_alone_stops_it_beside_one_that_fails_everywhere() -> None:
    everywhere = (a_pod_on("node-1", is_ready=False), a_pod_on("node-2", "a", is_ready=False))
    alone = a_pod_on("node-2", "b", is_ready=False, owners=(Owner("ReplicaSet", "other", is_controller=True),))
    assert gate_with(*everywhere, alone).rollout.message == "pod default/b is not ready on a new node"


def a_rollout_of(pool: NodePool, *classes: NodeClass) -> Rollout:
    """The rollout that begins in this pool, whose nodes use the class `default`."""
    return rollouts(world(OLD, node_pools=(pool,), node_classes=classes), {})["default"].rollout


def test_what_a_new_node_would_be_decides_whether_a_rollout_is_another_one() -> None:
    """The pool's template, its class and its images; other classes and the pool's budgets do not."""
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, own_annotations={labels.NODEPOOL_HASH: "1"})
    own = NodeClass(name="default", amis=(("ami-1", ()),), own_annotations={labels.NODECLASS_HASH: "1"})
    other = NodeClass(name="other", amis=(("ami-9", ()),))
    before = a_rollout_of(pool, other, own).target
    same = (a_rollout_of(pool, own), a_rollout_of(msgspec.structs.replace(pool, weight=9), own))
    different = (
        a_rollout_of(msgspec.structs.replace(pool, own_annotations={labels.NODEPOOL_HASH: "2"}), own),
        a_rollout_of(pool, msgspec.structs.replace(own, own_annotations={labels.NODECLASS_HASH: "2"})),
        a_rollout_of(pool, msgspec.structs.replace(own, amis=(("ami-2", ()),))),
        a_rollout_of(pool, other),
    )
    assert {rollout.target for rollout in same} == {before}
    assert before not in {rollout.target for rollout in different}


def test_each_pool_has_its_own_rollout() -> None:
    """A pod that fails in one pool stops nothing in another."""
    pools = tuple(a_pool(name, ON_DEMAND, disruption=OPEN) for name in ("other", "default"))
    elsewhere = drifted(a_node_of(MIDDLE, "node-9", pool="other"))
    ill = a_pod_on("node-2", is_ready=False)
    cluster = world(OLD, a_new_node(), elsewhere, pods=(ill,), node_pools=pools)
    found = rollouts(cluster, begun(cluster))
    assert list(found) == ["default", "other"]
    assert found["default"].rollout.is_stopped(NOW)
    gate = found["other"].gate
    assert gate is not None
    assert (gate.allowed, gate.is_stopped, found["other"].rollout.node_pool) == (1, False, "other")


def test_a_known_rollout_of_the_same_target_keeps_its_beginning() -> None:
    cluster = world(OLD)
    known = begun(cluster)
    assert rollouts(cluster, known)["default"].rollout == known["default"]
