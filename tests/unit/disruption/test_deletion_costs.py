"""Pods of nodes that go next are marked, with what users wrote kept and everything undone afterwards."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.deletion_costs import (
    CHANGES_MAX,
    LEAVES_FIRST,
    NODES_MAX,
    UNIT,
    deletion_cost_changes,
    disruption_cost,
    eviction_cost,
    nodes_going_next,
    reschedule_cost,
)
from core.model.node_pool import Budget, Disruption
from core.model.plan import StoredDrain
from core.model.pod import Owner, Pod
from core.model.snapshot import FeatureGates, Options
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_stored_target
from tests.unit.disruption.nodes_for_tests import KARPENTER, MIDDLE, ON_DEMAND, pod_on, world

MARKED = {labels.POD_DELETION_COST: LEAVES_FIRST, labels.STEERED: LEAVES_FIRST}
UNMARKED = {labels.POD_DELETION_COST: None, labels.STEERED: None}


def written(*pods: Pod, going: tuple[str, ...] = ("a",)) -> dict[str, dict[str, str | None]]:
    return {change.name: change.annotations for change in deletion_cost_changes(pods, going)}


def test_pods_of_nodes_that_go_are_marked_and_others_not() -> None:
    assert written(pod_on("a", "p"), pod_on("b", "q")) == {"p": MARKED}


def test_a_mark_is_written_once_and_undone_when_the_node_stays() -> None:
    """Otherwise, each run writes to every pod, and a node that stays loses its pods to scale-in."""
    assert written(pod_on("a", "p", annotations=MARKED)) == {}
    assert written(pod_on("a", "p", annotations=MARKED), going=()) == {"p": UNMARKED}


def test_a_mark_whose_cost_someone_removed_is_undone_and_ranks_no_pod() -> None:
    """A cost that is missing is not one that a user set."""
    marked = pod_on("a", "p", annotations={labels.STEERED: LEAVES_FIRST})
    assert written(marked, going=()) == {"p": UNMARKED}
    assert written(marked, pod_on("a", "q")) == {"q": MARKED}


def test_costs_of_users_are_kept() -> None:
    user_cost = {labels.POD_DELETION_COST: "100"}
    assert written(pod_on("a", "p", annotations=user_cost), pod_on("a", "q")) == {}
    changed = {**MARKED, labels.POD_DELETION_COST: "7"}
    assert written(pod_on("a", "p", annotations=changed)) == {"p": {labels.STEERED: None}}


def test_other_workloads_of_the_node_are_marked_all_the_same() -> None:
    with_cost = pod_on("a", "p", annotations={labels.POD_DELETION_COST: "100"})
    assert written(with_cost, pod_on("a", "q", owners=(Owner("ReplicaSet", "api"),))) == {"q": MARKED}


def test_only_replica_sets_ask_for_the_cost() -> None:
    """StatefulSets remove their last pod, whatever it costs."""
    assert written(pod_on("a", "p", owners=(Owner("StatefulSet", "db"),)), pod_on("a", "q", owners=())) == {}


def test_a_run_writes_so_much_and_undoes_first() -> None:
    old = pod_on("b", "zz", annotations=MARKED)
    found = deletion_cost_changes([*(pod_on("a", f"p{n:03}") for n in range(CHANGES_MAX)), old], {"a"})
    assert len(found) == CHANGES_MAX
    assert found[0].name == "zz"


def test_the_nodes_that_are_worth_most_go_next() -> None:
    drains = tuple(StoredDrain(f"n{n:02}", 1, n) for n in range(NODES_MAX + 5))
    target = a_stored_target(*drains)
    assert nodes_going_next(target) == {f"n{n:02}" for n in range(5, NODES_MAX + 5)}
    assert nodes_going_next(None) == frozenset()


# The eviction cost of a pod, which orders nodes and decides which of them are empty.


@pytest.mark.parametrize(
    ("written", "priority", "expected"),
    [
        ("", 0, UNIT),
        ("100", 0, UNIT + 100),
        ("-100", 0, UNIT - 100),
        ("-5", 0, UNIT - 5),
        ("+5", 0, UNIT + 5),
        ("--5", 0, UNIT),
        ("much", 0, UNIT),
        ("2147483647", 0, 10 * UNIT),
        ("-2147483648", 0, -10 * UNIT),
        ("-2147483649", 0, UNIT),
        ("2147483648", 0, UNIT),
        ("", 1000, UNIT + 4000),
        ("", 2_000_000_000, 10 * UNIT),
        ("", -2_000_000_000, -10 * UNIT),
    ],
)
def test_cost(written: str, priority: int, expected: int) -> None:
    """Karpenter: 1 + deletion cost / 2^27 + priority / 2^25, within ten."""
    assert eviction_cost(a_pod(annotations={labels.POD_DELETION_COST: written}, priority=priority)) == expected


def test_a_node_whose_pods_have_no_eviction_cost_is_empty() -> None:
    cheap = a_pod(priority=-2_000_000_000)
    assert reschedule_cost([cheap, cheap]) == UNIT
    assert reschedule_cost([cheap, a_pod()]) == 2 * UNIT


@pytest.mark.parametrize(
    ("disruption", "deletion", "is_managed", "cost"),
    [
        (str(2**27), None, False, 2 * UNIT),
        (str(2**27), str(-(2**27)), False, 2 * UNIT),
        ("1e3", str(2**27), False, UNIT),
        (str(2**31), str(2**27), False, UNIT),
        (None, str(2**27), False, 2 * UNIT),
        (None, str(2**27), True, UNIT),
        (str(2**27), str(2**27), True, 2 * UNIT),
    ],
)
def test_a_disruption_cost_hides_the_deletion_cost(
    disruption: str | None, deletion: str | None, cost: int, *, is_managed: bool
) -> None:
    """Even one that cannot be read; with the gate PodDeletionCostManagement, deletion costs do not count (Karpenter 1.15)."""
    written = {labels.DISRUPTION_COST: disruption, labels.POD_DELETION_COST: deletion}
    pod = a_pod(annotations={key: value for key, value in written.items() if value is not None})
    assert eviction_cost(pod, FeatureGates(pod_deletion_cost_management=is_managed)) == cost


@pytest.mark.parametrize(
    ("age", "expire_after", "expected"),
    [(0, 40, 40), (10, 40, 30), (50, 40, 0), (-10, 40, 40), (10, None, 40), (10, 0, 40)],
)
def test_repair_and_static_pools_count_all_pods_less_as_the_node_ages(
    age: int, expire_after: int | None, expected: int
) -> None:
    """By the share of its lifetime that is left, and with negative costs, unlike consolidation (Karpenter)."""
    lifetime = None if expire_after is None else timedelta(days=expire_after)
    claim, _ = a_node_of(MIDDLE, "a")
    claim = msgspec.structs.replace(claim, created_at=NOW - timedelta(days=age), expire_after=lifetime)
    cheap = a_pod(annotations={labels.DISRUPTION_COST: str(-(2**28))})
    assert disruption_cost([a_pod()] * 41 + [cheap], claim, NOW) == expected * UNIT


# Which of equal nodes goes.


def going(options: Options, nodes: int, annotations: dict[str, dict[str, str]], at_once: str = "50%") -> set[str]:
    """Which of equal nodes go now: each has two pods and room for two more. `annotations`: node → those of its pods."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(at_once),)))
    pairs = [a_node_of(MIDDLE, f"n{n:02}") for n in range(nodes)]
    pods = tuple(
        pod_on(node.name, f"{node.name}-{n}", cpu="900m", annotations=annotations.get(node.name, {}))
        for _, node in pairs
        for n in range(2)
    )
    commands = disrupt(world(*pairs, pods=pods, node_pools=(pool,), options=options)).commands
    return {name for command in commands for name in command.nodes}


