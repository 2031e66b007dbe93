"""Budgets hold however many functions disrupt nodes at once; commands are validated in order, on one observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.ports import DeniedError, JsonObject, TransientError
from adapters.run_report import RunReport
from adapters.store import DISRUPTION, ClaimChange, Disrupted
from core import labels
from core.approval.proposal import ProposalVerdict
from core.brakes import Brake, BrakeKind
from core.disruption.move_history import MoveHistory
from core.ledger.outcome import DecisionOutcome, OutcomeState
from core.lifecycle.draining import REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase, CommandPhase, CommandRecord, Deletion
from core.manifests.wire import resources
from core.model.plan import Command
from core.model.snapshot import EvictedNode
from core.model.values.taints import DISRUPTED, LEAVING
from core.reasons.code import TerminationReason
from core.reasons.runs import CommandReason, FailureReason
from lambdas.controllers.command_work import CHECKS_FOR, abandoned, done
from lambdas.controllers.node_lifecycle import HELD_BACK
from tests.builders import NOW, a_stored_target
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import (
    LATE,
    a_late_command,
    drifted_fleet,
    drifting,
    settled,
    tainted,
)
from tests.unit.lambdas.test_crashes import CrashingCall, schedules_alone
from tests.unit.lifecycle.records_for_tests import a_command as outcomes_a_command

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
        ]
    }
}
READY = {"type": "Ready", "status": "True"}


def pool(budget: str, **template: Any) -> JsonObject:
    """The NodePool, with a budget of this many nodes."""
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": budget}]}
    return a_node_pool(disruption=disruption, template=template)


def fleet(budget: str, nodes: int = 2, **template: Any) -> Lab:
    """A lab with this many empty nodes."""
    lab = Lab()
    lab.kubernetes.put(pool(budget, **template), *(a_pending_pod(f"p{n}", affinity=APART) for n in range(nodes)))
    lab.settle()
    for n in range(nodes):
        lab.kubernetes.drop(resources.PODS, f"p{n}", "default")
    assert len(lab.claims) == nodes
    lab.clock.advance(minutes=1)
    return lab


@pytest.mark.parametrize(
    ("kind", "row"), [("commands", "x"), ("moves", "rollout#default"), ("moves", "failed#x"), ("", "")]
)
def test_nothing_starts_while_what_forbids_it_cannot_be_read(kind: str, row: str) -> None:
    """Nodes of such a command look as if they were in none, and a rollout that was stopped would go on."""
    lab = fleet("2")
    lab.disrupt()
    if row:
        lab.rows.spoil(kind, row)
    lab.tick(4)
    assert any(claim.is_disrupting for claim in lab.claims) is not bool(row)


def once(lab: Lab, call: str, act: Callable[[], object]) -> None:
    """Run a hook right before the next such call to the API server."""

    def intrude(made: str) -> None:
        if made == call:
            lab.kubernetes.before_call = lambda _: None
            act()

    lab.kubernetes.before_call = intrude


def test_two_concurrent_validations_do_not_both_spend_the_budget() -> None:
    """Found by review: with one place left, two commands that were validated in the same second both used it."""
    lab = fleet("2", nodes=2)
    lab.disrupt()
    first, second = lab.work.take()
    lab.kubernetes.put(pool("1"))
    lab.clock.advance(seconds=16)
    once(lab, "list poddisruptionbudgets", lambda: lab.execute(second))
    lab.execute(first)
    lab.tick(3)
    assert len(tainted(lab)) + 2 - len(lab.kubernetes.names(resources.NODES)) == 1
    assert max(usage.disrupting for usage in lab.rows.usage.values()) <= 1


def test_of_commands_that_are_validated_together_each_is_judged_without_the_nodes_of_those_before() -> None:
    """Each alone would hold: its pods fit on the node that the other removes, and the budget has room for one."""
    lab = fleet("2", nodes=2)
    lab.disrupt()
    messages = lab.work.take()
    lab.kubernetes.put(pool("1"))
    lab.clock.advance(seconds=16)
    reasons = [decision.reason for decision in lab.execute(*messages).decisions]
    assert CommandReason.VALIDATION_FAILED in reasons
    assert CommandReason.BUDGET_SPENT not in reasons


def test_an_expiry_between_validation_and_start_is_counted() -> None:
    """Found by a seed: two commands and an expiry, each within a budget of two, disrupted three nodes."""
    lab = fleet("1", nodes=2, expireAfter="12m")
    lab.clock.advance(minutes=10)
    lab.disrupt()
    (message,) = lab.work.take()
    (command,) = lab.rows.commands.values()
    younger = max(lab.claims, key=lambda claim: claim.name)
    of_younger = msgspec.structs.replace(command.command, nodes=(younger.node_name,), claims=(younger.name,))
    lab.rows.commands[command.id] = msgspec.structs.replace(command, command=of_younger)
    lab.clock.advance(minutes=2)
    once(lab, "list priorityclasses", lab.reconcile)
    report = lab.execute(message)
    assert [decision.reason for decision in report.decisions if decision.kind == "abandon"] == ["BudgetSpent"]
    assert younger in lab.claims
    assert lab.rows.usage["default"].disrupting == 1
    assert sum(claim.deletion is not None for claim in lab.claims) == 1


def test_all_due_commands_share_one_snapshot() -> None:
    """Otherwise, each reads the whole cluster, and ten of them do not end within their minute."""
    lab = fleet("100%", nodes=4)
    lab.disrupt()
    (first, *_) = lab.work.take()
    lab.clock.advance(seconds=16)
    looks: list[str] = []
    lab.kubernetes.before_call = looks.append
    lab.execute(first)
    assert looks.count("list nodes") == 1
    assert [command.phase for command in lab.rows.commands.values()] == [CommandPhase.STARTING] * 3, (
        "the first is through"
    )
    assert {command.phase_since for command in lab.rows.commands.values()} == {lab.clock.now()}
    assert lab.rows.usage["default"].disrupting == 4


def test_nodes_that_later_waves_drain_are_marked_before_the_first_pod_is_evicted() -> None:
    """Otherwise, kube-scheduler binds moved pods to the emptiest nodes, which are those that go next."""
    lab = fleet("1", nodes=3)
    lab.disrupt()
    (message,) = lab.work.take()
    (record,) = lab.rows.commands.values()
    later, _ = sorted(set(lab.kubernetes.names(resources.NODES)) - {*record.command.nodes})
    lab.app.adapters.targets.write(a_stored_target(later, "gone", made_at=lab.clock.now()))
    lab.clock.advance(seconds=16)
    lab.execute(message)
    marked = {
        name
        for name in lab.kubernetes.names(resources.NODES)
        if LEAVING.written() in lab.kubernetes.raw(resources.NODES, name)["spec"].get("taints", ())
    }
    assert marked == {later}
    assert lab.rows.usage["default"].disrupting == 1


def test_a_node_that_cannot_be_marked_stops_no_command() -> None:
    """The mark only weighs in kube-scheduler's choice."""
    lab = fleet("1", nodes=2)
    lab.disrupt()
    (message,) = lab.work.take()
    (record,) = lab.rows.commands.values()
    (later,) = set(lab.kubernetes.names(resources.NODES)) - {*record.command.nodes}
    lab.app.adapters.targets.write(a_stored_target(later, made_at=lab.clock.now()))
    lab.clock.advance(seconds=16)

    def fail(call: str) -> None:
        if call == "get nodes":
            lab.kubernetes.before_call = lambda _: None
            raise TransientError("kube:get nodes", "503")

    lab.kubernetes.before_call = fail
    lab.execute(message)
    assert lab.rows.usage["default"].disrupting == 1


