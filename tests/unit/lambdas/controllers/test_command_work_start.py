"""A command starts: its nodes are closed, their share of the limits is free, and the replacements are requested."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.run_report import RunReport
from adapters.store import PLANNER
from core.launch.denials import subnet_key
from core.lifecycle.draining import REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase, CommandPhase, CommandRecord
from core.manifests.wire import resources
from core.model.values.taints import DISRUPTED
from core.reasons.runs import CommandReason
from installation.metric_names import COMMANDS_STARTED
from lambdas.controllers.command_work import BUSY, LONG_BUSY
from tests.fakes.lab import Lab, a_node_pool
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import drifted_fleet, drifting, tainted


def validated(**changes: Any) -> tuple[Lab, CommandRecord]:
    """A drifted node whose command is validated and has not started; changes go to the command."""
    lab = drifting()
    lab.disrupt()
    (record,) = lab.rows.commands.values()
    command = msgspec.structs.replace(record.command, **changes)
    record = msgspec.structs.replace(record, command=command, phase=CommandPhase.STARTING)
    lab.rows.commands[record.id] = record
    lab.work.take()
    lab.clock.advance(seconds=1)
    return lab, record


def validated_fleet() -> tuple[Lab, CommandRecord]:
    """One validated command for two drifted nodes."""
    lab = drifted_fleet()
    lab.disrupt()
    (first, *_) = lab.rows.commands.values()
    ends = sorted((claim.name, claim.node_name) for claim in lab.claims)
    command = msgspec.structs.replace(
        first.command, claims=tuple(claim for claim, _ in ends), nodes=tuple(node for _, node in ends), moves=()
    )
    record = msgspec.structs.replace(first, command=command, phase=CommandPhase.STARTING)
    lab.rows.commands.clear()
    lab.rows.commands[record.id] = record
    lab.work.take()
    return lab, record


def start(lab: Lab, record: CommandRecord) -> RunReport:
    until = lab.clock.now().replace(year=2030)
    return lab.execute({"command": record.id, "until": until.isoformat()})


def decided(report: RunReport) -> list[tuple[str, str, str, str]]:
    return [(decision.kind, decision.subject, decision.reason, decision.message) for decision in report.decisions]


def test_its_nodes_are_closed_and_say_why() -> None:
    lab, record = validated()
    start(lab, record)
    (name,) = record.command.nodes
    assert tainted(lab) == [name]
    assert lab.kubernetes.raw(resources.NODES, name)["metadata"]["annotations"][REASON_ANNOTATION] == "Drifted"


def test_its_replacements_are_claims_of_the_command_that_hold_their_share_of_the_limits() -> None:
    lab, record = validated()
    report = start(lab, record)
    old, new = sorted(lab.claims, key=lambda claim: claim.requested_at)
    assert (old.reserved, old.deletion, new.command, new.phase) == ({}, None, record.id, ClaimPhase.REQUESTED)
    assert lab.rows.usage["default"].reserved == new.reserved
    assert decided(report) == [("disrupt", record.id, "Drifted", record.command.nodes[0])]
    assert report.counts[COMMANDS_STARTED] == 1
    assert [message["claim"] for message in lab.work.take() if "claim" in message] == [new.name]


def test_its_row_names_its_replacements_from_the_moment_in_which_they_are_stored() -> None:
    lab, record = validated()
    start(lab, record)
    (started,) = lab.rows.commands.values()
    assert (started.phase, started.phase_since) == (CommandPhase.REPLACING, lab.clock.now())
    assert started.replacements == tuple(claim.name for claim in lab.claims if claim.command)


def test_a_node_that_is_closed_already_is_not_written_again() -> None:
    """The taints are written only to the version that was read; each write may meet another's."""
    lab, record = validated()
    (name,) = record.command.nodes
    lab.kubernetes.amend(
        resources.NODES, name, {"spec": {"taints": [{"key": DISRUPTED.key, "effect": DISRUPTED.effect}]}}
    )
    patches: list[str] = []
    lab.kubernetes.before_call = lambda call: patches.append(call) if call == "patch nodes" else None
    start(lab, record)
    assert patches == []


