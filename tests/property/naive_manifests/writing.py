"""A cluster as the objects that an API server would list, and the cluster again as the product reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.node_pool import NodePool
from core.model.plan import NodeClaim
from core.model.pod import (
    EBS_DRIVER,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodSpec,
    StorageClass,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import DaemonSet, Node, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration

# Running pods that were resized in place: spec and status name different amounts, and the pod still needs the same.
#
# After kube-scheduler 1.37 (component-helpers): a pod takes the largest of three sums, what its containers ask for, what the
# kubelet granted and what they have; a resize that the kubelet calls infeasible counts for nothing. Amounts of the pod as a
# whole replace the sums.


Amounts = Mapping[str, int]
Written = Callable[[Amounts], Mapping[str, str]]

WAYS: Final = (
    "done",
    "grows",
    "granted",
    "granted alone",
    "shrinks",
    "deferred",
    "infeasible",
    "infeasible by the old field",
    "of the pod",
)


def resized(draw: Random, needs: Amounts, write: Written) -> tuple[JsonObject, JsonObject]:
    """The containers of a spec and the part of a status about them, for a pod with these effective requests."""
    way = draw.choice(WAYS)
    if way == "of the pod":
        return _of_the_pod(draw, needs, write)
    half = {name: amount // 2 for name, amount in needs.items()}
    rest = {name: amount - half[name] for name, amount in needs.items()}
    has_less = draw.random() < 0.5
    container, its_status = _container(draw, "a", half, way, write, has_less=has_less)
    # A resize in time concerns one container: the other has what it asks for, and may have no status yet.
    is_infeasible = way.startswith("infeasible")
    other, other_status = _container(draw, "b", rest, way if is_infeasible else "done", write, has_less=has_less)
    is_sidecar = draw.random() < 0.3
    spec: JsonObject = {"containers": [container]}
    status: JsonObject = {"containerStatuses": [its_status]}
    if is_sidecar:
        spec["initContainers"] = [{**other, "restartPolicy": "Always"}]
        status["initContainerStatuses"] = [other_status]
    else:
        spec["containers"].append(other)
        if is_infeasible or draw.random() < 0.7:
            status["containerStatuses"].insert(draw.randrange(2), other_status)
    if way == "infeasible by the old field":
        status["resize"] = "Infeasible"
    elif way in ("infeasible", "deferred"):
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": way.capitalize()}]
    return spec, status


def _of_the_pod(draw: Random, needs: Amounts, write: Written) -> tuple[JsonObject, JsonObject]:
    """A pod with amounts of its own, of which one of the three is the largest; its container's status says nothing new."""
    less = [write(_less(draw, needs)) for _ in range(3)]
    less[draw.randrange(3)] = write(needs)
    requested, granted, has = less
    container_requests = write(_less(draw, needs))
    container = {"name": "a", "image": "example.com/image", "resources": {"requests": container_requests}}
    state = {"name": "a", "allocatedResources": container_requests, "resources": {"requests": container_requests}}
    status: JsonObject = {"containerStatuses": [state], "allocatedResources": granted, "resources": {"requests": has}}
    return {"containers": [container], "resources": {"requests": requested}}, status


def _container(
    draw: Random, name: str, needs: Amounts, way: str, write: Written, *, has_less: bool
) -> tuple[JsonObject, JsonObject]:
    requested, granted, has = needs, needs, needs
    if way in ("grows", "deferred"):
        granted = has = _less(draw, needs)
    elif way in ("granted", "granted alone"):
        requested, has = _less(draw, needs), _less(draw, needs)
    elif way == "shrinks":
        requested = granted = _less(draw, needs)
    elif way == "infeasible by the old field":  # which the scheduler has not read since 1.33
        granted = _less(draw, needs)
    elif way == "infeasible":
        requested = {key: 2 * amount + 1 for key, amount in needs.items()}
        granted, has = (needs, _less(draw, needs)) if has_less else (_less(draw, needs), needs)
    container = {"name": name, "image": "example.com/image", "resources": {"requests": write(requested)}}
    status = {"name": name, "allocatedResources": write(granted)}
    if way != "granted alone":
        status["resources"] = {"requests": write(has)}
    return container, status