def test_a_failed_listing_delays_no_command() -> None:
    """Otherwise, one slow answer of the API server keeps every command waiting for the end of a lease."""
    lab = fleet("1", nodes=1)
    lab.disrupt()

    def fail() -> None:
        raise TransientError("kube:list nodes", "503")

    once(lab, "list nodes", fail)
    lab.tick(seconds=16)
    assert lab.rows.leases[DISRUPTION][1] is None
    lab.tick(seconds=10)
    assert lab.rows.usage["default"].disrupting == 1


def test_a_command_starts_without_a_node_that_may_no_longer_go() -> None:
    """Two drifted nodes share a command: a pod of one of them is protected before it is checked."""
    lab = Lab()
    lab.kubernetes.put(pool("100%"), *(a_pending_pod(f"p{n}", affinity=APART) for n in range(2)))
    lab.settle()
    for n, node in enumerate(lab.kubernetes.names(resources.NODES)):
        running = {"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [READY]}}
        lab.kubernetes.patch(resources.PODS, f"p{n}", running, namespace="default")
    lab.kubernetes.put(pool("100%", expireAfter="1000h"))
    settled(lab)
    lab.disrupt()
    (message,) = lab.work.take()
    (record,) = lab.rows.commands.values()
    first, second = sorted(lab.claims, key=lambda claim: claim.name not in record.command.claims)
    both = msgspec.structs.replace(
        record.command, nodes=(first.node_name, second.node_name), claims=(first.name, second.name)
    )
    lab.rows.commands[record.id] = msgspec.structs.replace(record, command=both)
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    pods = [lab.kubernetes.raw(resources.PODS, f"p{n}", "default") for n in range(2)]
    (kept,) = (pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] == second.node_name)
    lab.kubernetes.patch(resources.PODS, kept, veto, namespace="default")
    report = lab.execute(message)
    assert tainted(lab) == [first.node_name]
    assert lab.rows.usage["default"].disrupting == 1
    left_out = [decision for decision in report.decisions if decision.reason == CommandReason.LEFT_OUT]
    assert [error.subject for error in left_out] == [second.node_name]
    assert left_out[0].message == f"pod default/{kept} has {labels.DO_NOT_DISRUPT}"


