"""Judges that no object ends a run: each of many odd objects joins a healthy cluster, and the cluster is served as before.

`make fuzz-objects OBJECTS=20000 SEED=1` writes `build/fuzz-objects.json`; `ALONE=groups` draws only objects that ask for
several pods. Those are also planned and explained with the pods that the command line makes of them. Objects are read as the
functions read them (pages of lists) and as the command line does, then planned, consolidated and explained. Some dozens share
a cluster; where a run raises or leaves the healthy pods without a place, the group is halved until the object is found.

Every object is a plain one of its kind with one to four of its fields replaced, removed or repeated. Values are of forms that
an API server stores in some field, and many that it would not: reading may refuse an object by name, but never raise anything
else.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from adapters.run_report import RunReport
from cli.errors import InputError
from cli.manifests.inventory import Document, take_inventory
from core.containment import contained
from core.disruption import disrupt
from core.errors import InvalidInputError
from core.explain import explain_group, explain_pod, explain_request
from core.gangs import gangs_of
from core.manifests.assemble import assemble
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.snapshot import FeatureGates, Options, Snapshot
from core.provisioning_requests import Starting, answer
from core.scheduling import Planner
from lambdas.controllers.audit_log import _found_in
from tests.builders import NOW, a_class_manifest, a_type
from tests.property.hostile.texts import delivery_of

GROUP: Final = 40
SHOWN: Final = 20

SECONDS_MAX: Final = 20.0
"""Processor seconds of one run, far above what a healthy one takes."""

TYPES: Final = tuple(
    a_type(f"m5.{size}", cpu=str(cpu), memory=f"{4 * cpu}Gi", pods="58", price=0.048 * cpu)
    for size, cpu in (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16))
)
CATALOGUE: Final = Catalogue(default=TYPES)

NUMBERS: Final = (
    *(0, -1, 1, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 10**30, 0.5, -0.0, 1e308),
    *(True,),
)
TEXTS: Final = (
    *("", " ", "0", "-1", "1e3", "1e400", "0.5", "NaN", "inf", "100%", "-5%", "9" * 300 + "%", "9" * 300),
    *(str(2**63 - 1), str(-(2**63)), str(-(2**63) - 1), "1Ei", "99999999E", "500m", "1n", "true", "null"),
    *("a/b/c", "a b", "x" * 253, "x" * 5000, "é\u202e\u0000", "\ud7ff\U0001f600", "9999-12-31T23:59:59Z"),
    *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"),
    *("2026-02-30T00:00:00Z", "0001-01-01", "9999-12-31", "9999-12-31T23:59", "720h", "9" * 30 + "h", "-1h"),
    *("* * * * *", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoExecute", "Always"),
    *("kubernetes.io/hostname", "topology.kubernetes.io/zone", "karpenter.sh/nodepool", "default", "busy"),
)
OTHERS: Final = (None, [], {}, [[]], [{}], {"": ""}, [""], [None], {"a": {"b": []}})


def meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """Metadata as an API server would complete it."""
    metadata = {
        "name": name,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": "2026-11-19T20:00:00Z",
        "labels": {},
        **more,
    }
    return {**metadata, "namespace": namespace} if namespace else metadata


def selector(**match: str) -> dict[str, Any]:
    """A label selector with every field."""
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["none"]}]
    return {"matchLabels": match, "matchExpressions": expressions}


def container(cpu: str = "100m", memory: str = "64Mi") -> dict[str, Any]:
    """A container with requests, limits and a port."""
    return {
        "name": "c",
        "image": "registry.k8s.io/pause:3.9",
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }


def pod(name: str, namespace: str, node: str = "", **spec: Any) -> dict[str, Any]:
    """A pod that waits, or runs on a node."""
    waits = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "lastTransitionTime": "2026-11-19T23:59:00Z",
        }
    ]
    runs = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-19T21:00:00Z"}]
    status = {"phase": "Running" if node else "Pending", "conditions": runs if node else waits}
    pod_spec = {"containers": [container()], **spec, **({"nodeName": node} if node else {})}
    kind = {"apiVersion": "v1", "kind": "Pod"}
    return {**kind, "metadata": meta(name, namespace, labels={"app": name}), "spec": pod_spec, "status": status}


def rich_spec() -> dict[str, Any]:
    """A pod's spec in which every field that planning reads is set."""
    node_term = {"matchExpressions": [{"key": "example.com/pool", "operator": "NotIn", "values": ["nowhere"]}]}
    pod_term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector(app="odd"), "namespaces": ["odd"]}
    weighted = {"weight": 1, "podAffinityTerm": pod_term}
    required, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector(app="odd"),
        "minDomains": 1,
        "matchLabelKeys": ["version"],
    }
    toleration = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 60}
    return {
        "containers": [container()],
        "initContainers": [{**container(), "name": "i", "restartPolicy": "Always"}],
        "overhead": {"cpu": "10m"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "affinity": {
            "nodeAffinity": {
                required: {"nodeSelectorTerms": [node_term]},
                preferred: [{"weight": 1, "preference": node_term}],
            },
            "podAffinity": {preferred: [weighted]},
            "podAntiAffinity": {required: [pod_term], preferred: [weighted]},
        },
        "topologySpreadConstraints": [spread],
        "tolerations": [toleration],
        "priority": 0,
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "odd"}}],
    }


