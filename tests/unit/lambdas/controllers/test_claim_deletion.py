"""Claims leave once, for a stored reason, and release what they hold."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from adapters.run_report import RunReport
from adapters.store import PoolUsage
from core import labels
from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from core.lifecycle.steps import Forget
from core.reasons.code import ClaimReason, TerminationReason
from installation.metric_names import INSTANCES_TERMINATED
from lambdas.controllers.claim_deletion import ClaimDeletion, end_outcome, launch_outcome
from tests.builders import NOW
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeCloud, FakeQueue
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

# What the ledger keeps of an instance, from which reports count its hours.


LAUNCHED_AT = NOW - timedelta(minutes=3)


def a_claim() -> ClaimRecord:
    """A claim of a decision, requested ten minutes ago, whose instance EC2 gave three minutes ago."""
    plan = a_plan(annotations={labels.DECISION: "7f3a"})
    moments = Moments(launched_at=LAUNCHED_AT)
    return a_record(plan=plan, moments=moments, requested_at=NOW - timedelta(minutes=10))


LIFE = InstanceLife(
    instance="i-1",
    claim="c",
    node_pool="default",
    instance_type="m5.large",
    zone="us-east-1a",
    capacity_type=labels.SPOT,
    price=1,
    launched_at=LAUNCHED_AT,
)


def test_a_launch_is_kept_under_the_instance_with_its_price_and_no_end() -> None:
    assert launch_outcome(a_claim(), LAUNCHED_AT) == [
        DecisionOutcome(
            decision="7f3a",
            part="i-1",
            state=OutcomeState.DONE,
            at=LAUNCHED_AT,
            reason="Launched",
            instance=LIFE,
        )
    ]


def test_an_end_has_its_reason_and_the_launch_of_the_claim() -> None:
    assert end_outcome(a_claim(), "Empty", NOW) == [
        DecisionOutcome(
            decision="7f3a",
            part="i-1",
            state=OutcomeState.DONE,
            at=NOW,
            reason="Empty",
            instance=msgspec.structs.replace(LIFE, ended_at=NOW),
        )
    ]


def test_hours_count_from_the_request_where_no_launch_is_known() -> None:
    """A row of an older release has no moment of its launch."""
    record = msgspec.structs.replace(a_claim(), moments=Moments())
    (outcome,) = end_outcome(record, "Empty", NOW)
    assert outcome.instance is not None
    assert outcome.instance.launched_at == record.requested_at


UNLAUNCHED = a_record(ClaimPhase.REQUESTED)


@pytest.mark.parametrize("outcomes", [launch_outcome(UNLAUNCHED, NOW), end_outcome(UNLAUNCHED, "Empty", NOW)])
def test_a_claim_without_an_instance_has_cost_nothing(outcomes: list[DecisionOutcome]) -> None:
    assert outcomes == []


EMPTY, SPOT = TerminationReason.EMPTY, TerminationReason.SPOT_INTERRUPTED
TIMEOUT = TerminationReason.REGISTRATION_TIMEOUT


class World:
    """One stored claim, and the controller that takes claims to their end."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.rows, self.cloud, self.wake_ups = Rows(self.clock), FakeCloud(self.clock), FakeQueue()
        self.brakes, self.report = self.rows.brakes, RunReport()
        claims = self.rows.stores().claims
        self.deletion = ClaimDeletion(self.cloud, claims, self.brakes, self.wake_ups, self.clock)
        self.rows.usage["default"] = PoolUsage(node_pool="default")

    def put(self, record: ClaimRecord) -> ClaimRecord:
        self.rows.claims["c"] = record
        return record

    @property
    def claim(self) -> ClaimRecord:
        return self.rows.claims["c"]

    def woken(self) -> list[str]:
        return [message["wakeUp"] for message, _ in self.wake_ups.sent]

    def failures(self) -> list[str]:
        return [breaker.node_pool for breaker in self.brakes.breakers()]

    def ends(self) -> list[tuple[datetime, datetime | None, str]]:
        def life(outcome: DecisionOutcome) -> tuple[datetime, datetime | None, str]:
            assert outcome.instance is not None
            return outcome.instance.launched_at, outcome.instance.ended_at, outcome.reason

        return [life(outcome) for outcome in self.report.outcomes]


@pytest.fixture
def world() -> World:
    return World()


def test_a_claim_that_must_go_is_stored_with_reason_and_end(world: World) -> None:
    ends_at = NOW + timedelta(minutes=2)
    leaving = world.deletion.begin(world.put(a_record()), SPOT, "a notice", world.report, ends_at=ends_at)
    assert leaving == world.claim
    deletion = leaving.deletion
    assert deletion is not None
    assert (deletion.reason, deletion.message, deletion.asked_at, deletion.ends_at) == (SPOT, "a notice", NOW, ends_at)
    assert leaving.is_disrupting
    assert world.woken() == [SPOT]
    assert [(decision.kind, decision.subject, decision.reason) for decision in world.report.decisions] == [
        ("terminate", "c", SPOT)
    ]


def test_a_claim_that_leaves_is_returned_as_it_is(world: World) -> None:
    record = world.put(a_leaving(reason=SPOT))
    assert world.deletion.begin(record, TIMEOUT, "", world.report) is record
    assert (world.woken(), world.report.decisions, world.claim) == ([], [], record)


def test_a_claim_that_left_by_our_choice_is_expedited(world: World) -> None:
    leaving = world.deletion.begin(world.put(a_leaving(reason=EMPTY)), SPOT, "a notice", world.report)
    assert leaving == world.claim
    assert leaving.deletion is not None
    assert leaving.deletion.reason == SPOT
    assert [decision.reason for decision in world.report.decisions] == [SPOT]
    assert (world.woken(), world.failures()) == ([], [])