def test_an_invalid_command_is_not_decided_again_at_once() -> None:
    """Otherwise, for a pod that comes and goes, the same command is decided and dropped each minute."""
    lab = fleet("1", nodes=1)
    lab.disrupt()
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.put(a_pending_pod("late"))
    lab.bind("late")
    lab.clock.advance(seconds=20)
    lab.execute()
    assert lab.app.adapters.stores.commands.all() == ()
    lab.kubernetes.drop(resources.PODS, "late", "default")
    lab.clock.advance(seconds=20)
    assert [d.reason for d in lab.disrupt().decisions if d.subject == node] == [CommandReason.FAILED_BEFORE]
    lab.clock.advance(minutes=3)
    lab.disrupt()
    assert len(lab.app.adapters.stores.commands.all()) == 1


def test_a_command_is_checked_again_soon_while_another_run_validates() -> None:
    """Its message is the only one: without a further check it waits for the next sweep."""
    lab = drifting()
    lab.disrupt()
    adapters = lab.app.adapters
    lease = adapters.leases.acquire(DISRUPTION, "another", now=lab.clock.now(), for_=timedelta(minutes=5))
    assert lease is not None
    lab.tick(4)
    assert [record.has_started for record in lab.rows.commands.values()] == [False]
    adapters.leases.release(lease)
    lab.tick(2)
    assert [record.has_started for record in lab.rows.commands.values()] == [True]


def decided(**changes: Any) -> tuple[Lab, list[CommandRecord]]:
    """Four empty nodes and a due command about each, the second one changed as given."""
    lab = fleet("100%", nodes=4)
    lab.disrupt()
    lab.clock.advance(seconds=16)
    commands = sorted(lab.rows.commands.values(), key=lambda command: command.id)
    lab.rows.commands[commands[1].id] = commands[1] = msgspec.structs.replace(commands[1], **changes)
    return lab, commands


def phases(lab: Lab, commands: list[CommandRecord]) -> list[str]:
    """What became of each; a command without a row is through, or dropped."""
    rows = [lab.rows.commands.get(command.id) for command in commands]
    return [row.phase if row is not None else "" for row in rows]


STARTING, VERIFYING = CommandPhase.STARTING, CommandPhase.VERIFYING


@pytest.mark.parametrize(("seconds", "phase"), [(0, STARTING), (1, VERIFYING)])
def test_a_command_is_validated_when_it_is_due_and_not_before(seconds: int, phase: CommandPhase) -> None:
    lab, commands = decided()
    due = msgspec.structs.replace(commands[1], verify_at=lab.clock.now() + timedelta(seconds=seconds))
    lab.rows.commands[due.id] = due
    lab.execute({"command": commands[0].id})
    assert phases(lab, commands) == ["", phase, STARTING, STARTING]


def test_a_command_that_a_brake_stops_is_not_started_by_the_validation_of_others() -> None:
    lab, commands = decided()
    pool = msgspec.structs.replace(lab.claims[1].plan, node_pool="other")
    (name,) = commands[1].command.claims
    lab.rows.claims[name] = msgspec.structs.replace(lab.rows.claims[name], plan=pool)
    lab.brakes.hold(Brake(BrakeKind.OBSERVED, "stopped by a test", node_pool="other"), lab.clock.now())
    lab.execute({"command": commands[0].id})
    assert phases(lab, commands) == ["", VERIFYING, STARTING, STARTING]


def test_the_last_place_in_a_budget_goes_to_the_command_that_was_decided_first() -> None:
    lab, commands = decided()
    first = msgspec.structs.replace(commands[1], created_at=commands[0].created_at - timedelta(seconds=1))
    lab.rows.commands[first.id] = first
    lab.kubernetes.put(pool("1"))
    lab.execute({"command": commands[0].id})
    assert phases(lab, commands) == ["", STARTING, "", ""]
    assert [claim.name for claim in lab.claims if claim.is_disrupting] == list(first.command.claims)


@pytest.mark.parametrize(("beyond", "started"), [(0, 4), (1, 1)], ids=["in time", "too late"])
def test_commands_are_validated_on_one_observation_for_a_limited_time(beyond: int, started: int) -> None:
    """The cluster changes meanwhile; the rest is validated on the next observation."""
    lab, commands = decided()

    def take_time(call: str) -> None:
        if call == "write" and DISRUPTION in lab.rows.leases:
            lab.rows.before_call = lambda _: None
            lab.clock.advance(seconds=CHECKS_FOR.total_seconds() + beyond)

    lab.rows.before_call = take_time
    lab.execute({"command": commands[0].id})
    assert len([phase for phase in phases(lab, commands) if phase != VERIFYING]) == started


