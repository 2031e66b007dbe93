"""The launches for which our requests to EC2 are compared with those of Karpenter's provider.

Both sides get the same EC2NodeClass and the same NodeClaim. The class is resolved as the provider's program resolves it: a
subnet in each zone, one security group, an image for each architecture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from core import labels
from core.catalogue.node_class import PlacementGroup
from core.catalogue.reservations import written_places

ROOT: Final = Path(__file__).parents[2]
CLUSTER: Final = "shop"
ENDPOINT: Final = "https://api.example"
AUTHORITY: Final = "Q0E="
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
TYPES: Final = ("c6g.large", "c8i.large", "g4dn.xlarge", "m5.large", "m5.xlarge", "p4d.24xlarge")

ADDRESSES: Final = {"ipv4": ("10.1.0.0/16", "10.1.0.10"), "ipv6": ("fd00:10:1::/108", "fd00:10:1::a")}
"""Family of the cluster's addresses → its services and its DNS."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One launch.

    Attributes:
        spec: Parts of the EC2NodeClass' spec.
        status: Parts of its status that the provider's program does not fill in by itself.
        metadata: Parts of its metadata.
        claim: Parts of the NodeClaim's spec.
        labels: Labels of the NodeClaim.
        annotations: Annotations of the NodeClaim.
        addresses: `ipv4` or `ipv6`.
        has_overlay: Whether a NodeOverlay sets prices; Karpenter's NodeClaim says so in an annotation.
    """

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    claim: dict[str, Any] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    addresses: str = "ipv4"
    has_overlay: bool = False


def requirement(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    """A requirement as objects have it."""
    return {"key": key, "operator": operator, "values": list(values)}


def of_capacity(*capacity_types: str) -> dict[str, Any]:
    """Requirements of a NodeClaim for these capacity types on every type with x86 or arm processors."""
    return {"requirements": [requirement(labels.CAPACITY_TYPE, *capacity_types)]}


def on(*types: str, capacity_type: str = labels.ON_DEMAND, **changes: Any) -> dict[str, Any]:
    """A NodeClaim for these types alone."""
    asked = [requirement(labels.CAPACITY_TYPE, capacity_type), requirement(labels.INSTANCE_TYPE, *types)]
    return {"requirements": asked, **changes}


def _family(alias: str, **spec: Any) -> Case:
    return Case(spec={"amiSelectorTerms": [{"alias": f"{alias}@latest"}], **spec})


def _reserved(name: str, *, selected: dict[str, Any] | None = None, **changes: Any) -> Case:
    reservation = {
        "id": name,
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1b",
        "ownerID": "111122223333",
        "instanceMatchCriteria": "targeted",
        "reservationType": "default",
        "state": "active",
        "interruptible": False,
        **changes,
    }
    return Case(
        spec={"capacityReservationSelectorTerms": [selected or {"id": name}]},
        status={"capacityReservations": [reservation]},
        metadata={"annotations": {labels.RESERVATION_PLACES: written_places({name: 5})}},
        claim=of_capacity(labels.RESERVED, labels.ON_DEMAND),
    )


def _grouped(*more: dict[str, Any], partitions: int = 0, **selector: str) -> Case:
    asked = of_capacity(labels.ON_DEMAND)["requirements"]
    found = PlacementGroup(
        id=selector.get("id", "pg-of-" + selector.get("name", "")),
        name=selector.get("name", "by-id"),
        strategy="partition" if partitions else "cluster",
        partitions=partitions,
    )
    return Case(
        spec={"placementGroupSelector": selector},
        metadata={"annotations": {labels.PLACEMENT_GROUP: msgspec.json.encode(found).decode()}},
        claim={"requirements": [*asked, *more]},
    )


_EVERY_FIELD: Final[dict[str, Any]] = {
    "associatePublicIPAddress": False,
    "blockDeviceMappings": [
        {
            "deviceName": "/dev/xvda",
            "rootVolume": True,
            "ebs": {
                "volumeSize": "81Gi",
                "volumeType": "gp3",
                "iops": 4000,
                "throughput": 250,
                "encrypted": True,
                "kmsKeyID": "arn:aws:kms:us-east-1:111122223333:key/1",
                "deleteOnTermination": False,
            },
        },
        {"deviceName": "/dev/xvdb", "ebs": {"snapshotID": "snap-1", "volumeInitializationRate": 200}},
    ],
    "connectionTracking": {"tcpEstablishedTimeout": 600, "udpStreamTimeout": 100, "udpTimeout": 50},
    "context": "opaque",
    "detailedMonitoring": True,
    "instanceStorePolicy": "RAID0",
    "ipPrefixCount": 2,
    "metadataOptions": {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "enabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "optional",
    },
    "tags": {"team": "a", "cost-center": "7"},
    "userData": "#!/bin/bash\necho own\n",
}

_KUBELET: Final = {
    "maxPods": 30,
    "systemReserved": {"cpu": "100m"},
    "kubeReserved": {"memory": "300Mi"},
    "evictionHard": {"memory.available": "7%"},
    "evictionSoft": {"memory.available": "9%"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "clusterDNS": ["10.1.0.77"],
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 60,
    "cpuCFSQuota": False,
    "featureGates": {"InPlacePodVerticalScaling": True},
    "containerLogMaxSize": "20Mi",
}

_INTERFACES: Final = [
    {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
    {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
]

_TWO_VOLUMES: Final = [
    {
        "deviceName": f"/dev/xvd{letter}",
        "ebs": {
            "volumeSize": size,
            "volumeType": "gp3",
            "encrypted": True,
            "kmsKeyID": "arn:aws:kms:us-east-1:111122223333:key/1",
            "deleteOnTermination": True,
        },
    }
    for letter, size in (("a", "6Gi"), ("b", "200Gi"))
]

_SETTINGS: Final = """\
[settings.kubernetes]
kube-api-qps = 30
[settings.kubernetes.eviction-hard]
"memory.available" = "2.5%"
"nodefs.inodesFree" = "10%"
[settings.kubernetes.eviction-soft]
"memory.available" = "5%"
[settings.kubernetes.eviction-soft-grace-period]
"memory.available" = "5m30s"
"""

_TAINTED: Final = {
    "taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}],
    "startupTaints": [{"key": "cilium", "effect": "NoExecute"}],
}

CASES: Final[dict[str, Case]] = {
    "plain": Case(),
    "al2": _family("al2"),
    "al2-tainted": Case(spec={"amiSelectorTerms": [{"alias": "al2@latest"}]}, claim=_TAINTED),
    "bottlerocket": _family("bottlerocket"),
    "bottlerocket-tainted": Case(
        spec={"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, claim=_TAINTED, labels={"team": "a"}
    ),
    "windows": _family("windows2022"),
    "bottlerocket-settings": _family("bottlerocket", blockDeviceMappings=_TWO_VOLUMES, userData=_SETTINGS),
    "pinned-image": Case(spec={"amiSelectorTerms": [{"alias": "al2023@v20240625"}]}),
    "image-by-name": Case(spec={"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "x", "owner": "123456789012"}]}),
    "image-by-tags": Case(spec={"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"a": "b"}}]}),
    "custom-by-alias": _family("bottlerocket", amiFamily="Custom"),
    "custom": Case(spec={"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}], "userData": "own"}),
    "every-field": Case(spec=_EVERY_FIELD, claim=_TAINTED, labels={"team": "a"}),
    "kubelet": Case(spec={"kubelet": _KUBELET}),
    "kubelet-images": Case(spec={"kubelet": {"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 60}}),
    "kubelet-upstream-field": Case(spec={"kubelet": {"serializeImagePulls": False}}),
    "kubelet-expression": Case(spec={"kubelet": {"maxPods": "min(110, max_pods)"}}),
    "instance-profile": Case(spec={"role": None, "instanceProfile": "own-profile"}),
    "spot": Case(claim=of_capacity(labels.SPOT)),
    "one-zone": Case(claim=on("m5.large", "m5.xlarge") | {"zone": "us-east-1b"}),
    "tainted": Case(claim=_TAINTED, labels={"team": "a", "example.com/tier": "gold"}),
    "accelerated": Case(claim=on("g4dn.xlarge")),
    "dedicated": Case(
        claim={
            "requirements": [requirement(labels.CAPACITY_TYPE, "on-demand"), requirement(labels.TENANCY, "dedicated")]
        }
    ),
    "enclaves": Case(spec={"enclaveOptions": {"enabled": True}}),
    "enclaves-off": Case(spec={"enclaveOptions": {"enabled": False}}),
    "nested-virtualization": Case(spec={"cpuOptions": {"nestedVirtualization": "enabled"}}),
    "public-address": Case(spec={"associatePublicIPAddress": True}),
    "two-interfaces": Case(
        spec={
            "associatePublicIPAddress": False,
            "networkInterfaces": _INTERFACES,
        },
        claim=on("p4d.24xlarge"),
    ),
    "efa-only": Case(spec={"networkInterfaces": _INTERFACES}),
    "efa": Case(claim=on("p4d.24xlarge") | {"efa": "4"}),
    "ipv6": Case(addresses="ipv6"),
    "ipv6-prefixes": Case(spec={"ipPrefixCount": 1}, addresses="ipv6"),
    "reservation": _reserved("cr-1"),
    "reservation-by-owner": _reserved("cr-4", selected={"ownerID": "111122223333", "tags": {"reservation": "cr-4"}}),
    "capacity-block": _reserved("cr-2", reservationType="capacity-block"),
    "interruptible-reservation": _reserved("cr-3", interruptible=True),
    "cluster-group": _grouped(name="near"),
    "cluster-group-by-id": _grouped(id="pg-0123456789abcdef0"),
    "partition": _grouped(requirement(labels.PLACEMENT_GROUP_PARTITION, "3"), partitions=7, name="partitioned"),
    "overlay": Case(has_overlay=True),
    "overlay-spot": Case(claim=of_capacity(labels.SPOT), has_overlay=True),
}
"""Name → case; the EC2NodeClass has the same name."""


def cases() -> dict[str, tuple[Case, dict[str, Any]]]:
    """Name → case and EC2NodeClass, of `CASES` and of the classes in examples/."""
    found = {name: (case, node_class(name, case)) for name, case in CASES.items()}
    for document in _documents(ROOT / "examples/pools"):
        if document.get("kind") == "EC2NodeClass":
            name = f"example-{document['metadata']['name']}"
            found[name] = (Case(), resolved({**document, "metadata": {"name": name}}, {}))
    return found


def node_class(name: str, case: Case) -> dict[str, Any]:
    """The EC2NodeClass of a case, resolved."""
    terms = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    spec = {
        "role": "KarpenterNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        **case.spec,
    }
    written = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name, **case.metadata},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }
    return resolved(written, case.status)


def resolved(written: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """The class with the status that the provider's program gives it."""
    name, spec = written["metadata"]["name"], written["spec"]
    return {
        **written,
        "status": {
            "subnets": [{"id": f"subnet-{i}", "zone": zone, "zoneID": f"az{i + 1}"} for i, zone in enumerate(ZONES)],
            "securityGroups": [{"id": "sg-0", "name": "nodes"}],
            "amis": [
                {"id": f"ami-{arch}", "name": arch, "requirements": [requirement(labels.ARCH, arch)]}
                for arch in ("amd64", "arm64")
            ],
            "instanceProfile": spec.get("instanceProfile", f"profile-of-{name}"),
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }


def node_claim(name: str, case: Case) -> dict[str, Any]:
    """The NodeClaim of a case."""
    claim = dict(case.claim)
    efa, zone = claim.pop("efa", None), claim.pop("zone", None)
    asked = claim.pop("requirements", None) or of_capacity(labels.ON_DEMAND)["requirements"]
    zones = [requirement(labels.ZONE, zone)] if zone else []
    requests = {"cpu": "1", "memory": "1Gi", "pods": "5", **({"vpc.amazonaws.com/efa": efa} if efa else {})}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"{name}-0",
            "labels": {labels.NODEPOOL: "general", labels.NODECLASS: name, **case.labels},
            "annotations": case.annotations
            | ({"karpenter.sh/price-overlay-applied": "true"} if case.has_overlay else {}),
        },
        "spec": {
            "nodeClassRef": {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": name},
            "requirements": [*asked, *zones],
            "resources": {"requests": requests},
            **claim,
        },
    }


