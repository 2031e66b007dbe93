"""Looks of `disrupt` come when something may have changed, and not more often than they are worth."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from adapters.messages import HOPS_MAX, hops_of
from adapters.ports import DeniedError, JsonObject, PortError, TransientError
from adapters.run_report import RunReport
from adapters.store import DECIDER, PoolUsage
from core.errors import InvalidInputError
from core.lifecycle.records import ClaimRecord
from core.reasons.runs import RunReason
from installation.metric_names import CHAINS_CUT
from lambdas.controllers.run_requests import (
    DELAY_MAX,
    GATHERED,
    SPACING,
    WIDEST_SPACING,
    RunPace,
    RunRequests,
    SpacedRequests,
    again_after,
    mismatches,
    recount,
    repeated_by_schedule,
)
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeQueue
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

SECOND = timedelta(seconds=1)


class LostQueue(FakeQueue):
    """SQS does not answer."""

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        raise TransientError("sqs:SendMessageBatch", "no answer")


def test_one_request_serves_moments_that_are_close() -> None:
    queue, clock = FakeQueue(), FakeClock(NOW)
    requests = RunRequests(queue, clock)
    assert requests.ask("x", NOW + 30 * SECOND)
    assert not requests.ask("x", NOW + 30 * SECOND - GATHERED)
    assert not requests.ask("x", NOW + 60 * SECOND), "the earlier look asks again"
    assert requests.ask("x", NOW + 20 * SECOND)
    clock.advance(seconds=31)
    assert requests.ask("x", NOW + 60 * SECOND)
    assert [delay for _, delay in queue.sent] == [30 * SECOND, 20 * SECOND, 29 * SECOND]


def test_what_is_too_far_off_is_left_to_later_looks() -> None:
    """SQS would deliver it too early, again and again."""
    queue = FakeQueue()
    assert not RunRequests(queue, FakeClock(NOW)).ask("x", NOW + DELAY_MAX + SECOND)
    assert queue.sent == []


def test_a_lost_request_fails_nothing() -> None:
    """The schedule makes up for it."""
    assert not RunRequests(LostQueue(), FakeClock(NOW)).ask("x", NOW)


def test_requests_of_a_run_continue_its_chain_up_to_a_bound() -> None:
    """If this failed, a defect that always asks for one more run would never end: Lambda's own bound is off."""
    queue, clock, report = FakeQueue(), FakeClock(NOW), RunReport()
    requests = RunRequests(queue, clock)
    requests.began(7, report)
    assert requests.ask("x", NOW + SECOND)
    assert hops_of({"Records": [{"body": msgspec.json.encode(message)} for message, _ in queue.sent]}) == 8
    assert CHAINS_CUT not in report.counts
    requests.began(HOPS_MAX + 1, report)
    clock.advance(minutes=1)
    assert not requests.ask("x", clock.now() + SECOND)
    assert report.counts[CHAINS_CUT] == 1
    requests.began(0, report)
    assert requests.ask("x", clock.now() + SECOND), "the schedule begins a new chain"


def test_a_stream_of_changes_is_one_request_in_ten_seconds() -> None:
    """Otherwise, each delivery of a busy cluster's audit log starts a run."""
    queue, clock = FakeQueue(), FakeClock(NOW)
    requests = SpacedRequests(queue, clock)
    moments = []
    for _ in range(120):
        before = len(queue.sent)
        requests.ask("audit log")
        moments += [clock.now() + delay for _, delay in queue.sent[before:]]
        clock.advance(milliseconds=500)
    assert moments[0] == NOW
    assert all(later - earlier >= SPACING for earlier, later in pairwise(moments))
    assert len(moments) >= 6, "and the last change is followed by one, too"


def test_looks_that_find_nothing_come_less_often_and_one_that_does_resets_that() -> None:
    pace, now, spacings = RunPace(), NOW, []
    assert pace.earliest(now) == now
    for _ in range(5):
        pace.ended(now, has_commands=False)
        spacings.append(pace.earliest(now) - now)
        now += spacings[-1]
    assert spacings == [SPACING, SPACING, 2 * SPACING, 4 * SPACING, WIDEST_SPACING]
    pace.ended(now, has_commands=True)
    assert pace.earliest(now) - now == SPACING


def test_a_known_moment_comes_before_the_spacing_is_over() -> None:
    """Otherwise, a fleet whose `consolidateAfter` ends just after a pass waits for ten seconds more."""
    pace = RunPace()
    pace.ended(NOW, has_commands=False)
    pace.awaits(NOW + 6 * SECOND)
    assert pace.earliest(NOW) == NOW + 6 * SECOND
    assert pace.earliest(NOW + 7 * SECOND) == NOW + 7 * SECOND
    pace.awaits(NOW + 60 * SECOND)
    assert pace.earliest(NOW) == NOW + SPACING
    pace.awaits(None)
    assert pace.earliest(NOW) == NOW + SPACING


