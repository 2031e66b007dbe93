"""The JSON answers as types: `make docs` writes their JSON Schemas to `docs/reference/schemas`, tests hold the answers to them.

Fields may be added, never renamed or removed, so a reader passes over what it does not know.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from cli.schemas.answer import JsonAnswer, PricesAnswer
from cli.schemas.period import ReportAnswer, ShadowReportAnswer, WhatIfAnswer
from cli.schemas.removal import DrainAnswer
from cli.schemas.status import KillSwitchChangeAnswer, ProposalsAnswer, StatusAnswer
from cli.schemas.takeover import AdoptionAnswer, ReleaseAnswer


class NewNodeAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A node to launch: instance types cheapest first, resources as Kubernetes quantities, price in dollars an hour.

    `commitment` names what covers it, and is missing where nothing does.
    """

    name: str
    node_pool: str
    labels: dict[str, str]
    taints: list[dict[str, str]]
    startup_taints: list[dict[str, str]]
    requirements: list[dict[str, Any]]
    instance_types: list[str]
    zones: list[str]
    capacity_types: list[str]
    resources: dict[str, str]
    pods: list[str]
    price: float
    commitment: str = ""


class BindingAnswer(msgspec.Struct, kw_only=True):
    """A pod expected on a node that exists."""

    pod: str
    node: str


class UnschedulableAnswer(msgspec.Struct, kw_only=True):
    """A pod without a place; `reason` is one of the documented codes, explained on `page`."""

    pod: str
    reason: str
    message: str
    page: str = ""


class PlanCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Dollars an hour of the new nodes; the proven minimum and the open share are null where none was computed.

    `spotHourly`: of those that are launched on spot where it can be had.
    """

    hourly: float
    lower_bound: float | None
    gap: float | None
    spot_hourly: float = 0.0


class TimingAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Seconds; null under `--improve-iterations`, which promises the same bytes.

    `stoppedBy` is `time` where the clock cut the search short, so that the answer may depend on the machine.
    """

    decode_seconds: float | None
    solve_seconds: float | None
    stopped_by: Literal["time", "iterations"] | None = None


class PlanAnswer(JsonAnswer):
    """`fleetwright plan -o json`. Every pending pod is in exactly one of nodeClaims[].pods, bindings and unschedulable."""

    kind: Literal["Plan"]
    now: str
    node_claims: list[NewNodeAnswer]
    bindings: list[BindingAnswer]
    unschedulable: list[UnschedulableAnswer]
    cost: PlanCostAnswer
    timing: TimingAnswer
    prices: PricesAnswer


class MoveAnswer(msgspec.Struct, kw_only=True):
    """A pod's new place: an existing node or a replacement."""

    pod: str
    to: str


class CommandAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Nodes that go together, and what must be there first; savings in dollars an hour.

    `paybackMinutes`: when they have paid for the move; null where a node goes whatever it costs.
    """

    reason: str
    method: str
    nodes: list[str]
    replacements: list[NewNodeAnswer]
    moves: list[MoveAnswer]
    savings: float
    payback_minutes: int | None
    wave: int


class BlockedAnswer(msgspec.Struct, kw_only=True):
    """A node that stays; `reason` is one of the documented codes, `savings` dollars an hour of a later wave with it."""

    node: str
    reason: str
    message: str
    savings: float = 0.0
    page: str = ""


class DisruptionCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Dollars an hour of all our nodes."""

    before: float
    after: float
    lower_bound: float | None


class DisruptionPlanAnswer(JsonAnswer):
    """`fleetwright consolidate -o json`. Commands are in the order in which they are carried out."""

    kind: Literal["DisruptionPlan"]
    now: str
    commands: list[CommandAnswer]
    blocked: list[BlockedAnswer]
    budgets: dict[str, dict[str, int | None]]
    cost: DisruptionCostAnswer
    timing: TimingAnswer
    prices: PricesAnswer


class PoolFindingAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What a NodePool lacks for a pod; `ruledOut` counts each instance type once, by the first rule that it fails."""

    name: str
    reason: str | None
    message: str
    nearest: str | None
    ruled_out: dict[str, int]


class ExplanationAnswer(JsonAnswer):
    """`fleetwright explain -o json`; `pod`, `node`, `workload`, `nodePool` or `code` names what it is about.

    `nodePools` is about a pod without a place, nearest first; for a workload about the first of its pods that has none.
    """

    kind: Literal["Explanation"]
    outcome: str
    reason: str | None
    details: list[str]
    node_pools: list[PoolFindingAnswer]
    page: str | None = None
    pod: str = ""
    node: str = ""
    workload: str = ""
    node_pool: str = ""
    code: str = ""


class ProblemAnswer(msgspec.Struct, kw_only=True):
    """One finding; `document` counts from 0, line and column from 1."""

    severity: Literal["error", "warning"]
    code: str
    file: str
    document: int
    line: int | None
    column: int | None
    object: str
    field: str
    message: str
    suggestion: str | None


class ValidationAnswer(JsonAnswer):
    """`fleetwright validate -o json`."""

    kind: Literal["Validation"]
    errors: int
    warnings: int
    problems: list[ProblemAnswer]


class SideAnswer(msgspec.Struct, kw_only=True):
    """One side of a difference: dollars, nodes that run or are launched, pods without a place."""

    hourly: float
    monthly: float
    nodes: int
    unschedulable: list[str]


class DriftAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A node that goes because of the change."""

    node: str
    node_pool: str
    reason: str


class DifferenceAnswer(JsonAnswer):
    """`fleetwright diff -o json`."""

    kind: Literal["Difference"]
    before: SideAnswer
    after: SideAnswer
    pods_lost: list[str]
    pods_gained: list[str]
    nodes_drifted: list[DriftAnswer]
    prices: PricesAnswer


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


ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = {
    "plan": PlanAnswer,
    "consolidate": DisruptionPlanAnswer,
    "explain": ExplanationAnswer,
    "validate": ValidationAnswer,
    "diff": DifferenceAnswer,
    "simulate": SimulationSummaryAnswer,
    "status": StatusAnswer,
    "approve": ProposalsAnswer,
    "pause": KillSwitchChangeAnswer,
    "adopt": AdoptionAnswer,
    "release": ReleaseAnswer,
    "drain": DrainAnswer,
    "what-if": WhatIfAnswer,
    "report": ReportAnswer,
    "shadow": ShadowReportAnswer,
}
"""Command → its answer under `-o json`."""


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's answer."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"fleetwright {command} -o json",
        **_with_clean_descriptions(msgspec.json.schema(ANSWERS[command])),
    }


def _with_clean_descriptions(found: Any) -> Any:
    """The same without the indentation of docstrings, which Python keeps up to 3.12."""
    if isinstance(found, list):
        return [_with_clean_descriptions(part) for part in found]
    if not isinstance(found, dict):
        return found
    cleaned = {key: _with_clean_descriptions(part) for key, part in found.items()}
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = inspect.cleandoc(text)
    return cleaned
