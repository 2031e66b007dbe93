"""An embedded AWS account in virtual time, for tests that call it as functions do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from core.model.catalogue import InstanceType
from simulator.aws.account import Account, Surroundings
from simulator.aws.ec2.instances import Bus
from simulator.aws.installation import Region
from simulator.clock import VirtualClock
from simulator.draws import Silences
from simulator.invocation.faults import Faults, MessageFaults
from simulator.record import Event, Recorder
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
