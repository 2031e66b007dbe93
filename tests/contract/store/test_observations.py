"""What functions tell each other: nominations, sweeps, changes, moves, denials, ends of pods."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.ports import ConflictError
from adapters.store import SweepState
from core.disruption.move_history import MoveHistory
from core.launch.denials import LaunchDenial
from core.model.plan import Command
from core.model.snapshot import EvictedNode
from tests.contract.store.stores import MINUTE, NOW, Store


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