def test_a_known_moment_that_is_always_near_adds_few_passes() -> None:
    """In a cluster whose pods come and go all day, `consolidateAfter` of some node is always about to end."""

    def passes(until_next: timedelta | None) -> list[datetime]:
        pace, now, moments = RunPace(), NOW, list[datetime]()
        while now < NOW + timedelta(minutes=10):
            moments.append(now)
            pace.ended(now, has_commands=False)
            pace.awaits(None if until_next is None else now + until_next)
            now = pace.earliest(now)
        return moments

    near = passes(SECOND)
    assert all(later - earlier >= GATHERED for earlier, later in pairwise(near))
    assert len(near) <= 1.1 * len(passes(None))


@pytest.fixture
def lab() -> Lab:
    """A node with a pod that has just come, whose NodePool waits before it consolidates."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", cpu="3"))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(minutes=2)
    return lab


def test_a_woken_run_looks_at_once_and_the_next_one_waits(lab: Lab) -> None:
    """Otherwise, messages that come one after the other list all pods each time."""
    assert "spacedRuns" not in lab.disrupt(is_woken=True).counts
    lab.run_requests.take()
    lab.clock.advance(seconds=4)
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    assert lab.disrupt(is_woken=True).counts == {"spacedRuns": 1}
    assert calls == []
    assert [delay for _, delay in lab.run_requests.sent] == [6 * SECOND]
    lab.disrupt(is_woken=True)
    assert len(lab.run_requests.sent) == 1


def test_runs_do_not_decide_at_the_same_time(lab: Lab) -> None:
    """Both would decide the same commands; the one that comes second looks later."""
    leases = lab.app.adapters.leases
    lease = leases.acquire(DECIDER, "another", now=lab.clock.now(), for_=timedelta(minutes=1))
    assert lease is not None
    assert lab.disrupt().counts["busyRuns"] == 1
    assert len(lab.run_requests.take()) == 1
    leases.release(lease)
    assert "busyRuns" not in lab.disrupt().counts


def test_the_end_of_consolidate_after_is_looked_at(lab: Lab) -> None:
    """Otherwise, a node that may go is paid for until the schedule's next run."""
    patient = a_node_pool(disruption={"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"})
    lab.kubernetes.put(patient, a_pending_pod("q", cpu="100m"))
    lab.bind("q")
    lab.disrupt()
    assert [delay for _, delay in lab.run_requests.sent] == [30 * SECOND]


# Counters of limits and budgets are compared with the claims, and corrected where rows were lost or edited.


HELD = {"cpu": 2000, "nodes": 1}


class Table:
    """A table with these claims, whose counters agree with them."""

    def __init__(self, *claims: ClaimRecord) -> None:
        self.rows = Rows()
        self.store = self.rows.stores().claims
        self.rows.claims = {claim.name: claim for claim in claims}
        self.counted(cpu=2000 * len(claims), nodes=len(claims), disrupting=sum(c.is_disrupting for c in claims))

    def counted(self, pool: str = "default", *, disrupting: int = 0, **reserved: int) -> None:
        self.rows.usage[pool] = PoolUsage(node_pool=pool, reserved=reserved, disrupting=disrupting, version=1)

    def found(self) -> list[tuple[PoolUsage, PoolUsage]]:
        return mismatches(self.store, tuple(self.rows.claims.values()))

    def pools(self) -> list[str]:
        return [after.node_pool for _, after in self.found()]


def claim(name: str = "c", **changes: Any) -> ClaimRecord:
    return msgspec.structs.replace(a_record(reserved=HELD, **changes), name=name)


def test_counters_that_agree_are_read_once() -> None:
    table, reads = Table(claim("a"), claim("b", is_disrupting=True)), list[str]()
    table.rows.before_call = reads.append
    assert (table.found(), reads) == ([], ["read"])


@pytest.mark.parametrize(
    "counted",
    [
        {"cpu": 2001, "nodes": 1},
        {"cpu": 2000, "nodes": 2},
        {"cpu": 2000},
        {"cpu": 2000, "nodes": 1, "memory": 1},
        {"cpu": 2000, "nodes": 1, "disrupting": 1},
    ],
)
def test_counters_that_differ_in_anything_are_wrong(counted: dict[str, int]) -> None:
    table = Table(claim())
    table.counted(**counted)
    ((before, after),) = table.found()
    assert before == table.rows.usage["default"]
    assert (after.reserved, after.disrupting) == (HELD, 0)


def test_a_counter_of_nothing_is_as_good_as_none() -> None:
    table = Table(claim())
    table.counted(cpu=2000, nodes=1, memory=0)
    assert table.found() == []


