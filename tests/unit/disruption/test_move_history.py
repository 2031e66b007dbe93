"""Workloads that moves cost more than they save are held, so that consolidation does not repeat itself forever."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.move_history import (
    CLUSTER,
    CONFIRMED_EVERY,
    PERIOD,
    CommandOutcome,
    LaunchedNode,
    MoveHistory,
    PoolRollout,
    Rollout,
    ceilings_of,
    first_reason,
    gate_reason,
    next_relief,
    recently,
    rollouts,
    target_of,
)
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import INITIALIZED, Command, NodeClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import EvictedNode, MovedWorkload, Node, Options, Snapshot
from core.reasons.nodes import NodeReason
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, drifted, pod_on, world

# Evictions count for an hour, and the moment at which one is forgotten is known where a ceiling makes it matter.


RECENT_EVICTIONS_OLD = EvictedNode(node_pool="default", pods=1, at=NOW - PERIOD)
NEW = EvictedNode(node_pool="default", pods=1, at=NOW - timedelta(minutes=10))


def with_ceilings(cluster: int | None = None, pool: int | None = None) -> Snapshot:
    pools = (a_pool("a"), a_pool("b", evictions_per_hour=pool))
    options = Options(evictions_per_hour=cluster)
    return world(node_pools=pools, options=options, evicted_nodes={"new": NEW})


def test_evictions_are_forgotten_after_an_hour() -> None:
    assert recently({"a": RECENT_EVICTIONS_OLD, "b": NEW}, NOW) == {"b": NEW}


@pytest.mark.parametrize("limits", [{"cluster": 3}, {"pool": 0}])
def test_the_moment_at_which_one_is_forgotten_is_known(limits: dict[str, int]) -> None:
    """Otherwise, `disrupt` waits for the end of its next long resync period."""
    assert list(next_relief(with_ceilings(**limits))) == [NOW + timedelta(minutes=50)]


def test_without_a_ceiling_no_moment_matters() -> None:
    assert list(next_relief(with_ceilings())) == []


def test_the_ceilings_are_the_clusters_and_those_of_nodepools_that_have_one() -> None:
    assert list(ceilings_of(with_ceilings(cluster=5, pool=2))) == [(CLUSTER, 5), ("b", 2)]
    assert list(ceilings_of(with_ceilings())) == []


WEB, DB = "default/ReplicaSet/web", "default/StatefulSet/db"
COMMAND = Command(reason="Underutilized", method="single", nodes=("n",), claims=("c",), savings=100)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def merged(before: MoveHistory, changed: MoveHistory) -> MoveHistory:
    return MoveHistory(
        workloads=before.workloads | changed.workloads,
        outcomes=before.outcomes | changed.outcomes,
        failures=before.failures | changed.failures,
    )


def after_a_move(now: datetime = NOW, before: MoveHistory = MoveHistory(), name: str = "one") -> MoveHistory:  # noqa: B008
    return merged(before, before.after_command(name, COMMAND, (WEB,), now))


def a_launch(price: int, *workloads: str, for_buffer: bool = False) -> LaunchedNode:
    return LaunchedNode(workloads=frozenset(workloads), for_buffer=for_buffer, price=price)


def test_workloads_are_held_once_half_the_savings_are_spent_on_them() -> None:
    history = after_a_move()
    cheap = merged(history, history.after_launch([a_launch(49, WEB)], NOW + MINUTE))
    assert cheap.workloads[WEB].held_until is None
    whole = merged(cheap, cheap.after_launch([a_launch(1, WEB)], NOW + 2 * MINUTE))
    assert whole.workloads[WEB].held_until == NOW + 2 * MINUTE + HOUR


def test_nodes_launched_for_other_workloads_or_much_later_are_not_charged() -> None:
    history = after_a_move()
    assert history.after_launch([a_launch(100, DB)], NOW).workloads == {}
    assert history.after_launch([a_launch(100, WEB)], NOW + 10 * MINUTE).workloads == {}
    assert WEB in history.after_launch([a_launch(100, WEB)], NOW + 10 * MINUTE - SECOND).workloads


def test_lost_room_of_a_buffer_counts_whichever_pod_took_it() -> None:
    """Seed 169 of the campaign: kube-scheduler binds moved pods to a buffer's room."""
    history = after_a_move()
    assert WEB in history.after_launch([a_launch(100, for_buffer=True)], NOW).workloads


