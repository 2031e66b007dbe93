"""What a launch stores, before and after EC2's answer, whatever that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import (
    ConflictError,
    DeniedError,
    InsufficientCapacityError,
    JsonObject,
    LaunchDeniedError,
    PortError,
    RefusedOffering,
    ThrottledError,
    TransientError,
    UnfulfilledError,
)
from adapters.run_report import RunReport
from adapters.runtime import Task, TaskRunners, in_turn
from adapters.store import PoolUsage, Requested
from core import labels
from core.launch.denials import FIRST_PAUSE
from core.ledger.outcome import OutcomeState
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire import resources
from core.model.catalogue import OfferingKey
from core.model.snapshot import Snapshot
from core.reasons.code import ClaimReason
from core.scheduling import schedule
from lambdas.controllers.launch_answers import STORE_ATTEMPTS
from lambdas.controllers.launching import Launcher, LaunchRequests, ParallelLaunches
from tests.builders import NOW, a_class_manifest, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import CrashError, FakeClock, FakeCloud

CALL = "ec2:CreateFleet"
TYPE = a_type()


class World:
    """Two waiting pods that need a node each, and the launcher for them."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock(NOW)
        self.rows, self.cloud = Rows(self.clock), FakeCloud(self.clock)
        self.stores = self.rows.stores()
        self.requests = LaunchRequests(self.cloud, self.stores, cluster="shop", **settings)
        self.launcher = Launcher(self.requests, self.stores.claims, cluster="shop")
        pods = tuple(a_pod(name, cpu="1500m") for name in ("a", "b"))
        self.snapshot: Snapshot = a_snapshot(types=(TYPE,), pods=pods, node_pools=(a_pool(),))
        self.node_class = a_class_manifest(metadata={"generation": 1})
        self.report = RunReport()

    def stored(self, *, shared: bool = False) -> list[ClaimRecord]:
        """The claims of the plan, stored."""
        planned = schedule(self.snapshot).claims
        recorded = [self.launcher.record(claim, f"c{n}", self.snapshot, NOW) for n, claim in enumerate(planned)]
        records = [record for record in recorded if isinstance(record, ClaimRecord)]
        if shared:
            records = self.launcher.shared(records, self.snapshot, at_most=10)
        return [self.put(record) for record in records]

    def put(self, record: ClaimRecord) -> ClaimRecord:
        stored = msgspec.structs.replace(record, version=1)
        self.rows.claims[record.name] = stored
        self.rows.usage.setdefault("default", PoolUsage(node_pool="default", reserved={"cpu": 10**6, "nodes": 10**3}))
        return stored

    def launch(self, record: ClaimRecord | None = None) -> ClaimRecord | None:
        record = record or self.stored()[0]
        stored = self.launcher.launch([record], self.node_class, self.snapshot.catalogue, NOW, self.report)
        return stored.get(record.name)

    def answering(self, error: PortError) -> None:
        def fail(call: str) -> None:
            if call == "launch":
                raise error

        self.cloud.before_call = fail

    def outcomes(self) -> list[tuple[str, OutcomeState, str]]:
        return [(outcome.part, outcome.state, outcome.reason) for outcome in self.report.outcomes]


@pytest.fixture
def world() -> World:
    return World()


def test_a_launched_claim_holds_what_its_instance_has(world: World) -> None:
    launched = world.launch()
    assert launched is not None
    assert launched == world.rows.claims["c0"]
    assert (launched.phase, launched.phase_since, launched.instance_id) == (ClaimPhase.LAUNCHED, NOW, "i-0000")
    assert launched.reserved == {**TYPE.capacity, "nodes": 1}
    assert (launched.offerings, launched.plan.instance_types, launched.awaits_pods) == ((), (), False)
    (decision,) = world.report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("launch", "c0", ClaimReason.LAUNCHED)
    assert decision.message == "i-0000 (m5.large spot in us-east-1a) for 1 pods"
    assert world.outcomes() == [
        ("c0", OutcomeState.DONE, ClaimReason.LAUNCHED),
        ("i-0000", OutcomeState.DONE, ClaimReason.LAUNCHED),
    ]


