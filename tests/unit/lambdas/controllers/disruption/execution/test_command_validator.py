"""Budgets hold however many functions disrupt nodes at once; commands are validated in order, on one observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import JsonObject, TransientError
from adapters.run_report import RunReport
from adapters.store import DISRUPTION, ClaimChange, Disrupted, UnreadableRow
from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.ledger.outcome import OutcomeState
from core.lifecycle.records import CommandPhase, CommandRecord
from core.manifests.wire import api_resources as kinds
from core.reasons.command import CommandReason
from core.reasons.run import FailureReason
from lambdas.controllers.disruption.execution.command_validator import CHECKS_FOR
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.commands_for_tests import drifting, tainted

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
        lab.kubernetes.drop(kinds.PODS, f"p{n}", "default")
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
        lab.rows.unreadable[row] = UnreadableRow(f"cluster#{kind}", row, f"row {row} cannot be read")
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
    assert len(tainted(lab)) + 2 - len(lab.kubernetes.names(kinds.NODES)) == 1
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
    lab = fleet("1", nodes=2, expireAfter="2m")
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
    assert [found.phase for found in lab.rows.commands.values()] == [CommandPhase.STARTING] * 3, "the first is through"
    assert {found.phase_since for found in lab.rows.commands.values()} == {lab.clock.now()}
    assert lab.rows.usage["default"].disrupting == 4


def test_a_failed_listing_delays_no_command() -> None:
    """Otherwise, one slow answer of the API server keeps every command waiting for the end of a lease."""
    lab = fleet("1", nodes=1)
    lab.disrupt()

    def fail() -> None:
        raise TransientError("kube:list nodes", "503")

    once(lab, "list nodes", fail)
    lab.tick(seconds=16)
    assert lab.rows.leases[DISRUPTION][2] is None
    lab.tick(seconds=10)
    assert lab.rows.usage["default"].disrupting == 1


def test_a_command_starts_without_a_node_that_may_no_longer_go() -> None:
    """Two drifted nodes share a command: a pod of one of them is protected before it is checked."""
    lab = Lab()
    lab.kubernetes.put(pool("100%"), *(a_pending_pod(f"p{n}", affinity=APART) for n in range(2)))
    lab.settle()
    for n, node in enumerate(lab.kubernetes.names(kinds.NODES)):
        running = {"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [READY]}}
        lab.kubernetes.patch(kinds.PODS, f"p{n}", running, namespace="default")
    lab.kubernetes.put(pool("100%", expireAfter="1000h"))
    lab.clock.advance(minutes=1)
    lab.disrupt()
    (message,) = lab.work.take()
    (record,) = lab.rows.commands.values()
    first, second = sorted(lab.claims, key=lambda claim: claim.name not in record.command.claims)
    both = msgspec.structs.replace(
        record.command, nodes=(first.node_name, second.node_name), claims=(first.name, second.name)
    )
    lab.rows.commands[record.id] = msgspec.structs.replace(record, command=both)
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    pods = [lab.kubernetes.raw(kinds.PODS, f"p{n}", "default") for n in range(2)]
    (kept,) = (pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] == second.node_name)
    lab.kubernetes.patch(kinds.PODS, kept, veto, namespace="default")
    report = lab.execute(message)
    assert tainted(lab) == [first.node_name]
    assert lab.rows.usage["default"].disrupting == 1
    left_out = [found for found in report.decisions if found.reason == CommandReason.LEFT_OUT]
    assert [found.subject for found in left_out] == [second.node_name]
    assert left_out[0].message == f"pod default/{kept} has {labels.DO_NOT_DISRUPT}"


def test_an_invalid_command_is_not_decided_again_at_once() -> None:
    """Otherwise, for a pod that comes and goes, the same command is decided and dropped each minute."""
    lab = fleet("1", nodes=1)
    lab.disrupt()
    (node,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.put(a_pending_pod("late"))
    lab.bind("late")
    lab.clock.advance(seconds=20)
    lab.execute()
    assert lab.app.adapters.stores.commands.all() == ()
    lab.kubernetes.drop(kinds.PODS, "late", "default")
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
    assert [(one.kind, one.subject, one.reason) for one in report.decisions] == [
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
    assert [(one.part, one.state, one.message) for one in report.outcomes] == [
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
