"""The table is lost, wholly or in part, or replaced by an older copy, in the middle of a fleet's life."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import simulator.world
from adapters.aws.dynamodb.claims import usage_of
from adapters.aws.dynamodb.table import partition_of, unpacked
from core.lifecycle.records import ClaimRecord
from core.model.values import quantity
from installation.wiring import TABLE
from simulator.aws.dynamodb.values import Item
from simulator.world import Result, World, open_world
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

GUARD = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "75%", "selector": {"matchLabels": {"app": "web"}}},
}
ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


class LiveTable:
    """The world's table, for changes from outside."""

    def __init__(self, world: World) -> None:
        self._table = world.account.table
        self._clock = world.clock
        self._cluster = world.account.settings.cluster_name

    def lose(self, newest: int | None = None) -> None:
        self._table.lose(newest)

    def be_older(self, minutes: int) -> None:
        self._table.restore(self._clock.now() - timedelta(minutes=minutes))

    def spoil_a_claim(self) -> None:
        """Replace the body of a claim's row, as a person who edits the table may."""
        name, row = next(
            (name, row)
            for name, row in self._table._items.all()
            if name.partition.startswith(f"{self._cluster}#claims#")
        )
        self._table._items.write(self._clock.now(), name, {**row, "body": {"S": "{}"}})

    def _items(self, kind: str) -> list[Item]:
        partition = partition_of(self._cluster, kind)
        return [item for item in self._table.all() if f"{item[TABLE.partition_key]['S']}#".startswith(f"{partition}#")]

    def drift(self) -> Mapping[str, Any]:
        """NodePool → counters and sums of claims, where they differ."""
        summed: dict[str, dict[str, int]] = {}
        for item in self._items("claims"):
            claim = msgspec.json.decode(unpacked(item["body"]), type=ClaimRecord)
            summed[claim.plan.node_pool] = quantity.add(summed.get(claim.plan.node_pool, {}), claim.reserved)
        counted = {usage.node_pool: usage.reserved for usage in map(usage_of, self._items("usage"))}
        return {
            pool: (counted.get(pool, {}), summed.get(pool, {}))
            for pool in sorted({*counted, *summed})
            if counted.get(pool, {}) != summed.get(pool, {})
        }


Acts = dict[str, Callable[[LiveTable], None]]


@pytest.fixture
def tampering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Acts], list[LiveTable]]:
    """Schedules changes of the table, each at its time from the start (`9m`); the list gets the table."""

    def arrange(acts: Acts) -> list[LiveTable]:
        opened: list[LiveTable] = []

        @contextmanager
        def tampered(*arguments: Any, **options: Any) -> Iterator[World]:
            with open_world(*arguments, **options) as world:
                table = LiveTable(world)
                opened.append(table)
                for at, act in acts.items():
                    world.clock.after(timedelta(minutes=float(at.removesuffix("m"))), lambda act=act: act(table))
                yield world
                opened.append(table)

        monkeypatch.setattr(simulator.world, "open_world", tampered)
        return opened

    return arrange


def assert_nobody_noticed(result: Result) -> None:
    """No pod was evicted, killed or without a node, and no machine was bought or ended."""
    assert named(result, "podEvicted") == []
    assert result.summary["nodesTerminated"] == 0
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


def a_service(replicas: int) -> dict[str, Any]:
    """Pods that each need a node of their own."""
    manifest = deployment(replicas, cpu="3")
    manifest["spec"]["template"]["spec"]["affinity"] = ALONE
    return manifest


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(LiveTable.lose, id="all"),
        pytest.param(lambda table: table.lose(5), id="newest-5"),
    ],
)
def test_a_fleet_outlives_its_table(
    tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]], loss: Callable[[LiveTable], None]
) -> None:
    """If this failed, one operator's mistake with a table would end every node of a cluster within a minute."""
    drifts: list[Mapping[str, Any]] = []
    tampering({"8.2m": loss, "18m": lambda table: drifts.append(table.drift())})
    result = play(tmp_path, node_pool(), a_service(8), GUARD, duration="20m")
    assert result.summary["nodesLaunched"] == 8
    assert_nobody_noticed(result)
    assert [told for told in result.decisions if told["reason"] == "Rebuilt"] != []
    assert drifts == [{}]


