"""The answers about recorded periods."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from cli.schemas.decisions import (
    DisruptionPlanAnswer,
    JsonAnswer,
    KillSwitchChangeAnswer,
    PlanAnswer,
    PricesAnswer,
    ProposalsAnswer,
    SavingsAnswer,
    StatusAnswer,
)

# The answer of `diff`.


class SideAnswer(msgspec.Struct, kw_only=True):
    """One side of a difference: dollars, nodes that run or are launched, pods without a place."""

    hourly: float
    monthly: float
    nodes: int
    unschedulable: list[str]


class DriftAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A node that is removed because of the change."""

    node: str
    node_pool: str
    reason: str


class DriftCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What replacing the drifted nodes takes: nodes, evictions of pods, and dollars while old and new nodes both run."""

    nodes: int
    evictions: int
    surge_dollars: float


class DifferenceAnswer(JsonAnswer):
    """`fleetwright diff -o json`."""

    kind: Literal["Difference"]
    before: SideAnswer
    after: SideAnswer
    pods_lost: list[str]
    pods_gained: list[str]
    nodes_drifted: list[DriftAnswer]
    drift: DriftCostAnswer
    prices: PricesAnswer


# The answer of `explain`.


class PoolFindingAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What a NodePool lacks for a pod; `ruledOut` counts each instance type once, by the first rule that it fails."""

    name: str
    reason: str | None
    message: str
    nearest: str | None
    ruled_out: dict[str, int]


class ExplanationAnswer(JsonAnswer):
    """`fleetwright explain -o json`; `pod`, `node`, `workload`, `group`, `nodePool` or `code` names what it is about.

    `nodePools` is about a pod without a place, the nearest NodePool first; of a workload, about its first pod without a place.
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
    group: str = ""
    node_pool: str = ""
    code: str = ""


class SimulatedPeriodAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A simulated period: dollars, node hours, launches, moves; pods in `podsOnNewNodes` waited for a node to start."""

    dollars: float
    monthly: float
    node_hours: float
    nodes_launched: int
    moves: int
    pods_on_new_nodes: int
    unplaced: list[str]
    nodes_at_end: int
    commands: dict[str, int]
    by_node_pool: dict[str, float]


class PeriodDifferenceAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """The effect of the change; `share` is relative to the dollars before, null if these are zero."""

    dollars: float
    monthly: float
    share: float | None
    moves: int
    pods_lost: list[str]
    pods_gained: list[str]


class RecordedAnswer(msgspec.Struct, kw_only=True):
    """What the real nodes cost at the prices of each observation."""

    dollars: float


class BaselinesAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Costs that were avoided: the same instances on demand, and every node kept (simulated). Null if unknown."""

    on_demand: float | None
    without_consolidation: float | None


class MinimumAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """The proven minimum cost of the fleet in these hours, and what was spent in them."""

    dollars: float
    spent_meanwhile: float
    hours: float


class ConsolidationAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Commands that were carried out, what they save an hour, and how many pods they moved."""

    commands: int
    pods_moved: int
    hourly_saved: float
    hourly_saved_per_move: float | None


class IdleObjectAnswer(msgspec.Struct, kw_only=True):
    """The sentence that names the object, and the cost of the idle room of nodes that it kept."""

    message: str
    dollars: float


class IdleCauseAnswer(msgspec.Struct, kw_only=True):
    """Cost of the idle room of nodes that stayed for one reason."""

    reason: str
    dollars: float
    objects: list[IdleObjectAnswer]


class IdleAnswer(msgspec.Struct, kw_only=True):
    """Cost of room that no pod requested, and what kept the nodes."""

    dollars: float
    causes: list[IdleCauseAnswer]


class ReportAnswer(JsonAnswer):
    """`fleetwright report -o json`. Each table of `by` sums to `dollars`; commitments cover `covered` of them.

    `covered` is null if no commitment is known.
    """

    kind: Literal["Report"]
    from_: str = msgspec.field(name="from")
    to: str
    dollars: float
    instance_hours: float
    instances: int
    covered: float | None
    baselines: BaselinesAnswer
    proven_minimum: MinimumAnswer | None
    consolidation: ConsolidationAnswer
    by: dict[str, dict[str, float]]
    idle: IdleAnswer
    assumptions: list[str]


class WhatIfAnswer(JsonAnswer):
    """`fleetwright what-if -o json`. `modelError`: by how much a simulation with the recorded settings misses the cost."""

    kind: Literal["WhatIf"]
    from_: str = msgspec.field(name="from")
    to: str
    snapshots: int
    recorded: RecordedAnswer
    model_error: float | None
    before: SimulatedPeriodAnswer
    after: SimulatedPeriodAnswer
    difference: PeriodDifferenceAnswer
    assumptions: list[str]


class WaitsAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """How long pods created in the period waited, in seconds; `long` counts those over two minutes."""

    pods: int
    p50: float | None
    max: float | None
    long: int
    without_place: list[str]


class RecordedFleetAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What the other provisioner did; `otherEvictions`: pods whose node was removed for an unknown reason."""

    dollars: float
    monthly: float
    node_hours: float
    nodes_launched: int
    nodes_at_end: int
    evictions: int
    other_evictions: int
    waits: WaitsAnswer


class ShadowFleetAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What we would have done, by simulation."""

    dollars: float
    monthly: float
    node_hours: float
    nodes_launched: int
    nodes_at_end: int
    evictions: int
    commands: dict[str, int]
    waits: WaitsAnswer


class ShadowDifferenceAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Our cost minus theirs; `share` is relative to theirs, null if that is zero."""

    dollars: float
    share: float | None
    monthly: float
    evictions: int
    waited_long: int


class ViolationAnswer(msgspec.Struct, kw_only=True):
    """A rule that a command would have violated: Budget, PodDisruptionBudget or DoNotDisrupt."""

    time: str
    rule: str
    subject: str


class WorseAnswer(msgspec.Struct, kw_only=True):
    """Something in which the recorded fleet did better; `pods`: some of the pods concerned."""

    what: Literal["dollars", "evictions", "hoursOfHigherCost", "waits", "withoutPlace", "violations"]
    message: str
    pods: list[str]


class ShadowReportAnswer(JsonAnswer):
    """`fleetwright shadow report -o json`. `worse` is empty if we would have been better or equal in everything compared."""

    kind: Literal["ShadowReport"]
    from_: str = msgspec.field(name="from")
    to: str
    snapshots: int
    recorded: RecordedFleetAnswer
    simulated: ShadowFleetAnswer
    difference: ShadowDifferenceAnswer
    violations: list[ViolationAnswer]
    proven_minimum: MinimumAnswer | None
    boot_seconds: float
    worse: list[WorseAnswer]
    assumptions: list[str]


# The answer of `drain`.


class DrainedClaimAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A claim. `state`: running, draining or terminating; `message`: why it is removed. Unknown values are empty."""

    subject: str
    state: str
    node: str
    instance: str
    node_pool: str
    message: str


class DrainAnswer(JsonAnswer):
    """`fleetwright drain -o json`. `acting`: whether `--yes` was given; `begun`: whether this run has changed anything.

    `hindrances` prevent the start, or stopped the run.

    `leftovers`: instances without a claim, NodePools, EC2NodeClasses, mirrored NodeClaims, Nodes with our finalizer, launch
    templates and instance profiles, as Kind/name.
    """

    kind: Literal["Drain"]
    cluster: str
    acting: bool
    begun: bool
    hindrances: list[str]
    items: list[DrainedClaimAnswer]
    leftovers: list[str]


# The summary of `simulate`.


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
    binding_violations: int
    eviction_rate_violations: int
    pods_killed_with_instance: int
    evictions_without_place: int
    commands_without_decision: int
    invocations: dict[str, int]
    cpu_seconds: dict[str, float]
    peak_memory_mib: dict[str, int] = msgspec.field(name="peakMemoryMiB")
    decisions: int


# The answers of `adopt` and `release`.


class HandoverItemAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A NodeClaim, Node or instance; `reason` is a documented code, `drift` why its node counts as drifted once it is ours.

    `state` of `adopt`: adoptable, begun, ours, refused; adopted or failed after `--yes`. Of `release`: releasable, kept;
    released or failed after `--yes`. What is not known is an empty text.
    """

    subject: str
    state: str
    node_claim: str
    node: str
    instance: str
    instance_type: str
    node_pool: str
    reason: str
    message: str
    drift: str


class NodeClassHandoverAnswer(msgspec.Struct, kw_only=True):
    """An EC2NodeClass whose finalizer of Karpenter's is removed."""

    subject: str
    state: str


class AdoptionAnswer(JsonAnswer):
    """`fleetwright adopt -o json`. `acting`: whether `--yes` was given; `hindrances` prevent the start."""

    kind: Literal["Adoption"]
    cluster: str
    acting: bool
    hindrances: list[str]
    items: list[HandoverItemAnswer]
    node_classes: list[NodeClassHandoverAnswer]


class ReleaseAnswer(JsonAnswer):
    """`fleetwright release -o json`. `commands`: how many disruption commands are under way and are dropped."""

    kind: Literal["Release"]
    cluster: str
    acting: bool
    hindrances: list[str]
    commands: int
    items: list[HandoverItemAnswer]


class SwitchStepAnswer(msgspec.Struct, kw_only=True):
    """One step of a switch; without `--yes` all but the plan are `due`."""

    step: Literal["plan", "freeze", "hand over", "start", "verify", "undo"]
    state: Literal["due", "done", "blocked", "failed", "undone"]
    message: str


