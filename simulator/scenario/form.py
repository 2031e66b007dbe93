"""A Scenario as written: its fields, and the forms of its steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final, Literal

import msgspec

from simulator.invocation import calls
from simulator.scenario.capacity_reservation import CapacityReservation


class _Form(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Common form: camelCase on the wire, and an unknown field is an error."""


class Reference(_Form, frozen=True, kw_only=True):
    """An object by name."""

    kind: str
    name: str
    namespace: str = "default"
    api_version: str = ""


class Scale(_Form, frozen=True, kw_only=True):
    """A workload's new number of replicas."""

    kind: str
    name: str
    replicas: int
    namespace: str = "default"


class Capacity(_Form, frozen=True, kw_only=True):
    """How many instances may still be launched of each selected pool; null removes the bound."""

    available: int | None
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None


class Price(_Form, frozen=True, kw_only=True):
    """Multiply the current prices of the selected pools."""

    factor: float
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None


class Ami(_Form, frozen=True, kw_only=True):
    """What an alias resolves to from now on."""

    alias: str
    id: str


class Subnet(_Form, frozen=True, kw_only=True):
    """How many addresses are left in a zone's subnet of this number; it is created if there is none."""

    zone: str
    number: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    free_addresses: int


class Interrupt(_Form, frozen=True, kw_only=True):
    """Which instances get notice, or fail their status check: a share of them (of a zone), or one node's.

    Notices of `spot` and `rebalance` come to spot instances alone.
    """

    zone: str | None = None
    node: str | None = None
    fraction: float = 1.0
    kind: str = "spot"


class DeleteShare(_Form, frozen=True, kw_only=True):
    """A user deletes this share of the Nodes or NodeClaims."""

    fraction: float = 1.0


class Boot(_Form, frozen=True, kw_only=True):
    """Boot problems of the next instances: `fail` of them never join, or `count` of them take `seconds`.

    Attributes:
        end_reason: EC2 ends `count` of them soon after their launch for this reason, a code of its `StateReason`.
    """

    fail: int = 0
    end_reason: str = ""
    seconds: float | None = None
    count: int = 1


class Fault(_Form, frozen=True, kw_only=True):
    """A fault of calls: of those of `function` if it is named, and only the `nth` of them from then on if that is."""

    call: str
    kind: str
    count: int | None = None
    seconds: float = 0.0
    lasting: timedelta | None = msgspec.field(name="for", default=None)
    function: str = ""
    nth: int | None = None
    code: str = ""
    form: str = msgspec.field(name="as", default=calls.EXCEPTION)
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None


class MessageFault(_Form, frozen=True, kw_only=True):
    """A fault of the next messages to functions."""

    kind: str
    count: int = 1
    seconds: float = 90.0


class Brake(_Form, frozen=True, kw_only=True):
    """How an operator brakes the functions; omitted fields stay unchanged.

    Attributes:
        mode: Text of the kill switch's parameter.
        alarm: State of the CloudWatch alarm that pauses disruption.
        shifted_zones: The zones that traffic is shifted away from, all of them.
    """

    mode: str | None = None
    alarm: Literal["OK", "ALARM", "INSUFFICIENT_DATA"] | None = None
    shifted_zones: list[str] | None = None


class TableStep(_Form, frozen=True, kw_only=True):
    """The table loses its newest items, this many or `all`; or it is restored to its state of this long ago."""

    lose: int | str | None = None
    restore: timedelta | None = None


class Step(_Form, frozen=True, kw_only=True):
    """One step: when, and exactly one thing that happens. `apply` holds objects, read from files where files were named."""

    at: timedelta
    apply: list[Any] | None = None
    scale: Scale | None = None
    delete: list[Reference] | None = None
    delete_nodes: DeleteShare | None = None
    delete_node_claims: DeleteShare | None = None
    capacity: Capacity | None = None
    price: Price | None = None
    ami: Ami | None = None
    subnet: Subnet | None = None
    interrupt: Interrupt | None = None
    capacity_reservation: CapacityReservation | None = None
    boot: Boot | None = None
    fault: Fault | None = None
    events: MessageFault | None = None
    table: TableStep | None = None
    brake: Brake | None = None


ACTIONS: Final = tuple(name for name in Step.__struct_fields__ if name != "at")


class Trace(_Form, frozen=True, kw_only=True):
    """Pods of a recorded cluster; `since` and `until` are in the trace's own seconds."""

    format: str
    file: str
    since: int = msgspec.field(name="from", default=0)
    until: int | None = msgspec.field(name="to", default=None)
    namespace: str = "default"


class Spec(_Form, frozen=True, kw_only=True):
    """A Scenario's `spec`."""

    duration: timedelta
    start: str = "2026-11-20T00:00:00Z"
    seed: int = 1
    catalog: str | None = None
    node_boot_seconds: float = 45.0
    manifests: list[str] = []
    trace: Trace | None = None
    feature_gates: dict[str, bool] = {}
    settings: dict[str, str | int | bool] = {}
    capacity_reservations: list[CapacityReservation] = []
    vcpu_quotas: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    steps: list[Step] = []
