"""An embedded AWS account in virtual time, for tests that call it as functions do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from adapters.ports import Clock
from core.brakes import Brake, BrakeKind, EngagedBrakes
from core.breakers import Breaker
from core.model.catalogue import InstanceType
from core.model.values.quotas import QuotaReading
from installation.wiring import TABLE
from simulator.aws.account import Account, Surroundings
from simulator.aws.ec2.instances import Bus
from simulator.aws.installation import Region
from simulator.clock import VirtualClock
from simulator.invocation.faults import Faults, MessageFaults
from simulator.record import Event, Recorder
from simulator.step_forms import Silences
from tests.builders import a_type

START: Final = datetime(2026, 11, 20, tzinfo=UTC)


class FakeAccount:
    """The account with its clock, faults and record. Time that calls take passes on the clock."""

    def __init__(
        self,
        types: Iterable[InstanceType] = (),
        *,
        bus: Bus = lambda *_: None,
        spend: Callable[[timedelta], None] | None = None,
        vcpu_quotas: Mapping[str, int] | None = None,
        silences: Silences | None = None,
    ) -> None:
        self.clock = VirtualClock(START)
        self.events: list[Event] = []
        recorder = Recorder(self.clock)
        recorder.listen(self.events.append)
        self.faults = Faults(self.clock, recorder)
        around = Surroundings(
            clock=self.clock,
            recorder=recorder,
            faults=self.faults,
            message_faults=MessageFaults(self.clock, recorder),
            bus=bus,
            spend=spend or self.clock.spend,
            seed=1,
            silences=silences or Silences(),
        )
        self.account = Account(
            around, Region(types=tuple(types) or (a_type("m5.large"),), vcpu_quotas=dict(vcpu_quotas or {}))
        )

    @property
    def table(self) -> str:
        """The table's name."""
        return self.account.settings.table_name

    def client(self, service: str, **arguments: Any) -> Any:
        """A client as a function has it."""
        return self.account.session.client(service, **arguments)

    def named(self, event: str) -> list[dict[str, Any]]:
        """The fields of all events of this name."""
        return [found.fields for found in self.events if found.event == event]


# A store of quotas in memory.


class MemoryQuotas:
    """`adapters.ports.QuotaStore`."""

    def __init__(self, reading: QuotaReading | None = None) -> None:
        self.kept = reading

    def reading(self) -> QuotaReading | None:
        return self.kept

    def save(self, reading: QuotaReading) -> None:
        self.kept = reading


# Creates the table of the template on any DynamoDB endpoint.


def create_table(dynamodb: Any, name: str) -> None:
    """Create it with this client."""
    keys = (TABLE.partition_key, TABLE.sort_key)
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=True)],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    expiry = {"Enabled": True, "AttributeName": TABLE.expiry}
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)


# Brakes that a test engages and releases by hand, and breakers that count.


class FakeBrakes:
    """`Brakes`, `HeldBrakes` and `Breakers` of `adapters.brakes`: brakes in `held` and open breakers are engaged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[BrakeKind, str], Brake] = {}
        self._breakers: dict[str, Breaker] = {}

    def engaged(self) -> EngagedBrakes:
        opened = [breaker.brake(self._clock.now()) for _, breaker in sorted(self._breakers.items())]
        return EngagedBrakes((*self.held(), *(brake for brake in opened if brake is not None)))

    def forget_reading(self) -> None:
        """Every question is answered anew."""

    def held(self) -> tuple[Brake, ...]:
        return tuple(brake for _, brake in sorted(self._held.items()))

    def hold(self, brake: Brake, now: datetime) -> None:
        self._held[brake.kind, brake.node_pool] = brake

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        self._held.pop((kind, node_pool), None)

    def failed(self, node_pool: str, message: str, now: datetime) -> bool:
        before = self._breakers.get(node_pool, Breaker(node_pool=node_pool))
        after = self._breakers[node_pool] = before.after_failure(message, now)
        return after.openings > before.openings

    def joined(self, node_pool: str, now: datetime) -> bool:
        before = self._breakers.get(node_pool, Breaker(node_pool=node_pool))
        self._breakers[node_pool] = before.after_success()
        return before.brake(now) is not None

    def breakers(self) -> tuple[Breaker, ...]:
        return tuple(breaker for _, breaker in sorted(self._breakers.items()))

    def renew(self, node_pool: str, generations: str, now: datetime) -> None:
        before = self._breakers.get(node_pool, Breaker(node_pool=node_pool))
        self._breakers[node_pool] = before.at(generations)
