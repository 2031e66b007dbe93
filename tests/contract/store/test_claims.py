"""Claims in the store: written once, found, listed whole, changed by one writer at a time."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from adapters.aws.dynamodb.claims import SHARDS, shard_partition
from adapters.aws.dynamodb.table import DynamoTable
from adapters.ports import ConflictError
from adapters.store import CLAIMS
from core.lifecycle.records import Machine
from core.model.catalogue import Offering
from tests.contract.store.stores import Store, claim, dynamo, noise


def test_a_claim_round_trips(store: Store) -> None:
    """Otherwise, the next function reads something else than was stored."""
    (stored,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    assert store.stores.claims.get("a") == stored
    assert store.stores.claims.all() == (stored,)
    assert store.stores.claims.get("b") is None


def test_claims_are_listed_by_name(store: Store) -> None:
    store.stores.claims.request([claim(f"c-{n}") for n in (3, 1, 2)], {}, store.planner())
    assert [found.name for found in store.stores.claims.all()] == ["c-1", "c-2", "c-3"]


def test_asking_twice_stores_and_reserves_once(store: Store) -> None:
    """A reply may be lost; repeating the call must neither fail nor count twice."""
    limits = {"default": {"nodes": 1}}
    store.stores.claims.request([claim("a")], limits, store.planner())
    again = store.stores.claims.request([claim("a")], limits, store.planner())
    assert [found.name for found in again.accepted] == ["a"]


def test_the_second_of_two_writers_is_refused(store: Store) -> None:
    """Otherwise, a step taken on old facts undoes a newer one."""
    (seen,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    store.stores.claims.change(seen, msgspec.structs.replace(seen, node_name="one"))
    for write in (
        lambda: store.stores.claims.change(seen, msgspec.structs.replace(seen, node_name="two")),
        lambda: store.stores.claims.change(seen, msgspec.structs.replace(seen, reserved={})),
        lambda: store.stores.claims.forget(seen),
    ):
        with pytest.raises(ConflictError):
            write()
    stored = store.stores.claims.get("a")
    assert stored is not None
    assert stored.node_name == "one"


def test_a_claim_is_found_by_its_instance_until_it_is_deleted(store: Store) -> None:
    """Otherwise, each event of any instance of the account would read all claims."""
    unlaunched = msgspec.structs.replace(claim("a"), machine=None)
    (seen,) = store.stores.claims.request([unlaunched], {}, store.planner()).accepted
    assert store.stores.claims.of_instance("i-1") is None
    machine = Machine(instance_id="i-1", provider_id="aws:///a/i-1", offering=Offering("m5.large", "a", "spot", 1))
    launched = store.stores.claims.change(seen, msgspec.structs.replace(seen, machine=machine))
    assert store.stores.claims.of_instance("i-1") == launched
    store.stores.claims.forget(launched)
    assert store.stores.claims.of_instance("i-1") is None
    assert store.stores.claims.restore(launched) is not None
    assert store.stores.claims.of_instance("i-1") is not None
    assert store.stores.claims.indexed() == {"i-1"}
    store.stores.claims.index(launched)
    assert store.stores.claims.of_instance("i-1") is not None


def test_of_claims_that_share_a_launch_one_gets_an_instance(store: Store) -> None:
    """Two that look for a free instance at once would both run on it, and another would run for nobody."""
    unlaunched = [msgspec.structs.replace(claim(name), machine=None, shares=2) for name in ("a", "b")]
    one, other = store.stores.claims.request(unlaunched, {}, store.planner()).accepted
    machine = Machine(instance_id="i-1", provider_id="aws:///a/i-1", offering=Offering("m5.large", "a", "spot", 1))
    store.stores.claims.change(one, msgspec.structs.replace(one, machine=machine))
    with pytest.raises(ConflictError):
        store.stores.claims.change(other, msgspec.structs.replace(other, machine=machine))


def test_deleting_twice_is_allowed(store: Store) -> None:
    (seen,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    store.stores.claims.forget(seen)
    store.stores.claims.forget(seen)
    assert store.stores.claims.all() == ()


def test_everything_is_listed_however_much_there_is(table: DynamoTable) -> None:
    """DynamoDB answers a megabyte at a time; what the second page holds must not be taken for gone."""
    store = dynamo(table, "heavy")
    claims = [msgspec.structs.replace(claim(f"c-{n:02d}"), node_name=noise(50_000)) for n in range(25)]
    for found in claims:
        store.stores.claims.request([found], {}, store.planner())
    assert [found.name for found in store.stores.claims.all()] == [found.name for found in claims]


def test_a_claim_whose_row_is_lost_is_stored_again_whatever_the_limits(store: Store) -> None:
    """Otherwise, a table that lost rows forgets their share, or a full NodePool cannot restore its own nodes."""
    stored = store.stores.claims.restore(claim("a", nodes=5))
    assert stored == store.stores.claims.get("a")
    (usage,) = store.stores.claims.usage()
    assert usage.reserved == {"nodes": 5, "cpu": 2000}


def test_a_claim_that_is_there_is_not_stored_over(store: Store) -> None:
    (there,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    assert store.stores.claims.restore(claim("a", nodes=5)) is None
    assert store.stores.claims.get("a") == there
    (usage,) = store.stores.claims.usage()
    assert usage.reserved == there.reserved


def test_claims_are_distributed_over_several_partitions() -> None:
    """One partition of DynamoDB gives 3,000 read units a second, and 5,000 claims take as many."""
    names = [f"default-{number}-0" for number in range(5000)]
    sizes = Counter(shard_partition("c", CLAIMS, name) for name in names)
    assert len(sizes) == SHARDS
    assert max(sizes.values()) < 1.2 * len(names) / SHARDS


def test_many_claims_fit_in_several_transactions(table: DynamoTable) -> None:
    """DynamoDB takes a hundred operations at once."""
    store = dynamo(table, "many")
    claims = [claim(f"c-{n:03d}") for n in range(95)]
    requested = store.stores.claims.request(claims, {"default": {"nodes": 90}}, store.planner())
    assert (len(requested.accepted), len(requested.refused)) == (90, 5)


def test_claims_of_any_size_fit_in_several_transactions(table: DynamoTable) -> None:
    """DynamoDB takes four megabytes at once: a NodePool with long annotations could launch nothing where it has many pods."""
    store = dynamo(table, "large")
    claims = [msgspec.structs.replace(claim(f"c-{n:03d}"), node_name=noise(150_000)) for n in range(40)]
    requested = store.stores.claims.request(claims, {"default": {"nodes": 39}}, store.planner())
    assert (len(requested.accepted), len(requested.refused)) == (39, 1)
