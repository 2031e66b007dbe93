"""Leases: one holder at a time, and fences that outlive it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from adapters.aws.dynamodb.coordination import DynamoLeases
from adapters.aws.dynamodb.table import DynamoTable
from adapters.ports import ConflictError
from adapters.store import PLANNER
from tests.contract.store.stores import MINUTE, NOW, Store, claim

CALLERS = 12


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
