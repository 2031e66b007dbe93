"""What EC2 is asked for is stored first; one request serves claims that share a launch."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.ports import ConflictError, DeniedError, InsufficientCapacityError, LostReplyError
from core.launch.denials.denial import FIRST_PAUSE, LaunchDenial
from core.launch.denials.subnets import subnet_key
from core.lifecycle.records import ClaimRecord
from core.reasons.claim import ClaimReason
from lambdas.controllers.launching.launch_answer import LaunchAnswer
from tests.builders import NOW
from tests.unit.lambdas.controllers.launching.test_launching import CALL, World, capacity_error

ENDED = "Client.InternalError"


def ask(world: World, records: list[ClaimRecord]) -> LaunchAnswer:
    return world.requests.ask(records, world.node_class, world.snapshot.catalogue, NOW, world.report)


@pytest.fixture
def world() -> World:
    return World()


def test_a_subnet_without_free_addresses_is_left_out_of_the_order(world: World) -> None:
    (record, *_) = world.stored()
    zone = record.offerings[0].zone
    world.node_class["status"] = {"subnets": [{"id": f"subnet-{n}", "zone": zone} for n in (1, 2)]}
    world.rows.refused[subnet_key("subnet-1")] = NOW + FIRST_PAUSE
    ask(world, [record])
    assert [order.avoided_subnets for order in world.cloud.orders] == [("subnet-1",)]


def test_the_subnets_of_a_request_are_stored_before_it_is_sent(world: World) -> None:
    """Otherwise, the same token would mean another request once the refusal is forgotten."""
    (record, *_) = world.stored()
    zone = record.offerings[0].zone
    world.node_class["status"] = {"subnets": [{"id": f"subnet-{n}", "zone": zone} for n in (1, 2, 3)]}
    record = world.put(msgspec.structs.replace(record, subnets={zone: "subnet-2"}))
    world.rows.refused[subnet_key("subnet-2")] = NOW + FIRST_PAUSE
    answer = ask(world, [record])
    assert [order.subnets for order in world.cloud.orders] == [{zone: "subnet-1"}]
    assert answer.asked[record.name].subnets == {zone: "subnet-1"}


def test_a_claim_that_is_held_back_is_neither_stored_nor_asked_for(world: World) -> None:
    (record, *_) = world.stored()
    world.rows.refused = {offering.key: NOW + FIRST_PAUSE for offering in record.offerings}
    answer = ask(world, [record])
    assert answer.held_back is not None
    assert (world.cloud.orders, world.rows.claims[record.name]) == ([], record)


def test_all_claims_of_a_shared_launch_store_what_is_asked_for(world: World) -> None:
    records = world.stored(shared=True)
    gone = records[0].offerings[0].key
    world.rows.refused[gone] = NOW + FIRST_PAUSE
    answer = ask(world, records)
    assert sorted(answer.asked) == ["c0", "c1"]
    assert answer.asked == {record.name: world.rows.claims[record.name] for record in records}
    assert all(gone not in [o.key for o in record.offerings] for record in answer.asked.values())


def test_a_part_of_a_shared_launch_is_not_asked_for(world: World) -> None:
    """Another run may have asked for all of it; the same token with another request is an error."""
    (record, _) = world.stored(shared=True)
    answer = ask(world, [record])
    assert isinstance(answer.error, ConflictError)
    assert (answer.asked, world.cloud.orders) == ({record.name: record}, [])


def test_what_was_asked_before_is_not_written_again(world: World) -> None:
    (record, *_) = world.stored()
    ask(world, [record])
    (tried,) = [found for found in world.rows.claims.values() if found.name == record.name]
    tried = world.put(msgspec.structs.replace(tried, attempts=1))
    ask(world, [tried])
    assert world.rows.claims[record.name] == tried


class TestAfterInstancesEndedWhileTheyStarted:
    """One instance is tried until its node joins."""

    @pytest.fixture(autouse=True)
    def remember(self, world: World) -> None:
        world.rows.denials["default", ENDED] = LaunchDenial(
            node_class="default",
            code=ENDED,
            until=NOW - timedelta(seconds=1),
            in_a_row=1,
            pauses=1,
            denied_at=NOW,
            version=1,
        )

    def test_a_shared_launch_asks_for_one_instance(self, world: World) -> None:
        records = world.stored(shared=True)
        answer = ask(world, records)
        assert [order.count for order in world.cloud.orders] == [1]
        assert (answer.is_try, list(answer.asked)) == (True, ["c0"])
        assert world.rows.claims["c0"].tries == (ENDED,)
        assert world.rows.claims["c1"] == records[1]

    def test_a_launch_of_one_asks_as_always(self, world: World) -> None:
        (record, *_) = world.stored()
        answer = ask(world, [record])
        assert (answer.is_try, world.rows.claims[record.name].tries) == (False, (ENDED,))

    @pytest.mark.parametrize(
        "error",
        [
            InsufficientCapacityError(CALL, "no capacity", []),
            DeniedError(CALL, "no", code="UnauthorizedOperation"),
            LostReplyError(CALL, "timed out"),
        ],
    )
    def test_a_failure_of_the_try_is_known_as_one(self, world: World, error: Exception) -> None:
        """The other claims of the launch wait, and are not refused with it."""
        world.answering(error)  # type: ignore[arg-type] - errors of the port
        assert ask(world, world.stored(shared=True)).is_try


class TestAFailure:
    """It is remembered for the launches of others."""

    def test_for_lack_of_capacity_closes_the_offerings(self, world: World) -> None:
        (record, *_) = world.stored()
        world.answering(capacity_error(record))
        answer = ask(world, [record])
        assert isinstance(answer.error, InsufficientCapacityError)
        assert set(world.rows.refused) == {offering.key for offering in record.offerings}
        assert world.brakes.breakers() == ()

    def test_by_denial_counts_in_the_breaker(self, world: World) -> None:
        (record, *_) = world.stored()
        world.answering(DeniedError(CALL, "no", code="UnauthorizedOperation", said="not allowed"))
        ask(world, [record])
        (denial,) = world.rows.denials.values()
        assert (denial.call, denial.message) == (CALL, "not allowed")
        (breaker,) = world.brakes.breakers()
        assert (breaker.failures, breaker.message) == (1, f"{record.name}, {ClaimReason.LAUNCH_DENIED}")

    def test_whose_answer_was_lost_says_nothing(self, world: World) -> None:
        (record, *_) = world.stored()
        world.answering(LostReplyError(CALL, "timed out"))
        answer = ask(world, [record])
        assert isinstance(answer.error, LostReplyError)
        assert (world.rows.refused, world.rows.denials, world.brakes.breakers()) == ({}, {}, ())
