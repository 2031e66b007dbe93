"""The installation in the simulated account: its names, its settings, and EKS's description of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue import document
from core.catalogue.document import Shape
from core.errors import InvalidInputError
from core.model.catalogue import InstanceType, Offering
from core.model.values import quantity
from installation import wiring
from installation.settings import Settings
from simulator.aws.queues import AwsError
from simulator.clock import VirtualClock
from simulator.market.embedded import builtin_catalogue, builtin_market, builtin_shapes
from simulator.market.node_facts import NodeFacts, recorded_facts, stated_facts
from simulator.record import Recorder

# The operators' brakes: the kill switch's parameter, CloudWatch alarms and zonal shifts.


KILL_SWITCH: Final = "/fleetwright/simulated/mode"
PAUSING_ALARM: Final = "checkout-errors"
SHIFTS_FOR: Final = timedelta(hours=12)
Responder = Callable[[dict[str, Any]], dict[str, Any]]


class OperatorBrakes:
    """Answers the functions' calls that read operators' brakes.

    Attributes:
        mode: Text of the kill switch's parameter.
        alarm: State of the alarm that pauses disruption.
        shifted_zones: Names of the zones that traffic is shifted away from.
    """

    def __init__(self, clock: VirtualClock, other_parameters: Responder, zone_ids: Mapping[str, str]) -> None:
        self._clock = clock
        self._other_parameters = other_parameters
        self._zone_ids = zone_ids
        self.mode = "run"
        self.alarm = "OK"
        self.shifted_zones: tuple[str, ...] = ()

    def get_parameter(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ssm:GetParameter."""
        if request["Name"] != KILL_SWITCH:
            return self._other_parameters(request)
        return {"Parameter": {"Name": KILL_SWITCH, "Type": "String", "Value": self.mode}}

    def describe_alarms(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer cloudwatch:DescribeAlarms."""
        names = [name for name in request["AlarmNames"] if name == PAUSING_ALARM]
        return {"MetricAlarms": [{"AlarmName": name, "StateValue": self.alarm} for name in names]}

    def get_managed_resource(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer arc-zonal-shift:GetManagedResource."""
        now = self._clock.now()
        shifts = [
            {
                "zonalShiftId": f"shift-{zone}",
                "resourceIdentifier": request["resourceIdentifier"],
                "awayFrom": self._zone_ids.get(zone, zone),
                "appliedStatus": "APPLIED",
                "startTime": now,
                "expiryTime": now + SHIFTS_FOR,
                "comment": "by the scenario",
            }
            for zone in self.shifted_zones
        ]
        return {"arn": request["resourceIdentifier"], "appliedWeights": {}, "zonalShifts": shifts, "autoshifts": []}


# The embedded region's market: prices and capacity of every offering, as the scenario's steps change them.


NO_CAPACITY: Final = "InsufficientInstanceCapacity"


class Pool(msgspec.Struct, frozen=True, order=True):
    """One pool of capacity: what EC2 sells under one price."""

    instance_type: str
    zone: str
    capacity_type: str


class Selection(msgspec.Struct, frozen=True):
    """The pools that a step concerns; an omitted field (None) matches all."""

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None

    def matches(self, pool: Pool) -> bool:
        """Whether the step concerns the pool."""
        return (
            self.instance_type in (None, pool.instance_type)
            and self.zone in (None, pool.zone)
            and self.capacity_type in (None, pool.capacity_type)
        )


class _Statement(msgspec.Struct):
    """How many more instances each selected pool may launch, None for no bound."""

    selection: Selection
    available: int | None
    launched: dict[Pool, int] = {}


class Exchange:
    """Sells instances by pool. Reserved capacity is paid for already (`simulator.aws.ec2.instances`).

    Attributes:
        price_changes: How often prices changed so far.
    """

    def __init__(self, recorder: Recorder, types: Iterable[InstanceType]) -> None:
        self._recorder = recorder
        self._types = {t.name: t for t in sorted(types, key=lambda t: t.name)}
        self._offerings = {
            Pool(t.name, offering.zone, offering.capacity_type): offering
            for t in self._types.values()
            for offering in t.offerings
            if offering.capacity_type != labels.RESERVED
        }
        self._pools = tuple(sorted(self._offerings))
        self._prices = {pool: offering.price for pool, offering in self._offerings.items()}
        self._statements: list[_Statement] = []
        self.price_changes = 0

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool, in order."""
        return self._pools

    def instance_type(self, name: str) -> InstanceType | None:
        """The type of this name, None where it is not sold here."""
        return self._types.get(name)

    def smallest(self) -> dict[str, int]:
        """Resource → the least that any type has of it; each is one node."""
        types = self._types.values()
        names = sorted({name for instance_type in types for name in instance_type.capacity})
        return {name: min(t.capacity.get(name, 0) for t in types) for name in names} | {quantity.NODES: 1}

    def architecture(self, name: str) -> str:
        """The type's architecture under Kubernetes' name; empty where unknown."""
        instance_type = self._types.get(name)
        values = instance_type.labels.get(labels.ARCH, ()) if instance_type is not None else ()
        return values[0] if values else ""

    def price(self, pool: Pool) -> int | None:
        """Nano-dollars per hour now, None where it is not sold."""
        return self._prices.get(pool)

    def present_types(self) -> tuple[InstanceType, ...]:
        """Return every type with its offerings at current prices; their capacity shows only at a launch."""
        return tuple(msgspec.structs.replace(t, offerings=self._present(t)) for t in self._types.values())

    def refuses(self, pool: Pool) -> str:
        """The EC2 error code with which a launch is refused now, empty where it is not."""
        offering = self._offerings.get(pool)
        if offering is None:
            return "Unsupported"
        if not offering.available:
            return NO_CAPACITY
        statement = self._holding(pool)
        if statement is None or statement.available is None:
            return ""
        return NO_CAPACITY if statement.launched.get(pool, 0) >= statement.available else ""

    def left(self, pool: Pool) -> int | None:
        """How many more instances of a pool may be launched, None for any number."""
        statement = self._holding(pool)
        if self.refuses(pool) or statement is None or statement.available is None:
            return 0 if self.refuses(pool) else None
        return statement.available - statement.launched.get(pool, 0)

    def take(self, pool: Pool) -> None:
        """Count one instance launched from this pool."""
        statement = self._holding(pool)
        if statement is not None:
            statement.launched[pool] = statement.launched.get(pool, 0) + 1

    def state_capacity(self, selection: Selection, available: int | None) -> None:
        """Set how many instances of each named pool may be launched from now on; None: any number."""
        self._statements.append(_Statement(selection, available))
        self._recorder.emit(
            "capacityChanged",
            instanceType=selection.instance_type,
            zone=selection.zone,
            capacityType=selection.capacity_type,
            available=available,
        )

    def scale_prices(self, selection: Selection, factor: Fraction) -> None:
        """Multiply the current prices of the selected pools."""
        self.price_changes += 1
        for pool, price in self._prices.items():
            if selection.matches(pool):
                self._prices[pool] = round(price * factor)

    def _holding(self, pool: Pool) -> _Statement | None:
        return next((s for s in reversed(self._statements) if s.selection.matches(pool)), None)

    def _present(self, instance_type: InstanceType) -> tuple[Offering, ...]:
        """Leave out reserved offerings: an EC2NodeClass must select a reservation."""

        def now(offering: Offering) -> Offering:
            price = self._prices.get(Pool(instance_type.name, offering.zone, offering.capacity_type))
            return offering if price is None else msgspec.structs.replace(offering, price=price)

        return tuple(now(offering) for offering in instance_type.offerings if not offering.reservation_id)


# A region's offerings at the start of a scenario: the built-in us-east-1, or a catalogue of the scenario's own.


NAME = "us-east-1"


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """Instance types with their offerings.

    Attributes:
        zone_ids: Zone ids by zone name, as far as known.
        shapes: EC2's own descriptions of the types; empty for a catalogue of the scenario's own, which has none.
        vcpu_quotas: Code of an EC2 quota → vCPUs that the account may run; others have no limit.
        is_recorded: Whether nodes have the sizes recorded from EC2's types; otherwise they have the sizes that the types state.
    """

    types: tuple[InstanceType, ...]
    zone_ids: dict[str, str] = {}
    shapes: tuple[Shape, ...] = ()
    name: str = NAME
    is_recorded: bool = False
    vcpu_quotas: dict[str, int] = {}

    @property
    def zones(self) -> tuple[str, ...]:
        """Every zone in which something is sold."""
        return tuple(sorted({offering.zone for instance_type in self.types for offering in instance_type.offerings}))

    def node_facts(self) -> dict[str, NodeFacts]:
        """Return instance type → the facts of its nodes."""
        facts_of = recorded_facts if self.is_recorded else stated_facts
        return {instance_type.name: facts_of(instance_type) for instance_type in self.types}


def builtin_region() -> Region:
    """us-east-1 as it is built in."""
    return Region(
        types=builtin_catalogue(NAME).default,
        zone_ids=dict(builtin_market(NAME).zone_ids),
        shapes=builtin_shapes(),
        is_recorded=True,
    )


def read_region(catalogue: Path | None) -> Region:
    """The region that a scenario plays in.

    Raises:
        InvalidInputError: If its catalogue file cannot be read; names it.
    """
    if catalogue is None:
        return builtin_region()
    try:
        raw = catalogue.read_bytes()
        return Region(types=document.decode(raw).default, vcpu_quotas=document.vcpu_quotas(raw))
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror or error}", subject=str(catalogue)) from error
    except InvalidInputError as error:
        raise InvalidInputError(str(error), subject=str(catalogue)) from error


ACCOUNT_ID: Final = "123456789012"
CLUSTER: Final = "fleetwright"
NODE_ROLE: Final = "FleetwrightNodeRole"
KUBERNETES_VERSION: Final = "1.32"

TABLE: Final = "fleetwright"
BUCKET: Final = "fleetwright"
GROUP: Final = "fleetwright"
TOPIC: Final = "fleetwright"


def describe_cluster(request: dict[str, Any]) -> dict[str, Any]:
    """Answer `eks:DescribeCluster`."""
    if request["name"] != CLUSTER:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {request['name']}.", 404)
    return {
        "cluster": {
            "name": CLUSTER,
            "arn": f"arn:aws:eks:us-east-1:{ACCOUNT_ID}:cluster/{CLUSTER}",
            "version": KUBERNETES_VERSION,
            "endpoint": "https://cluster.simulated.invalid",
            "certificateAuthority": {"data": "c2ltdWxhdGVk"},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
            "status": "ACTIVE",
        }
    }


def settings_in(region: Region, urls: Mapping[str, str], topic_arn: str, machine_arn: str) -> Settings:
    """Return the functions' settings for an account of this region. `urls`: the queues', by name."""
    return Settings(
        bind_pods=True,
        cluster_name=CLUSTER,
        table_name=TABLE,
        bucket_name=BUCKET,
        wake_up_queue_url=urls[wiring.WAKE_UPS.name],
        work_queue_url=urls[wiring.WORK.name],
        look_queue_url=urls[wiring.RUN_REQUESTS.name],
        schedule_group=GROUP,
        schedule_role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/fleetwright-schedules",
        kill_switch_parameter=KILL_SWITCH,
        pausing_alarms=PAUSING_ALARM,
        zonal_shift_cluster_arn=f"arn:aws:eks:{region.name}:{ACCOUNT_ID}:cluster/{CLUSTER}",
        surge_restarts=True,
        keep_ledger=False,
        approval_topic_arn=topic_arn,
        parts_machine_arn=machine_arn,
        disrupt_function_arn=f"arn:aws:lambda:{region.name}:{ACCOUNT_ID}:function:disrupt",
    )