@pytest.mark.parametrize("moment", ["before it is read", "before it is patched"])
def test_a_node_that_is_gone_keeps_no_other_part_from_starting(moment: str) -> None:
    lab, record = validated()
    (name,) = record.command.nodes
    if moment == "before it is read":
        lab.kubernetes.drop(resources.NODES, name)

    def vanish(call: str) -> None:
        if call == "patch nodes":
            lab.kubernetes.drop(resources.NODES, name)

    lab.kubernetes.before_call = vanish
    report = start(lab, record)
    assert report.failed_messages == []
    assert [command.phase for command in lab.rows.commands.values()] == [CommandPhase.REPLACING]


def test_while_another_run_plans_it_is_tried_again_soon() -> None:
    """A plan that does not see the replacements would launch more for the same pods."""
    lab, record = validated()
    lease = lab.app.adapters.leases.acquire(PLANNER, "another", now=lab.clock.now(), for_=timedelta(minutes=5))
    assert lease is not None
    start(lab, record)
    assert [command.phase for command in lab.rows.commands.values()] == [CommandPhase.STARTING]
    assert [claim for claim in lab.claims if claim.command] == []
    assert [delay for _, delay in lab.work.sent] == [BUSY]
    lab.app.adapters.leases.release(lease)
    lab.tick(seconds=1)
    assert len([claim for claim in lab.claims if claim.command]) == 1


def test_a_lease_that_a_dead_run_left_is_asked_for_less_and_less_often() -> None:
    """If this failed, a run that died would be followed by minutes of attempts each second, each of which lists the market."""
    lab, record = validated()
    assert lab.app.adapters.leases.acquire(PLANNER, "dead", now=lab.clock.now(), for_=timedelta(minutes=5)) is not None
    delays = []
    for _ in range(3):
        lab.work.take()
        start(lab, record)
        delays.append(lab.work.sent[-1][1])
        lab.clock.advance(seconds=30)
    assert delays == [BUSY, timedelta(seconds=3), LONG_BUSY]


def test_the_lease_is_free_for_the_planner_afterwards() -> None:
    lab, record = validated()
    start(lab, record)
    assert lab.rows.leases[PLANNER][1] is None


def test_replacements_beyond_a_limit_are_not_stored_and_the_command_ends() -> None:
    lab, record = validated()
    lab.kubernetes.put(a_node_pool(limits={"nodes": "0"}, template={"expireAfter": "1000h"}))
    report = start(lab, record)
    assert next(decision[:3] for decision in decided(report)) == ("skip", record.id, CommandReason.LIMIT_REACHED)
    (message,) = [decision.message for decision in report.decisions if decision.reason == CommandReason.LIMIT_REACHED]
    assert message == (
        "the limits of NodePool default leave no room for replacements beside the nodes that they replace"
    )
    lab.tick(2)
    assert (lab.rows.commands, tainted(lab), len(lab.claims)) == ({}, [], 1)
    assert lab.claim.reserved == lab.rows.usage["default"].reserved != {}


def test_a_command_without_replacements_needs_no_lease() -> None:
    lab, record = validated(replacements=())
    lab.app.adapters.leases.acquire(PLANNER, "another", now=lab.clock.now(), for_=timedelta(minutes=5))
    start(lab, record)
    (claim,) = lab.claims
    assert claim.deletion is not None


def test_it_is_told_on_the_node_on_its_claim_and_on_the_pod_that_moves() -> None:
    lab, record = validated()
    start(lab, record)
    told = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    about = {(event["involvedObject"]["kind"], event["reason"]) for event in told}
    assert {("Node", "Drifted"), ("NodeClaim", "Drifted"), ("Pod", "Drifted")} <= about


