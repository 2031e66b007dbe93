"""Limits of NodePools: reserved and released with the claims that count, to the last node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest

from adapters.aws.dynamodb.coordination import DynamoLeases
from adapters.aws.dynamodb.launch_memory import MILLISECOND, PACE_PARTITION, DynamoRequestPace
from adapters.aws.dynamodb.table import DynamoTable, key
from adapters.ports import ConflictError, ThrottledError, TransientError
from adapters.store import PLANNER, ClaimChange, PoolUsage
from core.launch.selection import AT_ONCE, FASTEST, LONGEST_WAIT, SLOWEST, token_time
from core.lifecycle.metering import SpendMeter
from core.model.node_pool import GROUP_COUNTER
from core.model.values.quantity import PPM
from core.pools import with_charges
from lambdas.controllers.run_requests import mismatches
from tests.contract.store.stores import MINUTE, NOW, Store, claim, counters, dynamo, requested

CALLERS = 12
ATTEMPTS = 40


def test_a_limit_is_kept_to_the_last_node(store: Store) -> None:
    """Otherwise, a NodePool costs more than its owner allowed."""
    claims = [claim(f"c{n}") for n in range(5)]
    requested = store.stores.claims.request(claims, {"default": {"nodes": 3}}, store.planner())
    assert [record.name for record in requested.accepted] == ["c0", "c1", "c2"]
    assert [record.name for record in requested.refused] == ["c3", "c4"]
    assert requested.full == {"c3": "default", "c4": "default"}
    assert len(store.stores.claims.all()) == 3


def test_pools_have_limits_of_their_own(store: Store) -> None:
    claims = [claim("a", pool="one"), claim("b", pool="two")]
    requested = store.stores.claims.request(claims, {"one": {"cpu": 1000}}, store.planner())
    assert [record.name for record in requested.accepted] == ["b"]


def test_limits_that_node_pools_share_are_kept_together(store: Store) -> None:
    """Each claim counts for its NodePool and its groups from its request to its end, and a recount has the same sums."""
    claims = [
        msgspec.structs.replace(claim("a", pool="one"), limit_groups=("team",)),
        msgspec.structs.replace(claim("b", pool="two"), limit_groups=("all", "team")),
        claim("c", pool="two"),
    ]
    limits = {GROUP_COUNTER + "team": {"nodes": 1}, GROUP_COUNTER + "all": {"nodes": 9}}
    requested = store.stores.claims.request(claims, limits, store.planner())
    assert [accepted.name for accepted in requested.accepted] == ["a", "c"]
    assert requested.full == {"b": GROUP_COUNTER + "team"}
    assert mismatches(store.stores.claims, store.stores.claims.all()) == []
    (going_,) = store.stores.claims.disrupt([ClaimChange(requested.accepted[0], requested.accepted[0])], {}).claims
    assert [usage.disrupting for usage in store.stores.claims.usage()] == [1, 0, 0]
    assert mismatches(store.stores.claims, store.stores.claims.all()) == []
    store.stores.claims.forget(going_)
    again = store.stores.claims.request([claims[1]], limits, store.planner())
    assert [accepted.name for accepted in again.accepted] == ["b"]


def test_a_cap_counts_a_share_of_each_claim_and_a_recount_has_the_same_sums(store: Store) -> None:
    """Rounded up: two claims of which a cap counts half are two nodes, and never more vCPUs than the cap has."""
    plan = msgspec.structs.replace(claim("a").plan, annotations=with_charges({}, {"costs/shop": PPM // 2}))
    claims = [msgspec.structs.replace(claim(name), plan=plan) for name in "abc"]
    limits = {GROUP_COUNTER + "costs/shop": {"nodes": 2, "cpu": 10_000}}
    requested = store.stores.claims.request(claims, limits, store.planner())
    assert [accepted.name for accepted in requested.accepted] == ["a", "b"]
    assert mismatches(store.stores.claims, store.stores.claims.all()) == []
    counted = {usage.node_pool: usage.reserved for usage in store.stores.claims.usage()}
    reserved = requested.accepted[0].reserved
    assert counted[GROUP_COUNTER + "costs/shop"] == {"nodes": 2, "cpu": 2 * -(-reserved["cpu"] // 2)}
    store.stores.claims.forget(requested.accepted[0])
    again = store.stores.claims.request([claims[2]], limits, store.planner())
    assert [accepted.name for accepted in again.accepted] == ["c"]


def test_a_cap_that_counts_all_nodes_by_now_counts_a_claim_once(store: Store) -> None:
    """It was launched for pods that the cap selected; a recount has the same sums."""
    claims = store.stores.claims
    plan = msgspec.structs.replace(claim("a").plan, annotations=with_charges({}, {"costs/shop": PPM // 4}))
    (charged,) = claims.request([msgspec.structs.replace(claim("a"), plan=plan)], {}, store.planner()).accepted
    joined = msgspec.structs.replace(charged, limit_groups=("costs/shop",), counted_since={"costs/shop": NOW})
    counted_once = claims.change(charged, joined, {"costs/shop": 5})
    counted = {usage.node_pool: usage.reserved for usage in claims.usage()}
    assert (counted[GROUP_COUNTER + "costs/shop"], claims.get("a")) == (charged.reserved, counted_once)
    assert mismatches(claims, claims.all()) == []
    claims.forget(counted_once)
    assert all(not any(usage.reserved.values()) for usage in claims.usage())


def test_meters_add_what_ended_claims_cost_and_keep_the_first_reading_of_each_period(store: Store) -> None:
    """A claim that is gone, or that has changed, adds nothing a second time."""
    claims = store.stores.claims
    first, second = claims.request([claim("a"), claim("b")], {}, store.planner()).accepted
    claims.forget(first, {"costs/shop": 5, "costs/all": 7})
    claims.forget(first, {"costs/shop": 5, "costs/all": 7})
    changed = claims.change(second, msgspec.structs.replace(second, node_name="one"))
    with pytest.raises(ConflictError):
        claims.forget(second, {"costs/shop": 5})
    claims.forget(changed, {"costs/shop": 4})
    for since, reading in ((NOW, 3), (NOW, 4), (NOW - MINUTE, 2)):
        claims.read_meter("costs/shop", "Day", since, reading)
    claims.read_meter("costs/new", "Month", NOW, 0)
    assert claims.meters() == {
        "costs/all": SpendMeter(cap="costs/all", ended=7),
        "costs/new": SpendMeter(cap="costs/new", readings={"Month": (NOW, 0)}),
        "costs/shop": SpendMeter(cap="costs/shop", ended=9, readings={"Day": (NOW, 3)}),
    }
    claims.read_meter("costs/shop", "Day", NOW + MINUTE, 9)
    assert claims.meters()["costs/shop"].readings == {"Day": (NOW + MINUTE, 9)}


def test_a_released_share_of_the_limits_is_available_again(store: Store) -> None:
    """Otherwise, limits fill up with nodes that are gone."""
    limits = {"default": {"nodes": 1}}
    (first,) = store.stores.claims.request([claim("a")], limits, store.planner()).accepted
    assert store.stores.claims.request([claim("b")], limits, store.planner()).accepted == ()
    leaving = store.stores.claims.change(first, msgspec.structs.replace(first, reserved={}))
    (second,) = store.stores.claims.request([claim("b")], limits, store.planner()).accepted
    store.stores.claims.forget(leaving)
    assert store.stores.claims.request([claim("c")], limits, store.planner()).accepted == ()
    store.stores.claims.forget(second)
    assert store.stores.claims.request([claim("c")], limits, store.planner()).refused == ()


def test_a_claim_without_a_node_pool_is_stored_without_a_lease_and_counted_nowhere(store: Store) -> None:
    """A NodeClaim that somebody made by hand: an empty name is no key of a counter, and two runs store it once."""
    claims, mine = store.stores.claims, claim("mine", pool="")
    assert [len(claims.request([mine], {}, None).accepted) for _ in range(2)] == [1, 1]
    other = msgspec.structs.replace(mine, token="of another NodeClaim of this name")
    assert len(claims.request([other], {}, None).refused) == 1
    (stored,) = claims.all()
    (going_,) = claims.disrupt([ClaimChange(stored, stored)], {}).claims
    claims.forget(claims.change(going_, msgspec.structs.replace(going_, reserved={})))
    assert (claims.all(), claims.usage()) == ((), ())


def test_a_claim_with_a_node_pool_keeps_its_limit_without_a_lease(store: Store) -> None:
    """Whoever sets a limit means it, whoever makes the NodeClaim."""
    limits = {"default": {"nodes": 1}}
    requests = [store.stores.claims.request([claim(name)], limits, None) for name in ("a", "b")]
    assert [len(requested.accepted) for requested in requests] == [1, 0]


def test_a_claim_is_released_only_with_what_it_reserved(store: Store) -> None:
    """Otherwise, two functions that end a claim both return its share, and the pool exceeds its limit."""
    limits = {"default": {"nodes": 1}}
    (seen,) = store.stores.claims.request([claim("a")], limits, store.planner()).accepted
    moved = store.stores.claims.change(seen, msgspec.structs.replace(seen, node_name="one"))
    with pytest.raises(ConflictError):
        store.stores.claims.forget(seen)
    store.stores.claims.forget(moved)
    store.stores.claims.forget(moved)
    requested = store.stores.claims.request([claim("b"), claim("c")], limits, store.planner())
    assert [record.name for record in requested.accepted] == ["b"]


@pytest.mark.parametrize("counter", ["default", GROUP_COUNTER + "costs/all", GROUP_COUNTER + "costs/shop"])
def test_a_claim_that_stays_after_all_takes_its_share_again_or_nothing(counter: str, store: Store) -> None:
    """A replacement may have used the room that its deletion freed: limits and caps hold in either order."""
    claims, limits = store.stores.claims, {counter: {"nodes": 1}}
    capped = msgspec.structs.replace(claim("old").plan, annotations=with_charges({}, {"costs/shop": PPM}))
    old, new = (
        msgspec.structs.replace(claim(name), plan=capped, limit_groups=("costs/all",)) for name in ("old", "new")
    )
    (old,) = claims.request([old], limits, store.planner()).accepted
    leaving = claims.change(old, msgspec.structs.replace(old, reserved={}))
    (new,) = claims.request([new], limits, store.planner()).accepted
    assert claims.change_within(leaving, old, limits) is None
    assert claims.get("old") == leaving
    claims.forget(new)
    restored = claims.change_within(leaving, old, limits)
    assert restored is not None
    assert claims.get("old") == restored
    assert [usage.reserved for usage in claims.usage()] == [old.reserved] * 3
    with pytest.raises(ConflictError):
        claims.change_within(leaving, old, {})


def test_counters_are_corrected_unless_they_change_meanwhile(store: Store) -> None:
    """Otherwise, a sum of claims that were read a moment ago undoes what happened since."""
    assert store.stores.claims.usage() == ()
    a, b = requested(store, "a", "b")
    (before,) = store.stores.claims.usage()
    right = PoolUsage(node_pool="default", reserved={"nodes": 7}, disrupting=3)
    moved = store.stores.claims.change(a, msgspec.structs.replace(a, reserved={"nodes": 2, "cpu": 2000}))
    with pytest.raises(ConflictError):
        store.stores.claims.recount(before, right)
    (before,) = store.stores.claims.usage()
    store.stores.claims.recount(before, right)
    assert counters(store) == ({"nodes": 7}, 3)
    store.stores.claims.forget(moved)
    assert counters(store) == ({"nodes": 5, "cpu": -2000}, 3)
    (before,) = store.stores.claims.usage()
    store.stores.claims.recount(before, PoolUsage(node_pool="default", reserved=b.reserved))
    assert counters(store) == (b.reserved, 0)


@pytest.mark.e2e
def test_a_limit_holds_with_any_number_of_concurrent_callers(on_dynamodb_local: DynamoTable) -> None:
    """Transactions on one counter conflict; a caller with a conflict tries again, and the limit is never exceeded."""
    store = dynamo(on_dynamodb_local, "rush")
    lease, limits = store.planner(), {"default": {"nodes": 5}}

    def ask(number: int) -> int:
        for _ in range(ATTEMPTS):
            with suppress(TransientError):
                return len(store.stores.claims.request([claim(f"c-{number}")], limits, lease).accepted)
        return 0

    with ThreadPoolExecutor(CALLERS) as callers:
        assert sum(callers.map(ask, range(CALLERS))) == 5
    assert len(store.stores.claims.all()) == 5


# Leases: one holder at a time, and fences that outlive it.


def test_a_planner_whose_lease_expired_stores_nothing(store: Store) -> None:
    """Otherwise, two planners launch for the same pods."""
    old = store.planner()
    new = store.leases.acquire(PLANNER, "other", now=NOW + 2 * MINUTE, for_=MINUTE)
    assert new is not None
    assert new.fence > old.fence
    with pytest.raises(ConflictError):
        store.stores.claims.request([claim("a")], {}, old)
    assert store.stores.claims.all() == ()


def test_a_lease_has_one_holder_until_it_ends_or_is_given_back(store: Store) -> None:
    mine = store.planner()
    assert store.leases.acquire(PLANNER, "other", now=NOW, for_=MINUTE) is None
    assert store.leases.acquire(PLANNER, "me", now=NOW, for_=MINUTE) is not None, "a lost reply"
    store.leases.release(mine)
    assert store.leases.acquire(PLANNER, "other", now=NOW, for_=MINUTE) is None, "an old holder cannot give it back"
    assert store.leases.acquire(PLANNER, "other", now=NOW + MINUTE, for_=MINUTE) is not None


@pytest.mark.e2e
def test_of_many_concurrent_callers_one_gets_the_lease(on_dynamodb_local: DynamoTable) -> None:
    """Otherwise, two planners launch for the same pods."""
    leases = DynamoLeases(on_dynamodb_local, "callers")
    with ThreadPoolExecutor(CALLERS) as callers:
        got = list(callers.map(lambda n: leases.acquire(PLANNER, f"owner-{n}", now=NOW, for_=MINUTE), range(CALLERS)))
    assert len([lease for lease in got if lease is not None]) == 1


def test_fences_grow_with_each_holder_and_with_time(store: Store) -> None:
    """Otherwise, new claims get names that were already used before the table was lost or restored."""
    taken = [store.leases.acquire(PLANNER, f"run-{n}", now=NOW + MINUTE * n, for_=MINUTE) for n in (0, 1, 2)]
    early = store.leases.acquire(PLANNER, "run-2", now=NOW, for_=MINUTE)
    fences = [lease.fence for lease in (*taken, early) if lease is not None]
    assert len(fences) == 4
    assert fences == sorted(set(fences))
    assert all(fence >= (NOW + MINUTE * n).timestamp() * 1000 for n, fence in enumerate(fences[:3]))
    assert [lease.stamp for lease in taken if lease] == sorted({lease.stamp for lease in taken if lease})


# The token bucket of requests to EC2, on the simulator's table and on DynamoDB Local.


MILLISECONDS = int(NOW.timestamp() * 1000)
LATER = [timedelta(milliseconds=200 * number) for number in range(1, 6)]


@pytest.fixture
def pace(table: DynamoTable, request: pytest.FixtureRequest) -> DynamoRequestPace:
    return DynamoRequestPace(table, request.node.name)


def test_each_request_takes_a_token_of_its_own(pace: DynamoRequestPace) -> None:
    assert [pace.wait(NOW) for _ in range(AT_ONCE + 5)] == [timedelta(0)] * AT_ONCE + LATER


@pytest.mark.e2e
def test_each_of_many_requests_at_once_takes_a_token_of_its_own(on_dynamodb_local: DynamoTable) -> None:
    """The simulator's table answers one caller at a time."""
    pace = DynamoRequestPace(on_dynamodb_local, "callers")
    with ThreadPoolExecutor(max_workers=16) as threads:
        waits = sorted(threads.map(lambda _: pace.wait(NOW), range(AT_ONCE + 5)))
    assert waits == [timedelta(0)] * AT_ONCE + LATER


