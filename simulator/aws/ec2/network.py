"""The embedded account's VPC: subnets and one security group, all discoverable by tag."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from itertools import islice
from typing import Any, Final

from simulator.aws.ec2.filters import filtered, of_fields, of_tags, paged, tag_list
from simulator.aws.ec2.instance import Subnet
from simulator.aws.errors import AwsError

DISCOVERY: Final = {"karpenter.sh/discovery": "fleetwright"}
NETWORK: Final = IPv4Network("10.0.0.0/16")
_FURTHER_NETWORK: Final = IPv4Network("10.128.0.0/9")
_FURTHER_PREFIX: Final = 16
"""Subnets besides the first of each zone are of this network and size."""

GROUP_NAME: Final = "fleetwright-nodes"
_FEWEST_SUBNETS: Final = 8
_RESERVED: Final = 4
"""EC2 keeps the first four addresses (and the last) of each subnet for itself."""

_PAGE: Final = 1000


class Network:
    """Subnets and one security group.

    Args:
        zone_ids: Zone ids by zone name, as far as known.
    """

    def __init__(
        self,
        subnets: Iterable[Subnet],
        *,
        vpc_id: str = "",
        group_id: str = "",
        zone_ids: Mapping[str, str] | None = None,
    ) -> None:
        self._subnets = {subnet.id: subnet for subnet in subnets}
        self._zone_ids = dict(zone_ids or {})
        self._created_count = 0
        self.vpc_id = vpc_id or _id("vpc", GROUP_NAME)
        self.group_id = group_id or _id("sg", GROUP_NAME)

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """All subnets: the first of each zone in the order of zones, then those created later."""
        return tuple(self._subnets.values())

    def subnet(self, subnet_id: str) -> Subnet | None:
        """The subnet of this id."""
        return self._subnets.get(subnet_id)

    def set_free(self, zone: str, number: int, free: int) -> bool:
        """Set the free addresses of a zone's subnet, counted from 1. One that does not exist is created.

        Returns:
            False if there is no such zone.
        """
        own = [subnet for subnet in self._subnets.values() if subnet.zone == zone]
        if not own:
            return False
        if number > len(own):
            own += [self._created(zone, position + 1) for position in range(len(own), number)]
        own[number - 1].free = free
        return True

    def _created(self, zone: str, number: int) -> Subnet:
        block = next(islice(_FURTHER_NETWORK.subnets(new_prefix=_FURTHER_PREFIX), self._created_count, None))
        self._created_count += 1
        created = Subnet(_id("subnet", f"{zone}/{number}"), zone, str(block), block.num_addresses - _RESERVED - 1)
        self._subnets[created.id] = created
        return created

    def take_address(self, subnet: Subnet) -> str:
        """Return the next free address of the subnet. The caller checks first that there is one."""
        block = IPv4Network(subnet.network)
        size = block.num_addresses - _RESERVED - 1
        while True:
            address = str(block[_RESERVED + subnet.handed_out % size])
            subnet.handed_out += 1
            if address not in subnet.taken:
                break
        subnet.free -= 1
        subnet.taken.add(address)
        return address

    def describe_subnets(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeSubnets. Raises AwsError for an unknown id."""
        asked = request.get("SubnetIds") or list(self._subnets)
        for unknown in [subnet_id for subnet_id in asked if subnet_id not in self._subnets]:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{unknown}' does not exist")
        found = filtered((self._subnets[i] for i in asked), request.get("Filters"), self._subnet_values)
        return paged("Subnets", [self._described(subnet) for subnet in found], request, _PAGE)

    def describe_security_groups(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeSecurityGroups. Raises AwsError for an unknown id."""
        for unknown in [group for group in request.get("GroupIds") or () if group != self.group_id]:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{unknown}' does not exist")
        found = filtered((self.group_id,), request.get("Filters"), self._group_values)
        described = [
            {"GroupId": group, "GroupName": GROUP_NAME, "VpcId": self.vpc_id, "Tags": tag_list(DISCOVERY)}
            for group in found
        ]
        return paged("SecurityGroups", described, request, _PAGE)

    def _described(self, subnet: Subnet) -> dict[str, Any]:
        return {
            "SubnetId": subnet.id,
            "VpcId": self.vpc_id,
            "State": "available",
            "CidrBlock": subnet.network,
            "AvailabilityZone": subnet.zone,
            "AvailabilityZoneId": self._zone_ids.get(subnet.zone, ""),
            "AvailableIpAddressCount": subnet.free,
            "Tags": tag_list(DISCOVERY),
        }

    def _subnet_values(self, subnet: Subnet, name: str) -> tuple[str, ...]:
        by_tag = of_tags(DISCOVERY, name)
        if by_tag is not None:
            return by_tag
        fields = {"subnet-id": subnet.id, "vpc-id": self.vpc_id, "availability-zone": subnet.zone, "state": "available"}
        return of_fields(fields, name)

    def _group_values(self, group: str, name: str) -> tuple[str, ...]:
        by_tag = of_tags(DISCOVERY, name)
        if by_tag is not None:
            return by_tag
        return of_fields({"group-id": group, "group-name": GROUP_NAME, "vpc-id": self.vpc_id}, name)


def subnets_in(zones: Iterable[str]) -> tuple[Subnet, ...]:
    """A subnet for each zone, of the same size."""
    names = tuple(zones)
    blocks = NETWORK.subnets(prefixlen_diff=(max(len(names), _FEWEST_SUBNETS) - 1).bit_length())
    return tuple(
        Subnet(_id("subnet", zone), zone, str(block), block.num_addresses - _RESERVED - 1)
        for zone, block in zip(names, blocks, strict=False)
    )


def _id(prefix: str, name: str) -> str:
    return f"{prefix}-0{hashlib.sha256(name.encode()).hexdigest()[:16]}"