def changed_by_another_run(lab: Lab) -> RunReport:
    """Validate the only command, whose row another run writes right before this one does."""
    (command,) = lab.rows.commands.values()

    def write(call: str) -> None:
        if call == "write" and DISRUPTION in lab.rows.leases:
            lab.rows.before_call = lambda _: None
            lab.rows.commands[command.id] = msgspec.structs.replace(command, version=command.version + 1)

    lab.rows.before_call = write
    return lab.execute({"command": command.id})


@pytest.mark.parametrize("is_valid", [True, False])
def test_a_command_that_another_run_has_changed_is_left_to_it(*, is_valid: bool) -> None:
    lab = fleet("1", nodes=1)
    lab.disrupt()
    if not is_valid:
        lab.kubernetes.put(a_pending_pod("late"))
        lab.bind("late")
    lab.clock.advance(seconds=16)
    lab.run_requests.take()
    report = changed_by_another_run(lab)
    (command,) = lab.rows.commands.values()
    assert [(decision.kind, decision.subject, decision.reason) for decision in report.decisions] == [
        ("skip", command.id, FailureReason.CONFLICT)
    ]
    assert (lab.claim.is_disrupting, report.outcomes, lab.run_requests.take()) == (False, [], [])


def test_places_of_a_command_that_needs_several_transactions_are_given_back_if_a_later_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = fleet("1", nodes=1)
    lab.disrupt()
    lab.clock.advance(seconds=16)
    lab.run_requests.take()
    claims = lab.app.adapters.stores.claims
    disrupt = claims.disrupt

    def partly(changes: Sequence[ClaimChange], bounds: Mapping[str, int], **_: object) -> Disrupted:
        return msgspec.structs.replace(disrupt(changes, bounds), spent=("default",))

    monkeypatch.setattr(claims, "disrupt", partly)
    (command,) = lab.rows.commands.values()
    report = lab.execute({"command": command.id})
    assert (lab.claim.is_disrupting, lab.rows.usage["default"].disrupting, lab.rows.commands) == (False, 0, {})
    (decision,) = report.decisions
    assert (decision.kind, decision.reason) == ("abandon", CommandReason.BUDGET_SPENT)
    assert decision.message == "NodePools default let no more nodes go for Empty"
    assert [(outcome.part, outcome.state, outcome.message) for outcome in report.outcomes] == [
        (command.id, OutcomeState.ABANDONED, decision.message)
    ]
    assert lab.run_requests.take() == [{"wakeUp": "command dropped"}]


def test_a_brake_on_one_of_its_node_pools_stops_a_command() -> None:
    """Otherwise, a command of several NodePools ends nodes of one that its owner has paused."""
    lab, commands = decided()
    first, second = commands[1].command, commands[2].command
    both = msgspec.structs.replace(first, nodes=first.nodes + second.nodes, claims=first.claims + second.claims)
    lab.rows.commands[commands[1].id] = msgspec.structs.replace(commands[1], command=both)
    del lab.rows.commands[commands[2].id]
    (name,) = second.claims
    other = msgspec.structs.replace(lab.rows.claims[name].plan, node_pool="other")
    lab.rows.claims[name] = msgspec.structs.replace(lab.rows.claims[name], plan=other)
    lab.brakes.hold(Brake(BrakeKind.OBSERVED, "stopped by a test", node_pool="other"), lab.clock.now())
    lab.execute({"command": commands[0].id})
    assert phases(lab, commands) == ["", VERIFYING, "", STARTING]


# Time limits of commands, and rollouts whose replacements do not join.


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
    status = lab.kubernetes.raw(resources.NODE_POOLS, "default").get("status") or {}
    return {condition["type"]: condition["status"] for condition in status.get("conditions", ())}


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
    events = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
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
    lab = drifted_fleet(has_settled=False)
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]}))
    lab.kubernetes.drop(resources.PODS, "p0", "default")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    (first,) = lab.rows.commands.values()
    lab.kubernetes.drop(resources.PODS, "p1", "default")
    lab.clock.advance(minutes=1)
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == ["CommandPending"]
    assert list(lab.rows.commands.values()) == [first]


