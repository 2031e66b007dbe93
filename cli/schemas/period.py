"""The answers about recorded periods."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


class PlayAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """A played period: dollars, node hours, launches, moves; `podsOnNewNodes` waited for a boot."""

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


class PlayDifferenceAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What the change does; `share` of the dollars before, null where these are none."""

    dollars: float
    monthly: float
    share: float | None
    moves: int
    pods_lost: list[str]
    pods_gained: list[str]


class RecordedAnswer(msgspec.Struct, kw_only=True):
    """What the real nodes cost at the looks' prices."""

    dollars: float


class BaselinesAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What was not spent: the same instances on demand, and every node kept (played). Null where it is not known."""

    on_demand: float | None
    without_consolidation: float | None


class MinimumAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """The proven minimum of the fleet in so many hours, and what was spent in them."""

    dollars: float
    spent_meanwhile: float
    hours: float


class ConsolidationAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Commands that came about, what they save an hour when they are done, and the moves that paid for it."""

    commands: int
    pods_moved: int
    hourly_saved: float
    hourly_saved_per_move: float | None


class IdleObjectAnswer(msgspec.Struct, kw_only=True):
    """The sentence that names the object, and the idle dollars of the nodes that it kept."""

    message: str
    dollars: float


class IdleCauseAnswer(msgspec.Struct, kw_only=True):
    """Idle dollars of nodes that stayed for a reason."""

    reason: str
    dollars: float
    objects: list[IdleObjectAnswer]


class IdleAnswer(msgspec.Struct, kw_only=True):
    """Dollars of room that nobody requested, and what kept the nodes."""

    dollars: float
    causes: list[IdleCauseAnswer]


class ReportAnswer(JsonAnswer):
    """`fleetwright report -o json`. Each table of `by` sums to `dollars`; of these, commitments cover `covered`.

    `covered` is null where no commitment is known.
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
    """`fleetwright what-if -o json`. `modelError`: how far the play of what was asked for then is from the recorded dollars."""

    kind: Literal["WhatIf"]
    from_: str = msgspec.field(name="from")
    to: str
    looks: int
    recorded: RecordedAnswer
    model_error: float | None
    before: PlayAnswer
    after: PlayAnswer
    difference: PlayDifferenceAnswer
    assumptions: list[str]


class WaitsAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """How long the pods that came in the period waited, in seconds; `long`: more than two minutes."""

    pods: int
    p50: float | None
    max: float | None
    long: int
    without_place: list[str]


class RecordedFleetAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What the other provisioner did; `otherEvictions`: pods whose node went without its choice being told."""

    dollars: float
    monthly: float
    node_hours: float
    nodes_launched: int
    nodes_at_end: int
    evictions: int
    other_evictions: int
    waits: WaitsAnswer


class ShadowFleetAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """What we would have done, played forward."""

    dollars: float
    monthly: float
    node_hours: float
    nodes_launched: int
    nodes_at_end: int
    evictions: int
    commands: dict[str, int]
    waits: WaitsAnswer


class ShadowDifferenceAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Ours less theirs; `share` of their dollars, null where these are none."""

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
    """Something in which the recorded fleet did better; `pods`: some of those concerned."""

    what: Literal["dollars", "evictions", "dearerHours", "waits", "withoutPlace", "violations"]
    message: str
    pods: list[str]


class ShadowReportAnswer(JsonAnswer):
    """`fleetwright shadow report -o json`. `worse` is empty if we would have been better or equal in all that is compared."""

    kind: Literal["ShadowReport"]
    from_: str = msgspec.field(name="from")
    to: str
    snapshots: int
    recorded: RecordedFleetAnswer
    played: ShadowFleetAnswer
    difference: ShadowDifferenceAnswer
    violations: list[ViolationAnswer]
    proven_minimum: MinimumAnswer | None
    boot_seconds: float
    worse: list[WorseAnswer]
    assumptions: list[str]