def test_what_is_asked_for_is_stored_before_it_is_asked(world: World) -> None:
    """A run that dies in the call is followed by one that finds the same token and the same offerings."""
    seen: list[ClaimRecord] = []

    def note(call: str) -> None:
        if call == "launch":
            seen.append(world.rows.claims["c0"])

    world.cloud.before_call = note
    record = world.stored()[0]
    gone = record.offerings[0].key
    world.rows.refused[gone] = NOW + FIRST_PAUSE
    world.launch(record)
    (requested,) = seen
    assert gone not in {offering.key for offering in requested.offerings}
    assert labels.NODECLASS_HASH in requested.plan.annotations
    assert labels.NODECLASS_HASH not in record.plan.annotations
    (order,) = world.cloud.orders
    assert (order.token, order.offerings) == (requested.token, requested.offerings)


def test_a_claim_that_was_tried_keeps_the_class_that_it_was_asked_with(world: World) -> None:
    """Its instance may exist already, launched from the class as it was."""
    record = world.put(msgspec.structs.replace(world.stored()[0], attempts=1))
    launched = world.launch(record)
    assert launched is not None
    assert labels.NODECLASS_HASH not in launched.plan.annotations


def test_a_class_that_cannot_be_read_is_asked_for_all_the_same(world: World) -> None:
    """EC2's denial says why, and is kept."""
    world.node_class["spec"]["amiFamily"] = 7
    launched = world.launch()
    assert launched is not None
    assert labels.NODECLASS_HASH not in launched.plan.annotations


@pytest.mark.parametrize(("uses", "expected"), [(True, True), (False, False)])
def test_an_order_says_whether_reservations_may_be_used(uses: bool, expected: bool) -> None:
    world = World(uses_reservations=uses)
    world.launch()
    assert world.cloud.orders[0].uses_reservations is expected


def test_tokens_differ_by_cluster_claim_attempt_and_maker(world: World) -> None:
    """EC2 answers a token that it knows with the instances of its first order."""

    def token(cluster: str, name: str, made_by: str = "") -> str:
        planned = schedule(world.snapshot).claims[0]
        if made_by:
            planned = msgspec.structs.replace(planned, annotations={labels.MADE_BY_HAND: made_by})
        launcher = Launcher(world.requests, world.stores.claims, cluster=cluster)
        record = launcher.record(planned, name, world.snapshot, NOW)
        assert isinstance(record, ClaimRecord)
        return record.token

    tokens = [token("a", "c"), token("b", "c"), token("a", "d"), token("a", "c", "uid-1"), token("a", "c", "uid-2")]
    assert len(set(tokens)) == len(tokens)
    assert token("a", "c") == tokens[0]
    assert len(tokens[0]) == 32


def capacity_error(record: ClaimRecord) -> InsufficientCapacityError:
    refused = [RefusedOffering(offering.key, "InsufficientInstanceCapacity") for offering in record.offerings]
    return InsufficientCapacityError(CALL, "no capacity", refused)


class TestRefused:
    """The claim is forgotten, so that its pods are planned again; the reason is kept for the next launches."""

    def test_for_lack_of_capacity(self, world: World) -> None:
        record = world.stored()[0]
        error = capacity_error(record)
        world.answering(error)
        assert world.launch(record) is None
        assert "c0" not in world.rows.claims
        assert world.report.counts == {"refusedLaunches": 1}
        assert world.outcomes() == [("c0", OutcomeState.REFUSED, ClaimReason.INSUFFICIENT_CAPACITY)]
        assert world.report.outcomes[0].message == str(error)
        assert set(world.rows.refused) == {offering.key for offering in record.offerings}
        assert world.rows.brakes.breakers() == ()

    @pytest.mark.parametrize("names_offerings", [True, False])
    def test_for_good_reasons(self, world: World, *, names_offerings: bool) -> None:
        record = world.stored()[0]
        first = record.offerings[0].key
        named = LaunchDeniedError(CALL, "no", [RefusedOffering(first, "UnauthorizedOperation", "not allowed")])
        world.answering(
            named if names_offerings else DeniedError(CALL, "no", code="UnauthorizedOperation", message="not allowed")
        )
        assert world.launch(record) is None
        assert world.report.counts == {"deniedLaunches": 1}
        assert world.outcomes() == [("c0", OutcomeState.REFUSED, ClaimReason.LAUNCH_DENIED)]
        (denial,) = world.rows.denials.values()
        assert (denial.code, denial.message) == ("UnauthorizedOperation", "not allowed")
        (breaker,) = world.rows.brakes.breakers()
        assert breaker.node_pool == "default"

    def test_before_ec2_is_asked(self, world: World) -> None:
        record = world.stored()[0]
        world.rows.refused = {offering.key: NOW + FIRST_PAUSE for offering in record.offerings}
        assert world.launch(record) is None
        assert (world.report.counts, world.cloud.orders) == ({"heldBackLaunches": 1}, [])
        assert world.outcomes() == [("c0", OutcomeState.REFUSED, ClaimReason.LAUNCH_HELD_BACK)]