def test_a_launch_is_shared_by_the_commands_that_may_have_caused_it() -> None:
    """Otherwise, one node, launched for one pod, counts against all commands of a wave."""
    history = after_a_move(before=after_a_move(), name="two")
    changed = history.after_launch([a_launch(60, WEB)], NOW)
    assert {outcome.spent for outcome in changed.outcomes.values()} == {30}
    assert changed.workloads == {}


def test_the_hold_doubles_up_to_a_day_and_ends() -> None:
    history, now, lengths = MoveHistory(), NOW, []
    for number in range(7):
        history = after_a_move(now, history, str(number))
        history = merged(history, history.after_launch([a_launch(100, WEB)], now))
        until = history.workloads[WEB].held_until
        assert until is not None
        lengths.append(until - now)
        now = until
    assert [length / HOUR for length in lengths] == [1, 2, 4, 8, 16, 24, 24]
    for since, hours in ((timedelta(days=3) - SECOND, 24), (timedelta(days=3), 1)):
        later = now + since
        after = after_a_move(later, history, "later")
        assert after.after_launch([a_launch(100, WEB)], later).workloads[WEB].held_until == later + hours * HOUR


def test_two_commands_that_fail_together_count_once() -> None:
    history = after_a_move(before=after_a_move(), name="two")
    held = merged(history, history.after_launch([a_launch(200, WEB)], NOW))
    assert held.workloads[WEB].unpaid_moves == 1


def test_moves_for_another_reason_are_not_charged() -> None:
    """Drift is carried out at any cost; its pods still have a dwell time."""
    drift = msgspec.structs.replace(COMMAND, reason="Drifted")
    changed = MoveHistory().after_command("one", drift, (WEB,), NOW)
    assert changed.outcomes == {}
    assert changed.workloads[WEB].moving_since == NOW


def test_consecutive_moves_are_one_episode() -> None:
    first = after_a_move()
    second = after_a_move(NOW + 10 * MINUTE, first)
    assert second.workloads[WEB].moving_since == NOW
    assert second.workloads[WEB].moved_at == NOW + 10 * MINUTE
    settles_at = second.workloads[WEB].settles_at
    assert after_a_move(settles_at - MINUTE, second).workloads[WEB].moving_since == NOW
    assert after_a_move(settles_at, second).workloads[WEB].moving_since == settles_at


def test_a_command_whose_nodes_go_one_after_the_other_has_one_outcome() -> None:
    """Otherwise, what its first node moved is forgotten, and a launch for that is nobody's fault."""
    history = after_a_move()
    history = merged(history, history.after_launch([a_launch(20, WEB)], NOW))
    (outcome,) = history.after_command("one", COMMAND, (DB,), NOW + MINUTE).outcomes.values()
    assert (outcome.workloads, outcome.spent) == ((WEB, DB), 20)


def test_settled_workloads_are_no_longer_reported() -> None:
    history = after_a_move()
    assert list(history.unsettled(NOW)) == [WEB]
    assert history.unsettled(NOW + timedelta(minutes=15)) == {}


def test_a_command_that_fails_validation_is_deferred_longer_each_time() -> None:
    history, pauses = MoveHistory(), []
    for _ in range(7):
        history = merged(history, history.after_failure(COMMAND, NOW))
        (failed,) = history.failures.values()
        pauses.append(failed.until - NOW)
    assert [pause / MINUTE for pause in pauses] == [2, 4, 8, 16, 30, 30, 30]
    assert history.is_paused(COMMAND, NOW + 30 * MINUTE - SECOND)
    assert not history.is_paused(COMMAND, NOW + 30 * MINUTE)
    assert not history.is_paused(msgspec.structs.replace(COMMAND, claims=("other",)), NOW)


def test_failures_are_in_a_row_until_an_hour_after_the_pause() -> None:
    once = MoveHistory().after_failure(COMMAND, NOW)
    over = NOW + 2 * MINUTE
    for since, failures in ((HOUR - SECOND, 2), (HOUR, 1)):
        (failed,) = once.after_failure(COMMAND, over + since).failures.values()
        assert failed.failures == failures


def test_a_held_workload_is_left_alone_until_the_hold_ends() -> None:
    """Also where its pods settled long before."""
    history = after_a_move()
    history = merged(history, history.after_launch([a_launch(100, WEB)], NOW))
    assert list(history.unsettled(NOW + HOUR - SECOND)) == [WEB]
    assert history.unsettled(NOW + HOUR) == {}


