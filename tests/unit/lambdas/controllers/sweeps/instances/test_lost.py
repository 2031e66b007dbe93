"""Claims whose instances vanished go a few at a time."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle.facts import INSTANCE_CHECK_AFTER
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from core.reasons.termination import TerminationReason
from installation.metric_names import LOST_INSTANCES_HELD
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import NOT_READY, a_round, a_working_node, amend, sweep


def test_few_claims_go_at_once_because_their_instances_vanished() -> None:
    """Otherwise, a list of another account or region terminates a fleet whose nodes a network fault has cut off."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="3") for number in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    for name in lab.kubernetes.names(kinds.NODES):
        lab.kubernetes.amend(kinds.NODES, name, NOT_READY)
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(minutes=5)
    report = lab.reconcile()
    assert len([claim for claim in lab.claims if claim.deletion is not None]) == 1
    assert report.counts[LOST_INSTANCES_HELD] == 2
    assert "ManyInstancesGone" in {d.reason for d in report.decisions}
    lab.tick(6)
    for _ in range(4):
        lab.clock.advance(minutes=2)
        lab.reconcile()
        lab.tick(10)
    assert lab.claims == ()


NAME = "lostInstances"


def losing(lab: Lab) -> Lab:
    """EC2 no longer knows the instance, and the node is not ready."""
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, NOT_READY)
    lab.cloud.terminate([lab.claim.instance_id])
    lab.clock.advance(hours=1)
    return lab


def is_leaving(lab: Lab) -> bool:
    sweep(lab, NAME)
    return lab.claim.deletion is not None


def test_a_claim_whose_instance_is_gone_says_so() -> None:
    lab = losing(a_working_node())
    assert is_leaving(lab)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == TerminationReason.INSTANCE_GONE
    assert deletion.message == f"instance {lab.claim.instance_id} is gone and its node is not ready"


def test_a_claim_without_a_node_goes_too() -> None:
    lab = losing(a_working_node())
    lab.kubernetes.drop(kinds.NODES, lab.claim.node_name)
    assert is_leaving(lab)


@pytest.mark.parametrize(
    ("age", "goes"), [(INSTANCE_CHECK_AFTER - timedelta(seconds=1), False), (INSTANCE_CHECK_AFTER, True)]
)
def test_a_young_claim_is_not_judged_by_a_list(age: timedelta, *, goes: bool) -> None:
    """EC2 itself may not list an instance yet."""
    lab = losing(a_working_node())
    amend(lab, phase_since=lab.clock.now() - age)
    assert is_leaving(lab) == goes


def test_an_instance_that_is_found_by_its_id_is_not_lost() -> None:
    lab = a_working_node()
    (instance,) = lab.cloud.instances()
    round_ = a_round(losing(lab))
    lab.cloud.put(instance)
    sweep(lab, NAME, round_)
    assert lab.claim.deletion is None


def test_a_claim_without_an_instance_cannot_lose_it() -> None:
    lab = losing(a_working_node())
    amend(lab, machine=None, phase=ClaimPhase.REQUESTED, node_name="")
    assert not is_leaving(lab)


def test_of_sixty_claims_three_go_in_a_round() -> None:
    lab = losing(a_working_node())
    record = lab.claim
    for number in range(59):
        own = msgspec.structs.replace(
            record.machine, instance_id=f"i-x{number:02d}", provider_id=f"aws:///z/i-x{number:02d}"
        )
        lab.rows.claims[f"x{number:02d}"] = msgspec.structs.replace(record, name=f"x{number:02d}", machine=own)
    report = sweep(lab, NAME)
    assert len([claim for claim in lab.claims if claim.deletion is not None]) == 3
    assert report.counts[LOST_INSTANCES_HELD] == 57
    (held,) = [decision for decision in report.decisions if decision.reason == "ManyInstancesGone"]
    assert held.message.startswith(
        "EC2 no longer lists the instances of 60 of 60 claims, such as i-x02; 3 are removed per round, the others later: "
    )


def test_a_claim_without_its_instance_ends_once_its_node_is_not_ready(lab: Lab) -> None:
    """Otherwise, pods wait on a node that does not exist. A Ready node is stronger evidence than an EC2 list."""
    lab.cloud.terminate([lab.claim.instance_id])
    lab.clock.advance(minutes=3)
    lab.reconcile()
    assert lab.claim.deletion is None
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, not_ready)
    lab.reconcile()
    lab.tick(3)
    assert lab.claims == ()
    assert lab.kubernetes.names(kinds.NODES) == []


def test_an_instance_missing_from_a_list_is_not_gone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, an incomplete list while a zone is cut off costs all nodes in it."""
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, not_ready)
    lab.clock.advance(minutes=3)
    listed = lab.cloud.instances
    monkeypatch.setattr(lab.cloud, "instances", lambda ids=(): listed(ids) if ids else ())
    lab.reconcile()
    assert lab.claim.deletion is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Client.InternalError", TerminationReason.START_FAILED),
        ("Client.UserInitiatedShutdown", TerminationReason.INSTANCE_GONE),
    ],
)
def test_an_instance_that_ended_before_its_node_joined_says_why(code: str, reason: TerminationReason) -> None:
    """Where event and check were lost, the claim went without a cause, and the next instance ended like it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.work.take()
    lab.cloud.end(lab.claim.instance_id, code, "because")
    lab.clock.advance(seconds=INSTANCE_CHECK_AFTER.total_seconds())
    sweep(lab, NAME)
    deletion = lab.claim.deletion
    assert deletion is not None
    assert deletion.reason == reason
    assert deletion.message.endswith(f": {code}: because")
    assert (("default", code) in lab.rows.denials) == (reason is TerminationReason.START_FAILED)


def test_an_instance_whose_node_had_joined_is_not_asked_for() -> None:
    """Whatever ended it is no reason against further launches."""
    lab = losing(a_working_node())
    lab.cloud.end(lab.claim.instance_id, "Client.InternalError")
    assert is_leaving(lab)
    assert lab.rows.denials == {}