class TestUnclear:
    """EC2 may have launched: the claim stays, and looks for its instance before it is tried again."""

    def test_the_token_stays_and_the_error_is_kept(self, world: World) -> None:
        record = world.stored()[0]
        world.answering(TransientError(CALL, "x" * 500))
        stored = world.launch(record)
        assert stored is not None
        assert stored == world.rows.claims["c0"]
        assert (stored.attempts, stored.token, stored.reason) == (1, record.token, ClaimReason.LAUNCH_FAILED)
        assert (len(stored.message), world.report.counts) == (300, {"unclearLaunches": 1})
        assert stored.phase is ClaimPhase.REQUESTED

    def test_a_token_that_ec2_knows_from_another_order_is_replaced(self, world: World) -> None:
        record = world.stored()[0]
        world.answering(ConflictError(CALL, "IdempotentParameterMismatch"))
        stored = world.launch(record)
        assert stored is not None
        again = world.launch(stored)
        assert again is not None
        assert len({record.token, stored.token, again.token}) == 3
        assert (stored.attempts, again.attempts) == (1, 2)

    def test_a_shared_launch_is_first_looked_for_and_then_left(self, world: World) -> None:
        """Another run may have asked for it: one of its instances may be left for the claim."""
        first, _ = world.stored(shared=True)
        assert (first.shares, first.share) == (2, 0)
        stored = world.launch(first)
        assert stored is not None
        assert world.cloud.orders == []
        assert (stored.token, stored.shares, stored.attempts) == (first.token, 2, 1)
        again = world.launch(stored)
        assert again is not None
        assert (again.shares, again.share, world.cloud.orders) == (1, 0, [])
        assert again.token != first.token


class TestLaunchedNothing:
    """EC2 launched nothing for a cause that passes: the claims go on sharing the launch."""

    def settled(self, world: World, error: PortError) -> list[ClaimRecord]:
        records = world.stored(shared=True)
        world.answering(error)
        self.request(world, records)
        return list(world.rows.claims.values())

    def request(self, world: World, records: Sequence[ClaimRecord]) -> None:
        """A throttled request says how long to wait; it is stored all the same."""
        with suppress(ThrottledError):
            stored = world.launcher.launch(records, world.node_class, world.snapshot.catalogue, NOW, world.report)
            assert stored == world.rows.claims

    def test_a_throttled_request_is_sent_again_unchanged(self, world: World) -> None:
        before = world.stored(shared=True)[0]
        records = self.settled(world, ThrottledError(CALL, "RequestLimitExceeded"))
        assert [(record.shares, record.share, record.attempts) for record in records] == [(2, 0, 0), (2, 1, 0)]
        assert {record.token for record in records} == {before.token}
        assert world.report.counts == {"throttledLaunches": 2}
        assert {record.reason for record in records} == {ClaimReason.LAUNCH_FAILED}

    def test_an_unfulfilled_one_gets_a_token_that_ec2_does_not_know(self, world: World) -> None:
        """EC2 repeats its answer to a token that it knows, for as long as it is asked."""
        before = world.stored(shared=True)[0]
        records = self.settled(world, UnfulfilledError(CALL, "RequestLimitExceeded"))
        assert [(record.shares, record.share, record.attempts) for record in records] == [(2, 0, 0), (2, 1, 0)]
        (token,) = {record.token for record in records}
        assert token != before.token

    def test_the_next_request_launches_all(self, world: World) -> None:
        records = self.settled(world, UnfulfilledError(CALL, "RequestLimitExceeded"))
        world.cloud.before_call = lambda _: None
        world.launcher.launch(records, world.node_class, world.snapshot.catalogue, NOW, world.report)
        assert [order.count for order in world.cloud.orders] == [2]
        assert len({record.instance_id for record in world.rows.claims.values()}) == 2

    def test_a_row_that_another_run_has_changed_does_not_keep_the_others_from_their_instances(
        self, world: World
    ) -> None:
        first, second = world.stored(shared=True)

        def change(call: str) -> None:
            if call == "launch":
                world.rows.claims["c1"] = msgspec.structs.replace(second, version=9)

        world.cloud.before_call = change
        stored = world.launcher.launch([first, second], world.node_class, world.snapshot.catalogue, NOW, world.report)
        assert sorted(stored) == ["c0", "c1"]
        assert world.rows.claims["c0"].machine is not None

    def test_a_new_token_is_stored_although_another_run_wrote_the_row(self, world: World) -> None:
        """Otherwise, EC2 repeats its answer to the old token for as long as the claim lives."""
        first, second = world.stored(shared=True)

        def change(call: str) -> None:
            if call == "launch":
                world.rows.claims["c1"] = msgspec.structs.replace(second, version=9, message="written meanwhile")
                raise UnfulfilledError(CALL, "RequestLimitExceeded")

        world.cloud.before_call = change
        world.launcher.launch([first, second], world.node_class, world.snapshot.catalogue, NOW, world.report)
        (token,) = {record.token for record in world.rows.claims.values()}
        assert token != first.token

    def test_only_the_first_of_several_throttled_tries_is_written(self, world: World) -> None:
        """Two runs that try the same claims would otherwise be in each other's way."""
        records = self.settled(world, ThrottledError(CALL, "the next request may be sent in 20 s"))
        world.answering(ThrottledError(CALL, "the next request may be sent in 10 s"))
        self.request(world, records)
        assert list(world.rows.claims.values()) == records

    def test_offerings_that_it_tried_again_are_left_to_the_next_launch(self, world: World) -> None:
        """EC2 has said nothing about them."""
        record = world.stored()[0]
        world.rows.refused = {offering.key: NOW for offering in record.offerings}
        world.answering(ThrottledError(CALL, "RequestLimitExceeded"))
        self.request(world, [record])
        world.cloud.before_call = lambda _: None
        launched = world.launch(world.rows.claims["c0"])
        assert launched is not None
        assert launched.machine is not None


