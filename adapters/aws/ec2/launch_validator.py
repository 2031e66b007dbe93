"""Asks EC2 whether it would launch from an EC2NodeClass: CreateLaunchTemplate, then CreateFleet and RunInstances as DryRun.

The other two calls need an existing launch template (Karpenter does the same). It is named by its content and pruned like those
of launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from adapters.aws.ec2.launch_templates import LaunchTemplates
from adapters.aws.service import AwsService
from adapters.ports import Clock, DeniedError, JsonObject, NotFoundError, TransientError
from core import labels
from core.ami_families.bootstrap import Cluster
from core.catalogue.node_class import EC2NodeClass
from core.launch.render import RenderedLaunch, render_launch
from core.launch.template import tag_list
from core.launch.validation.launch_validation import (
    LaunchValidation,
    concerns_the_class,
    next_validation,
    read_validation,
)
from core.launch.validation.template_fields import template_fields
from core.launch.validation.validation_orders import validation_orders
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool

TypesFor = Callable[[JsonObject], Iterable[InstanceType]]
"""Returns the instance types as sized for a resolved EC2NodeClass, none before the market was read."""

_Denied = tuple[str, str, str]

_UNKNOWN_PROFILE: Final = "Invalid IAM Instance Profile name"
PROFILE_SPREADS: Final = timedelta(minutes=1)
"""How long EC2 may take to know a new instance profile, mostly seconds. Afterwards, the profile counts as missing."""


def unread(_: JsonObject) -> Iterable[InstanceType]:
    """Return no types: the market was never read."""
    return ()


class LaunchValidator:
    """Validates changed launches; answers are cached in this sandbox and in the annotation."""

    def __init__(
        self,
        ec2: AwsService,
        templates: LaunchTemplates,
        clock: Clock,
        types_for: TypesFor = unread,
        *,
        uses_reservations: bool = True,
    ) -> None:
        self._ec2 = ec2
        self._templates = templates
        self._clock = clock
        self._types_for = types_for
        self._uses_reservations = uses_reservations
        self._known: dict[str, LaunchValidation] = {}
        self._profile_seen: dict[str, datetime] = {}

    def validate(
        self, node_class: EC2NodeClass, manifest: JsonObject, cluster: Cluster, node_pools: Sequence[NodePool] = ()
    ) -> LaunchValidation:
        """Return EC2's answer about the resolved class with these NodePools. `manifest` has the resolved status.

        Raises:
            InvalidInputError: If a launch cannot be rendered.
            TransientError: If EC2 cannot answer now, or does not know a new instance profile yet.
        """
        fields, now = template_fields(node_class, cluster), self._clock.now()
        before = self._before(node_class)
        if before is not None and before.answers(fields, now):
            return before
        launches = self._launches(node_class, manifest, cluster, node_pools)
        denied = next((found for found in map(self._denied, launches) if found is not None), None)
        if denied is not None:
            self._wait_for_profile(node_class, denied)
        answer = next_validation(before, fields if launches else {}, denied, now)
        self._known[_key(node_class)] = answer
        return answer

    def _before(self, node_class: EC2NodeClass) -> LaunchValidation | None:
        """Return the later answer of the cache and the annotation."""
        written = read_validation(node_class.metadata.annotations.get(labels.LAUNCH_VALIDATION, ""))
        found = [known for known in (written, self._known.get(_key(node_class))) if known is not None]
        return max(found, key=lambda known: known.asked_at, default=None)

    def _wait_for_profile(self, node_class: EC2NodeClass, denied: _Denied) -> None:
        """Raise TransientError if EC2 may not know the class's newly created profile yet."""
        call, _, said = denied
        if not node_class.spec.role or _UNKNOWN_PROFILE not in said:
            return
        now, profile = self._clock.now(), node_class.status.instance_profile
        if now < self._profile_seen.setdefault(profile, now) + PROFILE_SPREADS:
            raise TransientError(call, f"{said}; a new profile in IAM is visible within seconds")

    def _launches(
        self, node_class: EC2NodeClass, manifest: JsonObject, cluster: Cluster, node_pools: Sequence[NodePool]
    ) -> list[RenderedLaunch]:
        """Return the launches to validate; none if no type has an image and a subnet, so that nothing could be launched."""
        orders = validation_orders(
            node_class, manifest, self._types_for(manifest), node_pools, uses_reservations=self._uses_reservations
        )
        rendered = [render_launch(order, node_class, cluster) for order in orders]
        return [launch for launch in rendered if launch.offerings]

    def _denied(self, rendered: RenderedLaunch) -> _Denied | None:
        """Return the call that EC2 denies, with code and message; None if it allows all."""
        try:
            self._templates.ensure(rendered.templates)
        except DeniedError as error:
            return error.call, error.code, error.said
        fleet = {name: value for name, value in rendered.request.items() if name != "ClientToken"}
        return self._asked("CreateFleet", rendered, **fleet) or self._asked(
            "RunInstances", rendered, **_one_instance(rendered)
        )

    def _asked(self, operation: str, rendered: RenderedLaunch, **request: Any) -> _Denied | None:
        try:
            self._ec2.call(operation, DryRun=True, **request)
        except NotFoundError as error:  # the template was deleted concurrently
            self._templates.forget(rendered.templates)
            raise TransientError(error.call, error.detail) from error
        except DeniedError as error:
            return (error.call, error.code, error.said) if concerns_the_class(error.code) else None
        return None


def _key(node_class: EC2NodeClass) -> str:
    return node_class.metadata.uid or node_class.name


def _one_instance(rendered: RenderedLaunch) -> JsonObject:
    """Return RunInstances' request for the first offering.

    The subnet is part of the interfaces: EC2 rejects a separate one.
    """
    offering, template = rendered.offerings[0], rendered.templates[0]
    subnet = rendered.subnets[offering.zone]
    interfaces = [{**interface, "SubnetId": subnet} for interface in template.data["NetworkInterfaces"]]
    is_spot = offering.capacity_type == labels.SPOT
    return {
        **({"InstanceMarketOptions": {"MarketType": labels.SPOT}} if is_spot else {}),
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": offering.instance_type,
        "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
        "NetworkInterfaces": interfaces,
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tag_list(rendered.tags)} for kind in ("instance", "volume")
        ],
    }
