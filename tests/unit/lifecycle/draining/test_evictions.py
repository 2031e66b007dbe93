from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.lifecycle.draining.deletion import with_clock
from core.lifecycle.draining.evictions import (
    FORCED_ANYWAY_AFTER,
    LONGEST_WAIT,
    PATIENT_AFTER,
    PATIENT_WAIT,
    EvictionRefusal,
    after_tries,
    back_off,
    drain,
    identity,
    is_overdue,
    needs_surge,
    next_check,
)
from core.lifecycle.records import Deletion, EvictionTry
from core.model.pod import Pod
from core.reasons.drain import EvictionReason
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
REFUSED = EvictionRefusal(EvictionReason.SERVER_ERROR)


def a_running(name: str, **changes: object) -> Pod:
    return a_pod(name, node_name="n", phase="Running", **changes)


def a_deletion(*, tried: Sequence[tuple[Pod, int]] = (), **changes: object) -> Deletion:
    """Tainted a minute ago; pods with this many attempts may be tried again now."""
    tries = {identity(pod): EvictionTry(attempts, "ServerError", NOW) for pod, attempts in tried}
    asked_at = changes.get("tainted_at") or NOW - MINUTE
    return Deletion(**{"reason": "Empty", "asked_at": asked_at, "tainted_at": NOW - MINUTE, "tries": tries, **changes})


def evicted(deletion: Deletion, *pods: Pod) -> list[str]:
    return [pod.name for pod in drain(deletion, pods, NOW).evict]


def forced(deletion: Deletion, *pods: Pod) -> list[tuple[str, int]]:
    return [(pod.name, grace) for pod, grace in drain(deletion, pods, NOW).force]


def test_the_pod_with_fewest_attempts_comes_first() -> None:
    """Otherwise, a pod whose eviction hangs takes the time of pods whose names come later, in each run."""
    first, last = a_running("a"), a_running("z")
    assert evicted(a_deletion(tried=[(first, 3)]), first, last) == ["z", "a"]


def test_a_refused_pod_is_left_alone_for_a_while_and_its_neighbours_are_not() -> None:
    stuck, free = a_running("a"), a_running("b")
    deletion = after_tries(a_deletion(), [stuck, free], {stuck.key: REFUSED}, NOW, moved=False)
    assert evicted(deletion, stuck, free) == ["b"]
    assert deletion.tries[identity(stuck)].reason == "ServerError"
    assert next_check(deletion, [stuck], NOW) == back_off(1)


def test_the_wait_doubles_and_stays_bounded() -> None:
    waits = [back_off(attempts) for attempts in range(1, 1000)]
    assert waits[:5] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, LONGEST_WAIT]
    assert waits == sorted(waits)
    assert max(waits) == PATIENT_WAIT
    assert (waits[PATIENT_AFTER - 1], waits[PATIENT_AFTER]) == (LONGEST_WAIT, PATIENT_WAIT)


@pytest.mark.parametrize(("left", "again"), [(timedelta(0), ["a"]), (timedelta(microseconds=1), [])])
def test_a_pod_whose_forced_deletion_failed_is_tried_again_when_its_wait_is_over(
    left: timedelta, again: list[str]
) -> None:
    pod = a_running("a", termination_grace_seconds=0)
    tries = {identity(pod): EvictionTry(2, "ServerError", NOW + left, is_forced=True)}
    deletion = a_deletion(deadline=NOW - MINUTE, tainted_at=NOW - 30 * MINUTE, tried_at=NOW - MINUTE)
    deletion = msgspec.structs.replace(deletion, tries=tries)
    assert [name for name, _ in forced(deletion, pod)] == again


def test_an_overloaded_server_is_left_alone() -> None:
    pod = a_running("a")
    refusal = EvictionRefusal(EvictionReason.THROTTLED, retry_after=40 * SECOND)
    deletion = after_tries(a_deletion(), [pod], {pod.key: refusal}, NOW, moved=False)
    assert deletion.tries[identity(pod)].next_at == NOW + 40 * SECOND


def test_only_existing_pods_are_remembered() -> None:
    """Otherwise, the record of a node that is drained for days outgrows its row."""
    gone, there = a_running("gone"), a_running("there")
    deletion = a_deletion(tried=[(gone, 1), (there, 1)])
    assert set(after_tries(deletion, [there], {}, NOW, moved=False).tries) == {identity(there)}


def test_without_a_change_nothing_is_written() -> None:
    deletion = a_deletion()
    assert after_tries(deletion, [a_running("a")], {}, NOW, moved=False) is deletion