def test_a_claim_that_holds_no_share_of_the_limits_is_not_written_again() -> None:
    """A start that is repeated after a crash finds the share free; each write may meet another run's."""
    lab, record = validated()
    start(lab, record)
    freed = next(claim for claim in lab.claims if claim.name == record.command.claims[0])
    lab.rows.commands[record.id] = record
    start(lab, record)
    assert next(claim for claim in lab.claims if claim.name == freed.name).version == freed.version


def test_a_claim_that_is_gone_keeps_no_other_from_going() -> None:
    lab, record = validated_fleet()
    gone, stays = record.command.claims
    lab.rows.claims.pop(gone)
    report = start(lab, record)
    assert report.failed_messages == []
    assert next(claim.reserved for claim in lab.claims if claim.name == stays) == {}


@pytest.mark.parametrize("moment", ["closed already", "gone before it is read", "gone before it is patched"])
def test_the_nodes_after_one_that_needs_no_taint_are_closed(moment: str) -> None:
    lab, record = validated_fleet()
    first, second = record.command.nodes
    closed = {"spec": {"taints": [{"key": DISRUPTED.key, "effect": DISRUPTED.effect}]}}
    if moment == "closed already":
        lab.kubernetes.amend(resources.NODES, first, closed)
    if moment == "gone before it is read":
        lab.kubernetes.drop(resources.NODES, first)

    def vanish(call: str) -> None:
        if call == "patch nodes" and moment == "gone before it is patched":
            lab.kubernetes.before_call = lambda _: None
            lab.kubernetes.drop(resources.NODES, first)

    lab.kubernetes.before_call = vanish
    start(lab, record)
    assert second in tainted(lab)


def test_replacements_that_nothing_can_launch_say_why_and_the_command_ends() -> None:
    """All instance types of the plan may be refused between the decision and its start."""
    lab, record = validated()
    (planned,) = record.command.replacements
    nothing = msgspec.structs.replace(planned, instance_types=("x9.none",))
    command = msgspec.structs.replace(record.command, replacements=(nothing,))
    record = lab.rows.commands[record.id] = msgspec.structs.replace(record, command=command)
    report = start(lab, record)
    assert decided(report)[0][:3] == ("skip", record.id, "NoOfferingAvailable")
    assert [claim for claim in lab.claims if claim.command] == []
    lab.tick(2)
    assert (lab.rows.commands, tainted(lab)) == ({}, [])


def test_its_replacements_are_launched_ten_with_a_message() -> None:
    lab, record = validated()
    (planned,) = record.command.replacements
    many = tuple(msgspec.structs.replace(planned, name=f"{planned.node_pool}-{n}") for n in range(12))
    command = msgspec.structs.replace(record.command, replacements=many, moves=())
    record = lab.rows.commands[record.id] = msgspec.structs.replace(record, command=command)
    start(lab, record)
    assert sorted(len(message.get("claims", ())) for message in lab.work.take() if "command" not in message) == [2, 10]


def test_its_replacements_use_several_subnets_of_a_zone() -> None:
    """Beside the claims in flight, and not the subnets that recently refused a launch."""
    lab, record = validated()
    (planned,) = record.command.replacements
    zones = sorted(planned.zones)
    free = {f"{zone}{letter}": count for zone in zones for letter, count in (("x", 9), ("y", 5), ("z", 4))}
    lab.set_addresses(free)
    lab.rows.refused = {subnet_key(f"{zone}x"): lab.clock.now() + timedelta(minutes=3) for zone in zones}
    many = tuple(msgspec.structs.replace(planned, name=f"{planned.node_pool}-{n}") for n in range(3))
    command = msgspec.structs.replace(record.command, replacements=many, moves=())
    record = lab.rows.commands[record.id] = msgspec.structs.replace(record, command=command)
    start(lab, record)
    chosen = sorted(claim.subnets[zones[0]] for claim in lab.claims if claim.command)
    assert chosen == [f"{zones[0]}{letter}" for letter in "yyz"]
