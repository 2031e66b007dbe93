"""EC2's instances and node classes, as controllers use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from adapters.ports.errors import RefusedOffering

if TYPE_CHECKING:  # most functions launch nothing
    from core.api.objects import JsonObject
    from core.model.launch_order import LaunchOrder
    from core.model.node_pool import NodePool
    from core.model.values.instance_end import InstanceEnd


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An EC2 instance that carries our cluster's tag.

    Attributes:
        state: EC2's state of the instance, such as running or terminated.
        reservation_id, reservation_type, interruptible: As in an offering; set for capacity type `reserved`.
        efa_interfaces: Network interfaces that carry EFA traffic; a type that supports them has none unless requested.
        placement_group, partition: Id of the placement group, and its partition; empty and 0 if there is none or EC2 has not
            reported it yet.
        security_groups: The ids of its interfaces' security groups.
    """

    instance_id: str
    instance_type: str
    zone: str
    capacity_type: str
    state: str
    launched_at: datetime
    reservation_id: str = ""
    reservation_type: str = ""
    interruptible: bool = False
    private_dns_name: str = ""
    image_id: str = ""
    efa_interfaces: int = 0
    subnet_id: str = ""
    placement_group: str = ""
    partition: int = 0
    security_groups: tuple[str, ...] = ()
    tags: dict[str, str] = {}

    @property
    def provider_id(self) -> str:
        """The instance's id in the form that a kubelet on EC2 reports."""
        return f"aws:///{self.zone}/{self.instance_id}"

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is about to."""
        return self.state in ("pending", "running")


class Impairment(msgspec.Struct, frozen=True, order=True):
    """An instance that fails one of EC2's own status checks. `check` is `system` (the host) or `instance` (its software)."""

    instance_id: str
    check: str
    since: datetime


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a launch: at least one instance, in the order of EC2's answer, and the offerings that were refused."""

    instances: tuple[Instance, ...]
    refused: tuple[RefusedOffering, ...] = ()


class CloudProvider(Protocol):
    """The EC2 operations on instances and node classes."""

    def launch(self, order: LaunchOrder) -> Launched:
        """Launch the ordered instances (CreateFleet, type instant), or some of them.

        Raises InsufficientCapacityError, LaunchDeniedError, TransientError; ConflictError if the token was used for another
        request that left no instance, so that a new token is needed.
        """
        ...

    def instances(self, ids: Sequence[str] = ()) -> tuple[Instance, ...]:
        """Return all instances of this cluster that are not terminated, by id; with `ids` only those (a cheaper call)."""
        ...

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        """Return why an instance ended or was stopped, None where EC2 does not know it any more.

        Raises ConflictError where it runs or is about to.
        """
        ...

    def impaired(self) -> tuple[Impairment, ...]:
        """Return the region's instances, of any owner, that fail a status check now and since when that is known; by id."""
        ...

    def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate the instances; no error for those already gone."""
        ...

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance. Raises NotFoundError."""
        ...

    def prune_templates(self) -> int:
        """Delete launch templates that have long been unused, and return how many: an account may have 5,000."""
        ...

    def prune_profiles(self, node_classes: Sequence[JsonObject]) -> int:
        """Delete our instance profiles that no instance and none of these classes, which are all, needs.

        Return how many.
        """
        ...

    def resolve(self, node_class: JsonObject, node_pools: Sequence[NodePool] = ()) -> JsonObject:
        """Return the status that the EC2NodeClass resolves to: subnets, securityGroups, amis, instanceProfile, conditions.

        `node_pools` are those of the class: their launches are validated with EC2.
        """
        ...

    def user_data_problem(self, node_class: JsonObject, node_pool: NodePool) -> str:
        """Return why EC2 would not accept the user data of the NodePool's nodes, empty if it would. Raises PortError."""
        ...