@pytest.mark.parametrize(("token", "failures"), [("t", ["default"]), ("", [])])
def test_a_node_that_never_became_ready_counts_in_its_pools_breaker(
    world: World, token: str, failures: list[str]
) -> None:
    """Not for a claim that was rebuilt from tags: three instances with copied tags would stop a NodePool."""
    record = msgspec.structs.replace(a_record(ClaimPhase.LAUNCHED), token=token)
    world.deletion.begin(world.put(record), TIMEOUT, "", world.report)
    assert world.failures() == failures


class TestWithinBudgets:
    """A claim that could stay needs a place; one without a working node takes none."""

    def begin(self, world: World, record: ClaimRecord, places: int) -> bool:
        ends_at = NOW + timedelta(minutes=5)
        return world.deletion.begin_within(
            world.put(record), TerminationReason.EXPIRED, "old", {"default": places}, world.report, ends_at=ends_at
        )

    @pytest.mark.parametrize("phase", [ClaimPhase.INITIALIZED, ClaimPhase.REGISTERED])
    def test_without_a_place_it_stays(self, world: World, phase: ClaimPhase) -> None:
        assert not self.begin(world, a_record(phase), 0)
        assert (world.claim.deletion, world.woken(), world.report.decisions) == (None, [], [])

    @pytest.mark.parametrize("phase", [ClaimPhase.INITIALIZED, ClaimPhase.REGISTERED])
    def test_with_one_it_goes_and_holds_it(self, world: World, phase: ClaimPhase) -> None:
        assert self.begin(world, a_record(phase), 1)
        assert world.claim.deletion is not None
        assert (world.claim.deletion.message, world.claim.is_disrupting) == ("old", True)
        assert world.claim.deletion.ends_at == NOW + timedelta(minutes=5)
        assert world.woken() == [TerminationReason.EXPIRED]

    def test_a_claim_whose_node_has_not_joined_needs_none(self, world: World) -> None:
        assert self.begin(world, a_record(ClaimPhase.LAUNCHED), 0)
        assert world.claim.deletion is not None
        assert not world.claim.is_disrupting


class TestTheInstance:
    """It is terminated, and its hours in the ledger end with the first request."""

    LAUNCHED_AT = NOW - timedelta(hours=3)

    def leaving(self, **changes: object) -> ClaimRecord:
        moments = Moments(launched_at=self.LAUNCHED_AT)
        return msgspec.structs.replace(a_leaving(reason=SPOT, **changes), moments=moments)

    def test_ends_once_in_the_ledger(self, world: World) -> None:
        first = world.deletion.terminate_instance(world.put(self.leaving()), world.report)
        assert first == world.claim
        assert first is not None
        assert first.deletion is not None
        assert (first.deletion.terminated_at, first.is_disrupting, first.reserved) == (NOW, False, {})
        assert world.report.counts == {INSTANCES_TERMINATED: 1}
        assert world.ends() == [(self.LAUNCHED_AT, NOW, SPOT)]
        world.clock.advance(minutes=1)
        again = world.deletion.terminate_instance(first, world.report)
        assert again is not None
        assert again.deletion is not None
        assert again.deletion.terminated_at == NOW + timedelta(minutes=1)
        assert (world.report.counts, len(world.ends())) == ({INSTANCES_TERMINATED: 1}, 1)

    def test_of_an_old_row_was_launched_when_it_was_requested(self, world: World) -> None:
        record = world.put(a_leaving(reason=SPOT))
        world.deletion.terminate_instance(record, world.report)
        assert world.ends() == [(record.requested_at, NOW, SPOT)]

    def test_is_really_asked_to_end(self, world: World) -> None:
        calls: list[str] = []
        world.cloud.before_call = calls.append
        world.deletion.terminate_instance(world.put(self.leaving()), world.report)
        assert calls == ["terminate"]
        (decision,) = world.report.decisions
        assert (decision.kind, decision.subject, decision.reason) == ("terminate", "i-1", SPOT)


class TestForgotten:
    """The row goes last, with all that it holds."""

    STEP = Forget(ClaimReason.LAUNCH_TIMEOUT, "never launched")

    def test_after_its_end_it_leaves_nothing(self, world: World) -> None:
        world.deletion.forget(world.put(a_leaving(terminated_at=NOW)), self.STEP, world.report)
        assert (world.rows.claims, world.ends()) == ({}, [])
        (decision,) = world.report.decisions
        assert (decision.kind, decision.subject, decision.message) == ("forget", "c", "never launched")

    def test_an_instance_whose_end_nobody_asked_for_ends_now(self, world: World) -> None:
        world.deletion.forget(world.put(a_leaving()), self.STEP, world.report)
        assert [(end, reason) for _, end, reason in world.ends()] == [(NOW, ClaimReason.LAUNCH_TIMEOUT)]

    @pytest.mark.parametrize(("attempts", "counted"), [(0, []), (1, ["default"])])
    def test_a_launch_that_failed_counts_and_one_that_was_never_tried_does_not(
        self, world: World, attempts: int, counted: list[str]
    ) -> None:
        world.deletion.forget(world.put(a_record(ClaimPhase.REQUESTED, attempts=attempts)), self.STEP, world.report)
        assert (world.failures(), world.ends()) == (counted, [])

    def test_a_leaving_claim_counts_as_no_failed_launch(self, world: World) -> None:
        record = msgspec.structs.replace(a_leaving(), phase=ClaimPhase.LAUNCHED, attempts=1)
        world.deletion.forget(world.put(record), self.STEP, world.report)
        assert world.failures() == []