class TestShared:
    """One order for claims of one shape."""

    def launched(self, world: World) -> list[ClaimRecord | None]:
        records = world.stored(shared=True)
        answer = world.requests.ask(records, world.node_class, world.snapshot.catalogue, NOW, world.report)
        return [
            world.launcher.answer_writer.settle(record, answer, world.snapshot.catalogue, NOW, world.report)
            for record in records
        ]

    def test_each_gets_the_instance_of_its_share(self, world: World) -> None:
        records = self.launched(world)
        assert [record and record.instance_id for record in records] == ["i-0000", "i-0001"]
        assert [order.count for order in world.cloud.orders] == [2]

    def test_those_without_an_instance_are_forgotten(self, world: World) -> None:
        world.cloud.room = 1
        records = self.launched(world)
        assert [record and record.instance_id for record in records] == ["i-0000", None]
        assert world.report.counts == {"refusedLaunches": 1}
        assert world.report.outcomes[-1].message == "EC2 launched 1 of the 2 asked for"
        assert list(world.rows.claims) == ["c0"]

    def test_the_launch_returns_those_that_go_on_as_they_are_stored(self, world: World) -> None:
        """A caller that takes a forgotten claim for a stored one checks it until its chain ends."""
        world.cloud.room = 1
        records = world.stored(shared=True)
        stored = world.launcher.launch(records, world.node_class, world.snapshot.catalogue, NOW, world.report)
        assert stored == world.rows.claims
        assert list(stored) == ["c0"]

    def test_one_that_leaves_the_launch_asks_for_itself(self, world: World) -> None:
        record = world.launcher.alone(world.stored(shared=True)[1])
        assert (record.shares, record.share) == (1, 0)
        assert world.rows.claims["c1"].token == record.token
        assert world.launch(record) is not None


