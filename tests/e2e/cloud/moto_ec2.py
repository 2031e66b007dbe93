"""What of EC2 moto keeps in the account over HTTP: network, images and launch templates, which other SDKs ask for too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.amis import Ami
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend, Zone

from simulator.aws.ec2.fleet import DISCOVERY, GROUP_NAME, NETWORK, Network, subnets_in
from simulator.aws.ec2.instances import Subnet
from simulator.aws.ec2.templates import AMAZON, ROOT_DEVICE, Image, Template, read_template
from simulator.aws.queues import AwsError


def network_in(backend: EC2Backend, zones: Iterable[str]) -> Network:
    """A VPC with a subnet in each zone, as moto has made it."""
    vpc = backend.create_vpc(str(NETWORK))
    subnets: list[Subnet] = []
    for planned in subnets_in(zones):
        made = backend.create_subnet(vpc.id, planned.network, availability_zone=planned.zone)
        made.add_tags(DISCOVERY)
        subnets.append(Subnet(made.id, planned.zone, planned.network, planned.free))
    group = backend.create_security_group(GROUP_NAME, "nodes", vpc_id=vpc.id)
    group.add_tags(DISCOVERY)
    return Network(subnets, vpc_id=vpc.id, group_id=group.id)


def publish(backend: EC2Backend, image: Image) -> None:
    """Let moto have the image."""
    backend.amis[image.id] = Ami(
        backend,
        image.id,
        name=image.name,
        description=image.description,
        owner_id=AMAZON,
        owner_alias="amazon",
        public=True,
        virtualization_type="hvm",
        architecture=image.architecture,
        creation_date=image.created_at,
        root_device_type="ebs",
        root_device_name=ROOT_DEVICE,
    )


def find_template(backend: EC2Backend, specification: Mapping[str, Any]) -> Template:
    """The launch template that a fleet names, as moto has it. Raises AwsError if there is no such template or version."""
    try:
        if specification.get("LaunchTemplateName"):
            found = backend.get_launch_template_by_name(specification["LaunchTemplateName"])
        else:
            found = backend.get_launch_template(specification.get("LaunchTemplateId", ""))
        version = found.get_version(specification.get("Version", "$Default"))
    except EC2ClientError as error:
        raise AwsError(error.code, error.message) from error
    return read_template(found.id, found.name, version.number, version.data)


@contextmanager
def known_zones(region: str, zones: Iterable[str], zone_ids: Mapping[str, str]) -> Iterator[None]:
    """Give moto's region exactly these zones within the block."""
    own = [
        Zone(name, region, zone_ids.get(name) or f"{region.replace('-', '')[:4]}-az{number}")
        for number, name in enumerate(zones, start=1)
    ]
    with patch.dict(RegionsAndZonesBackend.zones, {region: own}):
        yield
