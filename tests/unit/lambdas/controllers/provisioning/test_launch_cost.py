"""Launches are charged to the consolidations that moved the pods that they are for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.observation.cluster_state import ClusterState
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.disruption.move_history import CommandOutcome, MoveHistory
from core.lifecycle.records import ClaimRecord
from core.model.pod import Owner, Pod
from lambdas.controllers.provisioning.launch_cost import note_launches
from tests.builders import NOW, a_pod, a_snapshot
from tests.fakes.store import MemoryMoves, Rows
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

WEB = "default/ReplicaSet/web"
MOVED = CommandOutcome(command="x", workloads=(WEB,), savings=1000, carried_out_at=NOW)


def of_web(**changes: Any) -> Pod:
    return a_pod("p", owners=(Owner("ReplicaSet", "web", is_controller=True),), **changes)


def of_another() -> Pod:
    return a_pod("p", owners=(Owner("ReplicaSet", "another", is_controller=True),))


class World:
    """One command that moved pods of `web`, saved 1000, and is watched."""

    def __init__(self) -> None:
        self.rows, self.report = Rows(), RunReport()
        self.rows.moves = MoveHistory(outcomes={"x": MOVED})

    def launch(self, pod: Pod, *claims: ClaimRecord, **plan: Any) -> None:
        """Launch a node at a price of 100 for the pod, while these claims exist."""
        view = ClusterState(
            snapshot=a_snapshot(pods=(pod,)),
            claims={claim.name: claim for claim in claims},
            commands=(),
            node_pools={},
            node_classes={},
        )
        record = a_record(plan=a_plan(**{"pods": (pod.key,), "price": 100, **plan}))
        note_launches(MemoryMoves(self.rows), [record], view, NOW, self.report)

    @property
    def spent(self) -> int:
        return self.rows.moves.outcomes["x"].spent


@pytest.fixture
def world() -> World:
    return World()


def going(reason: str) -> ClaimRecord:
    return a_leaving(reason=reason)


def test_a_waiting_pod_of_a_moved_workload_is_charged(world: World) -> None:
    world.launch(of_web())
    assert world.spent == 100


@pytest.mark.parametrize(
    ("reason", "spent"), [("Underutilized", 100), ("Empty", 100), ("Drifted", 0), ("SpotInterrupted", 0)]
)
def test_a_pod_that_must_leave_is_charged_if_consolidation_makes_it(world: World, reason: str, spent: int) -> None:
    world.launch(of_web(node_name="n"), going(reason))
    assert world.spent == spent


def test_a_pod_on_a_node_that_stays_is_not_charged(world: World) -> None:
    world.launch(of_web(node_name="n"), a_record())
    assert world.spent == 0


def test_pods_of_other_workloads_are_not_charged(world: World) -> None:
    world.launch(of_another())
    assert (world.spent, world.report.counts) == (0, {"workloadsWithUnpaidMoves": 0})


def test_room_of_a_buffer_is_charged_whoever_took_it(world: World) -> None:
    world.launch(of_another(), buffer_pods=("default/room",))
    assert world.spent == 100


def test_a_workload_is_held_once_its_move_does_not_pay(world: World) -> None:
    for _ in range(5):
        world.launch(of_web())
    assert world.report.counts == {"workloadsWithUnpaidMoves": 1}
    held = world.rows.moves.workloads[WEB].held_until
    assert held is not None


def test_without_a_command_that_moved_anything_nothing_is_written(world: World) -> None:
    calls: list[str] = []
    world.rows.moves = MoveHistory()
    world.rows.before_call = calls.append
    world.launch(of_web())
    assert (calls, world.report.counts) == (["read"], {})


def test_a_launch_that_costs_no_command_anything_writes_nothing(world: World) -> None:
    calls: list[str] = []
    world.rows.before_call = calls.append
    world.launch(of_another())
    assert calls == ["read"]


def test_without_launches_nothing_is_read(world: World) -> None:
    calls: list[str] = []
    world.rows.before_call = calls.append
    view = ClusterState(snapshot=a_snapshot(), claims={}, commands=(), node_pools={}, node_classes={})
    note_launches(MemoryMoves(world.rows), [], view, NOW, world.report)
    assert calls == []


def test_a_table_that_does_not_answer_delays_no_pod(world: World) -> None:
    def fail(_: str) -> None:
        raise TransientError("dynamodb:Query", "throttled")

    world.rows.before_call = fail
    world.launch(of_web())
    assert world.report.counts == {"portErrors": 1}
    assert [(one.kind, one.subject, one.reason) for one in world.report.decisions] == [
        ("skip", "move history", "TransientError")
    ]


def test_claims_are_charged_at_their_planned_price(world: World) -> None:
    world.launch(of_web(), price=7)
    assert world.spent == 7
    assert msgspec.structs.replace(world.rows.moves.outcomes["x"], spent=0) == MOVED
