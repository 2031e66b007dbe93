"""Launch templates as a fleet reads them, and what EC2 would find wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.iam.models import IAMBackend

from simulator.aws.exchange import Exchange, Pool
from simulator.aws.wire import AwsError

USER_DATA_MAX: Final = 16384
"""EC2's limit on user data, in bytes before encoding."""

_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a launch template; user data is base64."""

    id: str
    name: str
    version: int
    image_id: str
    instance_type: str = ""
    subnet_id: str = ""
    user_data: str = ""
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    tags: dict[str, str] = {}


class Templates:
    """Looks launch templates up in moto, which keeps them."""

    def __init__(self, ec2: EC2Backend, iam: IAMBackend) -> None:
        self._ec2 = ec2
        self._iam = iam

    def find(self, specification: Mapping[str, Any]) -> Template:
        """The template that a fleet names.

        Raises:
            AwsError: If there is no such template or version.
        """
        try:
            if specification.get("LaunchTemplateName"):
                found = self._ec2.get_launch_template_by_name(specification["LaunchTemplateName"])
            else:
                found = self._ec2.get_launch_template(specification.get("LaunchTemplateId", ""))
            version = found.get_version(specification.get("Version", "$Default"))
        except EC2ClientError as error:
            raise AwsError(error.code, error.message) from error
        return _read(found, version.number, version.data)

    def problem(
        self, template: Template, override: Mapping[str, Any], pool: Pool, exchange: Exchange
    ) -> tuple[str, str] | None:
        """The error code and message with which EC2 would refuse to launch this here; None where it would not."""
        image_id = override.get("ImageId") or template.image_id
        image = self._ec2.amis.get(image_id)
        if image is None:
            return "InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist"
        wanted = exchange.architecture(pool.instance_type)
        if wanted and _ARCHITECTURES.get(str(image.architecture)) != wanted:
            message = f"The architecture of {pool.instance_type} does not match that of {image_id}"
            return "InvalidParameterValue", message
        for group in template.security_groups:
            if self._ec2.get_security_group_from_id(group) is None:
                return "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
        if len(template.user_data) * 3 // 4 > USER_DATA_MAX:
            return "InvalidUserData.Malformed", f"User data is limited to {USER_DATA_MAX} bytes"
        if template.instance_profile and not self._profile_exists(template.instance_profile):
            return "InvalidParameterValue", f"Invalid IAM Instance Profile name '{template.instance_profile}'"
        return None

    def _profile_exists(self, name: str) -> bool:
        return any(name in (profile.name, profile.arn) for profile in self._iam.instance_profiles.values())


def _read(found: Any, number: int, data: Mapping[str, Any]) -> Template:
    interfaces = data.get("NetworkInterfaces") or []
    groups = [*(data.get("SecurityGroupIds") or []), *(g for card in interfaces for g in card.get("Groups") or [])]
    profile = data.get("IamInstanceProfile") or {}
    tags = {
        tag["Key"]: tag["Value"]
        for specification in data.get("TagSpecifications") or []
        if specification.get("ResourceType") == "instance"
        for tag in specification.get("Tags") or []
    }
    return Template(
        id=found.id,
        name=found.name,
        version=number,
        image_id=data.get("ImageId", ""),
        instance_type=data.get("InstanceType", ""),
        subnet_id=next((card["SubnetId"] for card in interfaces if card.get("SubnetId")), ""),
        user_data=str(data.get("UserData") or ""),
        security_groups=tuple(dict.fromkeys(groups)),
        instance_profile=profile.get("Name") or profile.get("Arn") or "",
        tags=tags,
    )