def test_a_command_did_not_pay_only_if_something_was_launched_for_it() -> None:
    outcome = CommandOutcome(command="one", workloads=(WEB,), savings=0, carried_out_at=NOW)
    assert not outcome.did_not_pay
    assert msgspec.structs.replace(outcome, spent=1).did_not_pay
    assert not msgspec.structs.replace(outcome, savings=3, spent=1).did_not_pay


def test_a_command_that_moves_nothing_is_not_watched() -> None:
    assert MoveHistory().after_command("one", COMMAND, (), NOW) == MoveHistory()


def test_a_command_is_watched_from_the_last_of_its_nodes_on() -> None:
    history = after_a_move()
    history = after_a_move(NOW + 9 * MINUTE, history)
    assert WEB in history.after_launch([a_launch(100, WEB)], NOW + 15 * MINUTE).workloads


def test_what_commands_evict_is_remembered_by_node() -> None:
    drained = {"c": EvictedNode(node_pool="default", pods=3, at=NOW)}
    assert MoveHistory().after_command("one", COMMAND, (WEB,), NOW, drained).evicted_nodes == drained


def test_a_command_that_did_not_pay_holds_its_workloads_once() -> None:
    history = after_a_move()
    history = merged(history, history.after_launch([a_launch(100, WEB)], NOW))
    again = history.after_launch([a_launch(100, WEB)], NOW + MINUTE)
    assert (again.workloads, again.outcomes["one"].spent) == ({}, 200)


def test_another_command_that_fails_during_the_hold_does_not_lengthen_it() -> None:
    history = after_a_move()
    history = merged(history, history.after_launch([a_launch(100, WEB)], NOW))
    history = after_a_move(NOW + MINUTE, history, "two")
    later = history.after_launch([a_launch(200, WEB)], NOW + 2 * MINUTE)
    assert later.workloads == {WEB: history.workloads[WEB]}


def test_a_workload_that_was_forgotten_meanwhile_is_held_nevertheless() -> None:
    history = MoveHistory(outcomes=after_a_move().outcomes)
    held = MovedWorkload(name=WEB, moving_since=NOW, moved_at=NOW, unpaid_moves=1, held_until=NOW + HOUR)
    assert history.after_launch([a_launch(100, WEB)], NOW).workloads == {WEB: held}


def test_a_node_stays_for_the_first_of_its_pods_that_must_not_move_again() -> None:
    pods = (pod_on("n", "other", owners=()), pod_on("n", "web"))
    held = MovedWorkload(name=pods[1].workload, moving_since=NOW, moved_at=NOW, unpaid_moves=1, held_until=NOW + HOUR)
    refusal = first_reason({held.name: held}, pods, NOW)
    assert refusal is not None
    assert refusal == held.keeps(pods[1], NOW)
    assert first_reason({held.name: held}, pods, NOW + HOUR) is None
    assert first_reason({held.name: held}, pods[:1], NOW) is None
    assert first_reason({}, pods, NOW) is None


# A rollout begins with one node, stops at the first failure, and goes on when pods are ready.


OLD = drifted(a_node_of(MIDDLE))
ROLLOUTS_WEB = (Owner("ReplicaSet", "web", is_controller=True),)


def a_new_node(name: str = "node-2", *, age: timedelta = 10 * MINUTE) -> tuple[NodeClaim, Node]:
    """A node that was launched this long ago, ready at once."""
    claim, node = a_node_of(MIDDLE, name)
    conditions = {key: msgspec.structs.replace(c, changed_at=NOW - age) for key, c in claim.conditions.items()}
    return msgspec.structs.replace(claim, created_at=NOW - age, conditions=conditions), node


def a_pod_on(node: str, name: str = "", *, age: timedelta = 10 * MINUTE, is_ready: bool = True, **changes: Any) -> Pod:
    fields = {"owners": ROLLOUTS_WEB, **changes}
    return pod_on(node, name or f"p-{node}", started_at=NOW - age, is_ready=is_ready, **fields)


def begun(snapshot: Snapshot, *, ago: timedelta = 20 * MINUTE, **changes: Any) -> dict[str, Rollout]:
    """The rollout as it was stored when it began."""
    rollout = rollouts(snapshot, {})["default"].rollout
    return {"default": msgspec.structs.replace(rollout, started_at=NOW - ago, **changes)}


