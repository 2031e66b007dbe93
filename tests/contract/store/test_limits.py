"""Limits of NodePools: reserved and released with the claims that count, to the last node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec
import pytest

from adapters.aws.dynamodb.table import DynamoTable
from adapters.ports import ConflictError, TransientError
from adapters.store import ClaimChange, PoolUsage
from core.model.node_pool import group_counter
from lambdas.controllers.run_requests import mismatches
from tests.contract.store.stores import Store, claim, counters, dynamo, requested

CALLERS = 12
ATTEMPTS = 40


def test_a_limit_is_kept_to_the_last_node(store: Store) -> None:
    """Otherwise, a NodePool costs more than its owner allowed."""
    claims = [claim(f"c{n}") for n in range(5)]
    requested = store.stores.claims.request(claims, {"default": {"nodes": 3}}, store.planner())
    assert [found.name for found in requested.accepted] == ["c0", "c1", "c2"]
    assert [found.name for found in requested.refused] == ["c3", "c4"]
    assert len(store.stores.claims.all()) == 3


def test_pools_have_limits_of_their_own(store: Store) -> None:
    claims = [claim("a", pool="one"), claim("b", pool="two")]
    requested = store.stores.claims.request(claims, {"one": {"cpu": 1000}}, store.planner())
    assert [found.name for found in requested.accepted] == ["b"]


def test_limits_that_node_pools_share_are_kept_together(store: Store) -> None:
    """Each claim counts for its NodePool and its groups from its request to its end, and a recount has the same sums."""
    claims = [
        msgspec.structs.replace(claim("a", pool="one"), limit_groups=("team",)),
        msgspec.structs.replace(claim("b", pool="two"), limit_groups=("all", "team")),
        claim("c", pool="two"),
    ]
    limits = {group_counter("team"): {"nodes": 1}, group_counter("all"): {"nodes": 9}}
    requested = store.stores.claims.request(claims, limits, store.planner())
    assert [accepted.name for accepted in requested.accepted] == ["a", "c"]
    assert mismatches(store.stores.claims, store.stores.claims.all()) == []
    (going_,) = store.stores.claims.disrupt([ClaimChange(requested.accepted[0], requested.accepted[0])], {}).claims
    assert [usage.disrupting for usage in store.stores.claims.usage()] == [1, 0, 0]
    assert mismatches(store.stores.claims, store.stores.claims.all()) == []
    store.stores.claims.forget(going_)
    again = store.stores.claims.request([claims[1]], limits, store.planner())
    assert [accepted.name for accepted in again.accepted] == ["b"]


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
    found = [store.stores.claims.request([claim(name)], limits, None) for name in ("a", "b")]
    assert [len(one.accepted) for one in found] == [1, 0]


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
    assert [found.name for found in requested.accepted] == ["b"]


def test_a_claim_that_stays_after_all_takes_its_share_again_or_nothing(store: Store) -> None:
    """A replacement may have used the room that its deletion freed: the limit holds in either order."""
    claims, limits = store.stores.claims, {"nodes": 1}
    (old,) = claims.request([claim("old")], {"default": limits}, store.planner()).accepted
    leaving = claims.change(old, msgspec.structs.replace(old, reserved={}))
    (new,) = claims.request([claim("new")], {"default": limits}, store.planner()).accepted
    assert claims.change_within(leaving, old, limits) is None
    assert claims.get("old") == leaving
    claims.forget(new)
    restored = claims.change_within(leaving, old, limits)
    assert restored is not None
    assert claims.get("old") == restored
    assert claims.usage()[0].reserved == old.reserved
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
