"""The data that a node needs to join its cluster, before it is rendered in a family's own format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.values.requirements import is_label_key, is_label_value, labels_fault, shown
from core.model.values.taints import EFFECTS, UNREGISTERED, Taint

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
