"""The machine images that EKS publishes, and the public parameters behind aliases such as `al2023@latest`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from simulator.aws.ec2.filters import filtered, of_fields, of_tags, paged
from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock

AMAZON: Final = "602401143452"
LATEST: Final = ("recommended", "latest")
ROOT_DEVICE: Final = "/dev/xvda"

_AGE: Final = timedelta(days=3)
_PAGE: Final = 1000
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
            known = sorted({variant.alias for variant in _VARIANTS})
            raise InvalidInputError(f"{alias!r} is none of {', '.join(known)}", field="ami.alias")
        version = self._clock.now().strftime("v%Y%m%d%H%M%S")
        for variant in variants:
            ending = "" if variant == variants[0] else f"{variant.architecture}{variant.kind}".replace("_", "")
            self._current[variant] = self._publish(variant, version, self._clock.now(), image_id + ending)

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeImages. Raises AwsError for an unknown id."""
        asked = request.get("ImageIds") or list(self._images)
        for unknown in [image_id for image_id in asked if image_id not in self._images]:
            raise AwsError("InvalidAMIID.NotFound", f"The image id '[{unknown}]' does not exist")
        if not _OWNERS & set(request.get("Owners") or _OWNERS):
            asked = []
        found = filtered((self._images[i] for i in asked), request.get("Filters"), _values)
        return paged("Images", [_described(image) for image in found], request, _PAGE)

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
        found = [(name, self._resolve(name)) for name in request["Names"]]
        return {
            "Parameters": [_parameter(name, value) for name, value in found if value is not None],
            "InvalidParameters": [name for name, value in found if value is None],
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
        given = image_id or _derived_id(variant, version)
        if given not in self._images:
            self._images[given] = Image(
                id=given,
                name=_name(variant, version),
                description=f"{variant.alias} {variant.kind} {variant.architecture}",
                architecture=variant.architecture,
                created_at=created_at,
            )
            self._on_publish(self._images[given])
        return given


def _variant_of(alias: str, found: tuple[str, ...]) -> tuple[_Variant, str]:
    if alias == "al2":
        return _Variant(alias, *_AL2.get(found[1], _AL2_GPU)), found[2]
    if alias == "al2023":
        return _Variant(alias, found[1], found[2]), found[3]
    if alias == "bottlerocket":
        return _Variant(alias, found[2], "nvidia" if found[1] else "standard"), found[3]
    return _Variant(f"windows{found[0]}", "x86_64", "standard"), LATEST[0]


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


def _described(image: Image) -> dict[str, Any]:
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


def _values(image: Image, name: str) -> tuple[str, ...]:
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