def test_the_first_node_goes_alone() -> None:
    cluster = world(OLD, drifted(a_node_of(MIDDLE, "node-3")))
    gate = rollouts(cluster, begun(cluster))["default"].gate
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
    pool_rollout = rollouts(cluster, begun(cluster, failures=2, stopped_until=NOW, message="no"))["default"]
    assert pool_rollout.gate is None
    assert pool_rollout.rollout == msgspec.structs.replace(begun(cluster)["default"], is_proven=True)


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
        pool_rollout = rollouts(cluster, begun(cluster, is_proven=proven))["default"]
        assert pool_rollout.gate is not None
        assert pool_rollout.gate.is_stopped
        assert not pool_rollout.rollout.is_proven
        assert pool_rollout.rollout.stopped_until == NOW + 30 * MINUTE
        assert pool_rollout.gate.allowed == 0
        assert ill.key in pool_rollout.gate.message


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
    pool_rollout = rollouts(msgspec.structs.replace(cluster, node_pools=(changed,)), known)["default"]
    assert pool_rollout.rollout.failures == 0
    assert pool_rollout.rollout.started_at == NOW


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


def test_a_replacement_that_drifts_again_stops_the_rollout_and_each_stop_lets_one_more_try() -> None:
    """Nodes of a NodePool that requires a label that no type has were replaced without end: 170 evictions in 40 minutes."""
    again = drifted(a_new_node(age=5 * MINUTE))
    gate = gate_with(new=again, drifted_again={"gone": NOW - 9 * MINUTE})
    assert (gate.gate and gate.gate.is_stopped, gate.rollout.failures) == (True, 1)
    assert gate.rollout.message.endswith("drifted again: default-node-2, gone")
    assert gate.rollout.drifted_again == {}
    until = NOW - MINUTE
    tried = gate_with(new=again, failures=1, stopped_until=until)
    assert (tried.gate and tried.gate.allowed, tried.rollout.failures) == (1, 1)
    assert gate_with(new=drifted(a_new_node(age=30 * SECOND)), failures=1, stopped_until=until).rollout.failures == 2


def test_one_replacement_that_was_changed_by_hand_stops_nothing() -> None:
    """It stopped the rollout for half an hour, with a reason that was wrong."""
    changed = drifted(a_new_node(age=5 * MINUTE))
    gate = gate_with(new=changed, drifted_again={"long-ago": NOW - PERIOD})
    assert (gate.gate and gate.gate.allowed, gate.rollout.failures) == (1, 0)
    assert gate.rollout.drifted_again == {"default-node-2": NOW - 5 * MINUTE}


def test_one_that_drifts_before_it_is_ready_was_not_changed_by_hand() -> None:
    claim, node = drifted(a_new_node(age=5 * MINUTE))
    late = msgspec.structs.replace(claim.conditions[INITIALIZED], status="False")
    young = msgspec.structs.replace(claim, conditions={**claim.conditions, INITIALIZED: late})
    assert gate_with(new=(young, node)).rollout.is_stopped(NOW)


def test_a_rollout_whose_nodes_wait_for_days_is_written_once_a_day() -> None:
    """Its row expired, and the specification was said to have changed."""
    cluster = world(OLD)
    (known,) = begun(cluster, ago=CONFIRMED_EVERY).values()
    confirmed = rollouts(cluster, {"default": known})["default"].rollout
    assert confirmed == msgspec.structs.replace(known, confirmed_at=NOW)
    assert rollouts(cluster, {"default": confirmed})["default"].rollout == confirmed


