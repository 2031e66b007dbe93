"""Counters of NodePools' limits that are wrong."""

from __future__ import annotations

import msgspec

from adapters.store import PoolUsage, UnreadableRow
from core.reasons.run import RunReason
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import a_fleet


def test_wrong_counters_are_corrected() -> None:
    """Otherwise, a NodePool stays full, or exceeds its limit, after one row was edited or lost."""
    lab = a_fleet(1)
    right = lab.rows.usage["default"]
    lab.rows.usage["default"] = msgspec.structs.replace(right, reserved={"nodes": 7, "cpu": 1}, disrupting=3)
    lab.rows.usage["gone"] = PoolUsage(node_pool="gone", reserved={"nodes": 2}, version=4)
    lab.reconcile()
    assert lab.rows.usage["default"].reserved == right.reserved
    assert (lab.rows.usage["default"].disrupting, lab.rows.usage["gone"].reserved) == (0, {})
    assert "repairedUsage" not in lab.reconcile().counts


def test_counters_stay_while_a_claim_cannot_be_read() -> None:
    """What it holds is unknown: a lower counter would let a NodePool exceed its limit and its budget."""
    lab = a_fleet(2)
    (name, _), right = min(lab.rows.claims.items()), lab.rows.usage["default"]
    lab.rows.unreadable[name] = UnreadableRow(
        "cluster#claims#1", name, f"row {name} cannot be read; correct or delete it"
    )
    report = lab.reconcile()
    assert lab.rows.usage["default"] == right
    assert len(lab.cloud.instances()) == 2
    assert report.counts["unreadableRows"] == 1
    assert [d.message for d in report.decisions if d.subject == name and d.reason == RunReason.CANNOT_BE_READ] == [
        f"row {name} cannot be read; correct or delete it"
    ]