def node_pool(node_class_name: str) -> dict[str, Any]:
    """The NodePool that a case's NodeClaim is of."""
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": node_class_name}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }


def _documents(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.yaml")):
        yield from (document for document in yaml.safe_load_all(path.read_text()) if document)


# The EC2NodeClasses for which our catalogue is compared with Karpenter's provider: each AMI family in six configurations.


FAMILIES: Final = {
    "al2": "al2@latest",
    "al2023": "al2023@latest",
    "bottlerocket": "bottlerocket@latest",
    "windows2022": "windows2022@latest",
    "custom": "",
}
"""Family → alias of its images; Custom has none."""

CONFIGURATIONS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "max-pods": {"kubelet": {"maxPods": 42}},
    "pods-per-core": {"kubelet": {"podsPerCore": 3, "systemReserved": {"cpu": "200m", "memory": "300Mi"}}},
    "eviction": {
        "kubelet": {
            "evictionHard": {"memory.available": "5%", "nodefs.available": "15%"},
            "kubeReserved": {"memory": "1Gi"},
        }
    },
    "raid0": {"instanceStorePolicy": "RAID0"},
    "volume": {
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "77Gi"}}],
    },
}

OWN_USER_DATA: Final = {
    "al2": "#!/bin/bash\necho own\n",
    "al2023": "#!/bin/bash\necho own\n",
    "bottlerocket": '[settings.kernel]\nlockdown = "integrity"\n',
    "windows2022": "Write-Host own",
    "custom": "own",
}
"""Family → the user's own data of the configuration `volume`."""

MAX_PODS: Final = 42
"""Karpenter's launches fill in what the type holds; the user data of all classes is asked for with this number."""


def classes(*, with_max_pods: bool = False) -> Iterator[dict[str, Any]]:
    """The manifests, named FAMILY.CONFIGURATION."""
    for family, alias in FAMILIES.items():
        for name, spec in CONFIGURATIONS.items():
            images = {"amiSelectorTerms": [{"alias": alias} if alias else {"id": "ami-1"}]}
            own = {"userData": OWN_USER_DATA[family]} if name == "volume" else {}
            kubelet = {**spec.get("kubelet", {}), **({"maxPods": MAX_PODS} if with_max_pods else {})}
            yield {
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "metadata": {"name": f"{family}.{name}"},
                "spec": {**images, **({} if alias else {"amiFamily": "Custom"}), **own, **spec, "kubelet": kubelet},
            }
