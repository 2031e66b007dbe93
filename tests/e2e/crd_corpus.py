"""Objects that differ from good ones in one place, to ask two judges about: the API server and `fleetwright validate`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from core.api.objects import JsonObject

_CLASS: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_REQUIREMENTS: Final[list[JsonObject]] = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m6i.large"]},
    {"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["default"]},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]},
    {"key": "karpenter.k8s.aws/instance-memory", "operator": "Lte", "values": ["65536"]},
    {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-east-1e"]},
    {"key": "example.com/team", "operator": "Exists"},
]
_SOME_REQUIREMENTS: Final = [one for one in _REQUIREMENTS if "tenancy" not in str(one["key"])]
_WITH_LEAST: Final[list[JsonObject]] = [
    {**_REQUIREMENTS[1], "minValues": 2},
    {**_REQUIREMENTS[0], "minValues": 2},
    *_REQUIREMENTS[2:],
]
_TAINTS: Final = [
    {"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "a", "effect": "NoExecute"},
]
_TAGS: Final = {"karpenter.sh/discovery": "demo"}

GOOD: Final[tuple[JsonObject, ...]] = (
    {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "rich"},
        "spec": {
            "template": {
                "metadata": {"labels": {"team": "a", "example.com/stage": "test"}, "annotations": {"note": "x"}},
                "spec": {
                    "nodeClassRef": _CLASS,
                    "requirements": _WITH_LEAST,
                    "taints": _TAINTS,
                    "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
                    "expireAfter": "720h",
                    "terminationGracePeriod": "1h30m",
                },
            },
            "disruption": {
                "consolidateAfter": "1m",
                "consolidationPolicy": "WhenEmpty",
                "budgets": [
                    {"nodes": "10%", "reasons": ["Empty", "Drifted"]},
                    {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"},
                ],
            },
            "limits": {"cpu": "100", "memory": "400Gi", "nodes": 10},
            "weight": 10,
        },
    },
    {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "static"},
        "spec": {
            "template": {"spec": {"nodeClassRef": _CLASS, "requirements": []}},
            "replicas": 3,
            "limits": {"nodes": "5"},
        },
    },
    {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "rich-0"},
        "spec": {
            "nodeClassRef": _CLASS,
            "requirements": [*_WITH_LEAST, {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["rich"]}],
            "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "pods": 3}},
            "taints": _TAINTS,
            "expireAfter": "Never",
        },
    },
    {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "rich"},
        "spec": {
            "requirements": _SOME_REQUIREMENTS,
            "priceAdjustment": "-10%",
            "capacity": {"example.com/device": 2},
            "weight": 5,
        },
    },
    {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "rich"},
        "spec": {
            "nodePools": {"names": ["general"], "matchLabels": {"team": "a"}},
            "timeZone": "Europe/Berlin",
            "rules": [
                {
                    "name": "nights",
                    "windows": [
                        {"days": ["Mon", "Fri"], "from": "08:00", "to": "19:00"},
                        {"schedule": "0 20 * * sun", "duration": "2h30m"},
                        {"start": "2026-12-24T18:00", "end": "2026-12-27T06:00"},
                    ],
                    "when": "Outside",
                    "exceptDates": ["2026-12-25"],
                    "validFrom": "2026-12-01",
                    "validUntil": "2027-12-01",
                    "settings": {"closed": True, "leadTime": "10m", "podsThatStay": "Force", "forceAfter": "3h"},
                },
                {
                    "name": "mornings",
                    "timeZone": "UTC",
                    "windows": [{"from": "06:00", "to": "08:00"}],
                    "settings": {
                        "limits": {"cpu": "100"},
                        "weight": 5,
                        "capacityTypes": ["spot"],
                        "requirements": _SOME_REQUIREMENTS,
                        "budgets": [{"nodes": "0", "reasons": ["Drifted"]}],
                        "warm": {"pods": 3, "requests": {"cpu": "1"}, "refill": False},
                    },
                },
            ],
        },
    },
    {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "rich"},
        "spec": {
            "role": "nodes",
            "amiFamily": "AL2023",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": _TAGS}, {"id": "subnet-0a1b"}],
            "securityGroupSelectorTerms": [{"tags": _TAGS}, {"name": "nodes"}, {"id": "sg-1"}],
            "capacityReservationSelectorTerms": [{"id": "cr-1"}, {"tags": _TAGS, "ownerID": "123456789012"}],
            "placementGroupSelector": {"name": "tight"},
            "associatePublicIPAddress": False,
            "ipPrefixCount": 1,
            "tags": {"cost-centre": "7"},
            "kubelet": {
                "maxPods": 110,
                "podsPerCore": 4,
                "clusterDNS": ["10.100.0.10", "10.100.0.11"],
                "systemReserved": {"cpu": "100m", "memory": "100Mi"},
                "kubeReserved": {"ephemeral-storage": "1Gi"},
                "evictionHard": {"memory.available": "5%", "pid.available": "10"},
                "evictionSoft": {"nodefs.available": "10.5%"},
                "evictionSoftGracePeriod": {"nodefs.available": "1m"},
                "evictionMaxPodGracePeriod": 60,
                "imageGCHighThresholdPercent": 85,
                "imageGCLowThresholdPercent": 80,
                "cpuCFSQuota": True,
                "shutdownGracePeriod": "30s",
                "serializeImagePulls": False,
                "featureGates": {"Some": True},
                "logging": {"flushFrequency": "5s", "verbosity": 3},
            },
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True, "iops": 3000},
                },
                {"deviceName": "/dev/xvdb", "ebs": {"snapshotID": "snap-1", "volumeInitializationRate": 200}},
            ],
            "instanceStorePolicy": "RAID0",
            "networkInterfaces": [
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
            ],
            "detailedMonitoring": True,
            "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2},
            "connectionTracking": {"tcpEstablishedTimeout": 300, "udpTimeout": 60},
            "cpuOptions": {"nestedVirtualization": "enabled"},
        },
    },
    {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "bottlerocket"},
        "spec": {
            "instanceProfile": "nodes",
            "amiSelectorTerms": [{"alias": "bottlerocket@v1.40.0"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
            "kubelet": {"maxPods": "vcpus * 10", "clusterDNS": ["10.100.0.10"]},
        },
    },
    {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "own-image"},
        "spec": {
            "role": "nodes",
            "amiFamily": "AL2",
            "amiSelectorTerms": [{"id": "ami-1"}, {"name": "golden-*", "owner": "self"}, {"ssmParameter": "/golden"}],
            "subnetSelectorTerms": [{"tags": _TAGS}],
            "securityGroupSelectorTerms": [{"tags": _TAGS}],
        },
    },
)

ABSENT: Final[Any] = object()
_VALUES: Final[tuple[Any, ...]] = (
    ABSENT,
    None,
    "",
    "x",
    "Never",
    "90s",
    "1h30m",
    "-1s",
    "00",
    "10%",
    "101%",
    "5.%",
    "-5",
    "+5",
    "1e3",
    "0.5",
    "99999999999999999999",
    "al2023@latest",
    "al2@v1",
    "windows2022@v1",
    "ubuntu@latest",
    "AL2",
    "Custom",
    "Bottlerocket",
    "spot",
    "In",
    "NotIn",
    "Gt",
    "DoesNotExist",
    "karpenter.sh/nodepool",
    "karpenter.sh/other",
    "foo.karpenter.k8s.aws/x",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/capacity-reservation-id",
    "kubernetes.io/hostname",
    "karpenter.sh/capacity-type",
    "example.com/" + "y" * 64,
    "z" * 400,
    "a/b/c",
    "Größe",
    0,
    1,
    -1,
    3,
    101,
    2**31,
    2**63,
    1.5,
    True,
    [],
    {},
    [{}],
    ["x"],
    ["x", "x"],
    {"x": "y"},
    {"": "y"},
    {"x": ""},
    {"cpu": "1"},
    {"memory.available": "5%"},
    {"kubernetes.io/cluster/x": "owned"},
    {"karpenter.sh/nodepool": "x"},
    {"kubernetes.io/hostname": "x"},
    {"bad key": "x"},
)
_ADDED: Final = (
    ("spec.caps", [{"name": "a", "limits": {"cpu": "1"}}] * 2),
    ("spec.caps", [{"name": "a", "limits": {"cpu": "1"}, "countAhead": "4h"}]),
    ("spec.caps", [{"name": "a", "limits": {"dollars-per-day": "1"}, "actions": [{"percent": 0, "do": ["Tell"]}]}]),
    ("spec.caps", [{"name": "a", "limits": {"dollars-per-day": "1"}, "countAhead": "4h"}]),
    ("spec.rules.0.validUntil", "2020-01-01"),
    ("spec.rules.0.windows.2.end", "2026-12-01T00:00"),
    ("spec.rules.0.windows.1.duration", "800h"),
    ("spec.price", "0.5"),
    ("spec.replicas", 2),
    ("spec.weight", 5),
    ("spec.role", "other"),
    ("spec.instanceProfile", "other"),
    ("spec.kubelet.registerWithTaints", [{"key": "a", "effect": "NoSchedule"}]),
    ("spec.kubelet.podsPerCore", 2),
    ("spec.kubelet.shutdownGracePeriod", "30s"),
    ("spec.kubelet.clusterDNS", ["10.0.0.1", "10.0.0.2"]),
    ("spec.subnetSelectorTerms", [{"id": "subnet-1", "tags": {"a": "b"}}]),
    ("spec.securityGroupSelectorTerms", [{"id": "sg-1", "name": "b"}]),
    ("spec.securityGroupSelectorTerms", [{"tags": {"a": "b"}, "name": "b"}]),
    ("spec.securityGroupSelectorTerms", [{"tags": {"a": "b"}, "name": "b"}, {"id": "sg-1"}]),
    ("spec.capacityReservationSelectorTerms", [{"id": "cr-1", "ownerID": "123456789012"}]),
    ("spec.amiSelectorTerms.0.name", "x"),
    ("spec.amiSelectorTerms.0.tags", {"a": "b"}),
    ("spec.tags", {f"tag-{n}": "x" for n in range(39)}),
    ("spec.tags", {f"tag-{n}": "x" for n in range(40)}),
    ("spec.amiSelectorTerms.0.alias", "al2023@latest"),
    ("spec.placementGroupSelector.id", "pg-1"),
    ("spec.networkInterfaces.1.networkCardIndex", 0),
    ("spec.networkInterfaces.0.interfaceType", "efa-only"),
    ("spec.blockDeviceMappings.0.ebs.volumeInitializationRate", 200),
    ("spec.blockDeviceMappings.1.rootVolume", True),
    ("spec.blockDeviceMappings.1.ebs.snapshotID", ABSENT),
    ("spec.limits.cpu", "1"),
    ("spec.limits.gpu", -1),
    ("spec.disruption.budgets.0.schedule", "@daily"),
    ("spec.disruption.budgets.0.duration", "1h"),
    ("spec.disruption.budgets.0.reasons", ["Empty", "Empty"]),
    ("spec.template.spec.startupTaints", [{"key": "a", "effect": "NoExecute"}]),
    ("spec.requirements.0.minValues", 3),
    ("spec.template.spec.requirements.0.minValues", 3),
    ("spec.capacity.cpu", "1"),
    ("spec.colour", "red"),
)


def corpus() -> Iterator[tuple[str, JsonObject]]:
    """Every good object; each with one value replaced; with one list entry doubled; with one thing added: label, object."""
    for good in GOOD:
        label = f"{good['kind']} {good['metadata']['name']}"
        yield label, good
        for path in list(_paths(good["spec"], ("spec",))):
            for value in _VALUES:
                yield f"{label} {'.'.join(map(str, path))}={_shown(value)}", _changed(good, path, value)
            if isinstance(path[-1], int):
                yield f"{label} {'.'.join(map(str, path))} twice", _doubled(good, path)
        for dotted, value in _ADDED:
            path = tuple(int(part) if part.isdigit() else part for part in _steps(dotted))
            if (changed := _try(good, path, value)) is not None:
                yield f"{label} {dotted}+={_shown(value)}", changed


def _steps(dotted: str) -> list[str]:
    return dotted.split(".")


def _paths(value: Any, base: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    yield base
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from _paths(item, (*base, key))


def _changed(good: JsonObject, path: tuple[str | int, ...], value: Any) -> JsonObject:
    whole = copy.deepcopy(good)
    place: Any = whole
    for step in path[:-1]:
        place = place[step]
    if value is ABSENT:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(value)
    return whole


def _try(good: JsonObject, path: tuple[str | int, ...], value: Any) -> JsonObject | None:
    try:
        return _changed(good, path, value)
    except (KeyError, IndexError, TypeError):
        return None


def _doubled(good: JsonObject, path: tuple[str | int, ...]) -> JsonObject:
    whole = copy.deepcopy(good)
    place: Any = whole
    for step in path[:-1]:
        place = place[step]
    place.append(copy.deepcopy(place[path[-1]]))
    return whole


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else repr(value)[:60]
