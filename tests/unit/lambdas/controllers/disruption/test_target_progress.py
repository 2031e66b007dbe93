"""The parts of a target that `disrupt` keeps between two runs."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.ports import DeniedError
from adapters.run_report import RunReport
from core.disruption import disrupt
from core.disruption.commands.apply_command import carried_out
from core.model.plan import Command, DisruptionPlan, PlannedClaim, StoredNewNode
from core.model.snapshot import Snapshot
from lambdas.controllers.disruption.deletion_cost_writer import DeletionCostWriter
from lambdas.controllers.disruption.target_progress import RENEWED_AFTER, TargetProgress, remaining_target
from tests.builders import CLASS_REF, NOW, a_stored_target
from tests.fakes.store import MemoryTargets, Rows
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.disruption.target.fleets_for_tests import half_full


def progress(rows: Rows) -> TargetProgress:
    return TargetProgress(MemoryTargets(rows), DeletionCostWriter(FakeKubernetes(FakeClock(NOW)), is_on=False))


def a_look(snapshot: Snapshot, keeper: TargetProgress) -> tuple[Snapshot, DisruptionPlan, RunReport]:
    """Decide and store, as `disrupt` does; returns the world after the commands."""
    report, seen = RunReport(), keeper.with_target(snapshot)
    plan = disrupt(seen)
    keeper.keep(seen, plan, [(f"id-{number}", command) for number, command in enumerate(plan.commands)], report)
    return carried_out(snapshot, *plan.commands), plan, report


def test_the_next_run_continues_the_target_until_nothing_is_left_of_it() -> None:
    """Otherwise, each wave is the first of another target, and pods move twice."""
    rows = Rows()
    keeper, snapshot = progress(rows), half_full(8, at_once=2)
    snapshot, first, report = a_look(snapshot, keeper)
    assert report.counts["targetMade"] == 1
    assert first.target is not None
    gone = [node for command in first.commands for node in command.nodes]
    while rows.target is not None:
        snapshot, plan, report = a_look(snapshot, keeper)
        assert report.counts["targetContinued"] == 1
        assert plan.commands
        gone += [node for command in plan.commands for node in command.nodes]
    assert set(gone) == {drain.node for drain in first.target.drains}


def test_an_unchanged_target_is_not_written() -> None:
    rows, writes = Rows(), list[str]()
    keeper, snapshot = progress(rows), half_full(8, at_once=2)
    seen = keeper.with_target(snapshot)
    keeper.keep(seen, disrupt(seen), (), RunReport())
    rows.before_call = writes.append
    seen = keeper.with_target(snapshot)
    keeper.keep(seen, disrupt(seen), (), RunReport())
    assert writes == ["read"]


@pytest.mark.parametrize(
    ("later", "is_written"), [(timedelta(minutes=1), False), (RENEWED_AFTER, True), (-timedelta(minutes=1), True)]
)
def test_a_target_that_is_only_decided_again_is_seldom_written(later: timedelta, *, is_written: bool) -> None:
    """Each pass wrote it while the ledger could not be written, since its commands could not begin."""
    rows, writes = Rows(), list[str]()
    keeper, snapshot = progress(rows), half_full(8, at_once=2)
    plan = disrupt(snapshot)
    assert plan.target is not None
    keeper.keep(snapshot, plan, (), RunReport())
    rows.before_call = writes.append
    again = msgspec.structs.replace(plan.target, made_at=plan.target.made_at + later)
    keeper.keep(keeper.with_target(snapshot), msgspec.structs.replace(plan, target=again), (), RunReport())
    assert writes == ["read"] + ["write"] * is_written


def test_a_target_that_cannot_be_stored_stops_nothing() -> None:
    def refuse(call: str) -> None:
        if call == "write":
            raise DeniedError("dynamodb:PutItem", "too large")

    rows = Rows()
    keeper, snapshot, report = progress(rows), half_full(8, at_once=2), RunReport()
    rows.before_call = refuse
    keeper.keep(snapshot, disrupt(snapshot), (), report)
    assert [found.reason for found in report.decisions] == ["TargetNotKept"]


def test_a_launched_node_continues_with_its_claims_name() -> None:
    """Later waves move pods to the NodeClaim that the command requests, which differs from the planned name."""
    claim = PlannedClaim(name="default-new-1", node_pool="default", node_class=CLASS_REF)
    target = a_stored_target(
        *disrupt(half_full(8, at_once=2)).target.drains,  # type: ignore[union-attr]  # there is one
        new_price=1,
        new_nodes=(StoredNewNode(name=claim.name, pods={"kind": 3}),),
    )
    command = Command(reason="Underutilized", method="repack", nodes=("x",), claims=("x",), replacements=(claim,))
    plan = DisruptionPlan(now=NOW, commands=(command,), target=target)
    left = remaining_target(msgspec.structs.replace(half_full(2, at_once=1)), plan, [("abc", command)])
    assert left is not None
    assert [(slot.node, slot.pods) for slot in left.slots] == [("default-abc-new-1", 3)]
    assert left.new_nodes == ()
