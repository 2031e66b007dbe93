"""Guarantees of the store, checked on the simulator's table, DynamoDB Local, and the stores in memory of other tests."""

from __future__ import annotations

import secrets
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from uuid import uuid4

import boto3
import msgspec
import pytest

from core.approval.proposal import ProposalVerdict
from core.disruption.move_history import MoveHistory
from core.launch.denials.denial import LaunchDenial
from core.lifecycle.records import ClaimRecord, Machine
from core.model.catalogue import Offering, OfferingKey
from core.model.moved_workload import EvictedNode
from core.model.plan import Command, Move, StoredDrain, StoredTarget
from lambdas.adapters.aws.dynamodb.claims import CLAIMS, DynamoClaims
from lambdas.adapters.aws.dynamodb.commands import DynamoCommands
from lambdas.adapters.aws.dynamodb.coordination.changes import DynamoChanges
from lambdas.adapters.aws.dynamodb.coordination.leases import DynamoLeases
from lambdas.adapters.aws.dynamodb.coordination.sweeps import DynamoSweeps
from lambdas.adapters.aws.dynamodb.denials import DynamoDenials
from lambdas.adapters.aws.dynamodb.moves import DynamoMoves
from lambdas.adapters.aws.dynamodb.nominations import DynamoNominations
from lambdas.adapters.aws.dynamodb.pod_ends import DynamoPodEnds
from lambdas.adapters.aws.dynamodb.proposals import DynamoProposals
from lambdas.adapters.aws.dynamodb.records import RecordItems, partition_of
from lambdas.adapters.aws.dynamodb.shards import SHARDS, shard_partition
from lambdas.adapters.aws.dynamodb.table import DynamoTable
from lambdas.adapters.aws.dynamodb.targets import DynamoTargets
from lambdas.adapters.aws.dynamodb.unavailable_offerings import PARTITION, DynamoOfferings
from lambdas.observation.stores import Stores
from lambdas.ports import ConflictError, TransientError
from lambdas.store import PLANNER, ClaimChange, CommandChange, Disrupted, Lease, Leases, PoolUsage, SweepLog, SweepState
from tests.fakes.account import FakeAccount
from tests.fakes.brakes import FakeBrakes
from tests.fakes.quotas import MemoryQuotas
from tests.fakes.store import MemoryLeases, MemorySweeps, MemoryTargets, Rows
from tests.fakes.table import create_table
from tests.fakes.world import FakeClock
from tests.unit.approval.test_proposal import PROPOSAL
from tests.unit.lifecycle.records_for_tests import a_command, a_plan, a_record

MINUTE = timedelta(minutes=1)
NOW = datetime.now(UTC).replace(microsecond=0)
"""Real time: DynamoDB deletes expired items by its own clock."""

CROWD = 12
ATTEMPTS = 40
EXPIRY_SECONDS = 120
"""How long DynamoDB Local may take to delete expired items; DynamoDB itself takes days at worst."""

SIMULATED = "simulated"
LOCAL = pytest.param("local", marks=pytest.mark.e2e)
KEY = OfferingKey("m5.large", "us-east-1a", "spot")


class Store(msgspec.Struct, frozen=True):
    """All of it."""

    stores: Stores
    leases: Leases
    sweeps: SweepLog

    def planner(self) -> Lease:
        lease = self.leases.acquire(PLANNER, "me", now=NOW, for_=MINUTE)
        assert lease is not None
        return lease


NO_BRAKES = FakeBrakes(FakeClock(NOW))


def dynamo(table: DynamoTable, cluster: str) -> Store:
    stores = Stores(
        claims=DynamoClaims(table, cluster),
        commands=DynamoCommands(table, cluster),
        unavailable=DynamoOfferings(table),
        denials=DynamoDenials(table, cluster),
        nominations=DynamoNominations(table, cluster),
        changes=DynamoChanges(table, cluster),
        pod_ends=DynamoPodEnds(table, cluster),
        moves=DynamoMoves(table, cluster),
        brakes=NO_BRAKES,
        breakers=NO_BRAKES,
        quotas=MemoryQuotas(),
    )
    return Store(stores, DynamoLeases(table, cluster), DynamoSweeps(table, cluster))