def test_a_bucket_that_nobody_asked_for_long_is_full(pace: DynamoRequestPace) -> None:
    for _ in range(AT_ONCE):
        pace.wait(NOW)
    assert [pace.wait(NOW + timedelta(hours=1)) for _ in range(AT_ONCE)] == [timedelta(0)] * AT_ONCE


@pytest.mark.parametrize(
    ("full_at", "at_once"),
    [({"S": "soon"}, AT_ONCE), ({"N": "99999999999999"}, AT_ONCE), ({"N": f"{MILLISECONDS + 200}.5"}, AT_ONCE - 1)],
    ids=["text", "a wrong clock's", "fraction"],
)
def test_a_bucket_that_cannot_be_read_is_full(
    table: DynamoTable, pace: DynamoRequestPace, request: pytest.FixtureRequest, full_at: dict[str, str], at_once: int
) -> None:
    """Otherwise, every launch waits for a row that nobody writes again."""
    table.put({**key(PACE_PARTITION, request.node.name), "fullAt": full_at})
    assert [pace.wait(NOW) for _ in range(at_once)] == [timedelta(0)] * at_once
    assert pace.wait(NOW) > timedelta(0)


def test_a_bucket_with_more_waiting_than_fit_refuses(pace: DynamoRequestPace) -> None:
    waits = AT_ONCE + LONGEST_WAIT // token_time(FASTEST)
    for _ in range(waits):
        pace.wait(NOW)
    with pytest.raises(ThrottledError):
        pace.wait(NOW)


