"""What functions tell each other: nominations, sweeps, changes, moves, denials, ends of pods."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from time import monotonic, sleep

import msgspec
import pytest

from adapters.aws.dynamodb.launch_memory import PARTITION, DynamoOfferings
from adapters.aws.dynamodb.table import DynamoTable, partition_of
from adapters.ports import ConflictError
from adapters.store import SweepState
from core.disruption.move_history import MoveHistory
from core.forecast import DAY, HISTORY, POOLS_MAX, SLOTS_MAX, GrowthHistory
from core.launch.denials import LaunchDenial
from core.model.plan import Command
from core.model.snapshot import EvictedNode
from core.pods import PARTS_A_DAY, SlotGrowth
from tests.contract.store.stores import KEY, MINUTE, NOW, Store, a_table_at, dynamo


def test_nominations_end_by_themselves(store: Store) -> None:
    """Otherwise, nodes stay protected for pods that came long ago."""
    store.stores.nominations.nominate(["a"], now=NOW, until=NOW + MINUTE)
    store.stores.nominations.nominate(["b"], now=NOW + MINUTE / 2, until=NOW + 2 * MINUTE)
    assert set(store.stores.nominations.until(NOW + MINUTE / 2)) == {"a", "b"}
    assert set(store.stores.nominations.until(NOW + MINUTE)) == {"b"}


def test_as_many_nodes_can_be_nominated_as_a_cluster_may_have(store: Store) -> None:
    """They are one item: else a burst of ten thousand nodes could not be planned for."""
    names = [f"general-purpose-{n % 7}-{n}" for n in range(10_000)]
    store.stores.nominations.nominate(names, now=NOW, until=NOW + MINUTE)
    assert set(store.stores.nominations.until(NOW)) == set(names)


def test_the_results_of_sweeps_round_trip(store: Store) -> None:
    """Otherwise, each sandbox resets the alarm on sweeps that are never clean."""
    assert store.sweeps.read() == {}
    store.sweeps.write({"a": SweepState(NOW), "b": SweepState(NOW - MINUTE, failures=2, reason="throttled")})
    states = {"b": SweepState(NOW - MINUTE, failures=3, reason="denied")}
    store.sweeps.write(states)
    assert store.sweeps.read() == states


def test_the_last_change_is_the_one_that_was_told_last(store: Store) -> None:
    """If it were lost, functions would rest on a look at a cluster that is another by now."""
    store.stores.changes.record(NOW)
    store.stores.changes.record(NOW + MINUTE)
    assert store.stores.changes.last() == NOW + MINUTE


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
    second = denials.change(first, msgspec.structs.replace(first, in_a_row=1))
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


# Refused offerings: avoided for a while, then tried by one launch.


EXPIRY_SECONDS = 120
"""How long DynamoDB Local may take to delete expired items; DynamoDB itself takes days at worst."""


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
    refused = offerings.refused(after)
    assert (keys[0] in refused.half_open, keys[1] in refused.half_open) == (False, True)
    assert not {*keys[:2]} & refused.avoided


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
    refused = store.stores.unavailable.refused(NOW + 64 * MINUTE)
    assert key not in refused.half_open | refused.avoided


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


@pytest.mark.parametrize(("choices", "longest"), [(1, 2), (8, 2), (9, 4), (40, 10), (500, 48), (None, 48)])
def test_an_offering_is_avoided_no_longer_than_there_is_something_else_to_try(
    table: DynamoTable, choices: int | None, longest: int
) -> None:
    """A pod with a single offering would wait up to 48 minutes after its capacity is back."""
    offerings, now = DynamoOfferings(table), NOW
    for _ in range(6):
        offerings.mark([KEY], now, choices=choices)
        pause = 1
        while KEY in offerings.refused(now + pause * MINUTE).avoided:
            pause += 1
        now += (pause + 1) * MINUTE
    assert pause == longest


@pytest.mark.e2e
def test_an_expired_refusal_is_deleted_by_the_table(dynamodb_local: str) -> None:
    """Otherwise, the table grows with every offering that was ever short: nothing else deletes these items."""
    table = a_table_at(dynamodb_local)
    long_over, recent = (msgspec.structs.replace(KEY, zone=zone) for zone in ("us-east-1a", "us-east-1b"))
    DynamoOfferings(table).mark([long_over], NOW - timedelta(days=1))
    DynamoOfferings(table).mark([recent], NOW)
    deadline = monotonic() + EXPIRY_SECONDS
    while len(remaining := list(table.query(PARTITION))) > 1 and monotonic() < deadline:
        sleep(0.5)
    assert ["us-east-1b" in item["sk"]["S"] for item in remaining] == [True]


@pytest.mark.parametrize("field", ["until", "probing_until", "expires_at"])
def test_a_row_that_none_of_our_clusters_can_have_written_says_nothing(table: DynamoTable, field: str) -> None:
    """Every cluster of the account writes these rows: one closed an offering for ten years."""
    offerings, far = DynamoOfferings(table), NOW + timedelta(days=3650)
    offerings.mark([KEY], NOW)
    item = next(
        item for item in table.query(PARTITION) if item["sk"]["S"].startswith(f"{KEY.instance_type}#{KEY.zone}#")
    )
    table.put({**item, field: {"N": str(int(far.timestamp()))}})
    for moment in (NOW, NOW + timedelta(hours=3), NOW + timedelta(days=3000)):
        refused = offerings.refused(moment)
        assert KEY not in refused.avoided | refused.half_open
    offerings.mark([KEY], NOW)
    assert KEY in offerings.refused(NOW).avoided, "our own refusal replaces it"


@pytest.mark.parametrize("sort", ["odd.large", "odd.large#us-east-1a", "#", "odd.large#us-east-1a#spot#cr-1#more"])
def test_a_row_that_names_no_offering_hides_no_other(table: DynamoTable, sort: str) -> None:
    """One row with two parts in its key ended every plan of every cluster of the account."""
    offerings = DynamoOfferings(table)
    offerings.mark([KEY], NOW)
    (item,) = (
        item for item in table.query(PARTITION) if item["sk"]["S"].startswith(f"{KEY.instance_type}#{KEY.zone}#")
    )
    table.put({**item, "sk": {"S": sort}})
    avoided = offerings.refused(NOW).avoided
    assert KEY in avoided
    assert not {"odd.large", ""} & {offering.instance_type for offering in avoided}
    table.delete(PARTITION, sort)


def test_a_negative_number_of_refusals_makes_no_pause_shorter(table: DynamoTable) -> None:
    offerings = DynamoOfferings(table)
    offerings.mark([KEY], NOW)
    (item,) = (
        item for item in table.query(PARTITION) if item["sk"]["S"].startswith(f"{KEY.instance_type}#{KEY.zone}#")
    )
    table.put({**item, "refusals": {"N": "-1000"}})
    offerings.mark([KEY], NOW + 4 * MINUTE)
    assert KEY in offerings.refused(NOW + 6 * MINUTE).avoided


def test_who_says_that_an_offering_is_refused_is_named(table: DynamoTable, caplog: pytest.LogCaptureFixture) -> None:
    """A neighbour that closes offerings for everybody is found by its name, and once for each change."""
    ours, theirs = DynamoOfferings(table, "ours"), DynamoOfferings(table, "neighbour")
    key = msgspec.structs.replace(KEY, instance_type="named.large")
    theirs.mark([key], NOW)

    def told(reader: DynamoOfferings) -> list[tuple[int, ...]]:
        caplog.clear()
        reader.refused(NOW)
        return [tuple(vars(r)[how].get("neighbour", 0) for how in ("avoided", "doubted")) for r in caplog.records]

    assert told(ours) == [(1, 0)]
    assert told(ours) == []
    assert all(counts == (0, 0) for counts in told(theirs)), "its own refusals are in its own decisions"
    (item,) = (item for item in table.query(PARTITION) if item["sk"]["S"].startswith("named.large#"))
    table.put({**item, "until": {"N": str(int((NOW + timedelta(days=9)).timestamp()))}})
    assert told(ours) == [(0, 1)]
    table.delete(PARTITION, item["sk"]["S"])


def test_the_largest_history_of_a_forecast_can_be_stored(table: DynamoTable) -> None:
    """An item may have 400 KB: else nothing is learned any more, and the forecast ends."""
    store, dice = dynamo(table, "largest-history").stores.forecasts, Random(1)  # noqa: S311 - a test's dice

    def a_growth(slot: int) -> SlotGrowth:
        pods, cpu, memory = dice.randrange(1, 9_999), dice.randrange(10**6), dice.randrange(1 << 40)
        after = dice.randrange(-pods, pods + 1)
        return SlotGrowth(slot, pods, cpu, memory, dice.randrange(900), after, cpu - 7, -memory, cpu // 7, memory // 7)

    dates = [(NOW - number * DAY).date().isoformat() for number in range(HISTORY // DAY + 1)]
    pools = [f"pool-{number}" for number in range(POOLS_MAX)]
    slots = {pool: sorted(dice.sample(range(288), SLOTS_MAX)) for pool in pools}
    history = GrowthHistory(
        time_zone="UTC",
        read_until=NOW,
        days={day: {pool: tuple(map(a_growth, slots[pool])) for pool in pools} for day in dates},
        departures={
            day: {pool: {part: dice.randrange(-9_999, 9_999) for part in range(PARTS_A_DAY)} for pool in pools}
            for day in dates
        },
    )
    store.write_history(history)
    item = table.get(partition_of("largest-history", "forecast"), "history")
    assert item is not None
    assert 300_000 < len(item["body"]["B"]) < 400_000
    stored = store.history()
    assert stored is not None
    assert stored.departures == history.departures
    kept = {len(slots) for grown in stored.days.values() for slots in grown.values()}
    assert len(kept) == 1, "as many on each day: a day with fewer would count as a day without growth"
    assert min(kept) >= 1
    small = msgspec.structs.replace(history, days={dates[0]: history.days[dates[0]]})
    store.write_history(small)
    assert store.history() == small