def test_node_pools_are_compared_whether_they_have_claims_counters_or_both() -> None:
    table = Table(claim())
    table.rows.claims["d"] = claim("d", plan=a_plan(node_pool="uncounted"))
    table.counted("unclaimed", nodes=3)
    assert table.pools() == ["unclaimed", "uncounted"]
    assert [after.reserved for _, after in table.found()] == [{}, HELD]


def test_a_claim_without_a_node_pool_counts_nowhere() -> None:
    table = Table(claim())
    table.rows.claims["d"] = claim("d", plan=a_plan(node_pool=""))
    assert table.found() == []


def test_what_changed_while_it_was_compared_is_no_mismatch() -> None:
    """The claims are an observation's, some seconds old; only what still differs is corrected."""
    table = Table(claim())
    assert mismatches(table.store, ()) == []


class TestRecounted:
    """A counter is corrected unless it has changed since."""

    def test_it_is_what_the_claims_hold(self) -> None:
        table, report = Table(claim(is_disrupting=True)), RunReport()
        table.counted(cpu=1, nodes=2, disrupting=3)
        (mismatch,) = table.found()
        recount(table.store, mismatch, report)
        assert table.found() == []
        assert report.counts == {"repairedUsage": 1}
        (decision,) = report.decisions
        assert (decision.kind, decision.subject, decision.reason) == (
            "repair",
            "NodePool default",
            RunReason.USAGE_RECOUNTED,
        )
        assert decision.message == (
            "counted 2 nodes with 1 millicores, 3 going, its claims hold 1 nodes with 2000 millicores, 1 going"
        )

    def test_it_is_left_to_the_next_comparison_if_a_claim_changed(self) -> None:
        table, report = Table(claim()), RunReport()
        table.counted(cpu=1)
        (mismatch,) = table.found()
        changed = table.rows.usage["default"] = msgspec.structs.replace(table.rows.usage["default"], version=2)
        recount(table.store, mismatch, report)
        assert (table.rows.usage["default"], report.counts, report.decisions) == (changed, {}, [])


# Messages of functions that a schedule starts, too: what uses them up, and what keeps them.


WOKEN = {"Records": [{"messageId": "1", "body": '{"wakeUp": "PodUnschedulable"}'}]}
SCHEDULED = {"source": "aws.scheduler"}
TIMEOUT = TransientError("kube:list pods", "timeout")


class Context:
    """Lambda's context of one invocation."""

    def __init__(self, request: str = "0001") -> None:
        self.aws_request_id = request


def answer(event: dict[str, Any], error: Exception | None = None, queue: FakeQueue | None = None) -> dict[str, Any]:
    """The answer to this event of a handler that raises this error."""

    @repeated_by_schedule(lambda: queue or FakeQueue())
    def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
        if error is not None:
            raise error
        return {"decisions": [], "batchItemFailures": [{"itemIdentifier": "1"}]}

    return handler(event, Context())  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [TIMEOUT, DeniedError("kube:list pods", "403")])
def test_a_failed_call_uses_its_messages_up(error: PortError) -> None:
    """Half an hour without API server would end in dead letters, and an alarm that stays on for two weeks."""
    assert answer(WOKEN, error) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (SCHEDULED, TIMEOUT),
        (WOKEN, ValueError("a defect")),
        (WOKEN, InvalidInputError("missing", subject="TABLE_NAME")),
    ],
)
def test_everything_else_is_an_error_of_the_function(event: dict[str, Any], error: Exception) -> None:
    """Otherwise, Lambda would count no failure, and a function that cannot even start would be noticed by nobody."""
    with pytest.raises(type(error)):
        answer(event, error)


def test_what_succeeds_is_answered_as_it_is() -> None:
    assert answer(WOKEN)["batchItemFailures"] == [{"itemIdentifier": "1"}]


def test_a_failed_scheduled_run_is_repeated_within_the_minute() -> None:
    """Calls that failed in the first 18 seconds of each minute left pods waiting for 34 minutes."""
    queue = FakeQueue()
    with pytest.raises(TransientError):
        answer(SCHEDULED, TIMEOUT, queue)
    assert len(queue.take()) == 1


@pytest.mark.parametrize(("event", "error"), [(SCHEDULED, DeniedError("ec2:x", "403")), (WOKEN, TIMEOUT)])
def test_nothing_else_is_repeated_here(event: dict[str, Any], error: PortError) -> None:
    queue = FakeQueue()
    with suppress(PortError):
        answer(event, error, queue)
    assert queue.take() == []


def test_runs_are_repeated_at_different_seconds_of_the_minute() -> None:
    delays = {again_after(f"request-{number}").total_seconds() for number in range(200)}
    assert (min(delays), max(delays)) == (20, 45)
    assert len(delays) == 26
