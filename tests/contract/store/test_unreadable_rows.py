"""One row that cannot be read: it is left out and reported, and nothing else fails for it."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.aws.brakes import DynamoBrakes
from adapters.aws.dynamodb.claims import shard_partition
from adapters.aws.dynamodb.commands import DynamoProposals, DynamoTargets
from adapters.aws.dynamodb.launch_memory import DynamoRequestPace, DynamoTemplateNames
from adapters.aws.dynamodb.table import DynamoTable, Item, packed, unpacked
from adapters.ports import ConflictError, DeniedError, PortError
from adapters.run_report import RunReport
from adapters.store import CLAIMS, PLANNER, SweepState
from core.approval.proposal import ProposalVerdict
from core.brakes import Brake, BrakeKind
from core.disruption.move_history import MoveHistory
from core.forecast import Forecast, ForecastRules, GrowthHistory, Ramp, RoomUse
from core.launch.denials import LaunchDenial
from core.lifecycle.records import ClaimPhase, CommandRecord
from core.model.plan import Command, StoredDrain
from core.pods import SlotGrowth
from installation.wiring import TABLE
from lambdas.controllers.run_requests import mismatches, recount
from tests.builders import a_stored_target
from tests.contract.store.stores import KEY, MINUTE, NOW, Store, claim, counters, dynamo, requested
from tests.fakes.account import FakeAccount
from tests.fakes.world import FakeClock
from tests.unit.approval.test_proposal import PROPOSAL
from tests.unit.lifecycle.records_for_tests import a_record

DAMAGE: dict[str, Callable[[Item], Item]] = {
    "no-body": lambda item: {name: value for name, value in item.items() if name != "body"},
    "not-json": lambda item: {**item, "body": {"S": "{"}},
    "another-type": lambda item: {**item, "body": {"N": "1"}},
    "not-compressed": lambda item: {**item, "body": {"B": b"x"}},
    "another-schema": lambda item: {**item, "body": {"S": "[]"}},
    "no-version": lambda item: {name: value for name, value in item.items() if name != "version"},
}


@pytest.fixture
def stored(table: DynamoTable, request: pytest.FixtureRequest) -> Store:
    table.unreadable.clear()  # the tests share the table
    return dynamo(table, request.node.name)


def spoil(table: DynamoTable, partition: str, damage: Callable[[Item], Item]) -> Item:
    """Damage the first row of a partition; return it as it was."""
    item = next(iter(table.query(partition)))
    table.put(damage(item))
    return item


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_claim_that_cannot_be_read_is_not_gone(
    table: DynamoTable, stored: Store, damage: Callable[[Item], Item], request: pytest.FixtureRequest
) -> None:
    """If its list failed, every function would stop; if the claim counted as lost, its node would be built over or ended."""
    bad, good = requested(stored, "bad", "good")
    claims = stored.stores.claims
    before = spoil(table, shard_partition(request.node.name, CLAIMS, "bad"), damage)
    assert claims.all() == (good,)
    (row,) = stored.stores.unreadable.all()
    assert (row.name, row.is_claim, "correct or delete it" in row.problem) == ("bad", True, True)
    with pytest.raises(DeniedError, match="row bad of partition"):
        claims.get("bad")
    assert claims.restore(claim("bad")) is None
    table.put(before)
    assert claims.all() == (bad, good)
    assert stored.stores.unreadable.all() == ()


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_only_a_row_that_cannot_be_read_is_discarded(
    table: DynamoTable, stored: Store, damage: Callable[[Item], Item], request: pytest.FixtureRequest
) -> None:
    """An interruption notice has its claim rebuilt at once."""
    claims = stored.stores.claims
    requested(stored, "bad", "good")
    spoil(table, shard_partition(request.node.name, CLAIMS, "bad"), damage)
    for name in ("bad", "good", "gone"):
        claims.discard_unreadable(name)
    assert [record.name for record in claims.all()] == ["good"]
    assert stored.stores.unreadable.all() == ()
    restored = claims.restore(claim("bad"))
    assert restored is not None
    assert claims.get("bad") == restored


def test_a_row_that_is_corrected_meanwhile_is_not_discarded(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested(stored, "bad")
    partition = shard_partition(request.node.name, CLAIMS, "bad")
    right = spoil(table, partition, DAMAGE["not-json"])
    delete = table.delete

    def correct_first(*key: str, **condition: Mapping[str, Any]) -> None:
        table.put(right)
        delete(*key, **condition)

    monkeypatch.setattr(table, "delete", correct_first)
    with pytest.raises(ConflictError):
        stored.stores.claims.discard_unreadable("bad")
    assert [record.name for record in stored.stores.claims.all()] == ["bad"]


def test_an_index_row_that_cannot_be_read_counts_as_absent(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """A notice about its instance finds the claim among all, and writes the row again."""
    (record,), claims = requested(stored, "a"), stored.stores.claims
    claims.index(record)
    spoil(table, f"{request.node.name}#instances", lambda item: {**item, "claim": {"N": "1"}})
    assert claims.of_instance(record.instance_id) is None
    claims.index(record)
    assert claims.of_instance(record.instance_id) == record


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_command_that_cannot_be_read_is_not_left_out(
    table: DynamoTable, stored: Store, damage: Callable[[Item], Item], request: pytest.FixtureRequest
) -> None:
    """Its nodes would look as if no command disrupted them: untainted, and free to be chosen again."""
    command = Command(reason="Empty", method="emptiness", nodes=("n",), claims=("c",))
    stored.stores.commands.add(CommandRecord(id="one", command=command, created_at=NOW, verify_at=NOW, phase_since=NOW))
    spoil(table, f"{request.node.name}#commands", damage)
    with pytest.raises(DeniedError, match=r"row one of partition .* correct or delete it"):
        stored.stores.commands.all()
    assert stored.stores.commands.readable() == stored.stores.own_rows().commands == ()
    assert [(row.name, row.is_command) for row in stored.stores.unreadable.all()] == [("one", True)]


@pytest.mark.parametrize("sort", ["rollout#default", "failed#c"])
def test_what_stops_a_rollout_or_pauses_a_command_is_not_left_out(
    table: DynamoTable, stored: Store, sort: str, request: pytest.FixtureRequest
) -> None:
    """It would go on as if nothing had failed, and the next write would destroy the evidence."""
    partition = f"{request.node.name}#moves"
    later = {TABLE.expiry: {"N": str(int(NOW.timestamp()) + 60)}}
    table.put({TABLE.partition_key: {"S": partition}, TABLE.sort_key: {"S": sort}, "body": {"S": "[]"}, **later})
    with pytest.raises(DeniedError, match=f"row {sort} of partition"):
        stored.stores.moves.read(NOW)
    assert stored.stores.moves.readable(NOW) == MoveHistory()


def test_a_kind_of_row_that_only_a_later_release_knows_is_no_problem(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """After a roll-back the alarm would ring until the row expires, and nobody could correct it."""
    partition = f"{request.node.name}#moves"
    table.put({TABLE.partition_key: {"S": partition}, TABLE.sort_key: {"S": "later#x"}, "body": {"S": "[]"}})
    assert stored.stores.moves.read(NOW) == MoveHistory()
    assert stored.stores.unreadable.all() == ()


def test_times_without_a_zone_and_deep_nesting_cannot_be_read(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """They decode, and fail where they are compared."""
    stores, cluster = stored.stores, request.node.name
    stores.changes.record(NOW)
    stores.pod_ends.record({"n": NOW}, NOW)
    stores.nominations.nominate(["n"], now=NOW, until=NOW + MINUTE)
    requested(stored, "deep")
    spoil(table, f"{cluster}#changes", lambda item: {**item, "at": {"S": "2026-11-27"}})
    spoil(table, f"{cluster}#pod-ends", lambda item: {**item, "ended_at": {"S": "2026-11-27T00:00:00"}})
    spoil(table, f"{cluster}#nominations", lambda item: {**item, "body": {"S": '{"n":"2026-11-27T00:00:00"}'}})
    spoil(table, shard_partition(cluster, CLAIMS, "deep"), lambda item: {**item, "body": {"S": "[" * 100_000}})
    assert (stores.changes.last(), stores.pod_ends.latest(NOW), stores.nominations.until(NOW)) == (None, {}, {})
    assert stores.claims.all() == ()


def a_brake(table: DynamoTable, cluster: str) -> DynamoBrakes:
    return DynamoBrakes(table, cluster, FakeClock(NOW))


def test_a_brake_that_cannot_be_read_counts_as_engaged(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """A port's error says so to whoever reads brakes (`Panel`): the last reading holds, and BrakeUnreadable."""
    brakes = a_brake(table, request.node.name)
    brakes.hold(Brake(BrakeKind.UNKNOWN_INSTANCES, "m"), NOW)
    for damage in DAMAGE.values():
        before = spoil(table, f"{request.node.name}#brakes", damage)
        if damage(before) != before:
            with pytest.raises(DeniedError, match="brakes cannot be read"):
                brakes.read()
        table.put(before)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_breaker_that_cannot_be_read_stops_its_own_node_pool_until_a_result_replaces_it(
    table: DynamoTable, stored: Store, damage: Callable[[Item], Item], request: pytest.FixtureRequest
) -> None:
    """Otherwise, the row of one NodePool, perhaps long deleted, stops disruption everywhere."""
    brakes, partition = a_brake(table, request.node.name), f"{request.node.name}#brakes"
    for pool in ("bad", "good"):
        brakes.failed(pool, "m", NOW)
    before = spoil(table, partition, damage)
    is_readable = damage(before) in (before, DAMAGE["no-version"](before))
    assert [(b.kind, b.node_pool) for b in brakes.read()] == ([] if is_readable else [(BrakeKind.POOL_BREAKER, "bad")])
    assert [b.node_pool for b in brakes.breakers()] == (["bad", "good"] if is_readable else ["good"])
    assert [row.name for row in stored.stores.unreadable.all()] == ([] if is_readable else ["breaker#bad"])
    brakes.joined("bad", NOW)
    assert brakes.read() == ()
    assert [b.node_pool for b in brakes.breakers()] == ["bad", "good"]
    assert stored.stores.unreadable.all() == ()


