"""Instances that fail EC2's status checks are replaced, within budgets and without forcing their pods."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.ports import Impairment
from adapters.run_report import RunReport
from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.manifests.wire import api_resources as kinds
from core.model.node_claim import Hold
from lambdas.controllers.resync.reconciliation_resync import WITHOUT_PODS_EVERY
from lambdas.controllers.sweeps.instances.impaired import IMPAIRED_FOR
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import NOT_READY, a_working_node


def test_an_instance_that_fails_its_checks_is_replaced_without_forcing_its_pods() -> None:
    """Otherwise, a node with a broken host keeps its pods, or a false alarm of EC2 kills them."""
    lab = a_working_node(protected=True)
    sick = lab.claim.instance_id
    since = lab.clock.now()
    lab.cloud.failing = [Impairment("i-of-somebody", "system", since), Impairment(sick, "system", since)]
    lab.clock.advance(seconds=IMPAIRED_FOR.total_seconds() - 1)
    assert lab.reconcile().counts["impairedInstances"] == 1
    assert lab.claim.deletion is None
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    lab.reconcile()
    lab.tick(6)
    assert lab.claim.deletion is not None
    assert (lab.claim.deletion.reason, "system status check" in lab.claim.deletion.message) == ("Unhealthy", True)
    assert [found.instance_id for found in lab.cloud.instances()] == [sick]


def test_impaired_instances_wait_for_the_budgets() -> None:
    """Otherwise, ten minutes of trouble in a zone cost all nodes in it."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "0"}]}))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "instance", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_node_that_is_not_ready_does_not_use_up_its_own_budget() -> None:
    """An unready node uses up a place: with one place, it would wait for itself forever."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}))
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, NOT_READY)
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    lab.reconcile()
    assert lab.claim.deletion is not None


def test_budgets_for_other_reasons_do_not_keep_impaired_instances() -> None:
    """As for node repair: a NodePool that must not drift may still be repaired."""
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "0", "reasons": ["Drifted"]}]}))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    lab.reconcile()
    assert lab.claim.deletion is not None


def test_an_impaired_instance_with_a_protected_pod_is_left_alone() -> None:
    """Otherwise, it is tainted and restored in every round."""
    lab = a_working_node()
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    lab.kubernetes.amend(kinds.PODS, "p", veto, namespace="default")
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_instance_with_a_protected_node_is_left_alone() -> None:
    """The annotation on the node is a veto, for failed status checks as for node repair."""
    lab = a_working_node()
    veto = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, veto)
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = lab.reconcile()
    assert lab.claim.deletion is None
    assert "UnhealthyButBlocked" in {d.reason for d in report.decisions}


def test_an_impaired_instance_that_a_command_replaces_is_left_to_it() -> None:
    """Otherwise, the node is drained before its replacements are ready, and the command is dropped."""
    lab = Lab(feature_gates="NodeRepair=true")
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, is_disrupting=True))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    report = RunReport()
    round_ = ReconcileRound(
        Seen((), lab.app.shared.observer.observe()), report, lab.clock.now() + timedelta(minutes=5), lab.clock
    )
    next(sweep for sweep in lab.app.sweeps if sweep.name == "impairedInstances").run(round_)
    assert lab.claim.deletion is None


def test_an_impaired_instance_whose_drain_was_cancelled_is_left_alone_for_a_while() -> None:
    """Its obstacle may remain; the node would be closed and opened again in every round."""
    lab = a_working_node()
    hold = Hold(lab.clock.now() + IMPAIRED_FOR, "DrainBlocked", "its drain was given back")
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, hold=hold))
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", lab.clock.now() - 2 * IMPAIRED_FOR)]
    lab.reconcile()
    assert lab.claim.deletion is None
    lab.clock.advance(seconds=IMPAIRED_FOR.total_seconds())
    lab.reconcile()
    assert lab.claim.deletion is not None


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_half_open_breaker_stops_repair(*, is_stopped: bool) -> None:
    """The table of brakes says so: unhealthy nodes are not exchanged for nodes that may not join."""
    lab = Lab(feature_gates="NodeRepair=true")
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": "1"}]}), a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    ill = {"type": "Ready", "status": "Unknown", "lastTransitionTime": lab.clock.now().isoformat()}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, {"status": {"conditions": [ill]}})
    lab.clock.advance(hours=1)
    if is_stopped:
        lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "half open", node_pool="default"), lab.clock.now())
    report = lab.disrupt()
    assert len(lab.rows.commands) == (not is_stopped)
    assert (BrakeKind.POOL_PROBE in {d.reason for d in report.decisions}) == is_stopped
