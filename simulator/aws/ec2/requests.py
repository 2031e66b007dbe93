"""EC2's calls about instances, and the rates at which it takes requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.model.values import quantity
from simulator.aws.ec2.instances import RUNNING, STATE_CODES, Instance, Instances, no_instance
from simulator.aws.ec2.templates import filtered, of_fields, of_tags, paged, tag_list
from simulator.aws.installation import NO_CAPACITY, Exchange
from simulator.aws.queues import AwsError
from simulator.clock import VirtualClock
from simulator.invocation.faults import Call
from simulator.record import Recorder

_PAGE: Final = 1000
_FIELDS: Final[Mapping[str, Callable[[Instance], str]]] = {
    "instance-state-name": lambda instance: instance.state,
    "instance-id": lambda instance: instance.id,
    "instance-type": lambda instance: instance.pool.instance_type,
    "availability-zone": lambda instance: instance.pool.zone,
    "subnet-id": lambda instance: instance.subnet.id,
    "private-dns-name": lambda instance: instance.node_name,
    "private-ip-address": lambda instance: instance.private_ip,
    "client-token": lambda instance: instance.token,
    "image-id": lambda instance: instance.image_id,
    "capacity-reservation-id": lambda instance: instance.reservation,
    "iam-instance-profile.arn": lambda instance: instance.instance_profile,
    "instance-lifecycle": lambda instance: "spot" if instance.pool.capacity_type == labels.SPOT else "",
}
"""Filter name → the instance's value to compare."""


