"""What manifests of clusters say beyond the model of random clusters: features that are drawn into the written objects.

Each has its own dice, so that a seed keeps its other features as more are added.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from tests.oracle_scheduler.clusters import WIDE_FROM
from tests.property.naive.reading import APPS, ZONES, chance

Objects = dict[Resource, list[JsonObject]]
Widening = Callable[[Random, Objects], None]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_OLD_NAMES: Final = {
    labels.ZONE: "failure-domain.beta.kubernetes.io/zone",
    labels.ARCH: "beta.kubernetes.io/arch",
    labels.OS: "beta.kubernetes.io/os",
    labels.INSTANCE_TYPE: "beta.kubernetes.io/instance-type",
}


def widened(seed: int, objects: Objects) -> Objects:
    """The objects with some of the features, from `WIDE_FROM` on."""
    if seed < WIDE_FROM:
        return objects
    changed = copy.deepcopy(objects)
    for widening in WIDENINGS:
        draw = Random(f"{widening.__name__} {seed}")  # noqa: S311 - a test's dice
        if chance(draw, 0.25):
            widening(draw, changed)
    return changed


def _all_pods(objects: Objects) -> Iterator[JsonObject]:
    """All pods but those of DaemonSets, which the planner takes for what comes with new nodes."""
    for pod in objects[resources.PODS]:
        if all(owner["kind"] != "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ()):
            yield pod


def _pods(objects: Objects, *, waiting: bool) -> Iterator[JsonObject]:
    return (pod for pod in _all_pods(objects) if bool(pod["spec"].get("nodeName")) != waiting)


def _started(objects: Objects) -> list[JsonObject]:
    """Nodes that are up: those that start lose taints of passing conditions."""
    nodes = objects[resources.NODES]
    return [
        node
        for node in nodes
        if labels.INITIALIZED in node["metadata"]["labels"] or labels.NODEPOOL not in node["metadata"]["labels"]
    ]


def _terms_between_pods(pod: JsonObject) -> Iterator[JsonObject]:
    for side in ("podAffinity", "podAntiAffinity"):
        affinity = (pod["spec"].get("affinity") or {}).get(side) or {}
        yield from affinity.get(_REQUIRED) or ()
        yield from (one["podAffinityTerm"] for one in affinity.get(_PREFERRED) or ())


def _node_terms(pod: JsonObject) -> Iterator[JsonObject]:
    by_node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    yield from (by_node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    yield from (one["preference"] for one in by_node.get(_PREFERRED) or ())


def cordoned(draw: Random, objects: Objects) -> None:
    """Nodes that take no pods, some so recently that the taint is not there yet; some pods tolerate it."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    for node in _started(objects):
        if chance(draw, 0.4):
            node["spec"]["unschedulable"] = True
            node["spec"]["taints"] = [*node["spec"].get("taints", ()), *([taint] if chance(draw, 0.7) else [])]
    for pod in _pods(objects, waiting=True):
        if chance(draw, 0.1):
            tolerated = {"key": taint["key"], "operator": "Exists", "effect": draw.choice(("NoSchedule", "NoExecute"))}
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), tolerated]


def under_pressure(draw: Random, objects: Objects) -> None:
    """Taints of conditions of nodes that are up."""
    kinds = (("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule"), ("unreachable", "NoExecute"))
    for node in _started(objects):
        if chance(draw, 0.4):
            key, effect = draw.choice(kinds)
            taint = {"key": f"node.kubernetes.io/{key}", "effect": effect}
            node["spec"]["taints"] = [*node["spec"].get("taints", ()), taint]
    for pod in _pods(objects, waiting=True):
        if chance(draw, 0.15):
            key, effect = draw.choice(kinds)
            tolerated = {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
            tolerated |= {"tolerationSeconds": 300} if effect == "NoExecute" else {}
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), tolerated]


def other_hostnames(draw: Random, objects: Objects) -> None:
    """Nodes whose hostname is not their name."""
    for node in objects[resources.NODES]:
        if chance(draw, 0.5):
            node["metadata"]["labels"][labels.HOSTNAME] = f"ip-{node['metadata']['name']}"


def old_label_names(draw: Random, objects: Objects) -> None:
    """Names of labels that kubelets and cloud providers still write beside the new ones."""
    for pod in _pods(objects, waiting=True):
        if not chance(draw, 0.5):
            continue
        selector = pod["spec"].get("nodeSelector") or {}
        pod["spec"]["nodeSelector"] = {_OLD_NAMES.get(key, key): value for key, value in selector.items()}
        for term in _node_terms(pod):
            for expression in term.get("matchExpressions") or ():
                expression["key"] = _OLD_NAMES.get(expression["key"], expression["key"])