def test_recent_progress_sets_the_pace() -> None:
    """Otherwise, a drain whose pods leave one by one is continued every half minute from its fifth minute on."""
    long_ago = a_deletion(asked_at=NOW - 60 * MINUTE, tainted_at=NOW - 60 * MINUTE)
    assert next_check(long_ago, [], NOW) == 30 * SECOND
    assert next_check(after_tries(long_ago, [], {}, NOW, moved=True), [], NOW) == 2 * SECOND


def test_an_eviction_from_an_empty_node_drops_the_time_since_when_it_is_empty() -> None:
    deletion = a_deletion(emptied_at=NOW - 60 * MINUTE)
    assert after_tries(deletion, [], {}, NOW, moved=True).emptied_at is None
    pod = a_running("p")
    assert after_tries(deletion, [pod], {pod.key: REFUSED}, NOW, moved=False).emptied_at == deletion.emptied_at


def test_a_protected_pod_is_not_evicted_before_its_time_is_up() -> None:
    pod = a_running("p", annotations={labels.DO_NOT_DISRUPT: "true"}, termination_grace_seconds=60)
    assert evicted(a_deletion(deadline=NOW + 2 * MINUTE), pod) == []
    assert evicted(a_deletion(deadline=NOW + 59 * SECOND), pod) == ["p"]


def test_no_pod_is_forced_without_an_eviction_attempt() -> None:
    """Otherwise, one stuck pod costs its neighbours their budget's protection, in the same second."""
    asked, other = a_running("asked"), a_running("other", priority_class="system-node-critical")
    deletion = a_deletion(deadline=NOW + 20 * SECOND, tried=[(asked, 1)])
    assert forced(deletion, asked, other) == [("asked", 20)]
    assert evicted(deletion, asked, other) == ["other"]


def test_the_end_comes_even_without_time_for_attempts() -> None:
    """A round that had time for other pods counts, whether they left or not."""
    pod, other = a_running("p"), a_running("other")
    for refused in ({}, {other.key: REFUSED}):
        for late, expected in ((0 * SECOND, []), (SECOND, [("p", 1)])):
            deletion = a_deletion(deadline=NOW - FORCED_ANYWAY_AFTER - late)
            assert forced(after_tries(deletion, [pod, other], refused, NOW, moved=not refused), pod) == expected


def test_after_an_outage_that_outlasts_the_deadline_every_pod_is_evicted_first() -> None:
    """If this failed, all pods of a node would go past their budgets once the API server answers again."""
    pod, deadline = a_running("p"), NOW - timedelta(hours=1)
    for before in ({}, {"evicted_at": deadline}):
        deletion = a_deletion(deadline=deadline, **before)
        assert forced(deletion, pod) == []
        assert drain(deletion, [pod], NOW).evict == (pod,)


@pytest.mark.parametrize("last_round", [-7 * SECOND, 0 * SECOND, 30 * SECOND, FORCED_ANYWAY_AFTER])
def test_a_round_before_an_outage_is_none_after_it(last_round: timedelta) -> None:
    """If this failed, the neighbours of a refused pod, which is tried again after the deadline, would be forced off untried."""
    refused, untried = a_running("refused"), a_running("untried", termination_grace_seconds=5)
    deadline = NOW - 2 * MINUTE
    before = a_deletion(deadline=deadline, tried=[(refused, 7)])
    deletion = after_tries(
        before, [refused, untried], {refused.key: REFUSED}, deadline + last_round, moved=last_round > 0 * SECOND
    )
    assert forced(deletion, refused, untried) == [("refused", 1)]
    assert evicted(deletion, refused, untried) == ["untried"]


def test_a_pod_with_the_longest_grace_leaves_budgets_the_first_half() -> None:
    """Otherwise, PodDisruptionBudgets have no effect if a pod's grace is as long as terminationGracePeriod."""
    pod = a_running("p", termination_grace_seconds=3600)
    early = a_deletion(tainted_at=NOW - 4 * MINUTE, deadline=NOW + 6 * MINUTE, tried=[(pod, 5)])
    late = a_deletion(tainted_at=NOW - 5 * MINUTE - SECOND, deadline=NOW + 5 * MINUTE - SECOND, tried=[(pod, 5)])
    assert forced(early, pod) == []
    assert forced(late, pod) == [("p", 299)]
    untainted = a_deletion(
        asked_at=NOW - 5 * MINUTE - SECOND, tainted_at=None, deadline=NOW + 5 * MINUTE - SECOND, tried=[(pod, 5)]
    )
    assert forced(untainted, pod) == [("p", 299)], "the time counts from the request until the node is tainted"