@pytest.mark.parametrize(("age", "ago"), [(19 * MINUTE, 20 * MINUTE), (2 * PERIOD, 3 * PERIOD)])
def test_a_node_from_while_the_specification_settled_or_of_long_ago_may_drift(age: timedelta, ago: timedelta) -> None:
    assert not gate_with(new=drifted(a_new_node(age=age)), ago=ago).rollout.is_stopped(NOW)


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
    """All that drift compares does: two tools that fought over a requirement replaced a fleet of six a hundred times an hour.

    Other classes and the pool's budgets do not.
    """
    pool = a_pool("default", ON_DEMAND, disruption=OPEN, own_annotations={labels.NODEPOOL_HASH: "1"})
    node_class = NodeClass(name="default", amis=(("ami-1", ()),), own_annotations={labels.NODECLASS_HASH: "1"})
    other = NodeClass(name="other", amis=(("ami-9", ()),))
    before = a_rollout_of(pool, other, node_class).target
    same = (
        a_rollout_of(pool, node_class),
        a_rollout_of(msgspec.structs.replace(pool, weight=9), node_class),
        a_rollout_of(
            pool, msgspec.structs.replace(node_class, subnets=(("subnet-2", "zone"),), reservations=("cr-2",))
        ),
    )
    different = (
        a_rollout_of(msgspec.structs.replace(pool, own_annotations={labels.NODEPOOL_HASH: "2"}), node_class),
        a_rollout_of(pool, msgspec.structs.replace(node_class, own_annotations={labels.NODECLASS_HASH: "2"})),
        a_rollout_of(pool, msgspec.structs.replace(node_class, amis=(("ami-2", ()),))),
        a_rollout_of(pool, other),
        a_rollout_of(msgspec.structs.replace(pool, requirements=pool.requirements[1:]), node_class),
        *(
            a_rollout_of(pool, msgspec.structs.replace(node_class, **selected))
            for selected in (
                {"security_groups": ("sg-2",)},
                {"placement_group": "pg-2"},
            )
        ),
    )
    assert {rollout.target for rollout in same} == {before}
    assert before not in {rollout.target for rollout in different}


def test_a_stopped_rollout_stays_stopped_after_an_upgrade() -> None:
    """The last release digested less; each pool's target differed at the first run of this one."""
    cluster = world(OLD)
    stopped = begun(cluster, failures=3, stopped_until=NOW + HOUR, message="pod p is not ready on a new node")[
        "default"
    ]
    earlier = msgspec.structs.replace(stopped, target="0123456789abcdef")
    (pool,) = cluster.node_pools
    changed = rollouts(cluster, {"default": earlier})["default"]
    assert (changed.rollout, changed.gate is not None and changed.gate.is_stopped) == (stopped, True)
    proven = msgspec.structs.replace(earlier, is_proven=True, failures=0, stopped_until=None, message="")
    seen = rollouts(world(a_node_of(MIDDLE)), {"default": proven})["default"]
    assert (seen.rollout, seen.gate) == (msgspec.structs.replace(proven, target=target_of(pool, cluster)), None)


def test_only_a_deselected_subnet_or_reservation_of_a_node_begins_another_rollout() -> None:
    def seen(
        known: Rollout | None, *subnets: str, reservations: tuple[str, ...] = ("cr-1",), at: str = "one"
    ) -> Rollout:
        claim = msgspec.structs.replace(OLD[0], subnet_id=at, labels=OLD[0].labels | {labels.RESERVATION_ID: "cr-1"})
        node_class = NodeClass(
            name="default", subnets=tuple((name, "z") for name in subnets), reservations=reservations
        )
        return rollouts(world((claim, OLD[1]), node_classes=(node_class,)), {"default": known} if known else {})[
            "default"
        ].rollout

    stopped = msgspec.structs.replace(
        seen(None, "one", "two"), failures=1, stopped_until=NOW + HOUR, started_at=NOW - HOUR
    )
    assert seen(stopped, "one", "two", "three", reservations=("cr-1", "cr-2")) == stopped
    assert seen(stopped, "one") == stopped, "no node is in the other"
    for changed in (seen(stopped, "two"), seen(stopped, "one", "two", reservations=())):
        assert (changed.started_at, changed.failures, changed.stopped_until) == (NOW, 0, None)
    again = msgspec.structs.replace(seen(stopped, "two"), started_at=NOW - HOUR)
    assert seen(again, "two") == again
    taken_back = seen(again, "one", "two")
    assert taken_back == msgspec.structs.replace(again, deselected=())
    assert seen(taken_back, "two").started_at == NOW