def other_topology_keys(draw: Random, objects: Objects) -> None:
    """Rules along instance types, NodePools and the old name of the zone."""
    keys = (labels.INSTANCE_TYPE, labels.NODEPOOL, _OLD_NAMES[labels.ZONE], labels.OS)
    for pod in _all_pods(objects):
        for rule in (*pod["spec"].get("topologySpreadConstraints", ()), *_terms_between_pods(pod)):
            if chance(draw, 0.3):
                rule["topologyKey"] = draw.choice(keys)


def several_ports(draw: Random, objects: Objects) -> None:
    """Pods with ports on several addresses and protocols, in init containers, or on the network of their host."""
    addresses = ("", "::", "127.0.0.1", "10.0.0.1")
    for pod in _all_pods(objects):
        if not chance(draw, 0.2):
            continue
        container, kind = pod["spec"]["containers"][0], draw.choice(("several", "host", "init"))
        drawn = [
            {"containerPort": port, "protocol": draw.choice(("TCP", "UDP", "SCTP"))}
            for port in draw.sample((80, 81, 9100), draw.randint(1, 3))
        ]
        if kind == "host":
            pod["spec"]["hostNetwork"] = True
            # Others of its containers name the same ports of the host.
            for part in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
                part.pop("ports", None)
            container["ports"] = [{**port, "hostPort": port["containerPort"]} for port in drawn]
            continue
        held = [{**port, "hostPort": port["containerPort"], "hostIP": draw.choice(addresses)} for port in drawn]
        if kind == "several":
            container["ports"] = held
        else:
            init = {"name": "first", "image": "example.com/init", "ports": held}
            pod["spec"]["initContainers"] = [*pod["spec"].get("initContainers", ()), init]


def other_selectors(draw: Random, objects: Objects) -> None:
    """Selectors by the presence of labels, namespaces by name, and keys of labels that pods lack."""
    for pod in _all_pods(objects):
        for term in _terms_between_pods(pod):
            if chance(draw, 0.3):
                name = {"kubernetes.io/metadata.name": draw.choice(("shop", "bank", "kube-system", "absent"))}
                term["namespaceSelector"] = {"matchLabels": name}
        for rule in (*pod["spec"].get("topologySpreadConstraints", ()), *_terms_between_pods(pod)):
            if chance(draw, 0.3):
                operator = draw.choice(("Exists", "DoesNotExist"))
                key = draw.choice(("version", "app", "absent"))
                rule["labelSelector"] = {"matchExpressions": [{"key": key, "operator": operator}]}
            elif chance(draw, 0.2) and rule.get("labelSelector"):
                rule["matchLabelKeys"] = ["absent"]


def several_apart(draw: Random, objects: Objects) -> None:
    """Several required terms of anti-affinity, for pods that wait and for those on nodes."""
    for pod in _all_pods(objects):
        if chance(draw, 0.1):
            terms = [
                {"topologyKey": key, "labelSelector": {"matchLabels": {"app": draw.choice(APPS)}}}
                for key in draw.sample((labels.HOSTNAME, labels.ZONE, labels.CAPACITY_TYPE), 2)
            ]
            affinity = pod["spec"].get("affinity") or {}
            apart = {**(affinity.get("podAntiAffinity") or {}), _REQUIRED: terms}
            pod["spec"]["affinity"] = {**affinity, "podAntiAffinity": apart}


def other_priorities(draw: Random, objects: Objects) -> None:
    """Pods of several priorities, some nominated, none of which preempts."""
    names = [node["metadata"]["name"] for node in objects[resources.NODES]]
    for pod in _pods(objects, waiting=True):
        pod["spec"]["priority"] = draw.choice((-10, 0, 0, 10, 1000))
        if names and chance(draw, 0.04):
            pod["status"]["nominatedNodeName"] = draw.choice(names)


def zones_by_label(draw: Random, objects: Objects) -> None:
    """Bound volumes that say by labels where they are, several zones included; of free ones the scheduler reads no labels."""
    for volume in objects[resources.PERSISTENT_VOLUMES]:
        is_free = volume["spec"].get("storageClassName") == "hand"
        if "local" not in volume["spec"] and not is_free and chance(draw, 0.5):
            volume["spec"].pop("nodeAffinity", None)
            zones = "__".join(draw.sample(ZONES, draw.randint(1, 2)))
            volume["metadata"]["labels"] = {draw.choice((labels.ZONE, _OLD_NAMES[labels.ZONE])): zones}


def going_volumes(draw: Random, objects: Objects) -> None:
    """Claims that are being deleted, and ones that are bound although nothing says that the binding is complete."""
    for claim in objects[resources.PERSISTENT_VOLUME_CLAIMS]:
        if chance(draw, 0.15):
            claim["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
            claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]


