"""Describes, tags and terminates this cluster's instances in EC2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from adapters.aws.service import AwsService
from adapters.ports import ConflictError, Instance, JsonObject, NotFoundError
from core import labels
from core.catalogue.node_class import CAPACITY_BLOCK, DEFAULT_RESERVATION
from core.launch.reservation_target import INTERRUPTIBLE, ONLY_RESERVED
from core.launch.template import tag_list
from core.model.values.instance_end import InstanceEnd

_NOT_TERMINATED: Final = ("pending", "running", "shutting-down", "stopped", "stopping")
_ALIVE: Final = ("pending", "running")
_IDS_PER_CALL: Final = 500
_FILTER_VALUES_MAX: Final = 200
"""EC2's limit on ids per call."""


class Instances:
    """Describes, tags and terminates."""

    def __init__(self, ec2: AwsService, *, cluster: str) -> None:
        self._ec2 = ec2
        self._cluster = cluster

    def all(self) -> tuple[Instance, ...]:
        """Return every instance of ours that is not terminated, by id. Raises PortError."""
        return _in_order(self._described(self._ours()))

    def some(self, ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return those of these instances that are not terminated, by id; unknown ones are left out. Raises PortError.

        The ids come from our rows, so tags are not checked: an instance whose tags were removed still runs and costs money.
        """
        wanted = sorted(set(ids))
        batches = (wanted[start : start + _FILTER_VALUES_MAX] for start in range(0, len(wanted), _FILTER_VALUES_MAX))
        return _in_order(i for batch in batches for i in self._described([{"Name": "instance-id", "Values": batch}]))

    def of_claim(self, claim: str) -> tuple[Instance, ...]:
        """Return the living instances that were launched under a claim's name, by id. Raises PortError."""
        found = self._described([*self._ours(), {"Name": f"tag:{labels.NODECLAIM}", "Values": [claim]}])
        return tuple(instance for instance in _in_order(found) if instance.is_alive)

    def end_of(self, instance_id: str) -> InstanceEnd | None:
        """Return why one instance ended or was stopped, None where EC2 does not know it any more.

        Raises:
            ConflictError: If it runs or is about to, as far as EC2 knows.
        """
        wanted = [{"Name": "instance-id", "Values": [instance_id]}]
        for reservation in self._ec2.items("DescribeInstances", "Reservations", Filters=wanted):
            for described in reservation.get("Instances", ()):
                if described["State"]["Name"] in _ALIVE:
                    raise ConflictError("ec2:DescribeInstances", f"instance {instance_id} has not ended yet")
                return _end(described.get("StateReason") or {})
        return None

    def in_reservations(self, reservation_ids: Sequence[str]) -> dict[str, int]:
        """Return reservation id → how many living instances of ours it holds. Raises PortError."""
        wanted = [*self._ours(), {"Name": "capacity-reservation-id", "Values": sorted(reservation_ids)}]
        counts = Counter(found.reservation_id for found in self._described(wanted) if found.is_alive)
        return {identity: counts[identity] for identity in sorted(reservation_ids)}

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of one instance. Raises NotFoundError, PortError."""
        self._ec2.call("CreateTags", Resources=[instance_id], Tags=tag_list(dict(tags)))

    def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate the instances.

        EC2 refuses a whole call for one unknown id; then each id is tried alone. Raises PortError.
        """
        ids = sorted(set(instance_ids))
        for start in range(0, len(ids), _IDS_PER_CALL):
            batch = ids[start : start + _IDS_PER_CALL]
            try:
                self._ec2.call("TerminateInstances", InstanceIds=batch)
            except NotFoundError:
                if len(batch) > 1:
                    self._terminate_one_by_one(batch)

    def _terminate_one_by_one(self, ids: Sequence[str]) -> None:
        for instance_id in ids:
            try:
                self._ec2.call("TerminateInstances", InstanceIds=[instance_id])
            except NotFoundError:
                continue

    def _ours(self) -> list[JsonObject]:
        return [
            {"Name": f"tag:{labels.CLUSTER_TAG}", "Values": [self._cluster]},
            {"Name": "tag-key", "Values": [labels.NODEPOOL]},
        ]

    def _described(self, more: Sequence[JsonObject]) -> Iterator[Instance]:
        filters = [{"Name": "instance-state-name", "Values": list(_NOT_TERMINATED)}, *more]
        for reservation in self._ec2.items("DescribeInstances", "Reservations", Filters=filters, MaxResults=1000):
            yield from (_instance(described) for described in reservation.get("Instances", ()))


def efa_interfaces(interfaces: Iterable[Mapping[str, Any]]) -> int:
    """Return how many of these network interfaces carry EFA traffic, exclusively or in addition to their own."""
    return sum(str(interface.get("InterfaceType")) in ("efa", "efa-only") for interface in interfaces)


def _in_order(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    return tuple(sorted(instances, key=lambda instance: instance.instance_id))


def _end(reason: Mapping[str, Any]) -> InstanceEnd:
    code = str(reason.get("Code") or "")
    return InstanceEnd(code, str(reason.get("Message") or "").removeprefix(f"{code}: "))


def _instance(described: Mapping[str, Any]) -> Instance:
    return Instance(
        instance_id=described["InstanceId"],
        instance_type=described["InstanceType"],
        zone=described["Placement"]["AvailabilityZone"],
        capacity_type=_capacity_type(described),
        state=described["State"]["Name"],
        launched_at=described["LaunchTime"],
        private_dns_name=described.get("PrivateDnsName") or "",
        image_id=described.get("ImageId") or "",
        efa_interfaces=efa_interfaces(described.get("NetworkInterfaces") or ()),
        subnet_id=described.get("SubnetId") or "",
        placement_group=described["Placement"].get("GroupId") or "",
        partition=described["Placement"].get("PartitionNumber") or 0,
        security_groups=tuple(sorted(group["GroupId"] for group in described.get("SecurityGroups") or ())),
        tags={tag["Key"]: tag["Value"] for tag in described.get("Tags") or ()},
        **_reservation(described),
    )


def _capacity_type(described: Mapping[str, Any]) -> str:
    if _is_spot(described):
        return labels.SPOT
    return labels.RESERVED if _is_reserved(described) else labels.ON_DEMAND


def _is_reserved(described: Mapping[str, Any]) -> bool:
    """Whether it was launched into a reservation and still is in one; EC2 may put others into an open one (Karpenter)."""
    asked = described.get("CapacityReservationSpecification") or {}
    return bool(described.get("CapacityReservationId")) and asked.get("CapacityReservationPreference") == ONLY_RESERVED


def _reservation(described: Mapping[str, Any]) -> JsonObject:
    if not _is_reserved(described):
        return {}
    lifecycle = described.get("InstanceLifecycle")
    return {
        "reservation_id": described["CapacityReservationId"],
        "reservation_type": CAPACITY_BLOCK if lifecycle == CAPACITY_BLOCK else DEFAULT_RESERVATION,
        "interruptible": lifecycle == INTERRUPTIBLE,
    }


def _is_spot(described: Mapping[str, Any]) -> bool:
    return bool(described.get("SpotInstanceRequestId")) or described.get("InstanceLifecycle") == "spot"