class TestStoring:
    """The instance runs: what happens to the row must not launch a second one."""

    def changing(self, world: World, *answers: Callable[[], None] | None) -> None:
        """Play these before the changes that follow the launch, one after the other; None for success."""
        remaining = iter(answers)

        def before(call: str) -> None:
            if call == "write" and world.cloud.orders:
                act = next(remaining, None)
                if act is not None:
                    act()

        world.rows.before_call = before

    def fail(self) -> None:
        raise TransientError("dynamodb:UpdateItem", "throttled")

    def touched(self, world: World) -> Callable[[], None]:
        """Another run changes the row."""

        def touch() -> None:
            record = world.rows.claims["c0"]
            world.rows.claims["c0"] = msgspec.structs.replace(record, version=record.version + 1, message="touched")

        return touch

    def test_a_conflict_stores_it_on_the_current_row(self, world: World) -> None:
        self.changing(world, self.touched(world))
        launched = world.launch()
        assert launched is not None
        assert launched.instance_id == "i-0000"
        assert len(world.cloud.orders) == 1

    def test_a_table_that_fails_is_tried_again_a_few_times(self, world: World) -> None:
        self.changing(world, *[self.fail] * (STORE_ATTEMPTS - 1))
        launched = world.launch()
        assert launched is not None
        assert launched.instance_id == "i-0000"

    def test_after_the_last_time_the_error_is_raised(self, world: World) -> None:
        self.changing(world, *[self.fail] * STORE_ATTEMPTS)
        with pytest.raises(TransientError):
            world.launch()
        assert world.rows.claims["c0"].machine is None

    def test_a_row_that_is_gone_cannot_be_stored(self, world: World) -> None:
        def drop() -> None:
            world.rows.claims.clear()
            self.fail()

        self.changing(world, drop)
        with pytest.raises(TransientError):
            world.launch()

    def test_one_that_another_run_stored_is_returned(self, world: World) -> None:
        def adopt() -> None:
            record = world.rows.claims["c0"]
            machine = world.launcher.answer_writer.adopt(
                record, world.cloud.instances()[0], world.snapshot.catalogue, NOW
            ).machine
            world.rows.claims["c0"] = msgspec.structs.replace(record, machine=machine, version=9)
            self.fail()

        self.changing(world, adopt)
        launched = world.launch()
        assert launched is not None
        assert launched.version == 9


def test_an_instance_of_an_unknown_type_holds_what_was_reserved(world: World) -> None:
    """What it has is not known, so the limits would seem to have its room."""
    record = world.stored()[0]
    world.snapshot = a_snapshot(types=(a_type("c5.large"),))
    launched = world.launch(record)
    assert launched is not None
    assert launched.reserved == record.reserved != {}


def test_a_launch_shows_what_ec2_refused_on_the_way(world: World) -> None:
    """It remembers a refusal of one offering, and forgets one of the offering that it got."""
    record = world.stored()[0]
    got, other = record.offerings[0].key, OfferingKey("m5.large", "us-east-1c", labels.ON_DEMAND)
    world.rows.refused[got] = NOW
    launched = world.cloud.launch

    def launch(order: Any) -> Any:
        return msgspec.structs.replace(
            launched(order), refused=(RefusedOffering(other, "InsufficientInstanceCapacity"),)
        )

    world.cloud.launch = launch  # type: ignore[method-assign] - EC2 names both in one answer
    assert world.launch(record) is not None
    assert set(world.rows.refused) == {other}


# Many launches at once, and the result of each.


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(6)))
    return lab


