"""One row that cannot be read: it is left out and reported, and nothing else fails for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from core.brakes.brake import Brake, BrakeKind
from core.disruption.move_history import MoveHistory
from core.launch.denials.denial import LaunchDenial
from core.lifecycle.records import CommandRecord
from core.model.plan import Command
from lambdas.adapters.aws.brakes.rows import DynamoBrakes
from lambdas.adapters.aws.dynamodb.shards import shard_partition
from lambdas.adapters.aws.dynamodb.table import DynamoTable, Item
from lambdas.ports import DeniedError
from lambdas.store import SweepState
from lambdas.store.unreadable_rows import CLAIMS
from lambdas.wiring import TABLE
from tests.contract.store.stores import KEY, MINUTE, NOW, Store, claim, dynamo, requested
from tests.fakes.world import FakeClock

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
def test_a_command_that_cannot_be_read_is_not_left_out(
    table: DynamoTable, stored: Store, damage: Callable[[Item], Item], request: pytest.FixtureRequest
) -> None:
    """Its nodes would look as if no command disrupted them: untainted, and free to be chosen again."""
    command = Command(reason="Empty", method="emptiness", nodes=("n",), claims=("c",))
    stored.stores.commands.add(CommandRecord(id="one", command=command, created_at=NOW, verify_at=NOW, phase_since=NOW))
    spoil(table, f"{request.node.name}#commands", damage)
    with pytest.raises(DeniedError, match=r"row one of partition .* correct or delete it"):
        stored.stores.commands.all()
    assert [row.name for row in stored.stores.unreadable.all()] == ["one"]


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
    assert [found.node_class for found in stores.denials.all()] == ["b"]
    assert list(stores.pod_ends.latest(NOW)) == ["n"]
    assert stores.claims.usage() == ()
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


def _with_texts_for_all(item: Item) -> Item:
    """The row with its key and a text for each other attribute."""
    return {
        name: value if name in (TABLE.partition_key, TABLE.sort_key) else {"S": "x"} for name, value in item.items()
    }
