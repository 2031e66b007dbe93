"""Workloads that moves cost more than they save are held, so that consolidation does not repeat itself forever."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core.disruption.move_history import CommandOutcome, LaunchedNode, MoveHistory, first_reason
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.plan import Command
from tests.builders import NOW
from tests.unit.disruption.nodes_for_tests import pod_on

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
    assert {found.spent for found in changed.outcomes.values()} == {30}
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
    said = first_reason({held.name: held}, pods, NOW)
    assert said == held.keeps(pods[1], NOW) != ""
    assert first_reason({held.name: held}, pods, NOW + HOUR) == ""
    assert first_reason({held.name: held}, pods[:1], NOW) == ""
    assert first_reason({}, pods, NOW) == ""
