"""The AMI family type: all differences between machine images, in one object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.bootstrap import Bootstrap
from core.errors import InvalidInputError

# The public SSM parameters under which AWS publishes a family's images, and which instance types each image is for.


_GPU: Final = f"{labels.AWS_GROUP}/instance-gpu-count"
_ACCELERATOR: Final = f"{labels.AWS_GROUP}/instance-accelerator-count"

ImageRequirements = tuple[dict[str, Any], ...]
"""An image's requirements on an instance type, in the form of an EC2NodeClass's status."""

STANDARD: Final[ImageRequirements] = (
    {"key": _ACCELERATOR, "operator": "DoesNotExist"},
    {"key": _GPU, "operator": "DoesNotExist"},
)
NVIDIA: Final[ImageRequirements] = ({"key": _GPU, "operator": "Exists"},)
NEURON: Final[ImageRequirements] = ({"key": _ACCELERATOR, "operator": "Exists"},)

LATEST: Final = "latest"
"""The release in an alias that follows what AWS publishes."""


class ImageParameter(msgspec.Struct, frozen=True):
    """One parameter, whose value is an image id, and the sets of requirements that the image serves."""

    path: str
    serves: tuple[ImageRequirements, ...]


USER_DATA_BYTES_MAX: Final = 16_384
"""EC2's limit, before base64."""

_GIB: Final = 2**30
_DEFAULT_STORAGE_GIB: Final = 20
"""Ephemeral storage where neither family nor class names a volume (Karpenter)."""

KubernetesVersion = tuple[int, int]
"""Major and minor."""


def _published_nowhere(_kubernetes_version: str, _release: str) -> tuple[ImageParameter, ...]:
    return ()


class AmiFamily(msgspec.Struct, frozen=True, kw_only=True):
    """One AMI family. Sizing flags are those of Karpenter's AWS provider.

    Attributes:
        name: Its value in `spec.amiFamily`.
        alias: Its name in an alias such as `al2023@latest`; empty where it has none.
        renderer: The text that a node reads when it starts.
        images: Kubernetes version and release in the alias → where AWS publishes the images.
        has_releases: An alias may name a release; otherwise only `latest`.
        kubernetes_from, kubernetes_until: The first and last Kubernetes that AWS publishes images for, None for no bound.
        operating_system, windows_build: Labels of its nodes.
        architectures: Those that it boots on.
        excluded_type_families: Instance families that it does not boot on.
        needs_service_cidr: Its nodes cannot start without the addresses of the cluster's Services.
        registers_taints: Whether its nodes register with the taints in the user data; unknown where the user writes all of it.
        takes_any_kubelet_field: Its bootstrap passes on the kubelet block unchanged; otherwise it accepts the fields that all
            families know, without `unsupported_kubelet_fields`, and a single `clusterDNS` address.
        eni_limited_pods: Pods are limited by interface addresses; otherwise to 110.
        eni_limited_memory_overhead: kubeReserved memory follows the interface limit instead of the resolved pod count.
        offers_private_addresses: Pods take addresses of the VPC one by one, as a resource (Windows).
        default_volumes: Device → GiB of the volumes that a node has when the class names none.
        ephemeral_device: Device that holds pods' ephemeral storage; empty where it is the last one that the class names.
    """

    name: str
    alias: str = ""
    renderer: Callable[[Bootstrap], str]
    images: Callable[[str, str], tuple[ImageParameter, ...]] = _published_nowhere
    has_releases: bool = True
    kubernetes_from: KubernetesVersion | None = None
    kubernetes_until: KubernetesVersion | None = None
    operating_system: str = "linux"
    windows_build: str = ""
    architectures: tuple[str, ...] = ("amd64", "arm64")
    excluded_type_families: tuple[str, ...] = ()
    needs_service_cidr: bool = False
    registers_taints: bool = True
    takes_any_kubelet_field: bool = False
    unsupported_kubelet_fields: tuple[str, ...] = ()
    eni_limited_pods: bool = True
    eni_limited_memory_overhead: bool = True
    offers_private_addresses: bool = False
    default_volumes: tuple[tuple[str, int], ...] = (("/dev/xvda", _DEFAULT_STORAGE_GIB),)
    ephemeral_device: str = "/dev/xvda"

    @property
    def default_ephemeral_bytes(self) -> int:
        """The default size of the ephemeral device."""
        return dict(self.default_volumes).get(self.ephemeral_device, _DEFAULT_STORAGE_GIB) * _GIB

    def supports_kubelet_field(self, field: str) -> bool:
        """Whether its bootstrap passes on a kubelet field that other families know."""
        return field not in self.unsupported_kubelet_fields

    def boots(self, instance_type: str, architecture: str) -> bool:
        """Whether an instance type of this name and architecture can become a node."""
        is_excluded = instance_type.partition(".")[0] in self.excluded_type_families
        return architecture in self.architectures and not is_excluded

    def why_not_published(self, kubernetes_version: str) -> str:
        """Return why AWS publishes no image of the family for this Kubernetes, such as `1.34`; empty where it does."""
        running = tuple(int(part) for part in kubernetes_version.split(".")[:2] if part.isdecimal())
        if self.kubernetes_until is not None and running > self.kubernetes_until:
            bound = f"end with Kubernetes {_shown(self.kubernetes_until)}"
        elif self.kubernetes_from is not None and running < self.kubernetes_from:
            bound = f"begin with Kubernetes {_shown(self.kubernetes_from)}"
        else:
            return ""
        return f"{self.name} images {bound}, the cluster runs {kubernetes_version}: use another family"

    def user_data(self, bootstrap: Bootstrap) -> str:
        """The text as the node reads it, not yet base64.

        Raises:
            InvalidInputError: If the user's text cannot be merged, or the result is larger than EC2 takes.
        """
        text = self.renderer(bootstrap)
        size = len(text.encode())
        if size > USER_DATA_BYTES_MAX:
            raise InvalidInputError(
                f"user data has {size} bytes, EC2 accepts {USER_DATA_BYTES_MAX}: shorten it", field="spec.userData"
            )
        return text


def _shown(version: KubernetesVersion) -> str:
    return ".".join(map(str, version))
