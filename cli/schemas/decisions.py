"""The answers of `plan`, `consolidate`, `status`, `approve`, `pause` and `resume`, as JSON Schemas."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

# What every JSON answer has.


class JsonAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Its version; fields may be added."""

    api_version: Literal["fleetwright.dev/v1"]


class PricesAnswer(msgspec.Struct, kw_only=True):
    """Where prices come from; region and date are empty if a catalogue file does not name them."""

    source: str
    region: str
    date: str


# The answer of `plan`.


class NewNodeAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A node to launch: instance types cheapest first, resources as Kubernetes quantities, price in dollars an hour.

    `commitment` names the commitment that covers it; the field is missing if there is none.
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
    """A pod that is expected on an existing node."""

    pod: str
    node: str


class UnschedulableAnswer(msgspec.Struct, kw_only=True):
    """A pod without a place; `reason` is one of the documented codes, explained on `page`."""

    pod: str
    reason: str
    message: str
    page: str = ""


class PlanCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Cost of the new nodes in dollars an hour; proven minimum and gap are null if they were not computed.

    `spotHourly`: the cost of those that are launched as spot capacity if it is available.
    """

    hourly: float
    lower_bound: float | None
    gap: float | None
    spot_hourly: float = 0.0


class TimingAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Seconds; null with `--improve-iterations`, whose answers are equal byte for byte.

    `stoppedBy` is `time` if the time limit ended the search; the answer may then depend on the machine.
    """

    decode_seconds: float | None
    solve_seconds: float | None
    stopped_by: Literal["time", "iterations"] | None = None


class WarningAnswer(msgspec.Struct, kw_only=True):
    """A field that this version does not know, and drops, a value that cannot be read, or a file that is left out."""

    object: str
    reason: Literal["UnknownField", "InvalidValue", "Unreadable"]
    field: str
    message: str


class GroupAnswer(msgspec.Struct, kw_only=True):
    """Pods that start together; `domain` is the value of each topology key that all of them share, `hourly` dollars.

    `reason` and `message` say why nothing is bought for it; both are missing if it is complete.
    """

    name: str
    source: str
    members: int
    minimum: int
    placed: int
    domain: dict[str, str]
    hourly: float = 0.0
    reason: str = ""
    message: str = ""


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
    groups: list[GroupAnswer] = []
    warnings: list[WarningAnswer] = []


# The answer of `consolidate`.


class MoveAnswer(msgspec.Struct, kw_only=True):
    """A pod's new place: an existing node or a replacement."""

    pod: str
    to: str


class CommandAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Nodes that are removed together, and the replacements that must be ready first; savings in dollars an hour.

    `paybackMinutes`: minutes after which the savings cover the move; null if the nodes are removed at any cost.
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
    """A node that stays; `reason` is a documented code, `savings` what a later wave with it saves, in dollars an hour."""

    node: str
    reason: str
    message: str
    savings: float = 0.0
    page: str = ""


class GapPartsAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Dollars an hour that the end costs above the proven minimum; the parts add up to the whole.

    `moves`: the price of moves. `spotToSpot`: spot nodes are not replaced by spot nodes. `rest`: all else.
    """

    moves: float
    spot_to_spot: float
    rest: float


class DisruptionCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Cost of all our nodes in dollars an hour.

    `gapParts` tells apart what the end of all waves costs above the minimum: with `--ignore-budgets`, for up to 2,500 nodes.
    """

    before: float
    after: float
    lower_bound: float | None
    gap_parts: GapPartsAnswer | None = None


class DivisionAnswer(msgspec.Struct, kw_only=True):
    """With `partNodes` or `--part-nodes`: in how many parts the cluster was planned, or why it was not divided."""

    parts: int
    undivided: str


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
    division: DivisionAnswer | None = None


class SavingsEndAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Where the moves of a policy end without budgets: the cost in dollars an hour, and what the way there takes."""

    hourly: float
    evictions: int
    nodes_removed: int
    nodes_launched: int


class CapacityTypeAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Nodes of a capacity type today: what is paid for them an hour, and what commitments cover besides."""

    nodes: int
    hourly: float
    covered_by_commitments: float


class SavingsAnswer(JsonAnswer):
    """`fleetwright savings -o json`. `now` is the cost in dollars an hour, `observedAt` the time."""

    kind: Literal["Savings"]
    observed_at: str
    now: float
    karpenter: SavingsEndAnswer
    fleetwright: SavingsEndAnswer
    lower_bound: float | None
    by_capacity_type: dict[str, CapacityTypeAnswer]
    prices: PricesAnswer


class BudgetTakerAnswer(msgspec.Struct, kw_only=True):
    """A node that takes a place in its NodePool's budgets, and why: a reason of disruption, or NotReady."""

    node: str
    why: str


class BudgetWindowAnswer(msgspec.Struct, kw_only=True):
    """From `at` on, budgets allow these numbers of disruptions, null for any number; leaving nodes are not subtracted."""

    at: str
    allowed: dict[str, int | None]


class PoolStatusAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A NodePool; `budgets` says how many nodes may still go now, by reason."""

    name: str
    nodes: int
    starting: int
    pods: int
    hourly: float
    spot_hourly: float
    budgets: dict[str, int | None]
    taken_by: list[BudgetTakerAnswer]
    next_window: BudgetWindowAnswer | None
    invalid_budget: str | None
    paused: str | None
    rollout: str | None


class ClaimStatusAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A node of ours, from the request on; `phase`: requested, launched, registered or initialized."""

    name: str
    node_pool: str
    phase: str
    node: str | None
    instance_type: str | None
    zone: str | None
    capacity_type: str | None
    hourly: float
    created_at: str | None
    leaving_since: str | None
    leaving_why: str | None
    message: str | None


class CommandStatusAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A disruption command under way; `phase`: verifying, starting or replacing."""

    id: str
    decision: str | None
    phase: str
    reason: str
    method: str
    nodes: list[str]
    replacements: list[str]
    moves: int
    savings: float
    created_at: str
    since: str


class BrakeAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A brake that is engaged, and which actions it stops."""

    brake: str
    message: str
    node_pool: str | None
    zone: str | None
    stops: list[str]


class BreakerAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A NodePool whose last new nodes did not join."""

    node_pool: str
    failures: int
    open_until: str | None
    message: str


class FailingSweepAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A sweep of `reconcile` that fails, since when, and how often."""

    name: str
    clean_at: str
    failures: int
    reason: str


class SweepsAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """When all sweeps of `reconcile` last succeeded, and which of them fail."""

    clean_at: str | None
    failing: list[FailingSweepAnswer]


class VerdictAnswer(msgspec.Struct, kw_only=True):
    """A person's verdict, with the ARN of the AWS identity."""

    approved: bool
    by: str
    at: str


class ProposalEndAnswer(msgspec.Struct, kw_only=True):
    """How the wait ended; `reason` is one of the documented codes."""

    reason: str
    message: str
    at: str


class ProposalAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A command that waits for approval; `state`: waits, approved (it begins within a minute), rejected or ended."""

    id: str
    state: Literal["waits", "approved", "rejected", "ended"]
    what: str
    reason: str
    why: str
    nodes: list[str]
    moves: int
    savings: float
    decision: str | None
    proposed_at: str
    expires_at: str
    text: str
    verdict: VerdictAnswer | None
    end: ProposalEndAnswer | None


class ProposalsAnswer(JsonAnswer):
    """`fleetwright approve -o json`: the proposal that was approved or rejected, or those that wait."""

    kind: Literal["Proposals"]
    cluster: str
    proposals: list[ProposalAnswer]


class FleetCostAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Cost of all our nodes, and the spot capacity's part of the hourly cost."""

    hourly: float
    monthly: float
    spot_hourly: float


class ForecastRampAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A ramp that the functions forecast; `recentPercent`: how much of its room was used in the last days.

    `recentDollars`: what that room costs, kept or only recorded; it takes `recentPods`, which then do not wait
    `recentWaitSeconds` together. Null without such days.
    """

    node_pool: str
    when: str
    pods: int
    hourly: float
    recent_percent: int | None
    acts: bool
    stopped: bool
    message: str
    recent_dollars: float | None = None
    recent_pods: int | None = None
    recent_wait_seconds: int | None = None


class CapPeriodAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A day or month of a cap in dollars: `forecast` is its end, in `percent` of the limit; `engaged`: its actions now."""

    period: Literal["Day", "Month"]
    limit: float
    spent: float
    forecast: float
    percent: int
    ends_at: str
    engaged: list[str]


class CapAnswer(msgspec.Struct, kw_only=True):
    """A cap of a Calendar: resource → its limit now, and what it counts of nodes."""

    name: str
    limits: dict[str, str]
    used: dict[str, str]
    periods: list[CapPeriodAnswer]


class StatusAnswer(JsonAnswer):
    """`fleetwright status -o json`. Null if it was not read: only `--cluster` reads commands, brakes, breakers and sweeps."""

    kind: Literal["Status"]
    now: str
    cluster: str | None
    cost: FleetCostAnswer
    pending_pods: list[str]
    node_pools: list[PoolStatusAnswer]
    foreign_nodes: int
    claims: list[ClaimStatusAnswer]
    commands: list[CommandStatusAnswer] | None
    proposals: list[ProposalAnswer] | None
    brakes: list[BrakeAnswer] | None
    breakers: list[BreakerAnswer] | None
    sweeps: SweepsAnswer | None
    prices: PricesAnswer
    groups: list[GroupAnswer] = []
    caps: list[CapAnswer] = []
    forecast: list[ForecastRampAnswer] = []


class UnreadableAnswer(msgspec.Struct, kw_only=True):
    """A cluster that could not be read, or an account and region if `cluster` is null; `role`: the assumed role."""

    cluster: str | None
    region: str | None
    role: str | None
    problem: str


class KillSwitchAnswer(msgspec.Struct, kw_only=True):
    """One kill switch before and after, and which actions it stops now; region, account and role under `--all`."""

    cluster: str
    parameter: str
    before: str
    after: str
    stops: list[str]
    region: str | None = None
    account: str | None = None
    role: str | None = None


class KillSwitchChangeAnswer(JsonAnswer):
    """`fleetwright pause -o json` and `fleetwright resume -o json`."""

    kind: Literal["KillSwitchChange"]
    wanted: str
    switches: list[KillSwitchAnswer]
    unreadable: list[UnreadableAnswer]
