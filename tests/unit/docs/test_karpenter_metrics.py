"""Whoever comes from Karpenter finds each of its metrics on the page, and what the page names here exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from core.reasons.code import DecisionKind
from installation import metric_names

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "reference" / "karpenter-metrics.md").read_text(encoding="utf-8")

KARPENTER: Final = """
nodes: created_total terminated_total drained_total termination_duration_seconds lifetime_duration_seconds
nodes: current_lifetime_seconds allocatable total_pod_requests total_pod_limits total_daemon_requests total_daemon_limits
nodes: system_overhead
cluster: utilization_percent
build: info
pods: state startup_duration_seconds unstarted_time_seconds bound_duration_seconds unbound_time_seconds
pods: provisioning_bound_duration_seconds provisioning_unbound_time_seconds provisioning_startup_duration_seconds
pods: provisioning_unstarted_time_seconds provisioning_scheduling_undecided_time_seconds
pods: scheduling_decision_duration_seconds disruption_initiated_total eviction_requests_total drained_total
nodeclaims: created_total terminated_total disrupted_total unhealthy_disrupted_total termination_duration_seconds
nodeclaims: instance_termination_duration_seconds
nodepools: limit usage cost_total cost_tracker_errors_total allowed_disruptions nodes_consuming_budgets
voluntary_disruption: decision_evaluation_duration_seconds decisions_total decisions_by_nodepool_total eligible_nodes
voluntary_disruption: consolidation_timeouts_total failed_validations_total queue_failures_total
consolidation: score moves_total
cluster_state: node_count synced unsynced_time_seconds
scheduler: scheduling_duration_seconds queue_depth unfinished_work_seconds ignored_pods_count unschedulable_pods_count
scheduler: pending_pods_by_effective_zone_count
cloudprovider: duration_seconds errors_total instance_type_offering_available instance_type_offering_price_estimate
cloudprovider: instance_type_cpu_cores instance_type_memory_bytes instance_launch_failures_total
cloudprovider: instance_termination_failures_total batcher_batch_size batcher_batch_time_seconds
interruption: received_messages_total deleted_messages_total message_queue_duration_seconds instance_status_unhealthy_total
ec2nodeclasses: userdata_bytes
operator: status_condition_transition_seconds status_condition_count status_condition_current_status_seconds
operator: status_condition_transitions_total termination_current_time_seconds termination_duration_seconds
"""
"""Subsystem and names, from Karpenter's own sources (1.14)."""


def names() -> list[str]:
    rows = (line.split(": ") for line in KARPENTER.strip().splitlines())
    return [f"{subsystem}_{name}" for subsystem, listed in rows for name in listed.split()]


@pytest.mark.parametrize("name", names())
def test_each_metric_of_karpenters_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_each_metric_and_count_that_the_page_names_is_written() -> None:
    metrics = set(map(metric_names.in_cloudwatch, metric_names.METRICS))
    of_lambda = {"Duration", "Errors", "Throttles", "Invocations", "ConcurrentExecutions", "AsyncEventAge"}
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE)) - {"ValidationSucceeded"}
    assert named - of_lambda <= metrics
    source = "".join(
        path.read_text(encoding="utf-8") for name in ("adapters", "lambdas") for path in (ROOT / name).rglob("*.py")
    )
    counts = {f"decisions{kind.capitalize()}" for kind in DecisionKind}
    counts |= {name for name in re.findall(r"`([a-z]+[A-Z][A-Za-z]+)`", PAGE) if f'"{name}"' in source}
    assert set(re.findall(r"`([a-z]+[A-Z][A-Za-z]+)`", PAGE)) <= counts
