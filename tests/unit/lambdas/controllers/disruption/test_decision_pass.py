"""When `disrupt` decides: not before its last decisions are carried out, and not again for what has not changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from adapters.run_report import RunReport
from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.manifests.wire import api_resources as kinds
from core.reasons.command import CommandReason
from lambdas.controllers.disruption.decision_pass import PassInputs
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.test_command_validator import fleet


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


def test_what_has_not_changed_is_not_planned_again() -> None:
    """A plan of a large cluster takes seconds; what it found is known as long as nothing else is observed."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", cpu="3"))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(minutes=1)
    counted = []
    for cpu in ("3", "3", "2"):
        lab.kubernetes.put(a_pending_pod("p", cpu=cpu))
        lab.bind("p")
        lab.app.provisioning.record_change()
        counted.append(lab.disrupt().counts.get("unchanged", 0))
        lab.clock.advance(minutes=1)
    assert counted == [0, 1, 0]


def idle(**settings: Any) -> Lab:
    """One node, launched for a pod that is not bound to it yet."""
    lab = Lab(**settings)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    pod = a_pending_pod("p0", cpu="3", metadata={"ownerReferences": [owner]})
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s"}), pod)
    lab.settle()
    lab.clock.advance(minutes=1)
    return lab


def passed(lab: Lab, *brakes: Brake, is_window: bool = False, is_woken: bool = False) -> RunReport:
    """One pass, whatever earlier runs have found."""
    report, deadline = RunReport(), lab.clock.now() + timedelta(minutes=5)
    given = PassInputs(lab.claims, EngagedBrakes(brakes), (), b"state", deadline, is_window, is_woken)
    lab.app.disruption.decision_pass.run(given, report)
    return report


def emptied() -> Lab:
    """One node without pods."""
    lab = idle()
    lab.kubernetes.drop(kinds.PODS, "p0", "default")
    return lab


def test_a_brake_of_one_node_pool_keeps_its_nodes_and_is_told() -> None:
    """That a NodePool is only observed is written on the NodePool itself, and told at its nodes as that."""
    lab = emptied()
    report = passed(lab, Brake(BrakeKind.POOL_BREAKER, "no new node joins", node_pool="default"))
    assert (lab.rows.commands, report.counts["commands"], report.counts["blockedPaused"]) == ({}, 0, 1)
    told = [(one.kind, one.subject, one.reason, one.message) for one in report.decisions]
    assert told == [("skip", "default", BrakeKind.POOL_BREAKER, "no new node joins")]
    other = Brake(BrakeKind.POOL_BREAKER, "no new node joins", node_pool="other")
    observed = Brake(BrakeKind.OBSERVED, "observed", node_pool="default")
    report = passed(emptied(), other, observed)
    assert report.counts["commands"] == 1


def is_resting(lab: Lab) -> bool:
    """Whether the next run may skip its observation."""
    return lab.app.disruption.skips.resync.is_valid(b"state", lab.clock.now())


def test_a_pass_that_decides_nothing_lets_the_next_runs_rest_and_one_that_does_does_not() -> None:
    quiet, busy = idle(), emptied()
    quiet.bind("p0")
    quiet.clock.advance(minutes=1)
    assert passed(quiet).counts["commands"] == 0
    report = passed(busy)
    assert (report.counts["commands"], report.counts["cutOffDecisions"]) == (1, 0)
    assert (is_resting(quiet), is_resting(busy)) == (True, False)
    busy.rows.commands.clear()
    again = passed(busy).counts
    assert (again["commands"], again.get("unchanged")) == (1, None)


def test_what_was_found_is_forgotten_when_a_window_opens_or_closes() -> None:
    """The digest of what is observed has no time of day."""
    lab = idle()
    lab.bind("p0")
    counted = [passed(lab, is_window=is_window).counts.get("unchanged", 0) for is_window in (False, False, True, False)]
    assert counted == [0, 1, 0, 1]


@pytest.mark.parametrize("is_woken", [False, True])
def test_only_a_run_that_a_message_started_waits_for_nodes_that_may_go_seconds_later(*, is_woken: bool) -> None:
    """The schedule starts the others, and nothing starts a later one in their place."""
    lab = emptied()
    (name,) = lab.kubernetes.names(kinds.NODES)
    lab.rows.nominated = {name: lab.clock.now() + timedelta(seconds=3)}
    counts = passed(lab, is_woken=is_woken).counts
    assert ("postponedRuns" in counts, "commands" in counts) == (is_woken, not is_woken)


@pytest.mark.parametrize(("gates", "rests"), [("", True), ("NodeRepair=true", False)])
def test_while_a_node_is_unhealthy_time_alone_changes_the_decision_if_nodes_are_repaired(
    gates: str, *, rests: bool
) -> None:
    lab = idle(feature_gates=gates)
    lab.bind("p0")
    (name,) = lab.kubernetes.names(kinds.NODES)
    ill = {"type": "StorageReady", "status": "False", "lastTransitionTime": lab.clock.now().isoformat()}
    conditions = lab.kubernetes.raw(kinds.NODES, name)["status"]["conditions"]
    lab.kubernetes.amend(kinds.NODES, name, {"status": {"conditions": [*conditions, ill]}})
    counted = [passed(lab).counts.get("unchanged", 0) for _ in range(2)]
    assert (counted, is_resting(lab)) == ([0, int(rests)], rests)
