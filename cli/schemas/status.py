"""The answers of `status`, `pause` and `resume`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer, PricesAnswer


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