def labels_of(name: str) -> dict[str, str]:
    """The labels of a running node."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5.xlarge",
        "topology.kubernetes.io/zone": "us-east-1a",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }


def node(name: str, number: int) -> dict[str, Any]:
    """A ready node."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels=labels_of(name), annotations={"example.com/note": "n"}),
        "spec": {"providerID": f"aws:///us-east-1a/i-{number:017x}", "taints": []},
        "status": {
            "capacity": room,
            "allocatable": dict(room),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-19T20:01:00Z"}],
        },
    }


def node_claim(name: str, number: int, node_name: str) -> dict[str, Any]:
    """The claim of a running node."""
    kinds = ("Launched", "Registered", "Initialized", "Consolidatable")
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2026-11-19T20:01:00Z"} for kind in kinds
    ]
    room = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": meta(name, labels=labels_of(node_name)),
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "720h",
            "terminationGracePeriod": "1h",
            "resources": {"requests": {"cpu": "1"}},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}],
        },
        "status": {
            "nodeName": node_name,
            "providerID": f"aws:///us-east-1a/i-{number:017x}",
            "capacity": room,
            "allocatable": dict(room),
            "lastPodEventTime": "2026-11-19T21:00:00Z",
            "conditions": conditions,
        },
    }


def node_pool(name: str) -> dict[str, Any]:
    """A NodePool with every field that planning reads."""
    taint = {"key": "example.com/odd", "value": "yes", "effect": "NoSchedule"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": meta(name),
        "spec": {
            "weight": 1,
            "limits": {"cpu": "1000"},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%", "reasons": ["Empty"], "schedule": "0 9 * * *", "duration": "8h"}],
            },
            "template": {
                "metadata": {"labels": {"example.com/pool": name}, "annotations": {"a": "b"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "expireAfter": "720h",
                    "terminationGracePeriod": "1h",
                    "taints": [taint],
                    "startupTaints": [taint],
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"], "minValues": 1},
                        {"key": "example.com/rank", "operator": "Gt", "values": ["1"]},
                    ],
                },
            },
        },
    }


def workload(kind: str, name: str) -> dict[str, Any]:
    """A workload of a template."""
    template = {"metadata": {"labels": {"app": "odd"}}, "spec": rich_spec()}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": meta(name, "odd"),
        "spec": {"replicas": 1, "selector": selector(app="odd"), "template": template},
    }


def calendar(name: str) -> dict[str, Any]:
    """A Calendar with every field."""
    windows = [
        {"days": ["Mon"], "from": "08:00", "to": "19:00"},
        {"schedule": "45 7 * * mon-fri", "duration": "1h15m"},
        {"start": "2026-11-10T18:00", "end": "2026-12-11T02:00"},
    ]
    settings = {
        "closed": True,
        "leadTime": "10m",
        "podsThatStay": "Force",
        "forceAfter": "3h",
        "limits": {"cpu": "10"},
        "weight": 5,
        "capacityTypes": ["spot"],
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
        "budgets": [{"nodes": "10%", "reasons": ["Empty"], "schedule": "0 9 * * *", "duration": "8h"}],
        "warm": {"pods": 2, "requests": {"cpu": "1"}},
    }
    rule = {
        "name": "rule",
        "timeZone": "America/New_York",
        "windows": windows,
        "when": "Outside",
        "exceptDates": ["2026-12-24"],
        "validFrom": "2026-01-01",
        "validUntil": "2027-01-01",
        "settings": settings,
    }
    cap = {
        "name": "cap",
        "pods": {"namespaces": ["odd"], "matchLabels": {"a": "b"}},
        "limits": {"dollars-per-day": "240", "nodes": "4"},
        "countAhead": "4h",
        "actions": [{"percent": 80, "do": ["Tell", "HoldBack"]}],
    }
    selected = {"names": ["odd"], "matchLabels": {"a": "b"}}
    spec = {"nodePools": selected, "timeZone": "Europe/Berlin", "rules": [rule], "caps": [cap]}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": meta(name), "spec": spec}