@pytest.mark.parametrize("moves", [KARPENTER, Options(), Options(moves="gentle")])
@pytest.mark.parametrize(
    ("costs", "at_once", "expected"),
    [
        ({"n00": "1"}, "1", "n01"),
        ({"n00": "1", "n01": "2", "n02": "3"}, "1", "n03"),
        ({"n00": "1", "n01": "1000"}, "50%", "n02 n03"),
        ({"n00": "2147483647", "n03": "1"}, "50%", "n01 n02"),
        ({"n01": "-1", "n02": "-2"}, "1", "n02"),
        ({"n01": "-1", "n03": "-2"}, "50%", "n01 n03"),
        ({"n00": "1.5", "n01": "1", "n02": "1"}, "50%", "n00 n03"),
    ],
)
def test_of_equal_nodes_those_go_whose_pods_cost_less(
    costs: dict[str, str], at_once: str, expected: str, moves: Options
) -> None:
    """However small the difference: Karpenter 1.15's own scheduler takes the same nodes."""
    annotations = {name: {labels.DISRUPTION_COST: cost} for name, cost in costs.items()}
    assert going(moves, 4, annotations, at_once) == set(expected.split())


def test_of_many_equal_nodes_those_go_whose_pods_cost_less() -> None:
    """Above the size of fleets in which single exchanges are tried."""
    names = [f"n{n:02}" for n in range(48)]
    costly = {name: {labels.DISRUPTION_COST: "1"} for name in names[::2]}
    assert going(Options(), 48, costly) == set(names[1::2])