def test_budgets_have_their_half_from_the_request_where_the_clock_of_the_taint_was_behind() -> None:
    """From the taint on, which seems to be long ago, there would be time for the whole grace: it would count at once."""
    pod = a_running("p", termination_grace_seconds=180)
    deletion = a_deletion(asked_at=NOW, tainted_at=NOW - 4 * MINUTE, deadline=NOW + 3 * MINUTE)
    assert is_overdue(pod, deletion, NOW + 90 * SECOND) is False
    assert is_overdue(pod, deletion, NOW + 91 * SECOND) is True


@pytest.mark.parametrize(("ran_for", "held_for"), [(1, 1), (1, 6), (2, 600), (4, 60)])
@pytest.mark.parametrize("grace", [5, 10, 120])
def test_time_under_a_brake_counts_for_no_half(ran_for: int, held_for: int, grace: int) -> None:
    """If this failed, pods with a long grace would be forced off past their budgets once a brake is released."""
    pod = a_running("p", termination_grace_seconds=60 * grace)
    tainted_at = NOW - (ran_for + held_for) * MINUTE
    stopped = a_leaving(tainted=NOW - tainted_at, deadline=tainted_at + 5 * MINUTE, held_at=NOW - held_for * MINUTE)
    deletion = with_clock(stopped, NOW, is_held=False).deletion
    assert deletion is not None
    half = NOW + timedelta(minutes=2.5 - ran_for)
    assert is_overdue(pod, deletion, half) is False
    assert is_overdue(pod, deletion, half + SECOND) is True


@pytest.mark.parametrize("ends_in", [0, 1])
def test_a_terminating_pod_is_not_killed_again(ends_in: int) -> None:
    pod = a_running("p", deleted_at=NOW + ends_in * SECOND)
    assert forced(a_deletion(deadline=NOW - MINUTE), pod) == []


def test_the_time_of_force_is_not_missed() -> None:
    """Otherwise, a pod loses part of its grace because no run came in time."""
    pod = a_running("p", termination_grace_seconds=30)
    deletion = a_deletion(asked_at=NOW - 60 * MINUTE, tainted_at=NOW - 60 * MINUTE, deadline=NOW + 37 * SECOND)
    assert next_check(deletion, [pod], NOW) == 7 * SECOND


def test_a_restart_is_asked_for_after_two_four_and_eight_refusals_of_a_budget() -> None:
    """Each try would restart the Deployment again; a server's error says nothing of its budget."""
    budget, error = EvictionReason.POD_DISRUPTION_BUDGET, EvictionReason.SERVER_ERROR
    asked = [attempts for attempts in range(1, 33) if needs_surge(EvictionTry(attempts, budget, NOW))]
    assert asked == [2, 4, 8, 16, 32]
    assert not any(needs_surge(EvictionTry(attempts, error, NOW)) for attempts in range(1, 33))


def test_a_successor_of_the_same_name_starts_without_its_predecessors_tries() -> None:
    """StatefulSets give names again: the new pod would wait for half an hour, or be forced off."""
    old, new = a_running("db-0", uid="u1"), a_running("db-0", uid="u2")
    assert identity(old) != identity(new)
    assert identity(a_running("db-0", uid="")) == "default/db-0"
    assert evicted(a_deletion(tried=[(old, 9)]), new, a_running("other")) == ["db-0", "other"]


@pytest.mark.parametrize(
    ("moved", "refused", "postponed", "is_over"),
    [
        (True, False, False, True),
        (False, True, False, True),
        (True, True, False, True),
        (False, False, False, False),
        (True, False, True, False),
        (False, True, True, False),
        (True, True, True, False),
    ],
)
def test_a_round_is_over_once_every_pod_of_it_was_tried(
    *, moved: bool, refused: bool, postponed: bool, is_over: bool
) -> None:
    """After one that left pods to the next, pods that nobody tried would be forced off."""
    deletion, pod = Deletion(reason="Empty", asked_at=NOW), a_pod()
    refusals = {pod.key: EvictionRefusal(EvictionReason.SERVER_ERROR)} if refused else {}
    after = after_tries(deletion, [pod], refusals, NOW, moved=moved, postponed=postponed)
    assert after.tried_at == (NOW if is_over else None)
    assert after.evicted_at == (NOW if moved else None)
    assert len(after.tries) == int(refused)
    assert (after is deletion) is not (moved or refused)
