"""Queries of tests about plans."""

from __future__ import annotations

from typing import Any

from core.model.plan import Plan, PlannedClaim
from core.scheduling import schedule
from core.scheduling.context import SchedulingContext
from core.scheduling.pods import PodGroup
from tests.builders import a_snapshot


def context_of(**world: Any) -> SchedulingContext:
    """A snapshot of these parts, prepared for planning."""
    return SchedulingContext(a_snapshot(**world))


def group_of(context: SchedulingContext, name: str) -> PodGroup:
    """The group of a pending pod."""
    return next(context.pod_groups.of(pod) for pod in context.pending if pod.name == name)


def plan_of(**world: Any) -> Plan:
    """The plan for a snapshot of these parts."""
    return schedule(a_snapshot(**world))


def places(plan: Plan) -> dict[str, str]:
    """Pod name → node or claim that takes it."""
    place_of = {pod.partition("/")[2]: claim.name for claim in plan.claims for pod in claim.pods}
    return place_of | {binding.pod.partition("/")[2]: binding.node for binding in plan.bindings}


def reasons_of(plan: Plan) -> dict[str, str]:
    """Pod name → code, for unschedulable pods."""
    return {entry.pod.partition("/")[2]: entry.reason for entry in plan.unschedulable}


def claim_of(plan: Plan, name: str) -> PlannedClaim:
    """The claim that takes a pod."""
    return next(claim for claim in plan.claims if f"default/{name}" in claim.pods)


def zones(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Pod name → zones of its claim."""
    return {pod.partition("/")[2]: claim.zones for claim in plan.claims for pod in claim.pods}
