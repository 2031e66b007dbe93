"""The answers about recorded periods."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


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
