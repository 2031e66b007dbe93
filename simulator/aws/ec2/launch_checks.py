"""Checks a launch as EC2 does before it looks for capacity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simulator.aws.ec2.images import Images
from simulator.aws.ec2.network import Network
from simulator.aws.ec2.placement_groups import PlacementGroups
from simulator.aws.ec2.templates import Template
from simulator.aws.ec2.vcpu_quotas import VcpuQuotas
from simulator.aws.errors import AwsError
from simulator.aws.exchange import Exchange, Pool

USER_DATA_MAX: Final = 16384
"""EC2's limit on user data, in bytes before encoding."""

TAGS_MAX: Final = 50
"""EC2's limit on a resource's tags."""

_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}


def check_tags(request: Mapping[str, Any]) -> None:
    """Raise AwsError if the request gives a resource more tags than EC2 accepts."""
    for given in request.get("TagSpecifications") or ():
        if len(given["Tags"]) > TAGS_MAX:
            raise AwsError("TagLimitExceeded", f"A {given['ResourceType']} may have {TAGS_MAX} tags at most")


class LaunchChecks:
    """Checks a launch and the resources that it refers to.

    Args:
        profile_arn: Returns the ARN of an instance profile by its name or ARN; empty for none.
        denies: Returns the error code with which a fault denies a pool, empty for none.
        placement_groups: The existing groups; None: one of each strategy.
        quotas: The account's vCPU quotas; None: no limits.
    """

    def __init__(
        self,
        exchange: Exchange,
        images: Images,
        network: Network,
        profile_arn: Callable[[str], str],
        denies: Callable[[Pool], str] = lambda _: "",
        quotas: VcpuQuotas | None = None,
        placement_groups: PlacementGroups | None = None,
    ) -> None:
        self.placement_groups = placement_groups or PlacementGroups()
        self._exchange = exchange
        self._images = images
        self._network = network
        self.profile_arn = profile_arn
        self._denies = denies
        self._quotas = quotas

    def beyond_quota(self, pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which one more instance of a pool exceeds a quota; None where it does not."""
        return None if self._quotas is None else self._quotas.refuses(pool)

    def problem(self, template: Template, override: Mapping[str, Any], pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which EC2 would refuse to launch this here; None where it would not."""
        denied = self._denies(pool)
        if denied:
            return denied, "embedded in a scenario"
        image_id = override.get("ImageId") or template.image_id
        image = self._images.find(image_id)
        if image is None:
            return "InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist"
        wanted = self._exchange.architecture(pool.instance_type)
        if wanted and _ARCHITECTURES.get(image.architecture) != wanted:
            message = f"The architecture of {pool.instance_type} does not match that of {image_id}"
            return "InvalidParameterValue", message
        for group in template.security_groups:
            if group != self._network.group_id:
                return "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
        if unknown := self.placement_groups.problem(template.placement):
            return unknown
        if len(template.user_data) * 3 // 4 > USER_DATA_MAX:
            return "InvalidUserData.Malformed", f"User data is limited to {USER_DATA_MAX} bytes"
        if template.instance_profile and not self.profile_arn(template.instance_profile):
            return "InvalidParameterValue", f"Invalid IAM Instance Profile name '{template.instance_profile}'"
        return None
