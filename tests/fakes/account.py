"""An embedded AWS account in virtual time, for tests that call it as functions do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from core.model.catalogue import InstanceType
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
        clock: VirtualClock | None = None,
        bus: Bus = lambda *_: None,
        spend: Callable[[timedelta], None] | None = None,
        vcpu_quotas: Mapping[str, int] | None = None,
        silences: Silences | None = None,
        validates: bool = True,
    ) -> None:
        self.clock = clock or VirtualClock(START)
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
        region = Region(types=tuple(types) or (a_type("m5.large"),), vcpu_quotas=dict(vcpu_quotas or {}))
        self.account = Account(around, region, validates=validates)

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