def test_each_pool_has_its_own_rollout() -> None:
    """A pod that fails in one pool stops nothing in another."""
    pools = tuple(a_pool(name, ON_DEMAND, disruption=OPEN) for name in ("other", "default"))
    elsewhere = drifted(a_node_of(MIDDLE, "node-9", pool="other"))
    ill = a_pod_on("node-2", is_ready=False)
    cluster = world(OLD, a_new_node(), elsewhere, pods=(ill,), node_pools=pools)
    known = {name: seen.rollout for name, seen in rollouts(cluster, {}).items()}
    earlier = {
        name: msgspec.structs.replace(pool_rollout, started_at=NOW - 20 * MINUTE)
        for name, pool_rollout in known.items()
    }
    rollouts_by_pool = rollouts(cluster, earlier)
    assert list(rollouts_by_pool) == ["default", "other"]
    assert rollouts_by_pool["default"].rollout.is_stopped(NOW)
    gate = rollouts_by_pool["other"].gate
    assert gate is not None
    assert (gate.allowed, gate.is_stopped, rollouts_by_pool["other"].rollout.node_pool) == (1, False, "other")


def test_a_known_rollout_of_the_same_target_keeps_its_beginning() -> None:
    cluster = world(OLD)
    known = begun(cluster)
    assert rollouts(cluster, known)["default"].rollout == known["default"]


# A specification that changes again and again.


def test_a_second_change_within_an_hour_waits_and_each_further_one_longer() -> None:
    rollout, moment = Rollout(node_pool="default", target="a", started_at=NOW), NOW
    assert rollout.settles_at - NOW == timedelta(minutes=2)
    waits = []
    for number in range(6):
        moment += timedelta(minutes=1)
        rollout = rollout.changed_to(f"t{number}", (), moment)
        waits.append(rollout.settles_at - moment)
        assert rollout.is_settling(moment)
        assert not rollout.is_settling(rollout.settles_at)
    minutes = [wait / timedelta(minutes=1) for wait in waits]
    assert minutes == [4, 8, 16, 30, 30, 30]
    late = rollout.changed_to("late", (), moment + PERIOD)
    assert late.settles_at - late.started_at == timedelta(minutes=2), "an hour without a change forgets them all"


@pytest.mark.parametrize("known", [True, False])
def test_a_change_that_is_taken_back_within_two_minutes_rolls_nothing(*, known: bool) -> None:
    """Even the first: two tools that fight would cost a node an hour for ever."""
    same, changed = world(a_node_of(MIDDLE)), world(OLD)
    long_ago = Rollout(node_pool="default", target=target_of(same.node_pools[0], same), started_at=NOW - 9 * PERIOD)
    state = {"default": long_ago} if known else {}
    (other,) = (
        msgspec.structs.replace(pool, own_annotations={"karpenter.sh/nodepool-hash": "b"})
        for pool in changed.node_pools
    )
    changed = msgspec.structs.replace(changed, node_pools=(other,))
    pool_rollout = rollouts(changed, state)["default"]
    assert pool_rollout.gate is not None
    assert (pool_rollout.gate.allowed, pool_rollout.gate.until) == (0, NOW + timedelta(minutes=2))
    back = msgspec.structs.replace(same, now=NOW + timedelta(minutes=1))
    assert all(seen.gate is None for seen in rollouts(back, {"default": pool_rollout.rollout}).values())
    still = msgspec.structs.replace(changed, now=NOW + timedelta(minutes=2))
    gate = rollouts(still, {"default": pool_rollout.rollout})["default"].gate
    assert gate is not None
    assert gate.allowed == 1


def test_what_is_taken_back_counts_as_a_change_though_nothing_has_drifted() -> None:
    cluster = world(a_node_of(MIDDLE))
    (pool,) = cluster.node_pools
    known = {pool.name: Rollout(node_pool=pool.name, target="2:other", started_at=cluster.now - timedelta(minutes=5))}
    pool_rollout = rollouts(cluster, known)[pool.name]
    assert (pool_rollout.gate, pool_rollout.rollout.target) == (None, target_of(pool, cluster))
    assert pool_rollout.rollout.changed_at == (cluster.now - timedelta(minutes=5),)
    assert rollouts(cluster, {pool.name: pool_rollout.rollout}) == {}


def test_no_node_with_pods_goes_while_the_specification_changes_again_and_again() -> None:
    cluster = world(OLD)
    before = begun(cluster)["default"]
    often = msgspec.structs.replace(before, started_at=cluster.now, changed_at=(cluster.now - timedelta(minutes=9),))
    gate = rollouts(cluster, {"default": often})["default"].gate
    assert gate is not None
    assert (gate.allowed, gate.is_settling, gate_reason(gate)) == (0, True, NodeReason.ROLLOUT_SETTLING)
    assert "changed 2 times within an hour" in gate.message