def _less(draw: Random, amounts: Amounts) -> dict[str, int]:
    return {name: draw.randint(0, amount) for name, amount in amounts.items()}


# Pods as manifests: a pod's needs are written in one of the many ways in which people write them.
#
# The reverse of what `core/manifests` reads, after the Kubernetes documentation: in every form, the effective requests
# equal those of the pod in the cluster.


_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_MIB = 2**20
_RESIZED = 0.4
"""The share of the pods on nodes that were resized; only processors and memory can be."""


def expression(requirement: Requirement) -> JsonObject:
    """One entry of `matchExpressions`, or of a NodePool's requirements."""
    entry: JsonObject = {"key": requirement.key, "operator": _operator(requirement)}
    if requirement.gte is not None or requirement.lte is not None:
        entry["values"] = [str(requirement.gte if requirement.gte is not None else requirement.lte)]
    elif requirement.values:
        entry["values"] = list(requirement.values)
    if requirement.min_values is not None:
        entry["minValues"] = requirement.min_values
    return entry


def _operator(requirement: Requirement) -> str:
    if requirement.gte is not None:
        return "Gte"
    if requirement.lte is not None:
        return "Lte"
    if requirement.values:
        return "NotIn" if requirement.complement else "In"
    return "Exists" if requirement.complement else "DoesNotExist"


def node_expression(requirement: Requirement) -> JsonObject:
    """The same in a node affinity, which has only Gt and Lt for numbers."""
    entry = expression(requirement)
    if entry["operator"] == "Gte":
        return {**entry, "operator": "Gt", "values": [str(int(entry["values"][0]) - 1)]}
    if entry["operator"] == "Lte":
        return {**entry, "operator": "Lt", "values": [str(int(entry["values"][0]) + 1)]}
    return entry


