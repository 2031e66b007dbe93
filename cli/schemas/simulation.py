"""The summary of `simulate`."""

from __future__ import annotations

from typing import Literal

from cli.schemas.answer import JsonAnswer


class SimulationSummaryAnswer(JsonAnswer):
    """`fleetwright simulate -o json`."""

    kind: Literal["SimulationSummary"]
    scenario: str
    virtual_seconds: float
    wall_seconds: float
    pods_created: int
    pods_scheduled: int
    pods_pending: int
    pods_unschedulable: dict[str, int]
    pending_seconds: dict[str, float]
    nodes_launched: int
    nodes_terminated: int
    nodes_at_end: int
    instance_hours: float
    dollars: float
    evictions: int
    budget_violations: int
    pod_disruption_budget_violations: int
    do_not_disrupt_violations: int
    double_launches: int
    orphaned_instances: int
    limit_violations: int
    invocations: dict[str, int]
    decisions: int
