"""Describes the EKS cluster: its endpoint and Kubernetes version. Read once per sandbox and day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.aws.service import AwsService
from adapters.ports import Clock, JsonObject, NotFoundError
from core.ami_families.bootstrap import Cluster

FRESH_FOR: Final = timedelta(hours=1)
"""How long a description is used. The endpoint never changes; the version changes with an upgrade and decides about images."""


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """EKS's description of the cluster. `version` is the control plane's, such as `1.34`."""

    cluster: Cluster
    version: str


class EksCluster:
    """Describes one cluster."""

    def __init__(self, eks: AwsService, name: str, clock: Clock) -> None:
        self._eks = eks
        self._name = name
        self._clock = clock
        self._read: tuple[datetime, ClusterDescription] | None = None

    def describe(self) -> ClusterDescription:
        """Return the description. Raises PortError."""
        now = self._clock.now()
        read = self._read
        if read is None or now - read[0] >= FRESH_FOR:
            described = self._eks.call("DescribeCluster", name=self._name).get("cluster") or {}
            if not described.get("endpoint"):
                raise NotFoundError("eks:DescribeCluster", f"cluster {self._name} has no endpoint yet")
            read = self._read = (now, _description(described, self._name))
        return read[1]


def _description(described: JsonObject, name: str) -> ClusterDescription:
    network = described.get("kubernetesNetworkConfig") or {}
    cluster = Cluster(
        name=name,
        endpoint=described["endpoint"],
        certificate_authority=(described.get("certificateAuthority") or {}).get("data") or "",
        service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or "",
    )
    return ClusterDescription(cluster=cluster, version=str(described.get("version") or ""))