@pytest.fixture
def unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claim has a launch of its own."""
    monkeypatch.setattr("lambdas.controllers.provisioning.SHARES_MAX", 1)


def runs(lab: Lab) -> list[int]:
    """How many launches run at once, wave by wave."""
    sizes: list[int] = []

    def noted(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        sizes.append(len(tasks))
        return in_turn(tasks, patience)

    lab.app.adapters.run_tasks = TaskRunners(in_turn, noted)
    return sizes


@pytest.mark.usefixtures("unlike")
def test_the_first_launch_of_a_class_goes_ahead_and_the_others_follow_at_once(lab: Lab) -> None:
    """Otherwise, thirty launches at once are denied thirty times."""
    sizes = runs(lab)
    lab.provision()
    assert sizes == [1, 5]
    assert {claim.phase for claim in lab.claims} == {ClaimPhase.LAUNCHED}


def test_a_launch_denied_to_the_first_is_not_tried_by_the_others(lab: Lab) -> None:
    calls: list[str] = []

    def deny(_: str) -> None:
        calls.append("launch")
        raise DeniedError("ec2:CreateFleet", "UnauthorizedOperation: no", code="UnauthorizedOperation")

    lab.cloud.before_call = lambda call: deny(call) if call == "launch" else None
    lab.provision()
    assert calls == ["launch"]
    assert lab.claims == ()
    ((_, denial),) = lab.rows.denials.items()
    assert denial.is_engaged


@pytest.mark.usefixtures("unlike")
def test_a_launch_that_does_not_end_in_time_is_left_to_another_run(lab: Lab) -> None:
    """Its instance may exist; a claim without follow-up would lose it."""

    def hang(tasks: Sequence[Task], patience: timedelta) -> tuple[bool, ...]:
        in_turn(tasks[:-1], patience)
        return (*(True for _ in tasks[:-1]), False)

    lab.app.adapters.run_tasks = TaskRunners(in_turn, hang)
    report = lab.provision()
    assert report.counts["unfinishedLaunches"] == 2
    messages: list[JsonObject] = lab.work.take()
    assert all(claim.name in str(messages) for claim in lab.claims)


@pytest.mark.usefixtures("unlike")
def test_no_launch_begins_close_to_the_end_of_the_run(lab: Lab) -> None:
    """The run would be cut off in the middle of it, and its instance be known to nobody until it is listed."""
    lab.cloud.before_call = lambda call: lab.clock.advance(seconds=50) if call == "launch" else None
    lab.provision()
    assert sorted(claim.phase for claim in lab.claims) == [ClaimPhase.LAUNCHED] + [ClaimPhase.REQUESTED] * 5
    messages: list[JsonObject] = lab.work.take()
    assert all(claim.name in str(messages) for claim in lab.claims if claim.phase is ClaimPhase.REQUESTED)


@pytest.mark.usefixtures("unlike")
@pytest.mark.parametrize(("seconds", "begun"), [(45, 6), (46, 1)])
def test_a_launch_begins_up_to_fifteen_seconds_before_the_end(lab: Lab, seconds: int, begun: int) -> None:
    spent = [seconds]
    lab.cloud.before_call = lambda call: (
        lab.clock.advance(seconds=spent.pop() if spent else 0) if call == "launch" else None
    )
    lab.provision()
    assert sum(claim.phase is ClaimPhase.LAUNCHED for claim in lab.claims) == begun


@pytest.mark.usefixtures("unlike")
def test_a_failing_launch_affects_no_other(lab: Lab) -> None:
    errors = [TransientError("ec2:CreateFleet", "503")]

    def fail_once(call: str) -> None:
        if call == "launch" and errors:
            raise errors.pop()

    lab.cloud.before_call = fail_once
    lab.provision()
    assert sorted(claim.phase for claim in lab.claims) == [ClaimPhase.LAUNCHED] * 5 + [ClaimPhase.REQUESTED]


def test_claims_of_one_shape_are_asked_for_with_one_request(lab: Lab) -> None:
    """EC2 takes five requests a second; a thousand nodes would take minutes."""
    lab.provision()
    (order,) = lab.cloud.orders
    assert order.count == 6
    assert len({claim.instance_id for claim in lab.claims}) == 6


def test_claims_that_got_no_instance_are_planned_again(lab: Lab) -> None:
    """Of a fleet that is fulfilled in part the others have nothing to wait for."""
    lab.cloud.room = 4
    report = lab.provision()
    assert report.counts["refusedLaunches"] == 2
    assert [order.count for order in lab.cloud.orders] == [6, 2]
    assert len({claim.instance_id for claim in lab.claims}) == 6


@pytest.mark.parametrize("dies_at", range(1, 30, 2))
def test_a_run_that_dies_anywhere_leaves_one_instance_for_each_claim(lab: Lab, dies_at: int) -> None:
    """Between the request and the last row, some claims have their instance and others do not know of theirs."""
    remaining = dies_at

    def die(_: str) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            raise CrashError

    lab.rows.before_call = lab.rows.after_call = lab.cloud.after_call = die
    with suppress(CrashError):
        lab.provision()
    lab.rows.before_call = lab.rows.after_call = lab.cloud.after_call = lambda _: None
    lab.restart()
    lab.clock.advance(minutes=2)
    lab.provision()
    lab.tick(3)
    assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
    assert len(lab.claims) == 6


def test_claims_whose_answer_is_lost_find_an_instance_each(lab: Lab) -> None:
    """The instances exist; nobody knows which is whose."""
    lost = [TransientError("ec2:CreateFleet", "timed out")]

    def lose(call: str) -> None:
        if call == "launch" and lost:
            raise lost.pop()

    lab.cloud.after_call = lose
    lab.provision()
    assert all(claim.machine is None for claim in lab.claims)
    lab.tick(3)
    assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
    assert len(lab.cloud.orders) == 1


def test_a_launch_that_lost_a_claim_to_a_limit_launches_no_instance_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was made before other claims took the room; an instance without a claim would be beyond the limit."""
    claims = lab.app.adapters.stores.claims
    request = claims.request

    def without_room(wanted: Sequence[ClaimRecord], *more: Any) -> Requested:
        return Requested(request(wanted[:-1], *more).accepted, tuple(wanted[-1:]))

    monkeypatch.setattr(claims, "request", without_room)
    lab.provision()
    assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]
    assert len(lab.claims) == 5


