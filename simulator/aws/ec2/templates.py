"""EC2's launch templates: created, described, deleted, and read by fleets."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any, Final

import msgspec

from simulator.aws.ec2.filters import filtered, of_fields, of_tags, paged, tag_list, tags_of
from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock

_PAGE: Final = 200
_ONLY_VERSION: Final = ("1", "$Latest", "$Default")


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a launch template; user data is base64, `reservation` the id of the one that it launches into."""

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
    reservation: str = ""
    market: str = ""
    placement: dict[str, Any] = {}


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    created_at: datetime
    tags: dict[str, str]
    data: dict[str, Any]
    token: str


class Templates:
    """Keeps launch templates, each with its only version. `rng` draws their ids."""

    def __init__(self, clock: VirtualClock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._by_name: dict[str, _Kept] = {}

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:CreateLaunchTemplate. Raises AwsError if the name is taken."""
        name, token = request["LaunchTemplateName"], request.get("ClientToken", "")
        known = self._by_name.get(name)
        if known is not None and (not token or known.token != token):
            raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
        if known is None:
            self._by_name[name] = known = _Kept(
                id=f"lt-{self._rng.getrandbits(68):017x}",
                name=name,
                created_at=self._clock.now(),
                tags=tags_of(request, "launch-template"),
                data=copy.deepcopy(request["LaunchTemplateData"]),
                token=token,
            )
        return {"LaunchTemplate": _described(known)}

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeLaunchTemplates. Raises AwsError for an unknown name or id."""
        found = list(self._by_name.values())
        if asked := request.get("LaunchTemplateNames"):
            found = [self._named(name) for name in asked]
        if asked := request.get("LaunchTemplateIds"):
            found = [self._of_id(template_id) for template_id in asked]
        matching = filtered(found, request.get("Filters"), _values)
        return paged("LaunchTemplates", [_described(template) for template in matching], request, _PAGE)

    def delete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DeleteLaunchTemplate. Raises AwsError for an unknown name or id."""
        found = self._selected(request)
        del self._by_name[found.name]
        return {"LaunchTemplate": _described(found)}

    def find(self, specification: Mapping[str, Any]) -> Template:
        """The template that a fleet names.

        Raises:
            AwsError: If there is no such template or version.
        """
        found = self._selected(specification)
        version = str(specification.get("Version") or "$Default")
        if version not in _ONLY_VERSION:
            raise AwsError(
                "InvalidLaunchTemplateId.VersionNotFound", f"Could not find launch template version {version}"
            )
        return read_template(found.id, found.name, 1, found.data)

    def _selected(self, request: Mapping[str, Any]) -> _Kept:
        name = request.get("LaunchTemplateName")
        return self._named(name) if name else self._of_id(request.get("LaunchTemplateId", ""))

    def _named(self, name: str) -> _Kept:
        found = self._by_name.get(name)
        if found is None:
            raise AwsError(
                "InvalidLaunchTemplateName.NotFoundException",
                "At least one of the launch templates specified in the request does not exist.",
            )
        return found

    def _of_id(self, template_id: str) -> _Kept:
        found = next((kept for kept in self._by_name.values() if kept.id == template_id), None)
        if found is None:
            raise AwsError("InvalidLaunchTemplateId.NotFound", f"The launch template ID '{template_id}' does not exist")
        return found


def _described(template: _Kept) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": template.created_at,
        "DefaultVersionNumber": 1,
        "LatestVersionNumber": 1,
        "Tags": tag_list(template.tags),
    }


def _values(template: _Kept, name: str) -> tuple[str, ...]:
    by_tag = of_tags(template.tags, name)
    return of_fields({"launch-template-name": template.name}, name) if by_tag is None else by_tag


def read_template(template_id: str, name: str, number: int, data: Mapping[str, Any]) -> Template:
    """Return a template version from its request data."""
    interfaces = data.get("NetworkInterfaces") or []
    groups = [*(data.get("SecurityGroupIds") or []), *(g for card in interfaces for g in card.get("Groups") or [])]
    profile = data.get("IamInstanceProfile") or {}
    asked = data.get("CapacityReservationSpecification") or {}
    target = asked.get("CapacityReservationTarget") or {}
    return Template(
        id=template_id,
        name=name,
        version=number,
        image_id=data.get("ImageId", ""),
        instance_type=data.get("InstanceType", ""),
        subnet_id=next((card["SubnetId"] for card in interfaces if card.get("SubnetId")), ""),
        user_data=str(data.get("UserData") or ""),
        security_groups=tuple(dict.fromkeys(groups)),
        instance_profile=profile.get("Name") or profile.get("Arn") or "",
        tags=tags_of(data, "instance"),
        reservation=target.get("CapacityReservationId", ""),
        market=(data.get("InstanceMarketOptions") or {}).get("MarketType", ""),
        placement=dict(data.get("Placement") or {}),
    )