def test_a_throttled_request_slows_all_of_them_down(pace: DynamoRequestPace) -> None:
    for _ in range(AT_ONCE):
        pace.wait(NOW)
    pace.slow_down(NOW, NOW, 3)
    assert [pace.wait(NOW) / MILLISECOND for _ in range(3)] == [1600, 3200, 4800]


def test_a_bucket_that_nobody_asked_for_is_slowed_down_too(pace: DynamoRequestPace) -> None:
    pace.slow_down(NOW, NOW, 9)
    with pytest.raises(ThrottledError) as throttled:
        pace.wait(NOW)
    assert throttled.value.retry_after == token_time(SLOWEST) * MILLISECOND


def test_a_slow_bucket_recovers_once_it_is_quiet(pace: DynamoRequestPace) -> None:
    pace.slow_down(NOW, NOW, 9)
    later = NOW + timedelta(minutes=2)
    assert [pace.wait(later) for _ in range(AT_ONCE + 1)] == [timedelta(0)] * AT_ONCE + LATER[:1]


@pytest.mark.e2e
def test_each_of_many_requests_at_a_reduced_rate_takes_a_turn_of_its_own(on_dynamodb_local: DynamoTable) -> None:
    """Those that always meet another writer go back to the queue; the simulator's table answers one caller at a time."""
    pace = DynamoRequestPace(on_dynamodb_local, "slow callers")
    pace.slow_down(NOW, NOW, 1)

    def wait(_: int) -> timedelta | None:
        try:
            return pace.wait(NOW)
        except ThrottledError:
            return None

    with ThreadPoolExecutor(max_workers=8) as threads:
        waits = [waited for waited in threads.map(wait, range(20)) if waited is not None]
    assert len(set(waits)) == len(waits) > 0
    assert sorted(waits) == [timedelta(milliseconds=400 * number) for number in range(1, len(waits) + 1)]


@pytest.mark.parametrize(
    "wrong", [{"rate": {"S": "slow"}}, {"rate": {"N": "-7"}}, {"slowedAt": {"N": "99999999999999"}}]
)
def test_a_reduced_rate_that_cannot_be_read_stops_nothing(
    table: DynamoTable, pace: DynamoRequestPace, request: pytest.FixtureRequest, wrong: dict[str, dict[str, str]]
) -> None:
    slow = {"fullAt": {"N": str(MILLISECONDS)}, "rate": {"N": "33"}, "slowedAt": {"N": str(MILLISECONDS)}}
    table.put({**key(PACE_PARTITION, request.node.name), **slow, **wrong})
    assert pace.wait(NOW) == timedelta(0)
