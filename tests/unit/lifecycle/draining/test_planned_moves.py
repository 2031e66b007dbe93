"""Pods that consolidation moves have their places: nothing is launched for them a second time."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle.draining.planned_moves import without_planned_moves
from core.lifecycle.records import ClaimRecord, CommandPhase, CommandRecord
from core.model.plan import Binding, Command, Plan
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

CONSOLIDATED = TerminationReason.UNDERUTILIZED
PODS = (a_pod("moves", node_name="n"), a_pod("waits"))


def a_command(reason: str = CONSOLIDATED, phase: CommandPhase = CommandPhase.STARTING) -> CommandRecord:
    """A command that removes the only node."""
    command = Command(reason=reason, method="repack", nodes=("n",), claims=("c",))
    moments = {"created_at": NOW, "verify_at": NOW, "phase_since": NOW - timedelta(seconds=1)}
    return CommandRecord(id="one", command=command, phase=phase, **moments)


def launched(*pods: str, records: tuple[ClaimRecord, ...] = (), commands: tuple[CommandRecord, ...] = ()) -> bool:
    """Whether a claim for these pods stays in the plan."""
    plan = Plan(now=NOW, claims=(a_plan(pods=pods),))
    return bool(without_planned_moves(plan, PODS, records, commands).claims)


def test_the_pods_of_a_command_that_has_not_stored_its_new_nodes_yet_get_no_others() -> None:
    assert not launched("default/moves", records=(a_record(),), commands=(a_command(),))


def test_the_pods_of_a_node_that_consolidation_drains_get_no_new_node() -> None:
    """The command that planned their places has ended by then."""
    assert not launched("default/moves", records=(a_leaving(reason=CONSOLIDATED),))


@pytest.mark.parametrize("pods", [("default/waits",), ("default/moves", "default/waits")])
def test_a_new_node_for_a_pod_that_waits_is_launched(pods: tuple[str, ...]) -> None:
    assert launched(*pods, records=(a_leaving(reason=CONSOLIDATED),), commands=(a_command(),))


@pytest.mark.parametrize(
    ("records", "commands"),
    [
        ((a_record(),), ()),
        ((a_record(),), (a_command(phase=CommandPhase.VERIFYING),)),
        ((a_record(),), (a_command(TerminationReason.DRIFTED),)),
        ((a_leaving(reason=TerminationReason.EXPIRED),), ()),
        ((a_leaving(reason=CONSOLIDATED, ends_at=NOW + timedelta(minutes=2)),), ()),
    ],
)
def test_pods_whose_places_nobody_has_planned_get_new_nodes(
    records: tuple[ClaimRecord, ...], commands: tuple[CommandRecord, ...]
) -> None:
    """An expired node, and one that AWS takes, wait for other places; drift may take a node before its replacement."""
    assert launched("default/moves", records=records, commands=commands)


def test_a_new_node_for_a_capacity_buffer_is_launched() -> None:
    plan = Plan(now=NOW, claims=(a_plan(pods=("default/moves",), buffer_pods=("default/room",)),))
    assert without_planned_moves(plan, PODS, (), (a_command(),)) == plan


def test_nodes_are_expected_to_take_the_pods_that_wait_alone() -> None:
    """Nodes that are expected to take pods may not be consolidated, and these pods go where their command has room."""
    waits, moves = Binding("default/waits", "other"), Binding("default/moves", "another")
    plan = Plan(now=NOW, bindings=(moves, waits))
    assert without_planned_moves(plan, PODS, (), (a_command(),)).bindings == (waits,)
    assert without_planned_moves(plan, PODS, (a_record(),), ()) is plan


def test_a_claim_without_a_node_moves_no_pods() -> None:
    """Pods without a node are not on its node."""
    assert launched("default/waits", records=(msgspec.structs.replace(a_leaving(reason=CONSOLIDATED), node_name=""),))
