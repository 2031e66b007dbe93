"""Launch templates and images of the embedded account, with the filters and pages of describe calls."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from core.errors import InvalidInputError
from simulator.aws.queues import AwsError
from simulator.clock import VirtualClock

# EC2's filters and pages, shared by all its describe calls.


Found = TypeVar("Found")
Values = Callable[[Found, str], Iterable[str]]
"""Returns a resource's values for a filter's name."""


def filtered(
    resources: Iterable[Found], filters: Iterable[Mapping[str, Any]] | None, values: Values[Found]
) -> list[Found]:
    """Return the resources that match every filter: one of its patterns must match one of the values."""
    matching = list(resources)
    for wanted in filters or ():
        name, matches = wanted["Name"], _any_of(wanted["Values"])
        matching = [item for item in matching if any(map(matches, values(item, name)))]
    return matching


def page(resources: Sequence[Any], request: Mapping[str, Any], at_most: int) -> tuple[Sequence[Any], str | None]:
    """Return the page for the request's MaxResults and NextToken, and the token of the next page."""
    start, size = int(request.get("NextToken") or 0), int(request.get("MaxResults") or at_most)
    end = start + min(size, at_most)
    return resources[start:end], str(end) if end < len(resources) else None


def paged(key: str, resources: Sequence[Any], request: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    """An answer that holds a page under `key`."""
    items, token = page(resources, request, at_most)
    return {key: list(items)} if token is None else {key: list(items), "NextToken": token}


def of_tags(tags: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """Return the values that a filter by tag compares; None if the filter is not about tags."""
    if name.startswith("tag:"):
        value = tags.get(name.removeprefix("tag:"))
        return () if value is None else (value,)
    return tuple(tags) if name == "tag-key" else None


def of_fields(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the values that a filter by field compares. Raises AwsError for an unknown filter."""
    if name not in fields:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return (fields[name],)


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as EC2 writes them, by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tags_of(request: Mapping[str, Any], resource_type: str) -> dict[str, str]:
    """Return the tags of one resource type from a request's tag specifications."""
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in request.get("TagSpecifications") or ()
        if specification.get("ResourceType") == resource_type
        for tag in specification.get("Tags") or ()
    }


def _any_of(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a value matches one of the patterns; `*` matches any text and `?` any character."""
    plain = frozenset(pattern for pattern in patterns if "*" not in pattern and "?" not in pattern)
    wild = "|".join(
        re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns if pattern not in plain
    )
    if not wild:
        return plain.__contains__
    like = re.compile(wild)
    return lambda value: value in plain or like.fullmatch(value) is not None


# The machine images that EKS publishes, and the public parameters behind aliases such as `al2023@latest`.


AMAZON: Final = "602401143452"
LATEST: Final = ("recommended", "latest")
ROOT_DEVICE: Final = "/dev/xvda"

_AGE: Final = timedelta(days=3)
_IMAGE_PAGE: Final = 1000
_OWNERS: Final = frozenset({"amazon", AMAZON})
_WINDOWS: Final = ("windows2019", "windows2022", "windows2025")
_ARCHITECTURES: Final = ("x86_64", "arm64")


class _Variant(msgspec.Struct, frozen=True, order=True):
    """One image of an alias: its architecture and drivers."""

    alias: str
    architecture: str
    kind: str


_VARIANTS: Final = (
    _Variant("al2", "x86_64", "standard"),
    _Variant("al2", "arm64", "standard"),
    _Variant("al2", "x86_64", "nvidia"),
    *(_Variant("al2023", arch, kind) for arch in _ARCHITECTURES for kind in ("standard", "nvidia", "neuron")),
    *(_Variant("bottlerocket", arch, kind) for arch in _ARCHITECTURES for kind in ("standard", "nvidia")),
    *(_Variant(alias, "x86_64", "standard") for alias in _WINDOWS),
)
_AL2: Final = {"amazon-linux-2": ("x86_64", "standard"), "amazon-linux-2-arm64": ("arm64", "standard")}
_AL2_GPU: Final = ("x86_64", "nvidia")
_PATHS: Final = (
    (re.compile(r"/aws/service/eks/optimized-ami/([\d.]+)/(amazon-linux-2(?:-arm64|-gpu)?)/([^/]+)/image_id"), "al2"),
    (
        re.compile(r"/aws/service/eks/optimized-ami/([\d.]+)/amazon-linux-2023/(\w+)/(\w+)/([^/]+)/image_id"),
        "al2023",
    ),
    (
        re.compile(r"/aws/service/bottlerocket/aws-k8s-([\d.]+)(-nvidia)?/(\w+)/([^/]+)/image_id"),
        "bottlerocket",
    ),
    (re.compile(r"/aws/service/ami-windows-latest/Windows_Server-(\d+)-English-Core-EKS_Optimized-[^/]+/image_id"), ""),
)


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """One image. `architecture` is EC2's word, such as `x86_64`."""

    id: str
    name: str
    description: str
    architecture: str
    created_at: datetime


class Images:
    """Publishes images, describes them, and answers the aliases' SSM parameters.

    Args:
        on_publish: Called for each image.
    """

    def __init__(self, clock: VirtualClock, on_publish: Callable[[Image], object] = lambda _: None) -> None:
        self._clock = clock
        self._on_publish = on_publish
        self._images: dict[str, Image] = {}
        self._current: dict[_Variant, str] = {}
        for variant in _VARIANTS:
            self._current[variant] = self._publish(variant, "v20261117", clock.now() - _AGE)

    def find(self, image_id: str) -> Image | None:
        """The image of this id."""
        return self._images.get(image_id)

    def publish(self, alias: str, image_id: str) -> None:
        """Make the alias resolve to this image from now on; images for other machines get ids derived from it.

        Raises:
            InvalidInputError: If there is no such alias.
        """
        family = alias.partition("@")[0]
        variants = [variant for variant in _VARIANTS if variant.alias == family]
        if not variants:
            aliases = sorted({variant.alias for variant in _VARIANTS})
            raise InvalidInputError(f"{alias!r} is none of {', '.join(aliases)}", field="ami.alias")
        version = self._clock.now().strftime("v%Y%m%d%H%M%S")
        for variant in variants:
            ending = "" if variant == variants[0] else f"{variant.architecture}{variant.kind}".replace("_", "")
            self._current[variant] = self._publish(variant, version, self._clock.now(), image_id + ending)

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeImages. Raises AwsError for an unknown id."""
        ids = request.get("ImageIds") or list(self._images)
        for unknown in [image_id for image_id in ids if image_id not in self._images]:
            raise AwsError("InvalidAMIID.NotFound", f"The image id '[{unknown}]' does not exist")
        if not _OWNERS & set(request.get("Owners") or _OWNERS):
            ids = []
        images = filtered((self._images[i] for i in ids), request.get("Filters"), _image_values)
        return paged("Images", [_described_image(image) for image in images], request, _IMAGE_PAGE)

    def get_parameter(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ssm:GetParameter.

        Raises:
            AwsError: If there is no such parameter.
        """
        value = self._resolve(request["Name"])
        if value is None:
            raise AwsError("ParameterNotFound", f"Parameter {request['Name']} not found.")
        return {"Parameter": _parameter(request["Name"], value)}

    def get_parameters(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ssm:GetParameters."""
        parameters = [(name, self._resolve(name)) for name in request["Names"]]
        return {
            "Parameters": [_parameter(name, value) for name, value in parameters if value is not None],
            "InvalidParameters": [name for name, value in parameters if value is None],
        }

    def _resolve(self, name: str) -> str | None:
        for pattern, alias in _PATHS:
            match = pattern.fullmatch(name)
            if match is not None:
                variant, version = _variant_of(alias, match.groups())
                return self._image(variant, version)
        return None

    def _image(self, variant: _Variant, version: str) -> str | None:
        if variant not in self._current:
            return None
        if version in LATEST:
            return self._current[variant]
        return self._publish(variant, version, self._clock.now() - 2 * _AGE)

    def _publish(self, variant: _Variant, version: str, created_at: datetime, image_id: str = "") -> str:
        chosen_id = image_id or _derived_id(variant, version)
        if chosen_id not in self._images:
            self._images[chosen_id] = Image(
                id=chosen_id,
                name=_name(variant, version),
                description=f"{variant.alias} {variant.kind} {variant.architecture}",
                architecture=variant.architecture,
                created_at=created_at,
            )
            self._on_publish(self._images[chosen_id])
        return chosen_id


def _variant_of(alias: str, captured: tuple[str, ...]) -> tuple[_Variant, str]:
    if alias == "al2":
        return _Variant(alias, *_AL2.get(captured[1], _AL2_GPU)), captured[2]
    if alias == "al2023":
        return _Variant(alias, captured[1], captured[2]), captured[3]
    if alias == "bottlerocket":
        return _Variant(alias, captured[2], "nvidia" if captured[1] else "standard"), captured[3]
    return _Variant(f"windows{captured[0]}", "x86_64", "standard"), LATEST[0]


def _derived_id(variant: _Variant, version: str) -> str:
    text = f"{variant.alias}/{variant.architecture}/{variant.kind}/{version}"
    return f"ami-0{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _name(variant: _Variant, version: str) -> str:
    if variant.alias == "bottlerocket":
        return f"bottlerocket-aws-k8s-{variant.kind}-{variant.architecture}-{version}"
    if variant.alias in _WINDOWS:
        return f"Windows_Server-{variant.alias[-4:]}-English-Core-EKS_Optimized-{version}"
    return f"amazon-eks-node-{variant.alias}-{variant.architecture}-{variant.kind}-{version}"


def _parameter(name: str, value: str) -> dict[str, Any]:
    return {"Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "text"}


def _described_image(image: Image) -> dict[str, Any]:
    return {
        "ImageId": image.id,
        "Name": image.name,
        "Description": image.description,
        "Architecture": image.architecture,
        "CreationDate": image.created_at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "OwnerId": AMAZON,
        "ImageOwnerAlias": "amazon",
        "Public": True,
        "State": "available",
        "RootDeviceType": "ebs",
        "RootDeviceName": ROOT_DEVICE,
        "VirtualizationType": "hvm",
    }


def _image_values(image: Image, name: str) -> tuple[str, ...]:
    fields = {
        "image-id": image.id,
        "name": image.name,
        "description": image.description,
        "architecture": image.architecture,
        "owner-id": AMAZON,
        "owner-alias": "amazon",
        "state": "available",
    }
    by_tag = of_tags({}, name)
    return of_fields(fields, name) if by_tag is None else by_tag


_TEMPLATE_PAGE: Final = 200
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
        template = self._by_name.get(name)
        if template is not None and (not token or template.token != token):
            raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
        if template is None:
            self._by_name[name] = template = _Kept(
                id=f"lt-{self._rng.getrandbits(68):017x}",
                name=name,
                created_at=self._clock.now(),
                tags=tags_of(request, "launch-template"),
                data=copy.deepcopy(request["LaunchTemplateData"]),
                token=token,
            )
        return {"LaunchTemplate": _described_template(template)}

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeLaunchTemplates. Raises AwsError for an unknown name or id."""
        templates = list(self._by_name.values())
        if names := request.get("LaunchTemplateNames"):
            templates = [self._named(name) for name in names]
        if names := request.get("LaunchTemplateIds"):
            templates = [self._of_id(template_id) for template_id in names]
        matching = filtered(templates, request.get("Filters"), _template_values)
        return paged(
            "LaunchTemplates", [_described_template(template) for template in matching], request, _TEMPLATE_PAGE
        )

    def delete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DeleteLaunchTemplate. Raises AwsError for an unknown name or id."""
        template = self._selected(request)
        del self._by_name[template.name]
        return {"LaunchTemplate": _described_template(template)}

    def find(self, specification: Mapping[str, Any]) -> Template:
        """The template that a fleet names.

        Raises:
            AwsError: If there is no such template or version.
        """
        template = self._selected(specification)
        version = str(specification.get("Version") or "$Default")
        if version not in _ONLY_VERSION:
            raise AwsError(
                "InvalidLaunchTemplateId.VersionNotFound", f"Could not find launch template version {version}"
            )
        return read_template(template.id, template.name, 1, template.data)

    def _selected(self, request: Mapping[str, Any]) -> _Kept:
        name = request.get("LaunchTemplateName")
        return self._named(name) if name else self._of_id(request.get("LaunchTemplateId", ""))

    def _named(self, name: str) -> _Kept:
        template = self._by_name.get(name)
        if template is None:
            raise AwsError(
                "InvalidLaunchTemplateName.NotFoundException",
                "At least one of the launch templates specified in the request does not exist.",
            )
        return template

    def _of_id(self, template_id: str) -> _Kept:
        template = next((kept for kept in self._by_name.values() if kept.id == template_id), None)
        if template is None:
            raise AwsError("InvalidLaunchTemplateId.NotFound", f"The launch template ID '{template_id}' does not exist")
        return template


def _described_template(template: _Kept) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "CreateTime": template.created_at,
        "DefaultVersionNumber": 1,
        "LatestVersionNumber": 1,
        "Tags": tag_list(template.tags),
    }


def _template_values(template: _Kept, name: str) -> tuple[str, ...]:
    by_tag = of_tags(template.tags, name)
    return of_fields({"launch-template-name": template.name}, name) if by_tag is None else by_tag


def read_template(template_id: str, name: str, number: int, data: Mapping[str, Any]) -> Template:
    """Return a template version from its request data."""
    interfaces = data.get("NetworkInterfaces") or []
    groups = [*(data.get("SecurityGroupIds") or []), *(g for card in interfaces for g in card.get("Groups") or [])]
    profile = data.get("IamInstanceProfile") or {}
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
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