def plain(name: str, number: int) -> list[dict[str, Any]]:
    """One object of every kind, in a plain form."""
    gp3 = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}
    zones = [{"key": "topology.kubernetes.io/zone", "values": ["us-east-1a"]}]
    of_zone = {"nodeSelectorTerms": [{"matchExpressions": [{**zones[0], "operator": "In"}]}]}
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    attached = {"attacher": "ebs.csi.aws.com", "nodeName": "busy", "source": {"persistentVolumeName": name}}
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "odd", "uid": "r", "controller": True}]
    waiting, bound = pod(name, "odd", **rich_spec()), pod(f"{name}-bound", "odd", "busy", **rich_spec())
    for manifest in (waiting, bound):
        manifest["metadata"] |= {"ownerReferences": owners, "annotations": {"karpenter.sh/do-not-disrupt": "1h"}}
    kubelet = {"maxPods": 58, "kubeReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"}}
    volumes = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", "volumeType": "gp3"}}]
    return [
        waiting,
        bound,
        node(name, 1000 + number),
        node_claim(name, 1000 + number, name),
        node_pool(name),
        a_class_manifest(name, kubelet=kubelet, blockDeviceMappings=volumes, tags={"team": "a"}),
        workload("DaemonSet", name),
        workload("ReplicaSet", name),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta(name, "odd"),
            "spec": {"selector": selector(app="odd"), "minAvailable": "50%"},
            "status": {"disruptionsAllowed": 1, "expectedPods": 1, "observedGeneration": 1},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": meta(name),
            "spec": {"csi": csi, "nodeAffinity": {"required": of_zone}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": meta(name, "odd"),
            "spec": {"volumeName": "", "storageClassName": "gp3"},
            "status": {"phase": "Pending"},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": meta(name, annotations={"storageclass.kubernetes.io/is-default-class": "false"}),
            **gp3,
            "allowedTopologies": [{"matchLabelExpressions": zones}],
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": meta(name),
            "spec": {"drivers": [{"name": "ebs.csi.aws.com", "allocatable": {"count": 25}}]},
        },
        {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta(name), "spec": attached},
        calendar(name),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name)},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta(name, "odd"), "spec": {"selector": {"app": "odd"}}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": meta(name),
            "value": 10,
            "globalDefault": False,
        },
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": meta(name),
            "spec": {
                "requirements": [{"key": "example.com/never", "operator": "In", "values": ["x"]}],
                "priceAdjustment": "+5%",
                "capacity": {"example.com/dongle": "1"},
                "weight": 1,
            },
        },
    ]


