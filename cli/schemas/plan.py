"""The answer of `plan`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from cli.schemas.answer import JsonAnswer, PricesAnswer


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