class TestAThrottledLaunch:
    """EC2 did nothing, so it is requested again as a whole; split, a launch of 50 would be 50 requests."""

    @pytest.fixture(autouse=True)
    def throttle(self, lab: Lab) -> None:
        self.asked = 0

        def refuse(call: str) -> None:
            if call == "launch":
                self.asked += 1
                raise ThrottledError("ec2:CreateFleet", "RequestLimitExceeded")

        lab.cloud.before_call = refuse
        lab.provision()
        assert len(lab.claims) == 6

    def end(self, lab: Lab) -> None:
        lab.cloud.before_call = lambda _: None

    def test_is_requested_by_one_claim_for_all(self, lab: Lab) -> None:
        lab.tick(3)
        assert self.asked <= 4
        assert {claim.shares for claim in lab.claims} == {6}
        self.end(lab)
        lab.tick(1)
        assert [order.count for order in lab.cloud.orders] == [6]
        assert len({claim.instance_id for claim in lab.claims}) == 6

    def test_waits_as_long_as_the_pace_says(self, lab: Lab) -> None:
        """Otherwise, each waiting claim reads refusals, limits and claims every second, and none may launch."""

        def refuse(call: str) -> None:
            if call == "launch":
                raise ThrottledError("ec2:CreateFleet", "the next request may be sent in 30 s", timedelta(seconds=30))

        lab.cloud.before_call = refuse
        lab.tick(1)
        (waits,) = {delay for message, delay in lab.work.sent if message.get("failures")}
        assert waits == timedelta(seconds=30)

    def test_leaves_out_a_claim_whose_pods_have_found_a_place(self, lab: Lab) -> None:
        """The others are launched alone: the token stands for six instances."""
        self.end(lab)
        gone = lab.claims[3]
        namespace, _, name = gone.plan.pods[0].partition("/")
        lab.kubernetes.amend(resources.PODS, name, {"spec": {"nodeName": "elsewhere"}}, namespace)
        lab.tick(3)
        assert gone.name not in {claim.name for claim in lab.claims}
        assert [order.count for order in lab.cloud.orders] == [1] * 5
        assert len({claim.instance_id for claim in lab.claims}) == 5

    def test_does_not_wait_for_a_first_claim_that_is_gone(self, lab: Lab) -> None:
        """Somebody may have deleted it."""
        self.end(lab)
        del lab.rows.claims[min(lab.claims, key=lambda claim: claim.share).name]
        lab.tick(3)
        assert len(lab.claims) == 5
        assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]

    def test_is_requested_as_a_whole_after_a_run_died_while_it_gave_new_tokens(self, lab: Lab) -> None:
        """EC2 repeats its answer to the old token, and the claims with the new one are not all."""
        self.end(lab)
        first, *others = sorted(lab.claims, key=lambda claim: claim.share)
        for claim in (first, *others[:2]):
            lab.rows.claims[claim.name] = msgspec.structs.replace(claim, token="new")
        lab.tick(3)
        assert [(order.token, order.count) for order in lab.cloud.orders] == [("new", 6)]
        assert len({claim.instance_id for claim in lab.claims}) == 6

    def test_does_not_launch_again_what_an_answer_is_known_to(self, lab: Lab) -> None:
        """The first claim was settled, and the run died then: the others look for their instances."""
        self.end(lab)
        first, *_ = sorted(lab.claims, key=lambda claim: claim.share)
        lab.rows.claims[first.name] = msgspec.structs.replace(first, attempts=1)
        lab.tick(4)
        assert all(claim.machine is not None for claim in lab.claims)
        assert sorted(claim.instance_id for claim in lab.claims) == [i.instance_id for i in lab.cloud.instances()]


