"""Launches a claim, or several that share a launch, with one CreateFleet call, and interprets EC2's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from adapters.aws.ec2.fleet_errors import failure, has_throttled, refusal, refused_offerings
from adapters.aws.ec2.instances import Instances, efa_interfaces
from adapters.aws.ec2.launch_templates import LaunchTemplates
from adapters.aws.ec2.launch_turns import UNPACED, LaunchTurns
from adapters.aws.errors import retries_of
from adapters.aws.service import AwsService
from adapters.ports import (
    Clock,
    ConflictError,
    DeniedError,
    Instance,
    JsonObject,
    LaunchDeniedError,
    Launched,
    NotFoundError,
    RefusedOffering,
    TransientError,
)
from core.ami_families.bootstrap import Cluster
from core.catalogue.node_class import EC2NodeClass
from core.errors import InvalidInputError
from core.launch.denials.codes import NO_IMAGE_OR_SUBNET, NOT_RENDERED
from core.launch.render import RenderedLaunch, render_launch
from core.model.catalogue import Offering
from core.model.launch_order import LaunchOrder

CALL: Final = "ec2:CreateFleet"
ATTEMPTS_MAX: Final = 2
"""A second attempt is made if a launch template was deleted since its last use."""

_TEMPLATE_CODES: Final = "InvalidLaunchTemplate"
"""Begin of EC2's codes for a launch template that does not exist."""


class FleetLauncher:
    """Launches instances."""

    def __init__(
        self,
        ec2: AwsService,
        templates: LaunchTemplates,
        instances: Instances,
        clock: Clock,
        turns: LaunchTurns = UNPACED,
    ) -> None:
        self._turns = turns
        self._ec2 = ec2
        self._templates = templates
        self._instances = instances
        self._clock = clock

    def launch(self, order: LaunchOrder, node_class: EC2NodeClass, cluster: Cluster) -> Launched:
        """Launch the ordered instances, or some of them.

        Raises InsufficientCapacityError, LaunchDeniedError, TransientError, ConflictError.
        """
        try:
            rendered = render_launch(order, node_class, cluster)
        except InvalidInputError as error:
            raise not_rendered(order, error) from error
        if not rendered.offerings:
            said = "no offered type has an image and a subnet in its zone"
            raise _not_requested(order, NO_IMAGE_OR_SUBNET, said)
        try:
            answer = self._create_fleet(rendered)
        except ConflictError as error:
            return self._adopted(order, error)
        except NotFoundError as error:
            code, _, said = error.detail.partition(": ")
            raise refusal(error.call, error.detail, _all_refused(rendered, code, said)) from error
        except DeniedError as error:
            refused = _all_refused(rendered, error.code, error.said)
            raise refusal(error.call, error.detail, refused) from error
        return self._read(answer, rendered)

    def _create_fleet(self, rendered: RenderedLaunch) -> JsonObject:
        """Return EC2's answer. Launch templates that were deleted since their last use are created again, once.

        If EC2's answer reports them among its errors, the token is used up: the second request has another one.
        """
        request = rendered.request
        for attempt in range(1, ATTEMPTS_MAX + 1):
            self._templates.ensure(rendered.templates)
            sent = self._turns.take()
            try:
                answer = self._ec2.call("CreateFleet", **request)
            except TransientError as error:
                self._turns.slow_down(sent, error.answers)
                raise
            except NotFoundError as error:
                if attempt == ATTEMPTS_MAX or not error.detail.startswith(_TEMPLATE_CODES):
                    raise
            else:
                self._turns.slow_down(sent, retries_of(answer) + has_throttled(answer))
                if attempt == ATTEMPTS_MAX or not _lacks_template(answer):
                    return answer
                request = {**request, "ClientToken": f"{request['ClientToken']}-{attempt + 1}"}
            self._templates.forget(rendered.templates)
        raise TransientError(CALL, "not attempted")

    def _adopted(self, order: LaunchOrder, error: ConflictError) -> Launched:
        """Adopt the instance of an earlier request with the same token but other offerings, whose response was lost.

        Without the response, instances of a shared launch cannot be assigned to claims; each claim looks for a free one.
        """
        found = self._instances.of_claim(order.claim) if order.count == 1 else ()
        if not found:
            raise ConflictError(CALL, f"{error.detail}; no instance of it: order again with a new token") from error
        return Launched(instances=found[:1])

    def _read(self, answer: JsonObject, rendered: RenderedLaunch) -> Launched:
        errors: Sequence[Mapping[str, Any]] = answer.get("Errors") or ()
        zone_of_subnet = {subnet: zone for zone, subnet in rendered.subnets.items()}
        tried = [offering.key for offering in rendered.offerings]
        refused = refused_offerings(errors, tried, zone_of_subnet)
        instances = tuple(
            self._instance(instance_id, launched, rendered, zone_of_subnet)
            for launched in answer.get("Instances") or ()
            for instance_id in launched.get("InstanceIds") or ()
        )
        if instances:
            return Launched(instances=instances, refused=refused)
        raise failure(CALL, errors, refused, tried)

    def _instance(
        self,
        instance_id: str,
        launched: Mapping[str, Any],
        rendered: RenderedLaunch,
        zone_of_subnet: Mapping[str, str],
    ) -> Instance:
        """Build the instance from the answer alone: DescribeInstances may not list it yet."""
        choice = launched.get("LaunchTemplateAndOverrides") or {}
        override = choice.get("Overrides") or {}
        zone = override.get("AvailabilityZone") or zone_of_subnet.get(override.get("SubnetId", ""), "")
        instance_type = str(launched.get("InstanceType") or override.get("InstanceType", ""))
        interfaces = _interfaces_of(instance_type, rendered)
        return Instance(
            instance_id=instance_id,
            instance_type=instance_type,
            zone=zone,
            capacity_type=rendered.offerings[0].capacity_type,
            **_reservation_of(instance_type, zone, rendered.offerings),
            state="pending",
            launched_at=self._clock.now(),
            image_id=override.get("ImageId") or _image_of(choice, rendered),
            efa_interfaces=efa_interfaces(interfaces),
            subnet_id=override.get("SubnetId", ""),
            security_groups=tuple(sorted({group for interface in interfaces for group in interface.get("Groups", ())})),
            tags=rendered.tags,
        )


