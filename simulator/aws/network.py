"""The embedded account's VPC: one subnet in each zone and one security group, all discoverable by tag.

moto keeps them and answers what is asked of them; how many addresses are free is said here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Network
from typing import Any, Final
from unittest.mock import patch

from moto.ec2.models import EC2Backend
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend, Zone

from simulator.aws.instances import Subnet

DISCOVERY: Final = {"karpenter.sh/discovery": "fleetwright"}
NETWORK: Final = IPv4Network("10.0.0.0/16")
_FEWEST_SUBNETS: Final = 8
_RESERVED: Final = 4
"""EC2 keeps the first four addresses (and the last) of each subnet for itself."""


class Network:
    """Subnets and security groups."""

    def __init__(self, backend: EC2Backend, zones: Iterable[str]) -> None:
        names = tuple(zones)
        vpc = backend.create_vpc(str(NETWORK))
        blocks = NETWORK.subnets(prefixlen_diff=(max(len(names), _FEWEST_SUBNETS) - 1).bit_length())
        self._subnets: dict[str, Subnet] = {}
        for zone, block in zip(names, blocks, strict=False):
            made = backend.create_subnet(vpc.id, str(block), availability_zone=zone)
            made.add_tags(DISCOVERY)
            self._subnets[made.id] = Subnet(made.id, zone, str(block), block.num_addresses - _RESERVED - 1)
        group = backend.create_security_group("fleetwright-nodes", "nodes", vpc_id=vpc.id)
        group.add_tags(DISCOVERY)
        self.vpc_id: str = vpc.id

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """All subnets in the order of their zones."""
        return tuple(self._subnets.values())

    def subnet(self, subnet_id: str) -> Subnet | None:
        """The subnet of this id."""
        return self._subnets.get(subnet_id)

    def set_free(self, zone: str, free: int) -> None:
        """From now on so many addresses are left in the zone's subnet."""
        for subnet in self._subnets.values():
            if subnet.zone == zone:
                subnet.free = free

    def take_address(self, subnet: Subnet) -> str:
        """The next address of the subnet that nobody holds. The caller has made sure that one is free."""
        block = IPv4Network(subnet.network)
        size = block.num_addresses - _RESERVED - 1
        while True:
            address = str(block[_RESERVED + subnet.handed_out % size])
            subnet.handed_out += 1
            if address not in subnet.held:
                break
        subnet.free -= 1
        subnet.held.add(address)
        return address

    def correct(self, answer: dict[str, Any]) -> None:
        """Put the true number of free addresses into an answer to DescribeSubnets."""
        for described in answer.get("Subnets", ()):
            subnet = self._subnets.get(described["SubnetId"])
            if subnet is not None:
                described["AvailableIpAddressCount"] = subnet.free


@contextmanager
def known_zones(region: str, zones: Iterable[str], zone_ids: Mapping[str, str]) -> Iterator[None]:
    """Let moto's region have exactly these zones meanwhile."""
    own = [
        Zone(name, region, zone_ids.get(name) or f"{region.replace('-', '')[:4]}-az{number}")
        for number, name in enumerate(zones, start=1)
    ]
    with patch.dict(RegionsAndZonesBackend.zones, {region: own}):
        yield
