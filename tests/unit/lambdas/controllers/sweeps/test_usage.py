"""Counters of NodePools' limits that are wrong."""

from __future__ import annotations

import msgspec

from lambdas.store import PoolUsage
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
