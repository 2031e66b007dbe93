"""A command that is given up leaves nothing behind: no closed node, no place in the budgets, no node too many."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.ports import DeniedError, JsonObject
from adapters.run_report import RunReport
from core import labels
from core.ledger.outcome import OutcomeState
from core.lifecycle.draining.disruption_taint import REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase, CommandPhase, Deletion
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED
from core.reasons.command import CommandReason
from core.reasons.termination import TerminationReason
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import (
    LATE,
    a_late_command,
    drifted_fleet,
    drifting,
    tainted,
)
from tests.unit.lambdas.test_crashes import CrashingCall, schedules_alone


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
    assert [found.instance_id for found in lab.cloud.instances()] == [lab.claim.instance_id]


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
    for known in (labels.REGISTERED, labels.INITIALIZED):
        lab.kubernetes.amend(kinds.NODES, row.instance_id, {"metadata": {"labels": {known: "true"}}})
    lab.kubernetes.amend(kinds.NODES, row.instance_id, {"metadata": {"labels": row.labels}})
    moved = {"spec": {"nodeName": row.instance_id}, "status": {"phase": "Running", "conditions": []}}
    lab.kubernetes.amend(kinds.PODS, "p", moved, namespace="default")
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
    lab.kubernetes.amend(kinds.NODES, node, {"spec": {"taints": [taint]}})
    report = lab.execute({"command": "late", "dueAt": lab.clock.now().isoformat()})
    assert [(decision.kind, decision.reason) for decision in report.decisions] == [("abandon", "Stale")]
    assert [found["key"] for found in lab.kubernetes.raw(kinds.NODES, node)["spec"]["taints"]] == [DISRUPTED.key]


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
        lab.kubernetes.amend(kinds.NODES, node, {"spec": {"taints": [taint]}})
    refusals = iter([DeniedError("kube:patch nodes", "403")])

    def refuse_first(call: str) -> None:
        error = next(refusals, None) if call == "patch nodes" else None
        if error is not None:
            raise error

    lab.kubernetes.before_call = refuse_first
    lab.execute({"command": "late"})
    closed = [bool(lab.kubernetes.raw(kinds.NODES, node)["spec"].get("taints")) for node in nodes]
    assert closed == [True, False]
    assert commands.get("late") is not None
    lab.execute({"command": "late"})
    assert not lab.kubernetes.raw(kinds.NODES, nodes[0])["spec"].get("taints")
    assert commands.get("late") is None


@pytest.mark.parametrize(("boots", "reason"), [(False, "ReplacementNotReady"), (True, "ReplacementUnused")])
def test_a_replacement_that_does_not_join_in_time_counts_against_its_node_pool(*, boots: bool, reason: str) -> None:
    """The breaker must not count one that is merely not needed any more."""
    lab = started()
    (command,) = lab.rows.commands.values()
    (name,) = command.replacements
    claims = lab.app.adapters.stores.claims
    if boots:
        found = claims.get(name)
        assert found is not None
        claims.change(found, msgspec.structs.replace(found, phase=ClaimPhase.INITIALIZED))
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
    lab.kubernetes.amend(kinds.NODES, node, {"metadata": {"annotations": {REASON_ANNOTATION: "SpotInterrupted"}}})
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
    (decision,) = (one for one in report.decisions if one.kind == "abandon")
    assert (decision.subject, decision.reason) == (command.id, CommandReason.TIMEOUT)
    (outcome,) = (one for one in report.outcomes if one.part == command.id)
    assert (outcome.decision, outcome.state, outcome.at) == ("d-1", OutcomeState.ABANDONED, lab.clock.now())
    assert (outcome.reason, outcome.message) == (CommandReason.TIMEOUT, decision.message)
    assert lab.run_requests.take() == [{"wakeUp": "command abandoned"}]


def test_what_it_launched_is_ended_with_the_reason_of_the_command() -> None:
    lab = started()
    (command,) = lab.rows.commands.values()
    report = give_up(lab)
    (ended,) = (one for one in report.decisions if one.kind == "terminate")
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
    own = a_pending_pod("on-it", nodeName=row.instance_id, metadata=pod.get("metadata", {}))
    lab.kubernetes.put({**own, "status": pod.get("status", {"phase": "Running"})})
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
