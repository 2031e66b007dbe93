"""A command starts: its nodes are closed, their share of the limits is free, and the replacements are requested."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.lifecycle.draining.disruption_taint import REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase, CommandPhase, CommandRecord
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED
from core.reasons.command import CommandReason
from lambdas.controllers.disruption.execution.command_work import BUSY
from lambdas.metric_names import COMMANDS_STARTED
from lambdas.run_report import RunReport
from lambdas.store import PLANNER
from tests.fakes.lab import Lab, a_node_pool
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import drifting, tainted


def validated(**changes: Any) -> tuple[Lab, CommandRecord]:
    """A drifted node whose command is validated and has not started; changes go to the command."""
    lab = drifting()
    lab.disrupt()
    (record,) = lab.rows.commands.values()
    command = msgspec.structs.replace(record.command, **changes)
    record = msgspec.structs.replace(record, command=command, phase=CommandPhase.STARTING)
    lab.rows.commands[record.id] = record
    lab.work.take()
    return lab, record


def start(lab: Lab, record: CommandRecord) -> RunReport:
    until = lab.clock.now().replace(year=2030)
    return lab.execute({"command": record.id, "until": until.isoformat()})


def decided(report: RunReport) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.subject, one.reason, one.message) for one in report.decisions]


def test_its_nodes_are_closed_and_say_why() -> None:
    lab, record = validated()
    start(lab, record)
    (name,) = record.command.nodes
    assert tainted(lab) == [name]
    assert lab.kubernetes.raw(kinds.NODES, name)["metadata"]["annotations"][REASON_ANNOTATION] == "Drifted"


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
    lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": [{"key": DISRUPTED.key, "effect": DISRUPTED.effect}]}})
    patches: list[str] = []
    lab.kubernetes.before_call = lambda call: patches.append(call) if call == "patch nodes" else None
    start(lab, record)
    assert patches == []


@pytest.mark.parametrize("moment", ["before it is read", "before it is patched"])
def test_a_node_that_is_gone_keeps_no_other_part_from_starting(moment: str) -> None:
    lab, record = validated()
    (name,) = record.command.nodes
    if moment == "before it is read":
        lab.kubernetes.drop(kinds.NODES, name)

    def vanish(call: str) -> None:
        if call == "patch nodes":
            lab.kubernetes.drop(kinds.NODES, name)

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


def test_the_lease_is_free_for_the_planner_afterwards() -> None:
    lab, record = validated()
    start(lab, record)
    assert lab.rows.leases[PLANNER][2] is None


def test_replacements_beyond_a_limit_are_not_stored_and_the_command_ends() -> None:
    lab, record = validated()
    lab.kubernetes.put(a_node_pool(limits={"nodes": "0"}, template={"expireAfter": "1000h"}))
    report = start(lab, record)
    assert next(one[:3] for one in decided(report)) == ("skip", record.id, CommandReason.LIMIT_REACHED)
    lab.tick(2)
    assert (lab.rows.commands, tainted(lab), len(lab.claims)) == ({}, [], 1)
    assert lab.claim.reserved == lab.rows.usage["default"].reserved != {}


def test_a_command_without_replacements_needs_no_lease() -> None:
    lab, record = validated(replacements=())
    lab.app.adapters.leases.acquire(PLANNER, "another", now=lab.clock.now(), for_=timedelta(minutes=5))
    start(lab, record)
    (claim,) = lab.claims
    assert claim.deletion is not None
