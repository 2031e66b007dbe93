"""One instance of the embedded account, its states and codes."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from core import labels
from simulator.aws.exchange import Pool

PENDING: Final = "pending"
RUNNING: Final = "running"
SHUTTING_DOWN: Final = "shutting-down"
TERMINATED: Final = "terminated"
STATE_CODES: Final = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48}
BY_CALLER: Final = "Client.UserInitiatedShutdown"
TAKEN_BACK: Final = "Server.SpotInstanceTermination"
RETIRED: Final = "Server.ScheduledStop"
"""Codes of EC2's `StateReason`."""


class Subnet(msgspec.Struct):
    """One subnet; `free` counts the free addresses, `taken` has the addresses of instances."""

    id: str
    zone: str
    network: str
    free: int
    handed_out: int = 0
    taken: set[str] = set()


class Instance(msgspec.Struct, kw_only=True):
    """One instance.

    Attributes:
        price: Nano-dollars per hour at its launch.
        user_data: As in its launch template, base64.
        reservation: Id of the capacity reservation that it was launched into and still is in; empty for none.
        placement_group, partition: Id of the placement group and the number of its partition; empty and 0 for none.
        market: The market type of its launch: `capacity-block` among others; empty for the usual ones.
        end_reason: Why it ended, as in `StateReason`; empty while it runs.
        impaired_since: Since when it fails its status check; None while it is well.
    """

    id: str
    pool: Pool
    image_id: str
    subnet: Subnet
    private_ip: str
    launched_at: datetime
    price: int
    token: str
    tags: dict[str, str]
    user_data: str = ""
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    state: str = PENDING
    ended_at: datetime | None = None
    end_reason: str = ""
    impaired_since: datetime | None = None
    reservation: str = ""
    market: str = ""
    placement_group: str = ""
    partition: int = 0

    @property
    def is_alive(self) -> bool:
        """Return whether the instance is running or pending."""
        return self.state in (PENDING, RUNNING)

    @property
    def node_name(self) -> str:
        """Its private DNS name, under which its kubelet registers."""
        return f"ip-{self.private_ip.replace('.', '-')}.ec2.internal"

    @property
    def provider_id(self) -> str:
        """Return its providerID in Kubernetes."""
        return f"aws:///{self.pool.zone}/{self.id}"


def as_of(instance: Instance, moment: datetime) -> Instance:
    """The instance before it ended, where it had not ended then; tags come with the launch and stay."""
    if instance.ended_at is None or instance.ended_at <= moment:
        return instance
    return msgspec.structs.replace(instance, state=RUNNING, ended_at=None, end_reason="")


def is_spot(instance: Instance) -> bool:
    """Return whether EC2 may reclaim it: spot, or in an interruptible reservation."""
    return instance.pool.capacity_type == labels.SPOT or instance.market == "interruptible-capacity-reservation"