def test_of_other_lists_the_readable_rows_are_returned(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """Moves, denials, counters and ends of pods: none of them may stop a plan."""
    stores, cluster = stored.stores, request.node.name
    command = Command(reason="Underutilized", method="single", nodes=("n",), claims=("c",))
    stores.moves.write(MoveHistory().after_command("one", command, ("a/b/c", "d/e/f"), NOW), NOW)
    for name in "ab":
        stores.denials.change(None, LaunchDenial(node_class=name, code="c", denied_at=NOW))
    stores.pod_ends.record({"n": NOW, "m": NOW}, NOW)
    requested(stored, "x")
    for kind in ("moves", "denials", "pod-ends"):
        spoil(table, f"{cluster}#{kind}", _with_texts_for_all)
    spoil(table, f"{cluster}#usage", lambda item: {**item, "r:cpu": {"N": "1.5"}})
    assert len(stores.moves.read(NOW).workloads) + len(stores.moves.read(NOW).outcomes) == 2
    assert [record.node_class for record in stores.denials.all()] == ["b"]
    assert list(stores.pod_ends.latest(NOW)) == ["n"]
    assert [(usage.reserved, usage.disrupting) for usage in stores.claims.usage()] == [({"nodes": 1}, 0)]
    assert [row.partition for row in stores.unreadable.all()] == [
        f"{cluster}#{kind}" for kind in ("denials", "moves", "pod-ends", "usage")
    ]


def test_a_row_that_the_next_write_replaces_counts_as_absent(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """Nominations, sweeps and the last change: a run goes on without them, and stores them again."""
    stores, cluster = stored.stores, request.node.name

    def write() -> None:
        stores.nominations.nominate(["n"], now=NOW, until=NOW + MINUTE)
        stored.sweeps.write({"a": SweepState(NOW)})
        stores.changes.record(NOW)

    def read() -> tuple[set[str], dict[str, SweepState], datetime | None]:
        return set(stores.nominations.until(NOW)), stored.sweeps.read(), stores.changes.last()

    write()
    for kind in ("nominations", "sweeps", "changes"):
        spoil(table, f"{cluster}#{kind}", _with_texts_for_all)
    assert read() == (set(), {}, None)
    write()
    assert read() == ({"n"}, {"a": SweepState(NOW)}, NOW)


def test_a_refusal_that_cannot_be_read_is_replaced_by_the_next(table: DynamoTable, stored: Store) -> None:
    unavailable = stored.stores.unavailable
    unavailable.mark([KEY], NOW)
    spoil(table, "unavailable-offerings", _with_texts_for_all)
    assert unavailable.refused(NOW).avoided == frozenset()
    unavailable.mark([KEY], NOW)
    assert KEY in unavailable.refused(NOW + timedelta(seconds=1)).avoided


@pytest.mark.parametrize(
    "damage",
    [
        {"held_until": {"S": "2999-01-01"}},
        {"held_until": {"N": "99999999999999"}},
        {"fence": {"S": "x"}},
        {"fence": {"N": "1E+60"}},
        {"owner": {"N": "1"}, "held_until": {"BOOL": True}, "fence": {"NULL": True}},
    ],
    ids=["held-text", "held-for-ever", "fence-text", "fence-too-large", "all"],
)
def test_a_lease_that_cannot_be_read_is_taken_by_the_next_run(
    table: DynamoTable, stored: Store, damage: Item, request: pytest.FixtureRequest
) -> None:
    """If nobody could take it, no run would plan again. The earlier holder can store nothing."""
    old, later = stored.planner(), NOW + 2 * MINUTE
    spoil(table, f"{request.node.name}#leases", lambda item: {**item, **damage})
    new = stored.leases.acquire(PLANNER, "other", now=later, for_=MINUTE)
    assert new is not None
    assert new.fence > old.fence
    with pytest.raises(ConflictError):
        stored.stores.claims.request([claim("a")], {}, old)
    assert stored.leases.acquire(PLANNER, "third", now=later, for_=MINUTE) is None
    stored.leases.release(new)
    assert stored.leases.acquire(PLANNER, "third", now=later, for_=MINUTE) is not None


@pytest.mark.parametrize(
    "damage",
    [
        {"r:cpu": {"S": "2000"}},
        {"r:memory": {"S": ""}},
        {"r:nodes": {"N": "1.5"}, "disrupting": {"BOOL": True}},
        {"version": {"S": "1"}},
    ],
    ids=["cpu-text", "memory-text", "fraction", "version-text"],
)
def test_malformed_counters_are_replaced_by_a_recount(
    table: DynamoTable, stored: Store, damage: Item, request: pytest.FixtureRequest
) -> None:
    """Each transaction that adds to a text fails, so the NodePool would launch nothing until a person corrects the row."""
    claims = stored.stores.claims
    kept = requested(stored, "a")
    spoil(table, f"{request.node.name}#usage", lambda item: {**item, **damage})
    (mismatch,) = mismatches(claims, kept)
    assert "are no whole numbers" in mismatch[0].problem
    recount(claims, mismatch, RunReport())
    assert mismatches(claims, kept) == []
    assert stored.stores.unreadable.all() == ()
    assert requested(stored, "b")
    assert counters(stored) == ({"nodes": 2, "cpu": 4000}, 0)


def test_a_recount_does_not_replace_counters_that_have_changed(
    table: DynamoTable, stored: Store, request: pytest.FixtureRequest
) -> None:
    """The claims were read before the change, so their sum is outdated."""
    claims = stored.stores.claims
    requested(stored, "a")
    spoil(table, f"{request.node.name}#usage", lambda item: {**item, "r:memory": {"S": "x"}})
    (mismatch,) = mismatches(claims, claims.all())
    requested(stored, "b")
    report = RunReport()
    recount(claims, mismatch, report)
    assert "repairedUsage" not in report.counts
    assert counters(stored) == ({"nodes": 2, "cpu": 4000}, 0)


def test_a_fence_with_a_fraction_is_named(table: DynamoTable, stored: Store, request: pytest.FixtureRequest) -> None:
    """No condition of DynamoDB tells it from a whole number."""
    stored.planner()
    spoil(table, f"{request.node.name}#leases", lambda item: {**item, "fence": {"N": "2900000000000.5"}})
    with pytest.raises(DeniedError, match=r"row planner of partition .* correct or delete it"):
        stored.leases.acquire(PLANNER, "other", now=NOW + 2 * MINUTE, for_=MINUTE)


def _with_texts_for_all(item: Item) -> Item:
    """The row with its key and a text for each other attribute."""
    return {
        name: value if name in (TABLE.partition_key, TABLE.sort_key) else {"S": "x"} for name, value in item.items()
    }


# A law over all kinds of rows: odd bytes in one attribute of one row lose that row and nothing else.

ODD_ATTRIBUTES: tuple[dict[str, Any], ...] = (
    *({"S": text} for text in ("", "x", "[]", '{"version":"x"}', "[" * 5_000, "y" * 3_000)),
    *({"N": number} for number in ("-1", "0.5", "1E+125")),
    *({"B": body} for body in (b"\xff", b"\x1f\x8b")),
    *({"BOOL": True}, {"NULL": True}, {"L": [{"S": "x"}]}, {"M": {"S": {"N": "1"}}}, {"SS": ["x"]}, {"NS": ["1"]}),
)
ODD_VALUES: tuple[Any, ...] = (None, -1, 10**30, "Unknown", [], {"x": 1}, "9999-12-31T23:59:59Z")

Reader = Callable[[], object]


def every_kind(table: DynamoTable, cluster: str) -> dict[str, tuple[Reader, ...]]:
    """Rows of every kind, and what reads each."""
    store, brakes = dynamo(table, cluster), a_brake(table, cluster)
    stores, proposals, targets = store.stores, DynamoProposals(table, cluster), DynamoTargets(table, cluster)
    pace, names = DynamoRequestPace(table, "ec2:CreateFleet"), DynamoTemplateNames(table, cluster)
    launched = msgspec.structs.replace(claim("a"), machine=a_record(ClaimPhase.LAUNCHED).machine)
    stores.claims.restore(launched)
    requested(store, "b")
    command = Command(reason="Empty", method="emptiness", nodes=("n",), claims=("c",))
    for name in ("one", "two"):
        stores.commands.add(CommandRecord(id=name, command=command, created_at=NOW, verify_at=NOW, phase_since=NOW))
        stores.denials.change(None, LaunchDenial(node_class=name, code="c", denied_at=NOW))
        brakes.failed(name, "m", NOW)
    stores.moves.write(MoveHistory().after_command("one", command, ("a/b/c", "d/e/f"), NOW), NOW)
    stores.nominations.nominate(["n"], now=NOW, until=NOW + MINUTE)
    stores.changes.record(NOW)
    stores.pod_ends.record({"n": NOW, "m": NOW}, NOW)
    stores.unavailable.mark([KEY, msgspec.structs.replace(KEY, zone="us-east-1b")], NOW)
    brakes.hold(Brake(BrakeKind.UNKNOWN_INSTANCES, "m"), NOW)
    store.sweeps.write({"a": SweepState(NOW)})
    proposal = proposals.add(msgspec.structs.replace(PROPOSAL, proposed_at=NOW))
    proposals.answer(proposal, ProposalVerdict(is_approved=True, by="ada", at=NOW))
    targets.write(a_stored_target(StoredDrain("n", 1, 1), settings="s", kept_price=1, new_price=2))
    pace.wait(NOW)
    names.add(["t"])
    ramp = Ramp(
        pool="default",
        weekdays=(0, 1),
        starts=timedelta(hours=9),
        lasts=timedelta(minutes=5),
        pods=3,
        amounts={"cpu": 3000, "memory": 0},
        places=3,
        requests={"cpu": 1000},
        days=4,
        used_percent=90,
        covered_percent=90,
        waited=MINUTE,
        recent=(RoomUse("2026-11-29", 3, 2),),
    )
    stores.forecasts.write_forecast(Forecast(at=NOW, rules=ForecastRules(time_zone="UTC"), ramps=(ramp,)))
    growth = {"2026-11-30": {"default": (SlotGrowth(96, 3, 1000, 1 << 30, 60, 3, 1000, 1 << 30, 500, 1 << 29),)}}
    stores.forecasts.write_history(GrowthHistory(time_zone="UTC", since=NOW, read_until=NOW, days=growth))
    return {
        "forecast": (stores.forecasts.forecast, stores.forecasts.history),
        "claims": (stores.claims.all, lambda: stores.claims.get("a")),
        "instances": (lambda: stores.claims.of_instance(launched.instance_id), stores.claims.indexed),
        "usage": (stores.claims.usage, lambda: mismatches(stores.claims, [launched])),
        "commands": (stores.commands.readable, stores.commands.all),
        "moves": (lambda: stores.moves.readable(NOW), lambda: stores.moves.read(NOW)),
        "nominations": (lambda: stores.nominations.until(NOW),),
        "changes": (stores.changes.last,),
        "pod-ends": (lambda: stores.pod_ends.latest(NOW),),
        "denials": (stores.denials.all,),
        "unavailable-offerings": (lambda: stores.unavailable.refused(NOW),),
        "sweeps": (store.sweeps.read,),
        "leases": (lambda: store.leases.acquire(PLANNER, "x", now=NOW, for_=MINUTE),),
        "brakes": (brakes.breakers, brakes.read, brakes.held),
        "proposals": (proposals.all,),
        "verdicts": (lambda: proposals.verdict_on(proposal), proposals.all),
        "target": (targets.read,),
        "request-rates": (lambda: pace.wait(NOW + MINUTE),),
        "launch-templates": (names.all,),
    }


SAY_SO = {("claims", 1), ("commands", 1), ("moves", 1), ("leases", 0), ("brakes", 1), ("brakes", 2), ("proposals", 0)}
"""Readers, by place, without whose rows nothing may be decided: they may raise an error of the port, which callers handle."""


def oddities(item: Item) -> Iterator[Item]:
    """The row with one attribute, or one field of its JSON, made odd or cut off."""
    for name, value in item.items():
        if name in (TABLE.partition_key, TABLE.sort_key):
            continue
        yield from ({**item, name: odd} for odd in ODD_ATTRIBUTES)
        yield {key: kept for key, kept in item.items() if key != name}
        for kind in ("S", "B"):
            if kind in value:
                yield {**item, name: {kind: value[kind][: len(value[kind]) // 2]}}
        if name == "body":
            yield from ({**item, name: body} for body in odd_bodies(value))


def odd_bodies(value: Mapping[str, Any]) -> Iterator[Item]:
    try:
        document = msgspec.json.decode(unpacked(value))
    except (msgspec.MsgspecError, zlib.error, ValueError):
        return
    if isinstance(document, dict):
        for field, odd in itertools.product(document, ODD_VALUES):
            yield packed(msgspec.json.encode({**document, field: odd}))


def kind_of(item: Item) -> str:
    """The kind of a row, which follows the cluster's name in its partition, and may be followed by a shard or a person."""
    partition: str = item[TABLE.partition_key]["S"]
    return partition.removeprefix("c#").partition("#")[0]


def test_odd_bytes_in_a_row_lose_that_row_alone() -> None:
    """Rows are edited by people, restored from copies, and written by other releases and, where shared, by other clusters."""
    account = FakeAccount()
    table = DynamoTable(account.client("dynamodb"), account.table)
    readers = every_kind(table, "c")
    rows = list(account.account.table.all())
    assert {kind_of(item) for item in rows} == readers.keys()
    escaped: dict[str, str] = {}
    tried = 0
    for item in rows:
        for odd in oddities(item):
            tried += 1
            table.put(odd)
            for place, read in enumerate(readers[kind_of(item)]):
                try:
                    read()
                except Exception as error:  # noqa: BLE001 - whatever escapes is what this looks for
                    if not isinstance(error, PortError) or (kind_of(item), place) not in SAY_SO:
                        escaped.setdefault(f"{kind_of(item)} {place} {odd}"[:300], repr(error))
        table.put(item)
    assert tried > 1000
    assert escaped == {}
