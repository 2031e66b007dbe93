"""The AMI family type: all differences between machine images in one object, and what a node needs to join its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.values.requirements import is_label_key, is_label_value, labels_fault, shown
from core.model.values.taints import EFFECTS, UNREGISTERED, Taint

# What a node needs to join its cluster, before it is rendered in a family's own format.


_DNS_HOST: Final = 10
"""Host part of the DNS address in the Services' range: 10.100.0.10, or fd30::a (EKS)."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """How a node reaches the cluster.

    Attributes:
        certificate_authority: The API server's, base64 as EKS gives it.
        service_cidr: Addresses of Services; AL2023 nodes cannot start without it.
        dns_ip: The cluster DNS service; empty leaves it to the node's bootstrap.
    """

    name: str
    endpoint: str
    certificate_authority: str = ""
    service_cidr: str = ""
    dns_ip: str = ""

    @property
    def is_ipv6(self) -> bool:
        """Whether pods and Services have IPv6 addresses."""
        return ":" in (self.dns_ip or self.service_cidr)

    @property
    def eks_dns_ip(self) -> str:
        """Return EKS's address of the cluster DNS: the tenth address of the Services' range; empty where that is unknown.

        Raises:
            InvalidInputError: If `service_cidr` is not an address range.
        """
        if not self.service_cidr:
            return ""
        try:
            return str(ip_network(self.service_cidr)[_DNS_HOST])
        except (ValueError, IndexError) as error:
            problem = f"{shown(self.service_cidr)} is not a range of addresses"
            raise InvalidInputError(problem, field="cluster.serviceCIDR") from error


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """The boot data of one node.

    Attributes:
        labels, taints: The labels and taints that it registers with.
        kubelet: The class's kubelet block as written.
        max_pods: Pods that the plan assumed; the kubelet must admit as many.
        user_data: The user's own, merged in as the family allows.
        raids_instance_store: Whether local disks become one volume for pods.
        alias_release: The release in the class' alias, such as `v1.46.0` or `latest`; empty without one.
        image_name: Name of the image, empty where unknown.
    """

    cluster: Cluster
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    kubelet: dict[str, Any] = {}
    max_pods: int = 0
    user_data: str = ""
    raids_instance_store: bool = False
    alias_release: str = ""
    image_name: str = ""

    @property
    def cluster_dns(self) -> tuple[str, ...]:
        """Addresses of the cluster DNS: the class' own, else the cluster's, else none."""
        addresses = self.kubelet.get("clusterDNS") or ()
        return tuple(str(ip) for ip in addresses) or ((self.cluster.dns_ip,) if self.cluster.dns_ip else ())

    def dns_address(self) -> str:
        """The first of `cluster_dns`, for families that take a single one; empty where there is none.

        Raises:
            InvalidInputError: If it is not an address.
        """
        text = next(iter(self.cluster_dns), "")
        try:
            if self.cluster_dns:
                ip_address(text.replace("%", " "))  # the zone after a percent sign may be any text
        except ValueError as error:
            raise InvalidInputError(f"{shown(text)} is not an address", field="spec.kubelet.clusterDNS") from error
        return text


def registered_labels(node_labels: Mapping[str, str], *, syncs_taints: bool) -> dict[str, str]:
    """The labels that a kubelet registers with: those it is allowed to set, in key order.

    With `syncs_taints` false the node carries the label by which Karpenter leaves its taints alone: it registers with them
    (every family but Custom).

    Raises:
        InvalidInputError: If one of them is not a valid label.
    """
    fault = labels_fault(node_labels)
    if fault:
        raise InvalidInputError(fault, field="labels")
    registered = dict(node_labels) if syncs_taints else {**node_labels, labels.DO_NOT_SYNC_TAINTS: "true"}
    return {key: registered[key] for key in sorted(registered) if not labels.is_kept_from_kubelets(key)}


def registered_taints(texts: Iterable[str]) -> tuple[Taint, ...]:
    """Return taints from `key=value:Effect`, and the one that keeps pods away until the node is registered.

    Raises:
        InvalidInputError: If a text is not a taint.
    """
    taints = [read_taint(text) for text in texts]
    return tuple(taints) if UNREGISTERED in taints else (*taints, UNREGISTERED)


def read_taint(text: str) -> Taint:
    """Read `key=value:Effect` or `key:Effect`.

    Raises:
        InvalidInputError: If it is neither.
    """
    body, _, effect = text.rpartition(":")
    key, _, value = body.partition("=")
    is_taint = is_label_key(key) and is_label_value(value) and effect in EFFECTS
    if not is_taint:
        raise InvalidInputError(f"{shown(text)} is not a taint of the form key=value:Effect", field="taints")
    return Taint(key, effect, value)


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
