"""Time limits of commands, and rollouts whose replacements do not join."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.messages import work_on_claim
from core.brakes.brake import Brake, BrakeKind
from core.disruption.move_history import MoveHistory
from core.ledger.outcome import OutcomeState
from core.lifecycle.records import CommandPhase, CommandRecord
from core.manifests.wire import api_resources as kinds
from core.model.moved_workload import EvictedNode
from core.model.plan import Command
from core.reasons.command import CommandReason
from lambdas.controllers.node_lifecycle.claim_work import HELD_BACK
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import LATE, a_late_command, drifted_fleet


@pytest.mark.parametrize(
    ("others", "phase", "is_done"),
    [
        (1, CommandPhase.REPLACING, False),
        (15_000, CommandPhase.REPLACING, True),
        (15_000, CommandPhase.VERIFYING, False),
    ],
)
def test_the_time_limit_counts_the_nodes_of_all_started_commands(
    others: int, phase: CommandPhase, is_done: bool
) -> None:
    """Karpenter: 80 ms for each node in the queue; commands that have not started are not in it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    name = lab.claim.name
    commands = lab.app.adapters.stores.commands
    commands.add(a_late_command(lab, "late", name))
    names = tuple(f"other-{number}" for number in range(others))
    queued = a_late_command(lab, "queued", *names, phase=phase)
    commands.add(msgspec.structs.replace(queued, created_at=lab.clock.now(), verify_at=lab.clock.now() + LATE))
    lab.execute({"command": "late", "dueAt": lab.clock.now().isoformat()})
    assert commands.get("late") is None
    assert (lab.claim.deletion is not None) is is_done


def conditions(lab: Lab) -> dict[str, str]:
    status = lab.kubernetes.raw(kinds.NODE_POOLS, "default").get("status") or {}
    return {found["type"]: found["status"] for found in status.get("conditions", ())}


def test_an_image_that_never_joins_terminates_instances_ever_more_slowly() -> None:
    """It launched ten machines for one node in three hours and went on, without any report."""
    lab = drifted_fleet()
    started, stops = len(lab.cloud.instances()), 0
    ever = {instance.instance_id for instance in lab.cloud.instances()}
    for minute in range(180):
        lab.clock.advance(minutes=1)
        stops += lab.disrupt().counts.get("rolloutsStopped", 0) > 0
        lab.execute()
        for record in lab.app.adapters.stores.commands.all():
            lab.execute({"command": record.id})
        if minute % 2 == 0:
            lab.reconcile()
            lab.execute()
        ever |= {instance.instance_id for instance in lab.cloud.instances()}
    assert len(ever) - started <= 3
    assert stops > 90
    assert conditions(lab)["RolloutStopped"] == "True"
    events = [lab.kubernetes.raw(kinds.EVENTS, name, "default") for name in lab.kubernetes.names(kinds.EVENTS)]
    assert "RolloutStopped" in {event["reason"] for event in events}
    assert all(claim.deletion is None for claim in lab.claims if claim.initialized_at), "working nodes stay"


def test_the_second_node_of_a_rollout_waits_for_the_pods_of_the_first() -> None:
    """Otherwise, a fleet loses all its nodes to an image on which no pod becomes ready."""
    lab = drifted_fleet()
    lab.clock.advance(minutes=1)
    lab.disrupt()
    assert len(lab.app.adapters.stores.commands.all()) == 1


