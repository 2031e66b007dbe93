"""A node that nothing disrupts is opened again; one that must go, or whose claim is leaving, keeps its taint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.lifecycle.draining.disruption_taint import REASON_ANNOTATION
from core.manifests.wire import api_resources as kinds
from core.model.plan import Command
from core.reasons.termination import TerminationReason
from tests.fakes.lab import Lab
from tests.unit.lambdas.controllers.sweeps.one_node import a_round, a_working_node, amend, sweep
from tests.unit.lifecycle.records_for_tests import a_command

NAME = "strayTaints"


def taint(lab: Lab, reason: str = TerminationReason.EMPTY) -> None:
    """Mark the node as a drain does."""
    metadata = {
        "annotations": {REASON_ANNOTATION: reason},
        "labels": {labels.EXCLUDE_FROM_BALANCERS: "karpenter"},
    }
    taints = [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}, {"key": "team", "effect": "NoExecute"}]
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, {"metadata": metadata, "spec": {"taints": taints}})


def node(lab: Lab) -> dict[str, Any]:
    return lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)


@pytest.fixture
def lab() -> Lab:
    found = a_working_node()
    found.work.take()
    return found


def test_a_stray_taint_goes_with_its_label_and_reason(lab: Lab) -> None:
    taint(lab)
    report = sweep(lab, NAME)
    assert lab.taints() == ["team"]
    assert REASON_ANNOTATION not in node(lab)["metadata"]["annotations"]
    assert labels.EXCLUDE_FROM_BALANCERS not in node(lab)["metadata"]["labels"]
    (decision,) = report.decisions
    assert (decision.kind, decision.reason, decision.subject) == ("abandon", "StrayTaint", lab.claim.node_name)
    assert lab.work.sent == []


def test_a_claim_that_still_counts_as_leaving_stays_and_holds_its_limits_again(lab: Lab) -> None:
    """The run that gave its command up died before the end: the place in the budget would be taken for ever."""
    held = lab.claim.reserved
    assert held
    amend(lab, is_disrupting=True)
    assert sweep(lab, NAME).decisions == []
    assert (lab.claim.is_disrupting, lab.claim.reserved) == (False, held)
    machine = lab.claim.machine
    assert machine is not None
    amend(lab, reserved={})
    sweep(lab, NAME)
    assert lab.claim.reserved == {**machine.capacity, "nodes": 1}


def test_a_node_in_order_is_not_touched(lab: Lab) -> None:
    before, calls = lab.claim, list[str]()
    round_ = a_round(lab)
    lab.cloud.before_call = lab.kubernetes.before_call = calls.append
    sweep(lab, NAME, round_)
    assert (lab.claim, calls) == (before, [])


def test_a_node_that_must_go_keeps_it_and_its_removal_goes_on(lab: Lab) -> None:
    """The table was restored: its claim does not know that the instance is being taken away."""
    taint(lab, TerminationReason.SPOT_INTERRUPTED)
    assert sweep(lab, NAME).decisions == []
    assert labels.DISRUPTED_TAINT in lab.taints()
    assert [message["claim"] for message, _ in lab.work.sent] == [lab.claim.name]


def test_a_node_whose_instance_is_gone_keeps_it(lab: Lab) -> None:
    taint(lab)
    lab.cloud.terminate([lab.claim.instance_id])
    sweep(lab, NAME)
    assert labels.DISRUPTED_TAINT in lab.taints()


def test_a_claim_that_began_to_leave_since_the_look_keeps_it(lab: Lab) -> None:
    taint(lab)
    round_ = a_round(lab)
    lab.interrupt()
    sweep(lab, NAME, round_)
    assert labels.DISRUPTED_TAINT in lab.taints()


def test_a_claim_that_is_gone_since_the_look_is_no_error(lab: Lab) -> None:
    taint(lab)
    round_ = a_round(lab)
    name = lab.claim.node_name
    lab.rows.claims.clear()
    report = sweep(lab, NAME, round_)
    assert (report.decisions, report.counts) == ([], {})
    assert len(lab.kubernetes.raw(kinds.NODES, name)["spec"]["taints"]) == 2


@pytest.mark.parametrize(("claims", "is_kept"), [(("other",), False), (("other", ""), True)])
def test_a_node_of_a_command_keeps_it(lab: Lab, claims: tuple[str, ...], *, is_kept: bool) -> None:
    taint(lab)
    names = tuple(name or lab.claim.name for name in claims)
    command = Command(reason="Empty", method="emptiness", nodes=("n",), claims=names)
    lab.rows.commands["x"] = a_command(age=timedelta(seconds=1), command=command)
    sweep(lab, NAME)
    assert (labels.DISRUPTED_TAINT in lab.taints()) == is_kept


def test_a_node_that_is_gone_gives_its_claim_its_places_back(lab: Lab) -> None:
    taint(lab)
    amend(lab, is_disrupting=True)
    round_ = a_round(lab)
    lab.kubernetes.drop(kinds.NODES, lab.claim.node_name)
    assert sweep(lab, NAME, round_).decisions == []
    assert not lab.claim.is_disrupting


def test_a_node_whose_instance_is_ending_is_not_opened(lab: Lab) -> None:
    """A restored table does not know that EC2 was asked to terminate the instance: pods would be placed on its last minute."""
    claim = lab.claim
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    lab.kubernetes.amend(kinds.NODES, claim.node_name, {"spec": {"taints": [taint]}})
    (instance,) = lab.cloud.instances()
    lab.cloud.put(msgspec.structs.replace(instance, state="shutting-down"))
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODES, claim.node_name)["spec"]["taints"] == [taint]


def test_a_taint_without_a_command_is_removed(lab: Lab) -> None:
    """Otherwise, a crash long ago keeps a good node from taking pods."""
    body = {
        "spec": {
            "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {"key": "t", "effect": "NoSchedule"}]
        }
    }
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, body)
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODES, lab.claim.node_name)["spec"]["taints"] == [
        {"key": "t", "effect": "NoSchedule"}
    ]