def not_rendered(order: LaunchOrder, error: InvalidInputError) -> LaunchDeniedError:
    """Return the denial of an order that cannot be rendered; EC2 is not called."""
    return _not_requested(order, NOT_RENDERED, str(error))


def _not_requested(order: LaunchOrder, code: str, said: str) -> LaunchDeniedError:
    """Return a denial of our own, in the form of EC2's: code and message."""
    return LaunchDeniedError(CALL, f"{code}: {said}", _all_refused(order, code, said))


def _all_refused(asked: LaunchOrder | RenderedLaunch, code: str, said: str) -> tuple[RefusedOffering, ...]:
    subnets = asked.subnets if isinstance(asked, RenderedLaunch) else {}
    return tuple(RefusedOffering(o.key, code, said, subnets.get(o.zone, "")) for o in asked.offerings)


def _lacks_template(answer: JsonObject) -> bool:
    """Whether nothing was launched because a template is missing."""
    errors = answer.get("Errors") or ()
    return not answer.get("Instances") and any(
        str(error.get("ErrorCode", "")).startswith(_TEMPLATE_CODES) for error in errors
    )


def _interfaces_of(instance_type: str, rendered: RenderedLaunch) -> Sequence[Mapping[str, Any]]:
    """Return the interfaces in the template that the type is launched from; each type has one."""
    interfaces = {template.name: template.data["NetworkInterfaces"] for template in rendered.templates}
    for config in rendered.request["LaunchTemplateConfigs"]:
        if any(override["InstanceType"] == instance_type for override in config["Overrides"]):
            found: Sequence[Mapping[str, Any]] = interfaces[config["LaunchTemplateSpecification"]["LaunchTemplateName"]]
            return found
    return ()


def _reservation_of(instance_type: str, zone: str, offerings: Sequence[Offering]) -> JsonObject:
    """Return the reservation of the offering that was launched: a request has one for each type and zone."""
    for offering in offerings:
        if offering.reservation_id and (offering.instance_type, offering.zone) == (instance_type, zone):
            return {
                "reservation_id": offering.reservation_id,
                "reservation_type": offering.reservation_type,
                "interruptible": offering.interruptible,
            }
    return {}


def _image_of(choice: Mapping[str, Any], rendered: RenderedLaunch) -> str:
    name = str((choice.get("LaunchTemplateSpecification") or {}).get("LaunchTemplateName"))
    by_name = {template.name: str(template.data["ImageId"]) for template in rendered.templates}
    return by_name.get(name, next(iter(by_name.values())) if len(by_name) == 1 else "")