def of_groups(name: str) -> list[dict[str, Any]]:
    """Objects that ask for several pods at once, in a plain form, and members of such groups."""
    template = {"metadata": {"labels": {"app": "odd"}, "annotations": {}}, "spec": {"containers": [container()]}}
    gang, topology = {"gang": {"minCount": 2}}, {"topology": [{"key": "topology.kubernetes.io/zone"}]}
    part = {
        "name": "w",
        "replicas": 2,
        "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}},
    }
    sets = {"size": 3, "leaderTemplate": template, "workerTemplate": template}
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "topology.kubernetes.io/zone"}
    pod_sets = [{"podTemplateRef": {"name": "shape"}, "count": 2}]
    conditions = [{"type": "Provisioned", "status": "True", "lastTransitionTime": "2026-11-19T23:59:00Z"}]
    specs: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        (
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            {},
            {"schedulingPolicy": gang, "schedulingConstraints": topology, "disruptionMode": {"all": {}}, "priority": 0},
        ),
        ("scheduling.k8s.io/v1alpha1", "Workload", {}, {"podGroups": [{"name": "g", "policy": gang}]}),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", {}, {"minMember": 2}),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", {}, {"minMember": 2}),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            exclusive,
            {"replicatedJobs": [part], "startupPolicy": {"startupPolicyOrder": "InOrder"}, "suspend": False},
        ),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {}, {"replicas": 2, "leaderWorkerTemplate": sets}),
        (
            "autoscaling.x-k8s.io/v1beta1",
            "CapacityBuffer",
            {},
            {"podTemplateRef": {"name": "shape"}, "replicas": 2, "percentage": 50, "limits": {"cpu": "4"}},
        ),
        *(
            (
                "autoscaling.x-k8s.io/v1",
                "ProvisioningRequest",
                {},
                {"provisioningClassName": kind, "podSets": pod_sets, "parameters": parameters},
            )
            for kind, parameters in (
                ("best-effort-atomic-scale-up.autoscaling.x-k8s.io", {"ValidUntilSeconds": "3600"}),
                ("capacity-block.fleetwright.dev", {"CapacityReservationID": "cr-1", "maxRunDurationSeconds": "60"}),
            )
        ),
    ]
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": meta(name, "odd", annotations=notes), "spec": spec}
        for version, kind, notes, spec in specs
    ]
    objects[-1]["status"] = {"conditions": conditions, "provisioningClassDetails": {"ProvisioningRequest": name}}
    return [*objects, *_members_of(name)]


def _members_of(name: str) -> list[dict[str, Any]]:
    """A waiting pod for each way of naming a group; the group's own object is elsewhere in the draw, or missing."""
    notes = {"fleetwright.dev/group": name, "fleetwright.dev/group-minimum": "1"}
    request = {"autoscaling.x-k8s.io/consume-provisioning-request": name}
    marks = {"kueue.x-k8s.io/pod-group-name": name}
    leader = {"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": "0"}
    jobs = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": "w"}
    ways: list[tuple[dict[str, str], dict[str, str], dict[str, Any]]] = [
        ({}, {**notes, **request, "fleetwright.dev/group-topology": "topology.kubernetes.io/zone"}, {}),
        (marks, {"kueue.x-k8s.io/pod-group-total-count": "1"}, {}),
        (leader, {"leaderworkerset.sigs.k8s.io/size": "3"}, {}),
        (jobs, {}, {}),
        ({}, {}, {"schedulingGroup": {"podGroupName": name}}),
        ({}, {}, {"workloadRef": {"name": name, "podGroup": "g", "podGroupReplicaKey": "0"}}),
    ]
    members = []
    for number, (labelled, noted, spec) in enumerate(ways):
        member = pod(f"{name}-member-{number}", "odd", containers=[container()], **spec)
        member["metadata"] |= {"labels": labelled, "annotations": noted}
        members.append(member)
    return members


AUDIT_LINE: Final = {
    "stage": "ResponseComplete",
    "verb": "patch",
    "objectRef": {"resource": "pods", "subresource": "status", "namespace": "odd", "name": "p"},
    "responseStatus": {"code": 200},
    "requestReceivedTimestamp": "2026-11-19T12:00:00.000000Z",
    "user": {"username": "system:kube-scheduler", "groups": ["system:masters"]},
    "requestObject": {
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    },
}

SHAPE: Final = {
    "apiVersion": "v1",
    "kind": "PodTemplate",
    "metadata": meta("shape", "odd"),
    "template": {"metadata": {"labels": {"app": "odd"}}, "spec": {"containers": [container()]}},
}
PODS_MAX: Final = 200
"""Of one odd object; it may ask for millions."""

OPTIONS: Final = Options(feature_gates=FeatureGates(capacity_buffer=True))
_EXPANDED: Final = ("PodGroup", "Workload", "JobSet", "LeaderWorkerSet", "CapacityBuffer", "ProvisioningRequest", "Pod")

HEALTHY: Final = tuple(f"shop/healthy-{n}" for n in range(3))
BASE: Final = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": meta("shop")},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": meta("odd")},
    a_class_manifest(),
    {**node_pool("default"), "spec": {**node_pool("default")["spec"], "weight": 100}},
    node("busy", 1),
    node_claim("busy-claim", 1, "busy"),
    pod("busy-0", "shop", "busy"),
    *(pod(f"healthy-{n}", "shop", containers=[container("1500m", "2Gi")]) for n in range(3)),
]
BASE[3]["spec"]["template"]["spec"] |= {"taints": [], "startupTaints": [], "requirements": []}


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside, containers included."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from paths_in(inner, (*path, key))