def test_nothing_is_decided_before_the_last_decision_is_validated() -> None:
    """Otherwise, each run adds a round of commands on top of one that may be dropped a moment later."""
    lab = drifted_fleet()
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]}))
    lab.kubernetes.drop(kinds.PODS, "p0", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    (first,) = lab.rows.commands.values()
    lab.kubernetes.drop(kinds.PODS, "p1", "default")
    lab.clock.advance(minutes=1)
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == ["CommandPending"]
    assert list(lab.rows.commands.values()) == [first]


def a_command(lab: Lab, **changes: object) -> CommandRecord:
    """A command about the only node of the lab, decided now, which is to go without a replacement."""
    command = Command(reason="Drifted", method="drift", nodes=(lab.claim.node_name,), claims=(lab.claim.name,))
    now = lab.clock.now()
    record = CommandRecord(id="x", command=command, created_at=now, verify_at=now, phase_since=now)
    lab.app.adapters.stores.commands.add(msgspec.structs.replace(record, decision="d-1", **changes))
    lab.work.take()
    return record


class TestUnderABrake:
    """It ends a command that has not removed its nodes yet: they stay."""

    def check(self, lab: Lab, brake: Brake, **changes: object) -> list[tuple[str, str]]:
        a_command(lab, **changes)
        lab.brakes.hold(brake, lab.clock.now())
        until = lab.clock.now() + timedelta(minutes=1)
        report = lab.execute({"command": "x", "until": until.isoformat()})
        return [(one.kind, one.reason) for one in report.decisions if one.subject == "x"]

    def test_a_command_is_given_up(self, lab: Lab) -> None:
        found = self.check(lab, Brake(BrakeKind.PAUSE, "paused by a test"))
        assert found == [("abandon", BrakeKind.PAUSE)]
        assert (lab.rows.commands, lab.claim.deletion) == ({}, None)

    def test_that_cannot_be_read_a_command_waits(self, lab: Lab) -> None:
        """A moment later it may be known that nothing stops it."""
        found = self.check(lab, Brake(BrakeKind.UNREADABLE, "no answer"))
        assert found == [("skip", BrakeKind.UNREADABLE)]
        assert (list(lab.rows.commands), [delay for _, delay in lab.work.sent]) == (["x"], [HELD_BACK])

    def test_that_cannot_be_read_a_command_that_is_late_ends_all_the_same(self, lab: Lab) -> None:
        late = {"created_at": lab.clock.now() - LATE}
        assert self.check(lab, Brake(BrakeKind.UNREADABLE, "no answer"), **late) == [("abandon", CommandReason.STALE)]

    def test_of_another_node_pool_a_command_goes_on(self, lab: Lab) -> None:
        self.check(lab, Brake(BrakeKind.OBSERVED, "observed", node_pool="other"), phase=CommandPhase.REPLACING)
        assert lab.claim.deletion is not None


def test_the_nodes_of_a_command_go_once_nothing_is_awaited(lab: Lab) -> None:
    a_command(lab, phase=CommandPhase.REPLACING)
    report = lab.execute({"command": "x"})
    deletion = lab.claim.deletion
    assert deletion is not None
    assert (deletion.reason, deletion.message) == ("Drifted", "command x, drift")
    assert lab.rows.commands == {}
    assert [(one.decision, one.part, one.state, one.reason) for one in report.outcomes] == [
        ("d-1", "x", OutcomeState.DONE, "Drifted")
    ]
    assert lab.work.take() == [work_on_claim(lab.claim.name, lab.clock.now())]


def test_workloads_that_a_command_moves_are_remembered_with_their_node(lab: Lab) -> None:
    """Their pods are not moved again soon, and rates of evictions count the node."""
    node = lab.claim.node_name
    for name, kind in (("of-web", "StatefulSet"), ("of-agent", "DaemonSet")):
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True, "uid": name}
        pod = a_pending_pod(name, metadata={"ownerReferences": [owner]}, nodeName=node)
        lab.kubernetes.put({**pod, "status": {"phase": "Running"}})
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    a_command(lab, phase=CommandPhase.REPLACING)
    lab.execute({"command": "x"})
    moves = lab.rows.moves
    assert moves.evicted_nodes == {lab.claim.name: EvictedNode(node_pool="default", pods=1, at=lab.clock.now())}
    assert len(moves.workloads) == 1


def test_an_empty_node_moves_nothing(lab: Lab) -> None:
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    a_command(lab, phase=CommandPhase.REPLACING)
    lab.execute({"command": "x"})
    assert lab.claim.deletion is not None
    assert lab.rows.moves == MoveHistory()
