"""What a run counts is what operators graph and alarm on: a count of nothing is reported, too, or the graph has a gap."""

from __future__ import annotations

import json

import pytest

from adapters.run_report import RunReport
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.events.audit_log import AuditLog
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.world import FakeClock, FakeQueue
from tests.unit.lambdas.controllers.events.test_audit_log import UNSCHEDULABLE, a_delivery, an_entry, pod_ends, queues


@pytest.fixture
def lab() -> Lab:
    made = Lab()
    made.kubernetes.put(a_pending_pod("a", cpu="3"), a_pending_pod("b", cpu="3"))
    return made


def test_a_plan_counts_pods_denials_and_what_it_costs(lab: Lab) -> None:
    counts = lab.provision().counts
    assert counts.pop("plannedMicrodollars") >= counts.pop("boundMicrodollars") > 0
    assert counts == {
        "pendingPods": 2,
        "awaitedPods": 0,
        "handedOver": 0,
        "launchDenials": 0,
        "quotaDenials": 0,
        "unschedulablePods": 0,
    }


def nearly_empty(nodes: int) -> Lab:
    """Nodes with one small pod each, of which one at a time may go."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}))
    lab.kubernetes.put(*(a_pending_pod(f"large-{number}", cpu="3") for number in range(nodes)))
    lab.settle()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for number, node in enumerate(lab.kubernetes.names(kinds.NODES)):
        lab.kubernetes.drop(kinds.PODS, f"large-{number}", "default")
        pod = a_pending_pod(f"small-{number}", cpu="250m", nodeName=node, metadata={"ownerReferences": [owner]})
        lab.kubernetes.put({**pod, "status": running})
    lab.clock.advance(minutes=1)
    return lab


@pytest.mark.parametrize(("nodes", "commands", "drains"), [(1, 0, 0), (3, 1, 1)])
def test_a_decision_to_disrupt_counts_commands_and_the_drains_of_its_target(
    nodes: int, commands: int, drains: int
) -> None:
    counts = nearly_empty(nodes).disrupt().counts
    assert {name: counts[name] for name in ("commands", "targetDrains", "cutOffDecisions")} == {
        "commands": commands,
        "targetDrains": drains,
        "cutOffDecisions": 0,
    }


def test_a_round_of_reconcile_counts_what_each_sweep_found(lab: Lab) -> None:
    lab.provision()
    lab.settle()
    counts = lab.reconcile().counts
    assert counts.pop("fleetMillidollarsPerHour") == 160
    assert counts == {
        "changedNodeClasses": 1,
        "instances": 2,
        "claims": 2,
        **dict.fromkeys(
            (
                *("prunedTemplates", "prunedProfiles", "drainsBlocked", "drainsBlockedForADay", "impairedInstances"),
                *(
                    "lateNodes",
                    "inconsistentNodes",
                    "deletedNodes",
                    "resumed",
                    "untrackedInstances",
                    "unknownInstances",
                ),
                *("staleSweeps", "budgetsClosedForAWeek"),
            ),
            0,
        ),
    }


def counted(*entries: object) -> dict[str, int]:
    """What the function that reads the audit log counts of one delivery."""
    report, made = RunReport(), [FakeQueue(), FakeQueue(), FakeQueue()]
    AuditLog(queues(*made), pod_ends(), FakeClock(NOW)).run(a_delivery(*map(json.dumps, entries)), report)
    return report.counts


def test_the_audit_log_counts_its_events_and_what_they_asked_for() -> None:
    mark = an_entry(requestObject=UNSCHEDULABLE, requestReceivedTimestamp="2026-11-19T23:59:57.5Z")
    assert counted(mark, mark, an_entry(requestObject={"status": {"phase": "Running"}})) == {
        "auditEvents": 3,
        "auditPodUnschedulable": 2,
        "auditLagSeconds": 2,
        "wakeUps": 1,
        "podEnds": 0,
    }


@pytest.mark.parametrize(
    ("verb", "name", "code"), [("delete", "deletedNodeClaims", 200), ("create", "madeNodeClaims", 201)]
)
def test_the_audit_log_counts_node_claims_that_people_make_and_delete(verb: str, name: str, code: int) -> None:
    reference = {"resource": "nodeclaims", "name": "c"}
    entry = an_entry(verb=verb, objectRef=reference, responseStatus={"code": code}, user={"username": "ada"})
    assert counted(entry)[name] == 1