class InstanceCalls:
    """Answers the calls that concern instances.

    Args:
        view: Returns the instances with which DescribeInstances answers, which is eventually consistent; None: as they are.
        take_terminations: Takes tokens for instances that are to be terminated. Raises AwsError.
    """

    def __init__(
        self,
        instances: Instances,
        exchange: Exchange,
        vpc_id: str,
        view: Callable[[], Mapping[str, Instance]] | None = None,
        take_terminations: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._take_terminations = take_terminations
        self._instances = instances
        self._exchange = exchange
        self._vpc_id = vpc_id
        self._view = view or (lambda: instances.seen(timedelta(0)))

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstances.

        Raises:
            AwsError: If an id is unknown or EC2 has no such filter.
        """
        ids = request.get("InstanceIds") or []
        visible = self._view()
        instances: Iterable[Instance] = [_known(visible, i) for i in ids] if ids else visible.values()
        # Filter by id first: it leaves the fewest instances to the other filters.
        filters = sorted(request.get("Filters") or (), key=lambda wanted: wanted["Name"] != "instance-id")
        answer = paged("Instances", filtered(instances, filters, _values), request, _PAGE)
        reservations = [self._reservation(instance) for instance in answer.pop("Instances")]
        return {"Reservations": reservations, **answer}

    def describe_status(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstanceStatus. The check of the instance fails; the systems below are well."""
        ids = request.get("InstanceIds") or []
        running = [i for i in self._instances.all() if i.state == RUNNING and (not ids or i.id in ids)]
        statuses = filtered(running, request.get("Filters"), _checks)
        answer = paged("InstanceStatuses", statuses, request, _PAGE)
        return {**answer, "InstanceStatuses": [_status(instance) for instance in answer["InstanceStatuses"]]}

    def terminate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:TerminateInstances.

        Raises:
            AwsError: If one of the instances does not exist, or there are too few tokens; then none is terminated.
        """
        self._take_terminations(len(request["InstanceIds"]))
        before = {i: self._instances.get(i).state for i in request["InstanceIds"]}
        self._instances.terminate(request["InstanceIds"], "api")
        return {
            "TerminatingInstances": [
                {
                    "InstanceId": i,
                    "PreviousState": {"Code": STATE_CODES[state], "Name": state},
                    "CurrentState": _state(self._instances.get(i)),
                }
                for i, state in before.items()
            ]
        }

    def create_tags(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:CreateTags for instances. Their volumes and interfaces are not modelled; tags of these are accepted."""
        tags = {tag["Key"]: tag.get("Value", "") for tag in request["Tags"]}
        for resource in request["Resources"]:
            if resource.startswith("i-"):
                self._instances.tag(resource, tags)
        return {}

    def delete_tags(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DeleteTags for instances."""
        tags: dict[str, str | None] = {tag["Key"]: None for tag in request.get("Tags") or []}
        for resource in request["Resources"]:
            if resource.startswith("i-"):
                self._instances.tag(resource, tags)
        return {}

    def _reservation(self, instance: Instance) -> dict[str, Any]:
        groups = [{"GroupId": group, "GroupName": "fleetwright-nodes"} for group in instance.security_groups]
        described: dict[str, Any] = {
            "InstanceId": instance.id,
            "InstanceType": instance.pool.instance_type,
            "ImageId": instance.image_id,
            "State": _state(instance),
            "Placement": {"AvailabilityZone": instance.pool.zone, "Tenancy": "default"},
            "PrivateDnsName": instance.node_name,
            "PrivateIpAddress": instance.private_ip,
            "LaunchTime": instance.launched_at,
            "ClientToken": instance.token,
            "SubnetId": instance.subnet.id,
            "VpcId": self._vpc_id,
            "SecurityGroups": groups,
            "NetworkInterfaces": [
                {
                    "SubnetId": instance.subnet.id,
                    "PrivateIpAddress": instance.private_ip,
                    "Groups": groups,
                    "Attachment": {"DeviceIndex": 0, "Status": "attached"},
                }
            ],
            "Tags": tag_list(instance.tags),
            "CpuOptions": {"CoreCount": self._vcpus(instance), "ThreadsPerCore": 1},
        }
        if instance.instance_profile:
            described["IamInstanceProfile"] = {"Arn": instance.instance_profile}
        if instance.placement_group:
            described["Placement"]["GroupId"] = instance.placement_group
        if instance.partition:
            described["Placement"]["PartitionNumber"] = instance.partition
        if instance.reservation:
            described["CapacityReservationId"] = instance.reservation
            described["CapacityReservationSpecification"] = {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": instance.reservation},
            }
        if instance.market:
            described["InstanceLifecycle"] = instance.market
        if instance.pool.capacity_type == labels.SPOT:
            described["InstanceLifecycle"] = "spot"
            described["SpotInstanceRequestId"] = instance.id.replace("i-", "sir-", 1)
        described |= _end(instance)
        return {"ReservationId": instance.id.replace("i-", "r-", 1), "Instances": [described]}

    def _vcpus(self, instance: Instance) -> int:
        sold = self._exchange.instance_type(instance.pool.instance_type)
        return 0 if sold is None else sold.capacity.get(quantity.CPU, 0) // 1000


def _known(instances: Mapping[str, Instance], instance_id: str) -> Instance:
    if instance_id not in instances:
        raise no_instance(instance_id)
    return instances[instance_id]


def _end(instance: Instance) -> dict[str, Any]:
    if not instance.end_reason:
        return {}
    message = f"{instance.end_reason}: embedded in a scenario"
    return {"StateReason": {"Code": instance.end_reason, "Message": message}}


def _state(instance: Instance) -> dict[str, Any]:
    return {"Code": STATE_CODES[instance.state], "Name": instance.state}


def _checks(instance: Instance, name: str) -> tuple[str, ...]:
    checks = {"instance-status.status": _check(instance.impaired_since)["Status"], "system-status.status": "ok"}
    return of_fields(checks, name)


def _check(impaired_since: datetime | None) -> dict[str, Any]:
    if impaired_since is None:
        return {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    failed = {"Name": "reachability", "Status": "failed", "ImpairedSince": impaired_since}
    return {"Status": "impaired", "Details": [failed]}


def _status(instance: Instance) -> dict[str, Any]:
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.pool.zone,
        "InstanceState": _state(instance),
        "InstanceStatus": _check(instance.impaired_since),
        "SystemStatus": _check(None),
        "Events": [],
    }


def _values(instance: Instance, name: str) -> tuple[str, ...]:
    by_tag = of_tags(instance.tags, name)
    if by_tag is not None:
        return by_tag
    if name not in _FIELDS:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return (_FIELDS[name](instance),)


# EC2's request rates: a bucket of tokens for each operation of an account and region, refilled evenly.
#
# Source: "Request throttling for the Amazon EC2 API" in EC2's developer guide, the defaults of an account.


class Rate(msgspec.Struct, frozen=True):
    """Bucket size, and refilled requests per second."""

    burst: int
    per_second: float


LIMITED: Final = "RequestLimitExceeded"

READING: Final = Rate(100, 20)
WRITING: Final = Rate(50, 5)
_OWN: Final = {"ec2:CreateTags": Rate(100, 10), "ec2:TerminateInstances": Rate(100, 5)}


def rate_of(call: str) -> Rate | None:
    """The rate of a call, by its name (`ec2:CreateFleet`); None where EC2's rates do not apply."""
    if not call.startswith("ec2:"):
        return None
    return _OWN.get(call) or (READING if call.startswith("ec2:Describe") else WRITING)


class RequestRates:
    """The buckets of one account.

    Args:
        ceiling: What other programs leave of each bucket of requests; None: all.
        launched: The bucket of launched instances; None: launches take none (docs/engineering/aws-facts.md#instance-bucket).
        terminated: The bucket of terminated ones; None: terminations take none.
    """

    def __init__(
        self,
        clock: VirtualClock,
        ceiling: Rate | None = None,
        launched: Rate | None = None,
        terminated: Rate | None = None,
    ) -> None:
        self._clock = clock
        self._ceiling = ceiling
        self._launched = launched
        self._terminated = terminated
        self._left: dict[str, tuple[float, datetime]] = {}

    def take(self, call: str) -> None:
        """Take a token for the call.

        Raises:
            AwsError: If the bucket is empty.
        """
        rate = rate_of(call)
        if rate is not None and self._ceiling is not None:
            rate = Rate(min(rate.burst, self._ceiling.burst), min(rate.per_second, self._ceiling.per_second))
        if rate is not None and not self._takes(call, rate):
            raise AwsError(LIMITED, "Request limit exceeded.", 503)

    def takes_instance(self) -> bool:
        """Take a token for one instance that is to be launched; return whether there was one."""
        return self._launched is None or self._takes("launched instances", self._launched)

    def take_terminations(self, instances: int) -> None:
        """Take a token for each instance that is to be terminated.

        Raises:
            AwsError: If the bucket holds fewer; then it keeps them.
        """
        if self._terminated is not None and not self._takes("terminated instances", self._terminated, instances):
            raise AwsError(LIMITED, "Request limit exceeded.", 503)

    def _takes(self, name: str, rate: Rate, wanted: int = 1) -> bool:
        now = self._clock.now()
        tokens, since = self._left.get(name, (float(rate.burst), now))
        tokens = min(float(rate.burst), tokens + (now - since).total_seconds() * rate.per_second)
        self._left[name] = (tokens if tokens < wanted else tokens - wanted, now)
        return tokens >= wanted


# Records each write to EC2: the request and EC2's answer.


OK: Final = "ok"
REFUSED: Final = "refused"
DENIED: Final = "denied"
ERROR: Final = "error"

_WRITES: Final = ("Create", "Delete", "Terminate", "Run", "Modify")
_NO_CAPACITY: Final = frozenset(
    {
        NO_CAPACITY,
        "InsufficientFreeAddressesInSubnet",
        "InsufficientCidrBlocks",
        "SpotMaxPriceTooLow",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "ReservationCapacityExceeded",
    }
)
_TRY_AGAIN: Final = frozenset({LIMITED, "InternalError", "IdempotentParameterMismatch"})


class EC2Writes:
    """Listens to the wire."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def see(self, call: Call, outcome: dict[str, Any] | AwsError) -> None:
        """One attempt and its answer."""
        if call.service != "ec2" or not call.operation.startswith(_WRITES) or call.parameters.get("DryRun"):
            return
        outcome_name, code = (
            (_of_code(outcome.code), outcome.code) if isinstance(outcome, AwsError) else _of_answer(outcome)
        )
        self._recorder.emit("call", call=call.name, outcome=outcome_name, code=code)


def _of_answer(answer: dict[str, Any]) -> tuple[str, str]:
    """A fleet that launched nothing counts as failed, whatever its status."""
    errors = [error["ErrorCode"] for error in answer.get("Errors") or ()]
    if not errors or answer.get("Instances"):
        return OK, ""
    worst = next((code for code in errors if _of_code(code) == DENIED), errors[0])
    return _of_code(worst), worst


def _of_code(code: str) -> str:
    if code in _NO_CAPACITY:
        return REFUSED
    return ERROR if code in _TRY_AGAIN else DENIED