@pytest.mark.ci
def test_a_fleet_that_was_rebuilt_is_managed_as_before(
    tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]]
) -> None:
    """If this failed, nodes would stay forever after a loss, or new pods get none."""
    tampering({"8.2m": LiveTable.lose})
    steps = [
        {"at": "13m", "scale": {"kind": "Deployment", "name": "web", "replicas": 6}},
        {"at": "18m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}},
    ]
    result = play(tmp_path, node_pool(), a_service(4), GUARD, steps=steps, duration="30m")
    assert (result.summary["nodesLaunched"], result.summary["nodesAtEnd"]) == (6, 0)
    assert_lawful(result)


def test_a_table_is_lost_while_nodes_boot(tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]]) -> None:
    """If this failed, machines that were on their way would be paid for without end, or ended with pods on them."""
    tampering({"0.5m": LiveTable.lose})
    result = play(tmp_path, node_pool(), a_service(4), GUARD, duration="30m")
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 4)
    assert_lawful(result)


def test_a_spot_notice_right_after_a_loss_is_heeded(
    tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]]
) -> None:
    """If this failed, the instance would end with its pod on it: claims are rebuilt within two minutes, but notices are not."""
    tampering({"8.2m": LiveTable.lose})
    steps = [{"at": "8m13s", "interrupt": {"fraction": 0.25}}]
    result = play(tmp_path, node_pool(), a_service(4), GUARD, steps=steps, duration="14m")
    (ended,) = [event for event in result.events if event.event == "instanceTerminated"]
    (evicted,) = [event for event in result.events if event.event == "podEvicted"]
    assert (ended.fields["by"], result.summary["podsPending"]) == ("api", 0)
    assert evicted.t < ended.t
    assert_lawful(result)


@pytest.mark.ci
def test_a_copy_of_half_an_hour_ago_converges(tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]]) -> None:
    """Claims of nodes that are gone, nodes without claims, stale counters and fences: nothing that has pods goes for it."""
    drifts: list[Mapping[str, Any]] = []
    tampering(
        {
            "38m": lambda table: table.be_older(30),
            "55m": lambda table: drifts.append(table.drift()),
        }
    )
    steps = [
        {"at": "10m", "scale": {"kind": "Deployment", "name": "other", "replicas": 0}},
        {"at": "20m", "scale": {"kind": "Deployment", "name": "web", "replicas": 7}},
        {"at": "45m", "scale": {"kind": "Deployment", "name": "web", "replicas": 8}},
    ]
    other = deployment(2, name="other", cpu="12")
    result = play(tmp_path, node_pool(), a_service(4), other, GUARD, steps=steps, duration="60m")
    assert [event.fields["pod"] for event in result.events if event.event == "podEvicted"] == []
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 8)
    assert drifts == [{}]
    assert_lawful(result)


def test_fences_of_an_older_copy_name_no_claim_twice(
    tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]]
) -> None:
    """If this failed, EC2 would answer a new launch with an instance of another claim, for its token."""
    tampering({"8m": lambda table: table.be_older(6)})
    steps = [
        {"at": "4m", "scale": {"kind": "Deployment", "name": "web", "replicas": 4}},
        {"at": "10m", "scale": {"kind": "Deployment", "name": "web", "replicas": 8}},
    ]
    result = play(tmp_path, node_pool(), a_service(2), GUARD, steps=steps, duration="16m")
    claims = [told["subject"] for told in result.decisions if (told["kind"], told["reason"]) == ("launch", "Launched")]
    assert len(claims) == len(set(claims)) == 8
    assert_nobody_noticed(result)


@pytest.mark.ci
def test_a_claim_whose_row_cannot_be_read_keeps_its_node(
    tmp_path: Path, tampering: Callable[[Acts], list[LiveTable]]
) -> None:
    """If this failed, one mistyped row would stop every function, or cost the node whose row it is."""
    tampering({"8.2m": LiveTable.spoil_a_claim})
    steps = [{"at": "20m", "scale": {"kind": "Deployment", "name": "web", "replicas": 5}}]
    result = play(tmp_path, node_pool(), a_service(4), GUARD, steps=steps, duration="40m")
    assert result.summary["nodesLaunched"] == 5
    assert_nobody_noticed(result)
    assert [told for told in result.decisions if told["reason"] == "CannotBeRead"] != []