class TestAGroup:
    """Eight pods that start together are of no use with seven nodes: no part of a group's launch goes without the rest."""

    @pytest.fixture
    def lab(self) -> Lab:
        marks = {labels.GROUP: "train", labels.GROUP_MINIMUM: "6", labels.GROUP_TOPOLOGY: labels.ZONE}
        lab = Lab()
        lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3", metadata={"annotations": marks}) for n in range(6)))
        return lab

    def test_is_not_launched_without_a_claim_that_a_limit_refuses(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        claims = lab.app.adapters.stores.claims
        request = claims.request

        def without_room(wanted: Sequence[ClaimRecord], *more: Any) -> Requested:
            return Requested(request(wanted[:-1], *more).accepted, tuple(wanted[-1:]))

        monkeypatch.setattr(claims, "request", without_room)
        lab.provision()
        assert (lab.cloud.orders, lab.claims) == ([], ())

    @pytest.mark.usefixtures("unlike")
    @pytest.mark.parametrize("refuses", ["limit", "EC2"])
    def test_leaves_nothing_to_execute_once_a_part_is_refused(
        self, refuses: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`execute` would launch one claim after the other, and see only one launch of the group each time."""
        monkeypatch.setattr(lab.app.provisioning.launches._launches, "_at_most", 1)
        if refuses == "limit":
            claims = lab.app.adapters.stores.claims
            request = claims.request

            def without_room(wanted: Sequence[ClaimRecord], *more: Any) -> Requested:
                return Requested(request(wanted[:-1], *more).accepted, tuple(wanted[-1:]))

            monkeypatch.setattr(claims, "request", without_room)
        else:
            lab.cloud.room = 0
        lab.provision()
        assert lab.claims == ()
        assert not [message for message in lab.work.take() if "claim" in str(message)]

    def test_is_not_launched_without_a_claim_whose_class_is_unknown(self) -> None:
        world = World()
        records = []
        for record, name in zip(world.stored(), ("default", "gone"), strict=True):
            node_class = msgspec.structs.replace(record.plan.node_class, name=name)
            marks = {labels.GROUP_OF_CLAIM: "AnnotatedGroup/default/train"}
            plan = msgspec.structs.replace(record.plan, node_class=node_class, annotations=marks)
            records.append(world.put(msgspec.structs.replace(record, plan=plan)))
        launches = ParallelLaunches(world.requests, world.launcher, in_turn, world.clock, at_most=10)
        classes, until = {"default": world.node_class}, NOW + timedelta(minutes=1)
        requested = Requested(tuple(records))
        result = launches.launch(requested, classes, world.snapshot.catalogue, world.report, until)
        assert (world.cloud.orders, world.rows.claims, result.left) == ([], {}, [])
        assert sorted(result.refused) == ["c0", "c1"]

    def test_is_not_launched_without_a_claim_that_cannot_be_made(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A claim that our code fails on is set aside."""

        def fail_once(*_: Any) -> Any:
            monkeypatch.undo()
            raise KeyError("offering")

        monkeypatch.setattr(lab.app.provisioning.claim_records._launcher, "record", fail_once)
        lab.provision()
        assert (lab.cloud.orders, lab.claims) == ([], ())

    def test_is_planned_again_if_a_pod_of_its_unlaunched_claims_has_found_a_place(self, lab: Lab) -> None:
        """The token stands for six instances, and one by one, EC2 could launch some of five."""

        def refuse(call: str) -> None:
            if call == "launch":
                raise ThrottledError(CALL, "RequestLimitExceeded")

        lab.cloud.before_call = refuse
        lab.provision()
        lab.cloud.before_call = lambda _: None
        namespace, _, name = lab.claims[3].plan.pods[0].partition("/")
        lab.kubernetes.amend(resources.PODS, name, {"spec": {"nodeName": "elsewhere"}}, namespace)
        lab.tick(3)
        lab.provision()
        assert [order.count for order in lab.cloud.orders] == [5]
        assert len({claim.instance_id for claim in lab.claims}) == 5

    def test_is_planned_again_if_its_lost_launch_leaves_no_instance_for_a_claim(self, lab: Lab) -> None:
        """EC2 launched four of six, and the answer was lost: the two others are asked for together."""
        lab.cloud.room = 4
        lost = [TransientError(CALL, "timed out")]

        def lose(call: str) -> None:
            if call == "launch" and lost:
                raise lost.pop()

        lab.cloud.after_call = lose
        lab.provision()
        for _ in range(4):
            lab.tick(3)
            lab.clock.advance(minutes=1)
            lab.provision()
        assert 1 not in [order.count for order in lab.cloud.orders]
