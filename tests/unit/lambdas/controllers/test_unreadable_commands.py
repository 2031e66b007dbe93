"""The row of a command cannot be read: no node is chosen, and pods get nodes, notices are heeded, rounds have their sweeps."""

from __future__ import annotations

import pytest

from adapters.ports import DeniedError
from adapters.run_report import RunReport
from adapters.store import UnreadableRow
from core.reasons.code import TerminationReason
from tests.fakes.lab import Lab, a_pending_pod

SPOT = "EC2 Spot Instance Interruption Warning"


@pytest.fixture
def spoiled(lab: Lab) -> Lab:
    """The lab with a command in its table that nobody can read."""
    lab.rows.unreadable["x"] = UnreadableRow("cluster#commands", "x", "row x cannot be read; correct or delete it")
    lab.clock.advance(minutes=2)
    return lab


def test_pending_pods_get_nodes(spoiled: Lab) -> None:
    """Otherwise, one mistyped row keeps every pod of the cluster waiting. The node's type has 2 CPUs: it takes none of them."""
    spoiled.kubernetes.put(*(a_pending_pod(f"waiting-{n}", cpu="1500m") for n in range(3)))
    spoiled.settle()
    assert len(spoiled.claims) == 3


def test_a_spot_instance_is_drained_although_its_claim_is_lost(spoiled: Lab) -> None:
    instance_id = spoiled.claim.instance_id
    spoiled.rows.claims.clear()
    notice = {"source": "aws.ec2", "detail-type": SPOT, "detail": {"instance-id": instance_id}}
    spoiled.app.interruptions.run(notice, RunReport())
    spoiled.execute()
    deletion = spoiled.claim.deletion
    assert deletion is not None
    assert deletion.reason == TerminationReason.SPOT_INTERRUPTED


def test_a_round_rebuilds_lost_claims_and_counts_the_row(spoiled: Lab) -> None:
    name = spoiled.claim.name
    spoiled.rows.claims.clear()
    assert spoiled.reconcile().counts["unreadableRows"] == 1
    assert spoiled.claim.name == name


def test_no_node_is_chosen(spoiled: Lab) -> None:
    """The nodes of the command look as if they were in none."""
    with pytest.raises(DeniedError, match="row x cannot be read"):
        spoiled.disrupt()
    view = spoiled.app.shared.observer.observe()
    with pytest.raises(DeniedError, match="row x cannot be read"):
        view.require_commands()
