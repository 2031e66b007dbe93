"""Budgets hold however many functions disrupt nodes at once, and a dropped command leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.lifecycle.records import CommandPhase
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED
from core.reasons.command import CommandReason
from lambdas.messages import work_on_claim
from lambdas.ports import JsonObject, TransientError
from lambdas.store import DISRUPTION
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.test_crashes import Deaths, schedules_alone

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
        ]
    }
}


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


def tainted(lab: Lab) -> list[str]:
    """Nodes that are on their way out."""
    nodes = [lab.kubernetes.raw(kinds.NODES, name) for name in lab.kubernetes.names(kinds.NODES)]
    return [
        node["metadata"]["name"]
        for node in nodes
        if any(taint["key"] == DISRUPTED.key for taint in node["spec"].get("taints", ()))
    ]


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


def test_nothing_more_is_decided_before_what_was_decided_is_validated() -> None:
    """A second look at the same idle nodes would spend the budgets again."""
    lab = fleet("1", nodes=2)
    lab.disrupt()
    before = set(lab.rows.commands)
    lab.clock.advance(minutes=1)
    lab.app.provisioning.record_change()
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == [CommandReason.COMMAND_PENDING]
    assert set(lab.rows.commands) == before


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


def drifting() -> Lab:
    """One node with a pod on it that is to be replaced."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1000h"}))
    lab.clock.advance(minutes=1)
    return lab


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
    lab = drifting()
    lab.disrupt()
    lab.tick(2)
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
        deaths = Deaths(lab, at=number, after=after)
        deaths.kill(lab, lambda lab, name=command.id: lab.execute({"command": name}))
        total = max(total, deaths.calls)
        lab.kubernetes.put(a_node_pool())
        schedules_alone(lab, rounds=3)
        is_whole(lab)
        number += 1
    assert total >= (5 if after else 9)  # writes, calls


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