@pytest.fixture(scope="module")
def in_simulator() -> DynamoTable:
    account = FakeAccount()
    return DynamoTable(account.client("dynamodb"), account.table)


@pytest.fixture(scope="module")
def on_dynamodb_local(dynamodb_local: str) -> DynamoTable:
    return a_table_at(dynamodb_local)


def a_table_at(endpoint: str) -> DynamoTable:
    """A new table in DynamoDB Local."""
    session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
    client, name = session.client("dynamodb", endpoint_url=endpoint), f"contract-{uuid4()}"
    create_table(client, name)
    return DynamoTable(client, name)


@pytest.fixture(params=[SIMULATED, LOCAL])
def table(request: pytest.FixtureRequest) -> DynamoTable:
    found: DynamoTable = request.getfixturevalue("in_simulator" if request.param == SIMULATED else "on_dynamodb_local")
    return found


@pytest.fixture(params=[SIMULATED, LOCAL, "memory"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        rows = Rows()
        return Store(rows.stores(NO_BRAKES), MemoryLeases(rows), MemorySweeps(rows))
    table = request.getfixturevalue("in_simulator" if request.param == SIMULATED else "on_dynamodb_local")
    return dynamo(table, request.node.name)


def claim(name: str, *, nodes: int = 1, pool: str = "default") -> ClaimRecord:
    """A new claim that reserves this many nodes."""
    return msgspec.structs.replace(
        a_record(age=timedelta(hours=1)), name=name, plan=a_plan(node_pool=pool), reserved={"nodes": nodes, "cpu": 2000}
    )


def test_a_claim_round_trips(store: Store) -> None:
    """Otherwise, the next function reads something else than was stored."""
    (stored,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    assert store.stores.claims.get("a") == stored
    assert store.stores.claims.all() == (stored,)
    assert store.stores.claims.get("b") is None


def test_claims_are_listed_by_name(store: Store) -> None:
    store.stores.claims.request([claim(f"c-{n}") for n in (3, 1, 2)], {}, store.planner())
    assert [found.name for found in store.stores.claims.all()] == ["c-1", "c-2", "c-3"]


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


def test_asking_twice_stores_and_reserves_once(store: Store) -> None:
    """A reply may be lost; repeating the call must neither fail nor count twice."""
    limits = {"default": {"nodes": 1}}
    store.stores.claims.request([claim("a")], limits, store.planner())
    again = store.stores.claims.request([claim("a")], limits, store.planner())
    assert [found.name for found in again.accepted] == ["a"]


def test_a_planner_whose_lease_expired_stores_nothing(store: Store) -> None:
    """Otherwise, two planners launch for the same pods."""
    old = store.planner()
    new = store.leases.acquire(PLANNER, "other", now=NOW + 2 * MINUTE, for_=MINUTE)
    assert new is not None
    assert new.fence > old.fence
    with pytest.raises(ConflictError):
        store.stores.claims.request([claim("a")], {}, old)
    assert store.stores.claims.all() == ()


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


def test_deleting_twice_is_allowed(store: Store) -> None:
    (seen,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    store.stores.claims.forget(seen)
    store.stores.claims.forget(seen)
    assert store.stores.claims.all() == ()


def test_a_lease_has_one_holder_until_it_ends_or_is_given_back(store: Store) -> None:
    mine = store.planner()
    assert store.leases.acquire(PLANNER, "other", now=NOW, for_=MINUTE) is None
    assert store.leases.acquire(PLANNER, "me", now=NOW, for_=MINUTE) is not None, "a lost reply"
    store.leases.release(mine)
    assert store.leases.acquire(PLANNER, "other", now=NOW, for_=MINUTE) is None, "an old holder cannot give it back"
    assert store.leases.acquire(PLANNER, "other", now=NOW + MINUTE, for_=MINUTE) is not None


def test_commands_are_kept_changed_and_removed(store: Store) -> None:
    store.stores.commands.add(a_command())
    with pytest.raises(ConflictError):
        store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    moved = store.stores.commands.change(seen, msgspec.structs.replace(seen, replacements=("r",)))
    assert store.stores.commands.get("x") == moved
    with pytest.raises(ConflictError):
        store.stores.commands.change(seen, seen)
    store.stores.commands.remove(moved)
    store.stores.commands.remove(moved)
    assert store.stores.commands.all() == ()


def test_nominations_end_by_themselves(store: Store) -> None:
    """Otherwise, nodes stay protected for pods that came long ago."""
    store.stores.nominations.nominate(["a"], now=NOW, until=NOW + MINUTE)
    store.stores.nominations.nominate(["b"], now=NOW + MINUTE / 2, until=NOW + 2 * MINUTE)
    assert set(store.stores.nominations.until(NOW + MINUTE / 2)) == {"a", "b"}
    assert set(store.stores.nominations.until(NOW + MINUTE)) == {"b"}


def test_a_refused_offering_is_avoided_for_three_minutes(store: Store) -> None:
    key = msgspec.structs.replace(KEY, instance_type="contract.large")
    store.stores.unavailable.mark([key], NOW)
    assert key in store.stores.unavailable.refused(NOW + 2 * MINUTE).avoided
    assert key not in store.stores.unavailable.refused(NOW + 3 * MINUTE).avoided


def test_after_its_pause_an_offering_is_tried_by_one_launch(store: Store) -> None:
    """All clusters of the account have the same rows: each would send a launch in the same second."""
    keys = [msgspec.structs.replace(KEY, instance_type=f"probe{n}.large") for n in range(3)]
    offerings, after = store.stores.unavailable, NOW + 3 * MINUTE
    offerings.mark(keys, NOW)
    assert offerings.probe(keys, NOW).offerings == frozenset(), "its pause is not over"
    assert offerings.refused(after).half_open >= set(keys)
    first = offerings.probe(keys[:2], after)
    assert first.offerings == set(keys[:2])
    assert offerings.probe(keys, after).offerings == {keys[2]}
    assert offerings.refused(after).avoided >= set(keys)
    offerings.end(first, keys[:1])
    left = offerings.refused(after)
    assert (keys[0] in left.half_open, keys[1] in left.half_open) == (False, True)
    assert not {*keys[:2]} & left.avoided


def test_the_end_of_a_trial_changes_nothing_of_a_later_refusal(store: Store) -> None:
    """Otherwise, a slow launch opens what has just refused another."""
    key, after = msgspec.structs.replace(KEY, instance_type="late.large"), NOW + 3 * MINUTE
    offerings = store.stores.unavailable
    offerings.mark([key], NOW)
    probe = offerings.probe([key], after)
    offerings.mark([key], after)
    offerings.end(probe, [key])
    assert key in offerings.refused(after).avoided


def test_an_offering_without_a_refusal_for_an_hour_is_forgotten(store: Store) -> None:
    key = msgspec.structs.replace(KEY, instance_type="old.large")
    store.stores.unavailable.mark([key], NOW)
    found = store.stores.unavailable.refused(NOW + 64 * MINUTE)
    assert key not in found.half_open | found.avoided


def test_an_offering_that_refuses_repeatedly_is_avoided_longer_and_longer(table: DynamoTable) -> None:
    """Otherwise, a launch is wasted on it every three minutes for as long as the shortage lasts."""
    offerings, now, pauses = DynamoOfferings(table), NOW, []
    for _ in range(7):
        offerings.mark([KEY], now)
        offerings.mark([KEY], now + timedelta(seconds=1))
        pause = 1
        while KEY in offerings.refused(now + pause * MINUTE).avoided:
            pause += 1
        pauses.append(pause)
        now += (pause + 1) * MINUTE
    assert pauses == [3, 6, 12, 24, 48, 48, 48]
    offerings.mark([KEY], now + timedelta(hours=3))
    assert KEY not in offerings.refused(now + timedelta(hours=3, minutes=3)).avoided, "long ago is forgotten"


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


def test_a_command_that_moves_thousands_of_pods_can_be_stored(table: DynamoTable) -> None:
    """An item may have 400 KB: else a cluster of a hundred full nodes is never consolidated."""
    store, command = dynamo(table, "moves"), a_command()
    moves = tuple(Move(f"shop/cart-{noise(5)}-{noise(3)}", f"ip-10-0-{n % 99}-1.ec2.internal") for n in range(6000))
    moving = msgspec.structs.replace(command, command=msgspec.structs.replace(command.command, moves=moves))
    store.stores.commands.add(moving)
    (seen,) = store.stores.commands.all()
    assert seen.command.moves == moves


def test_as_many_nodes_can_be_nominated_as_a_cluster_may_have(store: Store) -> None:
    """They are one item: else a burst of ten thousand nodes could not be planned for."""
    names = [f"general-purpose-{n % 7}-{n}" for n in range(10_000)]
    store.stores.nominations.nominate(names, now=NOW, until=NOW + MINUTE)
    assert set(store.stores.nominations.until(NOW)) == set(names)


def noise(length: int) -> str:
    """A text that cannot be compressed."""
    return secrets.token_hex(length)


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


def test_everything_is_listed_however_much_there_is(table: DynamoTable) -> None:
    """DynamoDB answers a megabyte at a time; what the second page holds must not be taken for gone."""
    store = dynamo(table, "heavy")
    claims = [msgspec.structs.replace(claim(f"c-{n:02d}"), node_name=noise(50_000)) for n in range(25)]
    for found in claims:
        store.stores.claims.request([found], {}, store.planner())
    assert [found.name for found in store.stores.claims.all()] == [found.name for found in claims]


def requested(store: Store, *names: str, pool: str = "default") -> list[ClaimRecord]:
    """Claims that are stored."""
    return list(store.stores.claims.request([claim(n, pool=pool) for n in names], {}, store.planner()).accepted)


def going(*claims: ClaimRecord) -> list[ClaimChange]:
    """Claims that give back their share of the limits as they start to go."""
    return [ClaimChange(found, msgspec.structs.replace(found, reserved={})) for found in claims]


def counters(store: Store, pool: str = "default") -> tuple[dict[str, int], int]:
    """What the claims of a NodePool hold."""
    found = {usage.node_pool: usage for usage in store.stores.claims.usage()}
    usage = found.get(pool, PoolUsage(node_pool=pool))
    return usage.reserved, usage.disrupting


def test_no_more_claims_leave_than_the_bound_allows(store: Store) -> None:
    """Otherwise, two concurrent functions each spend the whole budget."""
    a, b, c = requested(store, "a", "b", "c")
    first = store.stores.claims.disrupt(going(a, b), {"default": 2})
    assert [found.is_disrupting for found in first.claims] == [True, True]
    assert store.stores.claims.disrupt(going(c), {"default": 2}) == Disrupted((), None, ("default",))
    assert store.stores.claims.get("c") == c
    assert counters(store) == ({"cpu": 2000, "nodes": 1}, 2)


def test_either_all_claims_leave_or_none(store: Store) -> None:
    """Otherwise, a command of several nodes takes places that others need and does nothing with them."""
    a, b = requested(store, "a", "b")
    (other,) = requested(store, "other", pool="other")
    refused = store.stores.claims.disrupt(going(a, b, other), {"default": 1, "other": 5})
    assert refused.spent == ("default",)
    assert store.stores.claims.all() == (a, b, other)
    assert counters(store)[1] == counters(store, "other")[1] == 0


def test_claims_leave_together_with_their_command(store: Store) -> None:
    """Otherwise, a crash between the two leaves places that nobody uses, or a command that spends none."""
    (a,) = requested(store, "a")
    store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    moved = CommandChange(seen, msgspec.structs.replace(seen, replacements=("r",)))
    assert store.stores.claims.disrupt(going(a), {"default": 0}, command=moved).command is None
    assert store.stores.commands.get("x") == seen
    done = store.stores.claims.disrupt(going(a), {"default": 1}, command=moved)
    assert done.command is not None
    assert store.stores.commands.get("x") == done.command
    assert done.command.replacements == ("r",)
    (again,) = done.claims
    with pytest.raises(ConflictError):
        store.stores.claims.disrupt(going(again), {}, command=moved)


def test_changed_claims_do_not_leave(store: Store) -> None:
    """Otherwise, a claim that another function already disrupts is counted twice."""
    a, b = requested(store, "a", "b")
    store.stores.claims.change(b, msgspec.structs.replace(b, node_name="one"))
    with pytest.raises(ConflictError):
        store.stores.claims.disrupt(going(a, b), {})
    assert counters(store)[1] == 0


def test_without_the_lease_no_claim_leaves(store: Store) -> None:
    """Otherwise, two functions that check commands at once find room for their pods in the same place."""
    (a,) = requested(store, "a")
    old = store.leases.acquire("disruption", "me", now=NOW, for_=MINUTE)
    assert old is not None
    assert store.leases.acquire("disruption", "other", now=NOW + 2 * MINUTE, for_=MINUTE) is not None
    with pytest.raises(ConflictError):
        store.stores.claims.disrupt(going(a), {}, lease=old)
    assert store.stores.claims.get("a") == a


def test_a_leaving_claim_uses_no_second_place(store: Store) -> None:
    """Otherwise, a step that is repeated after a lost reply closes the budget."""
    (a,) = requested(store, "a")
    (gone,) = store.stores.claims.disrupt(going(a), {"default": 1}).claims
    (again,) = store.stores.claims.disrupt(going(gone), {"default": 1}).claims
    assert (again.version, counters(store)) == (gone.version + 1, ({}, 1))


def test_mandatory_disruptions_exceed_budgets_and_are_counted(store: Store) -> None:
    """A spot interruption ignores budgets; voluntary disruptions wait until it is over."""
    a, b, c = requested(store, "a", "b", "c")
    store.stores.claims.disrupt(going(a), {"default": 1})
    assert len(store.stores.claims.disrupt(going(b), {}).claims) == 1
    assert store.stores.claims.disrupt(going(c), {"default": 2}).spent == ("default",)


def test_places_of_deleted_and_restored_claims_are_free_again(store: Store) -> None:
    """Otherwise, budgets close for good."""
    a, b = requested(store, "a", "b")
    first, second = store.stores.claims.disrupt(going(a, b), {"default": 2}).claims
    store.stores.claims.forget(first)
    store.stores.claims.forget(first)
    assert counters(store) == ({}, 1)
    stays = msgspec.structs.replace(second, is_disrupting=False, reserved=b.reserved)
    store.stores.claims.change(second, stays)
    assert counters(store) == (b.reserved, 0)


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


def test_a_command_that_another_function_continued_is_not_removed(store: Store) -> None:
    """Otherwise, its nodes keep their taint and their share of the limits, and no record lists them."""
    store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    moved = store.stores.commands.change(seen, msgspec.structs.replace(seen, replacements=("r",)))
    with pytest.raises(ConflictError):
        store.stores.commands.remove(seen)
    assert store.stores.commands.all() == (moved,)


def test_more_claims_than_a_transaction_takes_go_together(table: DynamoTable) -> None:
    """A repacking may take hundreds of nodes at once."""
    store = dynamo(table, "crowded")
    claims = requested(store, *(f"c-{n:03d}" for n in range(95)))
    store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    done = store.stores.claims.disrupt(going(*claims), {"default": 95}, command=CommandChange(seen, seen))
    assert (len(done.claims), done.spent, counters(store)) == (95, (), ({}, 95))
    assert store.stores.commands.get("x") == done.command


@pytest.mark.e2e
def test_of_many_concurrent_callers_one_gets_the_lease(on_dynamodb_local: DynamoTable) -> None:
    """Otherwise, two planners launch for the same pods."""
    leases = DynamoLeases(on_dynamodb_local, "crowd")
    with ThreadPoolExecutor(CROWD) as crowd:
        got = list(crowd.map(lambda n: leases.acquire(PLANNER, f"owner-{n}", now=NOW, for_=MINUTE), range(CROWD)))
    assert len([lease for lease in got if lease is not None]) == 1


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

    with ThreadPoolExecutor(CROWD) as crowd:
        assert sum(crowd.map(ask, range(CROWD))) == 5
    assert len(store.stores.claims.all()) == 5


@pytest.mark.e2e
def test_a_budget_holds_with_any_number_of_concurrent_callers(on_dynamodb_local: DynamoTable) -> None:
    """Otherwise, functions that each validated alone exceed the budget together."""
    store = dynamo(on_dynamodb_local, "stampede")
    claims = requested(store, *(f"c-{n}" for n in range(CROWD)))

    def ask(found: ClaimRecord) -> int:
        for _ in range(ATTEMPTS):
            with suppress(TransientError):
                return len(store.stores.claims.disrupt(going(found), {"default": 5}).claims)
        return 0

    with ThreadPoolExecutor(CROWD) as crowd:
        assert sum(crowd.map(ask, claims)) == 5
    assert counters(store)[1] == 5


@pytest.mark.e2e
def test_an_expired_refusal_is_deleted_by_the_table(dynamodb_local: str) -> None:
    """Otherwise, the table grows with every offering that was ever short: nothing else deletes these items."""
    table = a_table_at(dynamodb_local)
    long_over, recent = (msgspec.structs.replace(KEY, zone=zone) for zone in ("us-east-1a", "us-east-1b"))
    DynamoOfferings(table).mark([long_over], NOW - timedelta(days=1))
    DynamoOfferings(table).mark([recent], NOW)
    deadline = monotonic() + EXPIRY_SECONDS
    while len(left := list(table.query(PARTITION))) > 1 and monotonic() < deadline:
        sleep(0.5)
    assert ["us-east-1b" in item["sk"]["S"] for item in left] == [True]


def test_the_results_of_sweeps_round_trip(store: Store) -> None:
    """Otherwise, each sandbox resets the alarm on sweeps that are never clean."""
    assert store.sweeps.read() == {}
    store.sweeps.write({"a": SweepState(NOW), "b": SweepState(NOW - MINUTE, failures=2, reason="throttled")})
    states = {"b": SweepState(NOW - MINUTE, failures=3, reason="denied")}
    store.sweeps.write(states)
    assert store.sweeps.read() == states


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


def test_the_last_change_is_the_one_that_was_told_last(store: Store) -> None:
    """If it were lost, functions would rest on a look at a cluster that is another by now."""
    store.stores.changes.record(NOW)
    store.stores.changes.record(NOW + MINUTE)
    assert store.stores.changes.last() == NOW + MINUTE


def test_fences_grow_with_each_holder_and_with_time(store: Store) -> None:
    """Otherwise, new claims get names that were already used before the table was lost or restored."""
    taken = [store.leases.acquire(PLANNER, f"run-{n}", now=NOW + MINUTE * n, for_=MINUTE) for n in (0, 1, 2)]
    early = store.leases.acquire(PLANNER, "run-2", now=NOW, for_=MINUTE)
    fences = [lease.fence for lease in (*taken, early) if lease is not None]
    assert len(fences) == 4
    assert fences == sorted(set(fences))
    assert all(fence >= (NOW + MINUTE * n).timestamp() * 1000 for n, fence in enumerate(fences[:3]))
    assert [lease.stamp for lease in taken if lease] == sorted({lease.stamp for lease in taken if lease})


def test_claims_of_an_earlier_release_are_moved_to_their_partitions(in_simulator: DynamoTable) -> None:
    """They are in one partition: unread, they would be instances without a claim; unmoved, they could not be changed."""
    cluster = f"moved-{uuid4()}"
    single = RecordItems(in_simulator, partition_of(cluster, CLAIMS), ClaimRecord)
    records = [msgspec.structs.replace(a_record(version=3), name=f"claim-{number}") for number in range(20)]
    for record in records:
        in_simulator.put(single.item(record.name, record))
    claims = DynamoClaims(in_simulator, cluster)
    assert claims.get("claim-7") == records[7]
    changed = claims.change(records[7], msgspec.structs.replace(records[7], node_name="n"))
    assert {claim.name: claim for claim in claims.all()} == {r.name: r for r in records} | {"claim-7": changed}
    assert single.all() == ()
    assert [claim.name for claim in claims.all()] == sorted(record.name for record in records)


def test_claims_are_distributed_over_several_partitions() -> None:
    """One partition of DynamoDB gives 3,000 read units a second, and 5,000 claims take as many."""
    names = [f"default-{number}-0" for number in range(5000)]
    sizes = Counter(shard_partition("c", CLAIMS, name) for name in names)
    assert len(sizes) == SHARDS
    assert max(sizes.values()) < 1.2 * len(names) / SHARDS


def test_moved_workloads_are_stored_and_replaced_by_name(store: Store) -> None:
    """Otherwise, a hold ends with the sandbox that knew of it."""
    moves, command = store.stores.moves, Command(reason="Underutilized", method="single", nodes=("n",), claims=("c",))
    moves.write(MoveHistory().after_command("one", command, ("a/b/c", "d/e/f"), NOW), NOW)
    first = moves.read(NOW)
    assert sorted(first.workloads) == ["a/b/c", "d/e/f"]
    assert first.outcomes["one"].workloads == ("a/b/c", "d/e/f")
    moves.write(first.after_command("two", command, ("a/b/c",), NOW + MINUTE), NOW + MINUTE)
    moves.write(first.after_failure(command, NOW), NOW)
    last = moves.read(NOW + MINUTE)
    assert last.workloads["a/b/c"].moved_at == NOW + MINUTE
    assert last.workloads["d/e/f"] == first.workloads["d/e/f"]
    assert sorted(last.outcomes) == ["one", "two"]
    assert last.is_paused(command, NOW + MINUTE)


def test_drained_nodes_are_remembered_by_claim_for_an_hour(store: Store) -> None:
    """Otherwise, each sandbox evicts as much in an hour as all together may."""
    moves, command = store.stores.moves, Command(reason="Underutilized", method="single", nodes=("n",), claims=("c",))
    drained = {"c": EvictedNode(node_pool="default", pods=7, at=NOW)}
    for _ in range(2):  # a step that is repeated after a crash counts once
        moves.write(MoveHistory().after_command("one", command, ("a/b/c",), NOW, drained), NOW)
    assert moves.read(NOW + MINUTE).evicted_nodes == drained


def test_a_denial_is_written_on_the_version_that_was_read(store: Store) -> None:
    """Otherwise, two concurrent denials each lose what the other one recorded."""
    denials = store.stores.denials
    first = denials.change(None, LaunchDenial(node_class="default", code="InvalidAMIID.NotFound", denied_at=NOW))
    with pytest.raises(ConflictError):
        denials.change(None, first)
    second = denials.change(first, msgspec.structs.replace(first, in_vain=1))
    with pytest.raises(ConflictError):
        denials.change(first, first)
    with pytest.raises(ConflictError):
        denials.remove(first)
    assert denials.all() == (second,)
    denials.remove(second)
    denials.remove(second)
    assert denials.all() == ()


def test_the_latest_end_of_a_pod_counts_in_any_order_of_delivery(store: Store) -> None:
    """Otherwise, a late delivery makes consolidateAfter too short."""
    ends, later = store.stores.pod_ends, NOW + MINUTE
    assert ends.latest(NOW) == {}
    ends.record({"a": later, "b": NOW}, NOW)
    ends.record({"a": NOW, "b": later}, NOW)
    assert ends.latest(NOW) == {"a": later, "b": later}
    assert ends.latest(NOW + timedelta(days=1)) == {}


def test_a_target_is_kept_until_it_is_replaced(table: DynamoTable, request: pytest.FixtureRequest) -> None:
    """Otherwise, each run plans everything again."""
    for targets in (DynamoTargets(table, request.node.name), MemoryTargets(Rows())):
        assert targets.read() is None
        drains = tuple(StoredDrain(f"node-{number}", 10**9, 7) for number in range(300))
        target = StoredTarget(made_at=NOW, settings="s", drains=drains, kept_price=1, drained_price=300, new_price=2)
        targets.write(target)
        assert targets.read() == target
        targets.write(None)
        assert targets.read() is None


def test_a_proposal_is_changed_only_from_its_last_version(table: DynamoTable, request: pytest.FixtureRequest) -> None:
    """A person's verdict and a function's look may come at the same moment; neither may undo the other."""
    proposals = DynamoProposals(table, request.node.name)
    first = proposals.add(msgspec.structs.replace(PROPOSAL, proposed_at=NOW))
    with pytest.raises(ConflictError):
        proposals.add(PROPOSAL)
    approved = proposals.change(
        first, msgspec.structs.replace(first, verdict=ProposalVerdict(is_approved=True, by="ada", at=NOW))
    )
    with pytest.raises(ConflictError):
        proposals.change(first, msgspec.structs.replace(first, announced_at=NOW))
    assert proposals.all() == (approved,)