class PodWriter:
    """Writes pods; with `defaulted`, fields that the API server fills in are included."""

    def __init__(self, draw: Random, *, defaulted: bool) -> None:
        self.draw = draw
        self.defaulted = defaulted
        self._specs: dict[int, tuple[PodSpec, JsonObject]] = {}

    def pod(self, pod: Pod) -> JsonObject:
        """One pod."""
        spec, resized = self._in_place(pod)
        if pod.is_gated:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        conditions = []
        if pod.is_ready is not None:
            conditions.append({"type": "Ready", "status": str(pod.is_ready)})
        if pod.is_marked_unschedulable:
            conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
        metadata: JsonObject = {"name": pod.name, "namespace": pod.namespace, "labels": pod.labels}
        metadata |= {"uid": pod.uid or f"uid-{pod.name}", "annotations": pod.annotations}
        if pod.created_at is not None:
            metadata["creationTimestamp"] = pod.created_at.isoformat()
        if pod.deleted_at is not None:
            metadata["deletionTimestamp"] = pod.deleted_at.isoformat()
        if pod.owners:
            metadata["ownerReferences"] = [_owner(owner) for owner in pod.owners]
        conditions += resized.pop("conditions", ())
        status: JsonObject = {"phase": pod.phase, "conditions": conditions, **resized}
        if pod.nominated_node_name:
            status["nominatedNodeName"] = pod.nominated_node_name
        if pod.started_at is not None:
            status["startTime"] = pod.started_at.isoformat()
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}

    def _in_place(self, pod: Pod) -> tuple[JsonObject, JsonObject]:
        """Its spec, and what its status says of its containers: of those on nodes, some were resized in place."""
        written = self.spec(pod.spec)
        if not pod.node_name:
            return {**written}, {}
        spec = {**written, "nodeName": pod.node_name}
        draw = Random(f"{pod.key} in place")  # noqa: S311 - a test's dice
        needs = {name: amount for name, amount in pod.spec.requests.items() if name != "pods"}
        if needs.keys() - {"cpu", "memory"} or draw.random() >= _RESIZED:
            return spec, {}
        pod_spec, status = resized(draw, needs, self._amounts)
        ports = written["containers"][0].get("ports")
        pod_spec["containers"][0] |= {"ports": ports} if ports else {}
        others = {key: value for key, value in spec.items() if key not in ("initContainers", "overhead", "resources")}
        return {**others, **pod_spec}, status

    def spec(self, spec: PodSpec) -> JsonObject:
        """The spec of a pod or of a template; the same for pods that share one."""
        if id(spec) not in self._specs:
            self._specs[id(spec)] = (spec, self._spec(spec))
        return self._specs[id(spec)][1]

    def _spec(self, spec: PodSpec) -> JsonObject:
        pod_spec: JsonObject = self._requesting(
            {k: v for k, v in spec.requests.items() if k != "pods"}, spec.host_ports
        )
        if spec.node_selector:
            pod_spec["nodeSelector"] = {requirement.key: requirement.values[0] for requirement in spec.node_selector}
        affinity = self._affinity(spec)
        if affinity:
            pod_spec["affinity"] = affinity
        if spec.tolerations:
            pod_spec["tolerations"] = [self._toleration(toleration) for toleration in spec.tolerations]
        if spec.spreads:
            pod_spec["topologySpreadConstraints"] = [self._spread(spread) for spread in spec.spreads]
        if spec.volumes:
            pod_spec["volumes"] = [self._volume(number, use) for number, use in enumerate(spec.volumes)]
        if spec.priority or self.defaulted:
            pod_spec["priority"] = spec.priority
        if self.defaulted:
            pod_spec |= {
                "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30,
                "restartPolicy": "Always",
            }
        return pod_spec

    def _requesting(self, needs: dict[str, int], ports: Iterable[HostPort]) -> JsonObject:
        """Containers with these effective requests, in one of several forms."""
        draw, half = self.draw, {name: amount // 2 for name, amount in needs.items()}
        rest = {name: amount - half[name] for name, amount in needs.items()}
        extended = {name: amount for name, amount in needs.items() if name not in ("cpu", "memory")}
        common = {name: amount for name, amount in needs.items() if name in ("cpu", "memory")}
        way = draw.choice(("plain", "plain", "two", "limits", "init", "sidecar", "late", "overhead", "pod"))
        if extended and way in ("two", "sidecar", "late", "overhead", "pod", "init"):
            way = "plain"  # devices are whole numbers, and their requests equal their limits
        spec: JsonObject
        if way == "two":
            spec = {"containers": [self._container("a", half), self._container("b", rest)]}
        elif way == "limits":
            spec = {"containers": [self._container("a", {}, limits=needs)]}
        elif way == "init":
            spec = {"containers": [self._container("a", half)], "initContainers": [self._container("i", needs)]}
        elif way == "sidecar":
            sidecar = {**self._container("s", half), "restartPolicy": "Always"}
            spec = {"containers": [self._container("a", rest)], "initContainers": [sidecar]}
        elif way == "late":
            sidecar = {**self._container("s", half), "restartPolicy": "Always"}
            first, later = self._container("i", needs), self._container("j", rest)
            spec = {"containers": [self._container("a", {})], "initContainers": [first, sidecar, later]}
        elif way == "overhead":
            spec = {"containers": [self._container("a", half)], "overhead": self._amounts(rest)}
        elif way == "pod":
            spec = {"containers": [self._container("a", half)], "resources": {"requests": self._amounts(common)}}
        else:
            spec = {"containers": [self._container("a", common, limits=extended)]}
        if ports:
            spec["containers"][0]["ports"] = [self._port(port) for port in ports]
        return spec

    def _container(self, name: str, requests: dict[str, int], limits: dict[str, int] | None = None) -> JsonObject:
        requested = {key: amount for key, amount in requests.items() if amount or self.draw.random() < 0.3}
        container_resources: JsonObject = {}
        if limits:
            container_resources["limits"] = self._amounts(limits)
        if self.defaulted and limits:
            requested = {**limits, **requested}
        if requested:
            container_resources["requests"] = self._amounts(requested)
        return {
            "name": name,
            "image": "example.com/image",
            **({"resources": container_resources} if container_resources else {}),
        }

    def _amounts(self, amounts: dict[str, int]) -> dict[str, str]:
        return {name: self._amount(name, amount) for name, amount in amounts.items()}

    def _amount(self, name: str, amount: int) -> str:
        draw = self.draw
        if name == "cpu":
            return f"{amount}m" if amount % 1000 or draw.random() < 0.5 else str(amount // 1000)
        if name == "memory" and amount and amount % _MIB == 0:
            return draw.choice((f"{amount // _MIB}Mi", f"{amount // 1024}Ki", str(amount), f"{amount}e0"))
        return str(amount)

    def _port(self, port: HostPort) -> JsonObject:
        port_object: JsonObject = {"containerPort": 80, "hostPort": port.port}
        if port.protocol != "TCP" or self.defaulted:
            port_object["protocol"] = port.protocol
        if port.host_ip != "0.0.0.0":  # noqa: S104 - Kubernetes' own notation
            port_object["hostIP"] = port.host_ip
        return port_object

    def _affinity(self, spec: PodSpec) -> JsonObject:
        affinity: JsonObject = {}
        node: JsonObject = {}
        if spec.required_terms:
            node[_REQUIRED] = {"nodeSelectorTerms": [_term(term) for term in spec.required_terms]}
        if spec.preferred_terms:
            node[_PREFERRED] = [{"weight": p.weight, "preference": _term(p.term)} for p in spec.preferred_terms]
        if node:
            affinity["nodeAffinity"] = node
        for key, hard, soft in (
            ("podAffinity", spec.affinity, spec.preferred_affinity),
            ("podAntiAffinity", spec.anti_affinity, spec.preferred_anti_affinity),
        ):
            terms: JsonObject = {}
            if hard:
                terms[_REQUIRED] = [self._near(term) for term in hard]
            if soft:
                terms[_PREFERRED] = [{"weight": p.weight, "podAffinityTerm": self._near(p.term)} for p in soft]
            if terms:
                affinity[key] = terms
        return affinity

    def _near(self, term: PodAffinityTerm) -> JsonObject:
        term_object: JsonObject = {"topologyKey": term.topology_key}
        term_object |= {"labelSelector": self.selector(term.selector)} if term.selector is not None else {}
        term_object |= {"namespaces": list(term.namespaces)} if term.namespaces else {}
        if term.namespace_selector is not None:
            term_object["namespaceSelector"] = self.selector(term.namespace_selector)
        term_object |= {"matchLabelKeys": list(term.match_label_keys)} if term.match_label_keys else {}
        term_object |= {"mismatchLabelKeys": list(term.mismatch_label_keys)} if term.mismatch_label_keys else {}
        return term_object

    def selector(self, selector: LabelSelector) -> JsonObject:
        """A label selector: equality as `matchLabels` or as an expression."""
        equal: dict[str, str] = {}
        listed: list[JsonObject] = []
        for requirement in selector.requirements:
            is_equal = len(requirement.values) == 1 and not requirement.complement and requirement.key not in equal
            if is_equal and self.draw.random() < 0.6:
                equal[requirement.key] = requirement.values[0]
            else:
                listed.append(expression(requirement))
        return {**({"matchLabels": equal} if equal else {}), **({"matchExpressions": listed} if listed else {})}

    def _toleration(self, toleration: Toleration) -> JsonObject:
        toleration_object: JsonObject = {}
        for name in ("key", "value", "effect"):
            toleration_object |= {name: getattr(toleration, name)} if getattr(toleration, name) else {}
        if toleration.operator != "Equal" or self.defaulted:
            toleration_object["operator"] = toleration.operator
        return toleration_object

    def _spread(self, spread: TopologySpread) -> JsonObject:
        spread_object: JsonObject = {"topologyKey": spread.topology_key, "maxSkew": spread.max_skew}
        spread_object["whenUnsatisfiable"] = spread.when_unsatisfiable
        spread_object |= {"labelSelector": self.selector(spread.selector)} if spread.selector is not None else {}
        spread_object |= {"minDomains": spread.min_domains} if spread.min_domains is not None else {}
        if spread.node_affinity_policy != "Honor" or self.defaulted:
            spread_object["nodeAffinityPolicy"] = spread.node_affinity_policy
        if spread.node_taints_policy != "Ignore" or self.defaulted:
            spread_object["nodeTaintsPolicy"] = spread.node_taints_policy
        spread_object |= {"matchLabelKeys": list(spread.match_label_keys)} if spread.match_label_keys else {}
        return spread_object

    def _volume(self, number: int, use: VolumeUse) -> JsonObject:
        if not use.ephemeral:
            return {"name": f"v{number}", "persistentVolumeClaim": {"claimName": use.claim_name}}
        spec = {"storageClassName": use.storage_class} if use.storage_class is not None else {}
        return {"name": use.ephemeral, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _owner(owner: Owner) -> JsonObject:
    reference = {"kind": owner.kind, "name": owner.name, "apiVersion": owner.api_version, "uid": owner.uid}
    return {**reference, "controller": owner.is_controller}


def _term(term: NodeSelectorTerm) -> JsonObject:
    names = [r for r in term.requirements if r.key == labels.NODE_NAME]
    term_object: JsonObject = {
        "matchExpressions": [
            node_expression(requirement) for requirement in term.requirements if requirement not in names
        ]
    }
    if names:
        term_object["matchFields"] = [{**node_expression(name), "key": "metadata.name"} for name in names]
    return term_object


Objects = dict[Resource, list[JsonObject]]


def written(snapshot: Snapshot, draw: Random, *, defaulted: bool) -> Objects:
    """Every object of the cluster that is read from the API."""
    pods = PodWriter(draw, defaulted=defaulted)
    csi = [_csi_node(node) for node in snapshot.nodes if node.attach_limits]
    return {
        resources.PODS: [pods.pod(pod) for pod in snapshot.pods],
        resources.NODES: [_node(node) for node in snapshot.nodes],
        resources.CSI_NODES: csi,
        resources.NODE_CLAIMS: [_node_claim(claim) for claim in snapshot.node_claims],
        resources.NODE_POOLS: [_node_pool(pool) for pool in snapshot.node_pools],
        resources.DAEMON_SETS: [_daemon_set(daemon, pods) for daemon in snapshot.daemon_sets],
        resources.PERSISTENT_VOLUMES: [_volume(volume) for volume in snapshot.volumes],
        resources.PERSISTENT_VOLUME_CLAIMS: [_volume_claim(claim) for claim in snapshot.volume_claims],
        resources.STORAGE_CLASSES: [_storage_class(storage_class) for storage_class in snapshot.storage_classes],
        resources.VOLUME_ATTACHMENTS: [
            {"metadata": {"name": a.name},
             "spec": {"attacher": EBS_DRIVER, "nodeName": a.node_name,
                      "source": {"persistentVolumeName": a.volume_name}}}
            for a in snapshot.attachments
        ],
        resources.NAMESPACES: [{"metadata": {"name": n.name, "labels": n.labels}} for n in snapshot.namespaces],
        resources.POD_DISRUPTION_BUDGETS: [_budget(budget, pods) for budget in snapshot.budgets],
    }  # fmt: skip


def read(objects: Objects, like: Snapshot, *, pages: bool) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
    """The cluster as the functions read API pages, or as the command line reads manifests; prices and options as in `like`."""
    objects_by_resource: dict[Resource, list[Any]] = {}
    for resource, items in objects.items():
        if pages:
            page = json.dumps({"kind": "List", "items": items}).encode()
            objects_by_resource[resource] = list(decoding.decode_page(resource, page).items)
        else:
            objects_by_resource[resource] = [decoding.from_object(resource, item) for item in items]
    snapshot, problems = assemble(
        objects_by_resource, now=like.now, catalogue=like.catalogue, options=like.options, cluster=like.cluster
    )
    return msgspec.structs.replace(snapshot, marked_for_deletion=like.marked_for_deletion), problems


def _metadata(item: Any) -> JsonObject:
    metadata: JsonObject = {"name": item.name, "labels": getattr(item, "labels", {})}
    metadata["annotations"] = getattr(item, "annotations", {})
    for name, key in (("created_at", "creationTimestamp"), ("deleted_at", "deletionTimestamp")):
        moment = getattr(item, name, None)
        metadata |= {key: moment.isoformat()} if moment is not None else {}
    return metadata


def _taints(taints: Iterable[Taint]) -> list[JsonObject]:
    return [{"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in taints]


def _amounts(amounts: dict[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def _node(node: Node) -> JsonObject:
    conditions = [{"type": "Ready", "status": str(node.is_ready)}]
    return {
        "metadata": _metadata(node),
        "spec": {"providerID": node.provider_id, "taints": _taints(node.taints)},
        "status": {"capacity": _amounts(node.capacity), "allocatable": _amounts(node.allocatable), "conditions": conditions},
    }  # fmt: skip


def _csi_node(node: Node) -> JsonObject:
    drivers = [{"name": d, "nodeID": node.name, "allocatable": {"count": n}} for d, n in node.attach_limits.items()]
    return {"metadata": {"name": node.name}, "spec": {"drivers": drivers}}


def _class_ref(item: NodePool | NodeClaim) -> JsonObject:
    assert item.node_class is not None
    return {"group": item.node_class.group, "kind": item.node_class.kind, "name": item.node_class.name}


def _node_claim(claim: NodeClaim) -> JsonObject:
    status: JsonObject = {"capacity": _amounts(claim.capacity), "allocatable": _amounts(claim.allocatable)}
    status |= {"providerID": claim.provider_id} if claim.provider_id else {}
    status |= {"nodeName": claim.node_name} if claim.node_name else {}
    status["conditions"] = [
        {
            "type": name,
            "status": c.status,
            "reason": c.reason or name,
            "lastTransitionTime": c.changed_at and c.changed_at.isoformat(),
        }
        for name, c in claim.conditions.items()
    ]
    spec = {
        "nodeClassRef": _class_ref(claim), "requirements": [expression(r) for r in claim.requirements],
        "taints": _taints(claim.taints), "startupTaints": _taints(claim.startup_taints),
        "resources": {"requests": _amounts(claim.resources)},
    }  # fmt: skip
    who = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": _metadata(claim)}
    return {**who, "spec": spec, "status": status}


def _node_pool(pool: NodePool) -> JsonObject:
    template: JsonObject = {
        "nodeClassRef": _class_ref(pool), "requirements": [expression(r) for r in pool.requirements],
        "taints": _taints(pool.taints), "startupTaints": _taints(pool.startup_taints),
    }  # fmt: skip
    if pool.expire_after is not None:
        template["expireAfter"] = f"{int(pool.expire_after.total_seconds())}s"
    else:
        template["expireAfter"] = "Never"
    if pool.termination_grace_period is not None:
        template["terminationGracePeriod"] = f"{int(pool.termination_grace_period.total_seconds())}s"
    metadata = {"labels": pool.labels, "annotations": pool.annotations}
    spec: JsonObject = {"template": {"metadata": metadata, "spec": template}}
    spec |= {"weight": pool.weight} if pool.weight else {}
    spec |= {"limits": _amounts(pool.limits)} if pool.limits else {}
    spec |= {"replicas": pool.replicas} if pool.replicas is not None else {}
    status: JsonObject = {}
    if pool.is_ready is not None:
        status = {"conditions": [{"type": "Ready", "status": str(pool.is_ready)}]}
    who = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}}
    return {**who, "spec": spec, "status": status}


def _daemon_set(daemon: DaemonSet, pods: PodWriter) -> JsonObject:
    template = {"metadata": {"labels": daemon.labels}, "spec": pods.spec(daemon.spec)}
    selector = {"matchLabels": daemon.labels}
    who = {"name": daemon.name, "namespace": daemon.namespace}
    return {"metadata": who, "spec": {"selector": selector, "template": template}}


def _volume(volume: PersistentVolume) -> JsonObject:
    terms = [{"matchExpressions": [node_expression(r) for r in term.requirements]} for term in volume.node_terms]
    spec: JsonObject = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    if volume.is_local:
        spec["local"] = {"path": "/mnt/disk"}
    elif volume.driver:
        spec["csi"] = {"driver": volume.driver, "volumeHandle": volume.name}
    spec |= {"capacity": {"storage": str(volume.size)}} if volume.size else {}
    spec |= {"accessModes": list(volume.access_modes)} if volume.access_modes else {}
    spec |= {"storageClassName": volume.storage_class} if volume.storage_class else {}
    spec |= {"volumeAttributesClassName": volume.attributes_class} if volume.attributes_class else {}
    metadata = {"name": volume.name, "labels": volume.labels}
    return {"metadata": metadata, "spec": spec, "status": {"phase": volume.phase}}


def _volume_claim(claim: PersistentVolumeClaim) -> JsonObject:
    request = claim.request
    spec: JsonObject = {"volumeName": claim.volume_name} if claim.volume_name else {}
    spec |= {"accessModes": list(request.access_modes)} if request.access_modes else {}
    spec |= {"resources": {"requests": {"storage": str(request.size)}}} if request.size else {}
    spec |= {"storageClassName": claim.storage_class} if claim.storage_class is not None else {}
    spec |= {"volumeAttributesClassName": request.attributes_class} if request.attributes_class else {}
    done = {"pv.kubernetes.io/bind-completed": "yes"} if claim.is_bind_completed else {}
    done |= {"volume.kubernetes.io/selected-node": claim.selected_node} if claim.selected_node else {}
    metadata = {"name": claim.name, "namespace": claim.namespace, "annotations": done}
    return {"metadata": metadata, "spec": spec, "status": {"phase": claim.phase}}


def _storage_class(storage_class: StorageClass) -> JsonObject:
    default = {"storageclass.kubernetes.io/is-default-class": "true"} if storage_class.is_default else {}
    allowed = [
        {"matchLabelExpressions": [{"key": r.key, "values": list(r.values)} for r in term.requirements]}
        for term in storage_class.allowed_topologies
    ]
    return {
        "metadata": {"name": storage_class.name, "annotations": default}, "provisioner": storage_class.provisioner,
        "volumeBindingMode": storage_class.binding_mode, "allowedTopologies": allowed,
    }  # fmt: skip


def _budget(budget: PodDisruptionBudget, pods: PodWriter) -> JsonObject:
    spec: JsonObject = {"selector": pods.selector(budget.selector)} if budget.selector is not None else {}
    for key, text in (("maxUnavailable", budget.max_unavailable), ("minAvailable", budget.min_available)):
        if text is not None:
            spec[key] = text if text.endswith("%") else int(text)
    if budget.unhealthy_pod_eviction_policy:
        spec["unhealthyPodEvictionPolicy"] = budget.unhealthy_pod_eviction_policy
    status = {} if budget.disruptions_allowed is None else {"disruptionsAllowed": budget.disruptions_allowed}
    return {"metadata": {"name": budget.name, "namespace": budget.namespace}, "spec": spec, "status": status}