def a_command(lab: Lab, reason: str = "Drifted", **changes: object) -> CommandRecord:
    """A command about the only node of the lab, decided now, which is to go without a replacement."""
    command = Command(reason=reason, method="drift", nodes=(lab.claim.node_name,), claims=(lab.claim.name,))
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
        return [(decision.kind, decision.reason) for decision in report.decisions if decision.subject == "x"]

    def test_a_command_is_given_up(self, lab: Lab) -> None:
        decisions = self.check(lab, Brake(BrakeKind.PAUSE, "paused by a test"))
        assert decisions == [("abandon", BrakeKind.PAUSE)]
        assert (lab.rows.commands, lab.claim.deletion) == ({}, None)

    def test_that_cannot_be_read_a_command_waits(self, lab: Lab) -> None:
        """A moment later it may be known that nothing stops it."""
        decisions = self.check(lab, Brake(BrakeKind.UNREADABLE, "no answer"))
        assert decisions == [("skip", BrakeKind.UNREADABLE)]
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
    assert [(outcome.decision, outcome.part, outcome.state, outcome.reason) for outcome in report.outcomes] == [
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
    lab.kubernetes.drop(resources.PODS, "p", "default")
    a_command(lab, phase=CommandPhase.REPLACING)
    lab.execute({"command": "x"})
    moves = lab.rows.moves
    machine = lab.claim.machine
    assert machine is not None
    cpu = machine.capacity["cpu"]
    since = lab.claim.requested_at
    node_drained = EvictedNode(node_pool="default", pods=1, at=lab.clock.now(), cpu=cpu, created_at=since)
    assert moves.evicted_nodes == {lab.claim.name: node_drained}
    assert len(moves.workloads) == 1


def test_an_empty_node_moves_nothing(lab: Lab) -> None:
    lab.kubernetes.drop(resources.PODS, "p", "default")
    a_command(lab, phase=CommandPhase.REPLACING)
    lab.execute({"command": "x"})
    assert lab.claim.deletion is not None
    assert lab.rows.moves == MoveHistory()


# What the ledger keeps of the end of a command.


RECORD = outcomes_a_command(decision="7f3a")


def test_a_command_that_is_done_has_its_own_reason() -> None:
    expected = DecisionOutcome(decision="7f3a", part="x", state=OutcomeState.DONE, at=NOW, reason="Empty")
    assert done(RECORD, NOW) == expected


def test_an_abandoned_command_has_the_reason_for_which_its_nodes_stay() -> None:
    assert abandoned(RECORD, "PodsArrived", "two pods", NOW) == DecisionOutcome(
        decision="7f3a", part="x", state=OutcomeState.ABANDONED, at=NOW, reason="PodsArrived", message="two pods"
    )


# A command that is given up leaves nothing behind: no closed node, no place in the budgets, no node too many.


def started() -> Lab:
    """A drifted node whose command has just requested the replacement."""
    lab = drifting()
    lab.disrupt()
    lab.tick(2)
    lab.work.take()
    lab.run_requests.take()
    return lab


def give_up(lab: Lab) -> RunReport:
    """Let the command's time pass."""
    (command,) = lab.rows.commands.values()
    lab.clock.advance(seconds=LATE.total_seconds())
    return lab.execute({"command": command.id})


def is_whole(lab: Lab) -> None:
    """Nothing goes, nothing is held without need, and no superfluous node is paid for."""
    assert lab.rows.commands == {}
    assert tainted(lab) == []
    assert [(claim.deletion, claim.is_disrupting) for claim in lab.claims] == [(None, False)]
    (usage,) = lab.rows.usage.values()
    assert (usage.reserved, usage.disrupting) == (lab.claim.reserved, 0)
    assert lab.claim.reserved
    assert [instance.instance_id for instance in lab.cloud.instances()] == [lab.claim.instance_id]


def test_replacements_of_a_dropped_command_go_too() -> None:
    """Otherwise, a command that is tried again and again adds a superfluous node each time."""
    lab = drifting()
    lab.disrupt()
    lab.tick(2)
    assert len(lab.cloud.instances()) == 2
    (command,) = lab.rows.commands.values()
    lab.clock.advance(minutes=11)
    lab.work.take()
    lab.run_requests.take()
    lab.execute({"command": command.id})
    assert len(lab.run_requests.take()) == 1, "its nodes may go with another command"
    assert lab.work.take() == [work_on_claim(name, lab.clock.now()) for name in command.replacements]
    lab.execute(*(work_on_claim(name, lab.clock.now()) for name in command.replacements))
    lab.tick(6)
    is_whole(lab)


def test_a_replacement_with_pods_outlives_its_command() -> None:
    """Otherwise, pods that were bound there in between are moved again at once."""
    lab = started()
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    lab.app.adapters.stores.nominations.nominate(
        [name], now=lab.clock.now(), until=lab.clock.now() + timedelta(hours=1)
    )
    lab.clock.advance(minutes=11)
    lab.execute({"command": command.id})
    assert lab.rows.commands == {}
    assert {claim.name: claim.deletion for claim in lab.claims}[name] is None


def test_a_replacement_whose_row_is_older_than_its_node_outlives_its_command_too() -> None:
    """The table was restored from a copy: the row does not name the node, which has had pods for long."""
    lab = drifting()
    lab.disrupt()
    lab.tick(2)
    (command,) = lab.rows.commands.values()
    row = lab.rows.claims[command.replacements[0]]
    lab.boot()
    for mark in (labels.REGISTERED, labels.INITIALIZED):
        lab.kubernetes.amend(resources.NODES, row.instance_id, {"metadata": {"labels": {mark: "true"}}})
    lab.kubernetes.amend(resources.NODES, row.instance_id, {"metadata": {"labels": row.labels}})
    moved = {"spec": {"nodeName": row.instance_id}, "status": {"phase": "Running", "conditions": []}}
    lab.kubernetes.amend(resources.PODS, "p", moved, namespace="default")
    lab.clock.advance(minutes=11)
    lab.execute({"command": command.id})
    assert lab.rows.commands == {}
    assert lab.rows.claims[row.name].deletion is None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_while_a_command_is_dropped_leaves_nothing_behind(*, after: bool) -> None:
    """Otherwise, a node keeps its taint or its place in the budgets, or loses its share of the limits, forever."""
    number = total = 0
    while number <= total:
        lab = drifting()
        lab.disrupt()
        lab.tick(2)
        (command,) = lab.rows.commands.values()
        lab.clock.advance(minutes=11)
        crash = CrashingCall(lab, at=number, after=after)
        crash.during(lab, lambda lab, name=command.id: lab.execute({"command": name}))
        total = max(total, crash.calls)
        lab.kubernetes.put(a_node_pool())
        schedules_alone(lab, rounds=3)
        is_whole(lab)
        number += 1
    assert total >= (5 if after else 9)  # writes, calls


def test_a_command_that_never_started_leaves_the_taint_of_another_hand() -> None:
    """Its nodes were never closed by it; whoever closed one did so for another reason."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    node = lab.claim.node_name
    late = a_late_command(lab, "late", lab.claim.name, phase=CommandPhase.VERIFYING)
    command = msgspec.structs.replace(late.command, nodes=(node,))
    lab.app.adapters.stores.commands.add(msgspec.structs.replace(late, command=command))
    taint = {"key": DISRUPTED.key, "effect": DISRUPTED.effect}
    lab.kubernetes.amend(resources.NODES, node, {"spec": {"taints": [taint]}})
    report = lab.execute({"command": "late", "dueAt": lab.clock.now().isoformat()})
    assert [(decision.kind, decision.reason) for decision in report.decisions] == [("abandon", "Stale")]
    assert [taint["key"] for taint in lab.kubernetes.raw(resources.NODES, node)["spec"]["taints"]] == [DISRUPTED.key]


def test_a_node_that_a_webhook_keeps_closed_keeps_no_other_of_its_command_closed() -> None:
    """Its neighbours stayed tainted, and the replacements were paid for, as long as the webhook refused."""
    lab = drifted_fleet()
    claims = tuple(claim.name for claim in lab.claims)
    nodes = tuple(claim.node_name for claim in lab.claims)
    record = a_late_command(lab, "late", *claims)
    command = msgspec.structs.replace(record.command, nodes=nodes)
    commands = lab.app.adapters.stores.commands
    commands.add(msgspec.structs.replace(record, command=command))
    taint = {"key": DISRUPTED.key, "effect": DISRUPTED.effect}
    for node in nodes:
        lab.kubernetes.amend(resources.NODES, node, {"spec": {"taints": [taint]}})
    refusals = iter([DeniedError("kube:patch nodes", "403")])

    def refuse_first(call: str) -> None:
        error = next(refusals, None) if call == "patch nodes" else None
        if error is not None:
            raise error

    lab.kubernetes.before_call = refuse_first
    lab.execute({"command": "late"})
    closed = [bool(lab.kubernetes.raw(resources.NODES, node)["spec"].get("taints")) for node in nodes]
    assert closed == [True, False]
    assert commands.get("late") is not None
    lab.execute({"command": "late"})
    assert not lab.kubernetes.raw(resources.NODES, nodes[0])["spec"].get("taints")
    assert commands.get("late") is None


@pytest.mark.parametrize(("boots", "reason"), [(False, "ReplacementNotReady"), (True, "ReplacementUnused")])
def test_a_replacement_that_does_not_join_in_time_counts_against_its_node_pool(*, boots: bool, reason: str) -> None:
    """The breaker must not count one that is merely not needed any more."""
    lab = started()
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    claims = lab.app.adapters.stores.claims
    if boots:
        replacement = claims.get(name)
        assert replacement is not None
        claims.change(replacement, msgspec.structs.replace(replacement, phase=ClaimPhase.INITIALIZED))
        lab.rows.commands[command.id] = msgspec.structs.replace(command, replacements=(name, "gone"))
    lab.clock.advance(minutes=11)
    lab.execute({"command": command.id})
    after = claims.get(name)
    assert lab.rows.commands == {}
    assert after is not None
    assert after.deletion is not None
    assert after.deletion.reason == reason


def test_a_command_that_is_given_up_opens_no_node_that_must_go() -> None:
    """The command is of a restored table, which does not know that the node was interrupted since."""
    lab = started()
    (command,) = lab.rows.commands.values()
    (node,) = command.command.nodes
    lab.kubernetes.amend(resources.NODES, node, {"metadata": {"annotations": {REASON_ANNOTATION: "SpotInterrupted"}}})
    lab.clock.advance(minutes=11)
    lab.execute({"command": command.id})
    assert lab.rows.commands == {}
    assert tainted(lab) == [node]
    lab.tick()
    (going,) = (claim.deletion for claim in lab.claims if claim.node_name == node)
    assert going is not None
    assert going.reason == "SpotInterrupted"


def test_a_command_that_is_given_up_is_reported_with_its_reason() -> None:
    lab = started()
    (command,) = lab.rows.commands.values()
    lab.rows.commands[command.id] = msgspec.structs.replace(command, decision="d-1")
    report = give_up(lab)
    (decision,) = (decision for decision in report.decisions if decision.kind == "abandon")
    assert (decision.subject, decision.reason) == (command.id, CommandReason.TIMEOUT)
    (outcome,) = (outcome for outcome in report.outcomes if outcome.part == command.id)
    assert (outcome.decision, outcome.state, outcome.at) == ("d-1", OutcomeState.ABANDONED, lab.clock.now())
    assert (outcome.reason, outcome.message) == (CommandReason.TIMEOUT, decision.message)
    assert lab.run_requests.take() == [{"wakeUp": "command abandoned"}]


def test_what_it_launched_is_ended_with_the_reason_of_the_command() -> None:
    lab = started()
    (command,) = lab.rows.commands.values()
    report = give_up(lab)
    (ended,) = (decision for decision in report.decisions if decision.kind == "terminate")
    assert ended.message == f"command {command.id} was abandoned: replacements were not ready within 0:10:00"


@pytest.mark.parametrize("by", ["nominations of ours", "the plan's nominations", "nominations of its node"])
def test_a_replacement_that_pods_are_expected_on_stays(by: str) -> None:
    """Otherwise, `provision` plans another node for them."""
    lab = started()
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    row = lab.rows.claims[name]
    if by == "nominations of ours":
        lab.rows.claims[name] = msgspec.structs.replace(row, nominated=("default/p",))
    else:
        node = "its-node" if by == "nominations of its node" else ""
        lab.rows.claims[name] = msgspec.structs.replace(row, node_name=node)
        lab.rows.nominated[node or name] = lab.clock.now() + timedelta(hours=1)
    give_up(lab)
    assert (lab.rows.commands, lab.rows.claims[name].deletion) == ({}, None)


@pytest.mark.parametrize(
    ("pod", "stays"),
    [
        ({}, True),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}}, False),
        ({"metadata": {"ownerReferences": [{"kind": "Node", "name": "n", "controller": True}]}}, False),
        ({"status": {"phase": "Succeeded"}}, False),
    ],
    ids=["a workload's", "a daemon", "a static one", "one that has ended"],
)
def test_a_replacement_stays_for_pods_that_need_a_node_and_for_no_others(pod: JsonObject, *, stays: bool) -> None:
    lab = started()
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    row = lab.rows.claims[name]
    lab.rows.claims[name] = msgspec.structs.replace(row, node_name=row.instance_id)
    bound_pod = a_pending_pod("on-it", nodeName=row.instance_id, metadata=pod.get("metadata", {}))
    lab.kubernetes.put({**bound_pod, "status": pod.get("status", {"phase": "Running"})})
    give_up(lab)
    assert (lab.rows.claims[name].deletion is None) is stays


def test_a_rollout_whose_replacement_did_not_come_is_stopped() -> None:
    lab = started()
    give_up(lab)
    (rollout,) = lab.rows.moves.rollouts.values()
    assert (rollout.node_pool, rollout.failures) == ("default", 1)


def test_a_node_that_leaves_for_another_reason_meanwhile_is_left_to_that() -> None:
    lab = started()
    (command,) = lab.rows.commands.values()
    (name,) = command.command.claims
    row = lab.rows.claims[name]
    going = Deletion(reason=TerminationReason.EXPIRED, asked_at=lab.clock.now())
    lab.rows.claims[name] = msgspec.structs.replace(row, deletion=going)
    give_up(lab)
    assert lab.rows.claims[name].deletion == going
    assert tainted(lab) == [row.node_name]


@pytest.mark.parametrize(("reason", "minutes"), [("Unhealthy", 10), ("Drifted", None)])
def test_the_drain_of_a_repair_is_bounded(lab: Lab, reason: str, minutes: int | None) -> None:
    """A PodDisruptionBudget that never opens would keep a dead node for ever."""
    a_command(lab, phase=CommandPhase.REPLACING, reason=reason)
    lab.execute({"command": "x"})
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.deadline == (None if minutes is None else lab.clock.now() + timedelta(minutes=minutes))


# Pods of guarded namespaces move only with the approval that was given for them.


def guarding(lab: Lab) -> Lab:
    """Let commands that move pods of `payments` or `payroll` wait for approval."""
    lab.settings = msgspec.structs.replace(lab.settings, mode="approve", approve_namespaces="pay*")
    lab.restart()
    return lab


def come(lab: Lab, namespace: str, node: str, **metadata: Any) -> None:
    """A small pod of the namespace runs on the node."""
    pod = a_pending_pod(f"of-{namespace}", cpu="10m", nodeName=node)
    pod["metadata"] |= {"namespace": namespace, **metadata}
    pod["status"] = {"phase": "Running", "conditions": []}
    lab.kubernetes.put(pod)


def validate(lab: Lab) -> str:
    """Validate the only command; return why it was dropped, empty if it has started."""
    lab.clock.advance(seconds=16)
    dropped = [decision.message for decision in lab.execute(*lab.work.take()).decisions if decision.kind == "abandon"]
    return dropped[0] if dropped else ""


def taking(namespaces: str) -> str:
    return f"it would now move pods of {namespaces}, which takes approval"


@pytest.mark.parametrize("names_moves", [True, False], ids=["with moves", "of a static NodePool, without moves"])
@pytest.mark.parametrize(("namespace", "why"), [("payments", taking("payments")), ("batch", "")])
def test_pods_that_come_after_the_decision_do_not_move_without_their_approval(
    namespace: str, why: str, *, names_moves: bool
) -> None:
    """The bound on namespaces was applied to the pods that the nodes had then, and not at all where no move is named."""
    lab = guarding(drifting())
    lab.disrupt()
    (record,) = lab.rows.commands.values()
    assert record.namespaces == ("default",)
    if not names_moves:
        bare = msgspec.structs.replace(record.command, moves=())
        lab.rows.commands[record.id] = msgspec.structs.replace(record, command=bare)
    come(lab, namespace, record.command.nodes[0])
    assert validate(lab) == why
    assert bool(lab.rows.commands) is not bool(why)


@pytest.mark.parametrize(("newcomer", "why"), [("", ""), ("payroll", taking("payroll"))])
def test_an_approved_command_starts_although_it_names_no_moves_of_guarded_pods(newcomer: str, why: str) -> None:
    """It was dropped each time: drift under a terminationGracePeriod names no moves of pods that cannot be evicted yet."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(template={"terminationGracePeriod": "1h"}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    come(lab, "payments", lab.claim.node_name, annotations={labels.DO_NOT_DISRUPT: "true"})
    lab.kubernetes.put(a_node_pool(template={"terminationGracePeriod": "1h", "expireAfter": "1000h"}))
    guarding(settled(lab)).disrupt()
    (proposal,) = lab.rows.proposals.values()
    assert {move.pod for move in proposal.command.moves} == {"default/p"}
    assert proposal.why == "it moves pods of payments"
    verdict = ProposalVerdict(is_approved=True, by="ada", at=lab.clock.now())
    lab.app.adapters.proposals.answer(proposal, verdict)
    lab.disrupt()
    assert [record.namespaces for record in lab.rows.commands.values()] == [("default", "payments")]
    if newcomer:
        come(lab, newcomer, lab.claim.node_name)
    assert validate(lab) == why
    assert [record.has_started for record in lab.rows.commands.values()] == [True] * (not newcomer)


def test_a_command_of_a_release_that_knew_only_its_moves_moves_no_other_guarded_pods() -> None:
    """Nobody knows whether these pods came before the decision: it is made again."""
    lab = guarding(drifting())
    lab.disrupt()
    (record,) = lab.rows.commands.values()
    lab.rows.commands[record.id] = msgspec.structs.replace(record, namespaces=())
    come(lab, "payments", record.command.nodes[0])
    assert validate(lab) == taking("payments")


def test_a_newcomer_on_a_node_that_stays_does_not_keep_the_others() -> None:
    """Its node is left out of the command, so that it does not move."""
    lab = guarding(drifted_fleet())
    going, staying = lab.claims
    command = Command(
        reason="Drifted",
        method="drift",
        nodes=(going.node_name, staying.node_name),
        claims=(going.name, staying.name),
        moves=(),
    )
    now = lab.clock.now()
    record = CommandRecord(id="x", command=command, created_at=now, verify_at=now, phase_since=now)
    lab.app.adapters.stores.commands.add(msgspec.structs.replace(record, namespaces=("default",)))
    come(lab, "payments", staying.node_name, annotations={labels.DO_NOT_DISRUPT: "true"})
    report = lab.execute({"command": "x"})
    assert [decision.subject for decision in report.decisions if decision.reason == CommandReason.LEFT_OUT] == [
        staying.node_name
    ]
    assert [decision.message for decision in report.decisions if decision.kind == "abandon"] == []
    assert tainted(lab) == [going.node_name]
