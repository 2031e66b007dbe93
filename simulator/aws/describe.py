"""How the embedded account describes its instances: DescribeInstances with filters and pages, TerminateInstances, tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from core import labels
from simulator.aws.instances import STATE_CODES, Instance, Instances
from simulator.aws.wire import AwsError

_PAGE: Final = 1000


class InstanceCalls:
    """Answers the calls that concern instances."""

    def __init__(self, instances: Instances, vpc_id: str) -> None:
        self._instances = instances
        self._vpc_id = vpc_id

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstances.

        Raises:
            AwsError: If an id is unknown or a filter is none that EC2 has.
        """
        asked = request.get("InstanceIds") or []
        found: Iterable[Instance] = [self._instances.get(i) for i in asked] if asked else self._instances.all()
        for wanted in request.get("Filters") or []:
            found = [instance for instance in found if _matches(instance, wanted["Name"], wanted["Values"])]
        held, token = page(list(found), request, _PAGE)
        answer: dict[str, Any] = {"Reservations": [self._reservation(instance) for instance in held]}
        return answer if token is None else {**answer, "NextToken": token}

    def describe_status(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeInstanceStatus: whoever runs is well."""
        asked = request.get("InstanceIds") or []
        ok = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
        return {
            "InstanceStatuses": [
                {
                    "InstanceId": instance.id,
                    "AvailabilityZone": instance.pool.zone,
                    "InstanceState": _state(instance),
                    "InstanceStatus": ok,
                    "SystemStatus": ok,
                    "Events": [],
                }
                for instance in self._instances.all()
                if instance.state == "running" and (not asked or instance.id in asked)
            ]
            if not request.get("Filters")
            else []
        }

    def terminate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:TerminateInstances.

        Raises:
            AwsError: If one of the instances does not exist; then none is terminated.
        """
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
        """Answer ec2:CreateTags for instances; volumes and interfaces of theirs are not modelled and take any tag."""
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
        described = {
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
            "Tags": [{"Key": key, "Value": value} for key, value in sorted(instance.tags.items())],
        }
        if instance.instance_profile:
            described["IamInstanceProfile"] = {"Arn": instance.instance_profile}
        if instance.pool.capacity_type == labels.SPOT:
            described["InstanceLifecycle"] = "spot"
            described["SpotInstanceRequestId"] = instance.id.replace("i-", "sir-", 1)
        return {"ReservationId": instance.id.replace("i-", "r-", 1), "Instances": [described]}


def page(found: Sequence[Any], request: Mapping[str, Any], at_most: int) -> tuple[Sequence[Any], str | None]:
    """The page that a request with MaxResults and NextToken asks for, and the token of the next one."""
    start, size = int(request.get("NextToken") or 0), int(request.get("MaxResults") or at_most)
    end = start + min(size, at_most)
    return found[start:end], str(end) if end < len(found) else None


def _state(instance: Instance) -> dict[str, Any]:
    return {"Code": STATE_CODES[instance.state], "Name": instance.state}


def _matches(instance: Instance, name: str, patterns: Iterable[str]) -> bool:
    values = _values(instance, name)
    return any(_like(pattern, value) for pattern in patterns for value in values)


def _values(instance: Instance, name: str) -> tuple[str, ...]:
    if name.startswith("tag:"):
        value = instance.tags.get(name.removeprefix("tag:"))
        return () if value is None else (value,)
    if name == "tag-key":
        return tuple(instance.tags)
    simple = {
        "instance-state-name": instance.state,
        "instance-id": instance.id,
        "instance-type": instance.pool.instance_type,
        "availability-zone": instance.pool.zone,
        "subnet-id": instance.subnet.id,
        "private-dns-name": instance.node_name,
        "private-ip-address": instance.private_ip,
        "client-token": instance.token,
        "image-id": instance.image_id,
        "instance-lifecycle": "spot" if instance.pool.capacity_type == labels.SPOT else "",
    }
    if name not in simple:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return (simple[name],)


def _like(pattern: str, value: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == value
    quoted = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(quoted, value) is not None