def changed(obj: dict[str, Any], drawn: random.Random) -> tuple[dict[str, Any], list[str]]:
    """Return the object with one to four of its fields changed, and what was changed."""
    copied = copy.deepcopy(obj)
    notes = []
    for _ in range(drawn.choice((1, 1, 1, 2, 2, 3, 4))):
        keeps = {("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("kind",), ("apiVersion",)}
        places = [path for path in paths_in(copied) if path not in keeps]
        if not places:
            break  # an earlier change has left nothing
        path = drawn.choice(places)
        holder = copied
        for key in path[:-1]:
            holder = holder[key]
        old = holder[path[-1]]
        new = _value(old, drawn)
        if new is _REMOVED:
            del holder[path[-1]]
        else:
            holder[path[-1]] = new
        notes.append(f"{'.'.join(map(str, path))}={'removed' if new is _REMOVED else _shown(new)}")
    return copied, notes


_REMOVED: Final = object()


def _shown(value: Any) -> str:
    return repr(value)[:60] if not isinstance(value, list) or len(value) != 1 else "a list"


def _value(old: Any, drawn: random.Random) -> Any:
    draw = drawn.random()
    if draw < 0.1:
        return _REMOVED
    if draw < 0.2:
        return copy.deepcopy(drawn.choice(OTHERS))
    if isinstance(old, list) and old and draw < 0.6:
        return [copy.deepcopy(old[0]) for _ in range(drawn.choice((0, 2, 20, 300)))]
    if isinstance(old, dict) and draw < 0.6:
        return {**old, drawn.choice(TEXTS): drawn.choice(TEXTS)}
    if isinstance(old, bool | int | float) and draw < 0.8:
        return drawn.choice(NUMBERS)
    if draw < 0.9:
        return drawn.choice(TEXTS)
    if draw < 0.92:
        return _deep(drawn.choice((50, 200)))
    return drawn.choice(NUMBERS)


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class Odd:
    """One odd object, and how it is reported."""

    def __init__(self, number: int, drawn: random.Random, *, of_groups_alone: bool = False) -> None:
        name = f"odd-{number}"
        forms = of_groups(name) if of_groups_alone else [*plain(name, number), *of_groups(name)]
        form = drawn.randrange(len(forms) + 1)
        self.is_audit_line = form == len(forms)
        self.object, notes = changed(AUDIT_LINE if self.is_audit_line else forms[form], drawn)
        kind = "audit line" if self.is_audit_line else self.object["kind"]
        if kind == "Calendar" and isinstance(self.object.get("spec"), dict):
            self.object["spec"]["nodePools"] = {
                "names": ["odd"]
            }  # without a selection it closes every NodePool, as it should
        self.name = f"{number} {kind} {'; '.join(notes)}"


class Verdict:
    """What a run about some odd objects showed: the exception that escaped, empty if none, and whether it served the others."""

    def __init__(self) -> None:
        self.escaped = ""
        self.ended = ""
        self.refused: list[str] = []
        self.set_aside = 0


def judge(group: Sequence[Odd]) -> Verdict:
    """Run everything about the healthy cluster with these objects."""
    verdict, began = Verdict(), time.process_time()
    try:
        lines = [odd.object for odd in group if odd.is_audit_line]
        if lines:
            report = RunReport()
            findings = _found_in(delivery_of([*lines, AUDIT_LINE]), report)
            if not findings.reasons:
                verdict.ended = "the healthy audit line wakes nobody"
        odd_objects = [odd.object for odd in group if not odd.is_audit_line]
        _serve(odd_objects, verdict)
        for number, obj in enumerate(odd_objects):
            _answer(obj, number, verdict)
    except Exception as error:  # noqa: BLE001 - this is the question
        verdict.escaped = f"{type(error).__name__}: {str(error)[:200]}"
    if time.process_time() - began > SECONDS_MAX:
        verdict.ended = f"it took more than {SECONDS_MAX:.0f} s"
    return verdict


def _serve(odd: Sequence[dict[str, Any]], verdict: Verdict) -> None:
    snapshot = _observed([*BASE, *odd], verdict)
    decided = contained(snapshot, lambda tried_snapshot: Planner(tried_snapshot).plan())
    verdict.set_aside += len(decided.set_aside)
    placed = {key for claim in decided.result.claims for key in claim.pods}
    placed |= {binding.pod for binding in decided.result.bindings}
    missing = [key for key in HEALTHY if key not in placed]
    if missing:
        reasons = [unplaced for unplaced in decided.result.unschedulable if unplaced.pod in missing]
        verdict.ended = f"no place for {reasons[:1]}"
    contained(snapshot, disrupt)
    healthy = next(pod for pod in snapshot.pods if pod.key == HEALTHY[0])
    contained(snapshot, lambda tried_snapshot: explain_pod(tried_snapshot, healthy))


def _answer(odd: dict[str, Any], number: int, verdict: Verdict) -> None:
    """Plan and explain for an object that asks for several pods as the command line does: from files, with its pods."""
    if odd["kind"] not in _EXPANDED:
        return
    objects = [*BASE, SHAPE, odd]
    try:
        inventory = take_inventory((Document("odd.yaml", place, obj) for place, obj in enumerate(objects)), PODS_MAX)
    except InputError as error:
        verdict.refused.append(f"{number} {odd['kind']}: {str(error)[:80]}")
        return
    snapshot, _ = assemble(inventory.objects, now=NOW, catalogue=CATALOGUE, options=OPTIONS, is_live=False)
    contained(snapshot, lambda tried_snapshot: Planner(tried_snapshot).plan())
    for gang in gangs_of(snapshot):
        contained(snapshot, partial(explain_group, gang=gang))
    for request in snapshot.provisioning_requests:
        explain_request(snapshot, request)
        answer(request, snapshot, None, Starting())


def _observed(objects: Sequence[dict[str, Any]], verdict: Verdict) -> Snapshot:
    """Read the objects as pages of lists, as the functions do, and each by itself, as the command line does."""
    by_kind: dict[Resource, list[dict[str, Any]]] = {}
    for obj in objects:
        resource = resources.resource_read(obj["apiVersion"].rpartition("/")[0], obj["kind"])
        assert resource is not None
        by_kind.setdefault(resource, []).append(obj)
    decoded: dict[Resource, tuple[Any, ...]] = {}
    for resource, members in by_kind.items():
        page = decoding.decode_page(resource, json.dumps({"items": members}).encode())
        decoded[resource] = page.items
        verdict.refused += [name for name, _ in page.rejected]
        for obj in members:
            try:
                decoding.from_object(resource, obj)
            except InvalidInputError as error:
                verdict.refused.append(f"{obj['kind']}: {error.problem}"[:80])
    snapshot, problems = assemble(decoded, now=NOW, catalogue=CATALOGUE, options=OPTIONS, is_live=False)
    verdict.set_aside += sum(problem.set_aside is not None for problem in problems)
    return snapshot


def culprits(group: Sequence[Odd]) -> Iterator[tuple[Odd, Verdict]]:
    """Yield the objects of a group that fail by themselves; of a failing group without one, the first stands for all."""
    verdict = judge(group)
    if not verdict.escaped and not verdict.ended:
        return
    if len(group) == 1:
        yield group[0], verdict
        return
    middle = len(group) // 2
    failing = [*culprits(group[:middle]), *culprits(group[middle:])]
    yield from failing or [(group[0], verdict)]


def main() -> int:
    """Judge the drawn objects; 1 if any ends a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", action="store_true", help="draw only objects that ask for several pods")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    figures = run(arguments.objects, arguments.seed, of_groups_alone=arguments.groups)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    shown = {**figures, "escaped": figures["escaped"][:SHOWN], "runsEnded": figures["runsEnded"][:SHOWN]}
    print(json.dumps(shown, indent=1))  # noqa: T201 - its answer
    return 1 if figures["escaped"] or figures["runsEnded"] else 0


def run(objects: int, seed: int, *, of_groups_alone: bool = False) -> dict[str, Any]:
    """Return the answer for so many objects; equal for equal seeds."""
    drawn = random.Random(seed)  # noqa: S311 - test data
    escaped, ended = [], []
    for start in range(0, objects, GROUP):
        group = [
            Odd(number, drawn, of_groups_alone=of_groups_alone) for number in range(start, min(objects, start + GROUP))
        ]
        for odd, verdict in culprits(group):
            (escaped if verdict.escaped else ended).append(
                {"object": odd.name, "why": verdict.escaped or verdict.ended}
            )
    return {"objects": objects, "seed": seed, "escaped": escaped, "runsEnded": ended}


if __name__ == "__main__":
    raise SystemExit(main())
