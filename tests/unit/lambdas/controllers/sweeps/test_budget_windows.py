"""Windows of budgets as schedules."""

from __future__ import annotations

from tests.fakes.lab import Lab, a_node_pool


def test_budget_windows_become_schedules(lab: Lab) -> None:
    """Otherwise, a window of an hour may pass before `disrupt` runs."""
    budget = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "165h"}
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [budget]}))
    lab.reconcile()
    assert sorted(lab.windows.present.values()) == ["cron(0 5 ? * SUN *)", "cron(0 8 ? * SUN *)"]