class SwitchAnswer(JsonAnswer):
    """`fleetwright switch -o json`. `acting`: whether `--yes` was given; `items` are those of `adopt` or `release`."""

    kind: Literal["Switch"]
    cluster: str
    direction: Literal["from-karpenter", "back"]
    acting: bool
    steps: list[SwitchStepAnswer]
    items: list[HandoverItemAnswer]


# The answer of `validate`.


class ProblemAnswer(msgspec.Struct, kw_only=True):
    """One finding; `document` counts from 0, unlike in messages; line and column from 1."""

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


# The answer of `calendar`.


class CalendarPeriodAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A time in which nothing changes; `state` is open, closed, or waking: closed, but launching again before the opening.

    `rules` hold, later ones over earlier ones; `settings` are those that differ from what the NodePool says itself.
    At `forceAt` its nodes leave regardless of pods.
    """

    begins: str = msgspec.field(name="from")
    until: str
    state: Literal["open", "closed", "waking"]
    rules: list[str]
    overruled: list[str]
    closed_by: str | None
    opens_at: str | None
    force_at: str | None
    settings: dict[str, Any]


class PoolCalendarAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """The periods of one NodePool, in order and without gaps; `inInput` is false for one that only a Calendar names."""

    name: str
    in_input: bool
    periods: list[CalendarPeriodAnswer]


class CalendarAnswer(JsonAnswer):
    """`fleetwright calendar -o json`."""

    kind: Literal["CalendarView"]
    begins: str = msgspec.field(name="from")
    until: str
    node_pools: list[PoolCalendarAnswer]


class CalendarHourAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """One hour of a NodePool; `came`: by how many pods it grew in that hour a week before. Null without a forecast."""

    begins: str = msgspec.field(name="from")
    day: str
    hour: int
    open_percent: int
    warm_pods: int
    warm_dollars: float
    forecast_pods: int | None
    came: int | None


class PoolWeekAnswer(msgspec.Struct, kw_only=True):
    """The hours of one NodePool, in order."""

    name: str
    hours: list[CalendarHourAnswer]


class CalendarWeekAnswer(JsonAnswer):
    """`fleetwright calendar --week -o json`: the next seven days."""

    kind: Literal["CalendarWeek"]
    time_zone: str
    node_pools: list[PoolWeekAnswer]


# The answer of `forecast`.


class RampAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A growth that recurs. `usedPercent` of the room, forecast from the other days, was used; it took `coveredPercent`."""

    node_pool: str
    days: list[str]
    begins: str = msgspec.field(name="from")
    ends: str = msgspec.field(name="to")
    pods: int
    requests: dict[str, str]
    evidence_days: int
    used_percent: int
    covered_percent: int
    waited_seconds: int
    hourly: float
    capped: bool
    pays: bool
    message: str


class ForecastAnswer(JsonAnswer):
    """`fleetwright forecast -o json`. `calendars` keep room for the ramps that pay; nothing applies them."""

    kind: Literal["Forecast"]
    begins: str = msgspec.field(name="from")
    until: str
    time_zone: str
    ramps: list[RampAnswer]
    calendars: list[dict[str, Any]]


# The JSON answers as types. `make docs` writes their JSON Schemas, and tests check the answers against these.
#
# Fields may be added, but are never renamed or removed, so readers ignore fields that they do not know.


ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = {
    "plan": PlanAnswer,
    "consolidate": DisruptionPlanAnswer,
    "savings": SavingsAnswer,
    "explain": ExplanationAnswer,
    "calendar": CalendarAnswer,
    "calendar-week": CalendarWeekAnswer,
    "validate": ValidationAnswer,
    "diff": DifferenceAnswer,
    "simulate": SimulationSummaryAnswer,
    "status": StatusAnswer,
    "approve": ProposalsAnswer,
    "pause": KillSwitchChangeAnswer,
    "adopt": AdoptionAnswer,
    "release": ReleaseAnswer,
    "switch": SwitchAnswer,
    "drain": DrainAnswer,
    "what-if": WhatIfAnswer,
    "report": ReportAnswer,
    "shadow": ShadowReportAnswer,
    "forecast": ForecastAnswer,
}
"""Command → its answer under `-o json`."""


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's answer."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"fleetwright {command} -o json",
        **_with_clean_descriptions(msgspec.json.schema(ANSWERS[command])),
    }


def _with_clean_descriptions(schema: Any) -> Any:
    """The same without the indentation of docstrings, which Python keeps up to 3.12."""
    if isinstance(schema, list):
        return [_with_clean_descriptions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {key: _with_clean_descriptions(part) for key, part in schema.items()}
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = inspect.cleandoc(text)
    return cleaned