def picky_claims(draw: Random, objects: Objects) -> None:
    """Volumes made by hand that claims select by mode, by label and by access mode, or that are kept for one of them."""
    volumes = [one for one in objects[resources.PERSISTENT_VOLUMES] if one["spec"].get("storageClassName") == "hand"]
    claims = [
        one for one in objects[resources.PERSISTENT_VOLUME_CLAIMS] if one["spec"].get("storageClassName") == "hand"
    ]
    for one in (*volumes, *claims):
        one["spec"]["volumeMode"] = draw.choice(("Filesystem", "Filesystem", "Block"))
    for volume in volumes:
        volume["metadata"]["labels"] = {**volume["metadata"]["labels"], "tier": draw.choice(("gold", "silver"))}
        volume["spec"]["accessModes"] = draw.choice((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]))
        if claims and chance(draw, 0.3):
            owner = draw.choice(claims)["metadata"]
            volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **_names(owner)}
    for claim in claims:
        if chance(draw, 0.4):
            claim["spec"]["selector"] = {"matchLabels": {"tier": draw.choice(("gold", "silver"))}}
        if chance(draw, 0.2):
            claim["spec"]["accessModes"] = ["ReadOnlyMany"]


def inline_volumes(draw: Random, objects: Objects) -> None:
    """EBS volumes without claims."""
    for pod in _all_pods(objects):
        if chance(draw, 0.1):
            volume = {"name": "inline", "awsElasticBlockStore": {"volumeID": f"vol-{draw.randint(1, 4)}"}}
            pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), volume]


def going_pods(draw: Random, objects: Objects) -> None:
    """Pods on nodes that are being deleted, or whose node is gone."""
    for pod in _pods(objects, waiting=False):
        if chance(draw, 0.15):
            pod["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z"
            pod["metadata"]["deletionGracePeriodSeconds"] = 30


def local_volumes(draw: Random, objects: Objects) -> None:
    """Volumes made by hand that are on nodes which exist, whatever their hostnames."""
    hosts = [node["metadata"]["labels"].get(labels.HOSTNAME, "") for node in objects[resources.NODES]]
    for volume in objects[resources.PERSISTENT_VOLUMES]:
        if hosts and volume["spec"].get("storageClassName") == "hand" and chance(draw, 0.5):
            expression = {"key": labels.HOSTNAME, "operator": "In", "values": [draw.choice(hosts)]}
            volume["spec"].pop("csi", None)
            volume["spec"]["local"] = {"path": "/mnt/disk"}
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def as_workloads(draw: Random, objects: Objects) -> None:
    """Workloads instead of the pods that wait, each of which makes pods of one template."""
    groups: dict[tuple[str, str], list[JsonObject]] = {}
    for pod in _pods(objects, waiting=True):
        names = _names(pod["metadata"])
        groups.setdefault((names["namespace"], names["name"].rpartition("-")[0]), []).append(pod)
    for (namespace, name), pods in groups.items():
        if name and chance(draw, 0.5):
            kind = draw.choice((resources.DEPLOYMENTS, resources.REPLICA_SETS, resources.STATEFUL_SETS, resources.JOBS))
            made = _workload(draw, kind, {"namespace": namespace, "name": name}, pods)
            objects[kind] = [*objects.get(kind, ()), made]
            replaced = {id(pod) for pod in pods}
            objects[resources.PODS] = [pod for pod in objects[resources.PODS] if id(pod) not in replaced]


def _workload(draw: Random, kind: Resource, metadata: JsonObject, pods: list[JsonObject]) -> JsonObject:
    spec = {key: value for key, value in pods[0]["spec"].items() if key != "priority"}
    spec["restartPolicy"] = "Never" if kind == resources.JOBS else "Always"
    template = {"metadata": {"labels": pods[0]["metadata"]["labels"]}, "spec": spec}
    if kind == resources.JOBS:
        count = {"parallelism": len(pods), "completions": draw.choice((len(pods), len(pods) + 3, 1))}
        return {"metadata": metadata, "spec": {**count, "template": template}}
    selector = {"matchLabels": pods[0]["metadata"]["labels"]}
    of_all: JsonObject = {"replicas": len(pods), "selector": selector, "template": template}
    if kind == resources.STATEFUL_SETS and chance(draw, 0.5):
        claim = {"storageClassName": draw.choice(("any", "zonal")), "accessModes": ["ReadWriteOnce"]}
        requests = {"resources": {"requests": {"storage": "1Gi"}}}
        of_all["volumeClaimTemplates"] = [{"metadata": {"name": "disk"}, "spec": {**claim, **requests}}]
    return {"metadata": metadata, "spec": of_all}


def _names(metadata: JsonObject) -> JsonObject:
    return {"namespace": metadata["namespace"], "name": metadata["name"]}


WIDENINGS: Final[tuple[Widening, ...]] = (
    cordoned,
    under_pressure,
    other_hostnames,
    old_label_names,
    other_topology_keys,
    several_ports,
    other_selectors,
    several_apart,
    other_priorities,
    zones_by_label,
    going_volumes,
    picky_claims,
    inline_volumes,
    going_pods,
    local_volumes,
    as_workloads,
)
"""In the order in which they change the objects."""
