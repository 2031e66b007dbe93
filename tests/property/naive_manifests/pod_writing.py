"""Pods as manifests: a pod's needs are written in one of the many ways in which people write them.

The reverse of what `core/manifests` reads, after the Kubernetes documentation: in every form, the effective requests
equal those of the pod in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from core import labels
from core.api.objects import JsonObject
from core.model.pod import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
    VolumeUse,
)
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration
from tests.property.naive_manifests.resize_writing import resized

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_MIB = 2**20
_RESIZED = 0.4
"""The share of the pods on nodes that were resized; only processors and memory can be."""


def expression(requirement: Requirement) -> JsonObject:
    """One entry of `matchExpressions`, or of a NodePool's requirements."""
    found: JsonObject = {"key": requirement.key, "operator": _operator(requirement)}
    if requirement.gte is not None or requirement.lte is not None:
        found["values"] = [str(requirement.gte if requirement.gte is not None else requirement.lte)]
    elif requirement.values:
        found["values"] = list(requirement.values)
    if requirement.min_values is not None:
        found["minValues"] = requirement.min_values
    return found


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
    found = expression(requirement)
    if found["operator"] == "Gte":
        return {**found, "operator": "Gt", "values": [str(int(found["values"][0]) - 1)]}
    if found["operator"] == "Lte":
        return {**found, "operator": "Lt", "values": [str(int(found["values"][0]) + 1)]}
    return found


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
        found, status = resized(draw, needs, self._amounts)
        ports = written["containers"][0].get("ports")
        found["containers"][0] |= {"ports": ports} if ports else {}
        others = {key: value for key, value in spec.items() if key not in ("initContainers", "overhead", "resources")}
        return {**others, **found}, status

    def spec(self, spec: PodSpec) -> JsonObject:
        """The spec of a pod or of a template; the same for pods that share one."""
        if id(spec) not in self._specs:
            self._specs[id(spec)] = (spec, self._spec(spec))
        return self._specs[id(spec)][1]

    def _spec(self, spec: PodSpec) -> JsonObject:
        found: JsonObject = self._requesting({k: v for k, v in spec.requests.items() if k != "pods"}, spec.host_ports)
        if spec.node_selector:
            found["nodeSelector"] = {requirement.key: requirement.values[0] for requirement in spec.node_selector}
        affinity = self._affinity(spec)
        if affinity:
            found["affinity"] = affinity
        if spec.tolerations:
            found["tolerations"] = [self._toleration(toleration) for toleration in spec.tolerations]
        if spec.spreads:
            found["topologySpreadConstraints"] = [self._spread(spread) for spread in spec.spreads]
        if spec.volumes:
            found["volumes"] = [self._volume(number, use) for number, use in enumerate(spec.volumes)]
        if spec.priority or self.defaulted:
            found["priority"] = spec.priority
        if self.defaulted:
            found |= {
                "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30,
                "restartPolicy": "Always",
            }
        return found

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
        asked = {key: amount for key, amount in requests.items() if amount or self.draw.random() < 0.3}
        found: JsonObject = {}
        if limits:
            found["limits"] = self._amounts(limits)
        if self.defaulted and limits:
            asked = {**limits, **asked}
        if asked:
            found["requests"] = self._amounts(asked)
        return {"name": name, "image": "example.com/image", **({"resources": found} if found else {})}

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
        found: JsonObject = {"containerPort": 80, "hostPort": port.port}
        if port.protocol != "TCP" or self.defaulted:
            found["protocol"] = port.protocol
        if port.host_ip != "0.0.0.0":  # noqa: S104 - Kubernetes' own notation
            found["hostIP"] = port.host_ip
        return found

    def _affinity(self, spec: PodSpec) -> JsonObject:
        found: JsonObject = {}
        node: JsonObject = {}
        if spec.required_terms:
            node[_REQUIRED] = {"nodeSelectorTerms": [_term(term) for term in spec.required_terms]}
        if spec.preferred_terms:
            node[_PREFERRED] = [{"weight": p.weight, "preference": _term(p.term)} for p in spec.preferred_terms]
        if node:
            found["nodeAffinity"] = node
        for key, hard, soft in (
            ("podAffinity", spec.affinity, spec.preferred_affinity),
            ("podAntiAffinity", spec.anti_affinity, spec.preferred_anti_affinity),
        ):
            own: JsonObject = {}
            if hard:
                own[_REQUIRED] = [self._near(term) for term in hard]
            if soft:
                own[_PREFERRED] = [{"weight": p.weight, "podAffinityTerm": self._near(p.term)} for p in soft]
            if own:
                found[key] = own
        return found

    def _near(self, term: PodAffinityTerm) -> JsonObject:
        found: JsonObject = {"topologyKey": term.topology_key}
        found |= {"labelSelector": self.selector(term.selector)} if term.selector is not None else {}
        found |= {"namespaces": list(term.namespaces)} if term.namespaces else {}
        if term.namespace_selector is not None:
            found["namespaceSelector"] = self.selector(term.namespace_selector)
        found |= {"matchLabelKeys": list(term.match_label_keys)} if term.match_label_keys else {}
        found |= {"mismatchLabelKeys": list(term.mismatch_label_keys)} if term.mismatch_label_keys else {}
        return found

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
        found: JsonObject = {}
        for name in ("key", "value", "effect"):
            found |= {name: getattr(toleration, name)} if getattr(toleration, name) else {}
        if toleration.operator != "Equal" or self.defaulted:
            found["operator"] = toleration.operator
        return found

    def _spread(self, spread: TopologySpread) -> JsonObject:
        found: JsonObject = {"topologyKey": spread.topology_key, "maxSkew": spread.max_skew}
        found["whenUnsatisfiable"] = spread.when_unsatisfiable
        found |= {"labelSelector": self.selector(spread.selector)} if spread.selector is not None else {}
        found |= {"minDomains": spread.min_domains} if spread.min_domains is not None else {}
        if spread.node_affinity_policy != "Honor" or self.defaulted:
            found["nodeAffinityPolicy"] = spread.node_affinity_policy
        if spread.node_taints_policy != "Ignore" or self.defaulted:
            found["nodeTaintsPolicy"] = spread.node_taints_policy
        found |= {"matchLabelKeys": list(spread.match_label_keys)} if spread.match_label_keys else {}
        return found

    def _volume(self, number: int, use: VolumeUse) -> JsonObject:
        if not use.ephemeral:
            return {"name": f"v{number}", "persistentVolumeClaim": {"claimName": use.claim_name}}
        spec = {"storageClassName": use.storage_class} if use.storage_class is not None else {}
        return {"name": use.ephemeral, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _owner(owner: Owner) -> JsonObject:
    found = {"kind": owner.kind, "name": owner.name, "apiVersion": owner.api_version, "uid": owner.uid}
    return {**found, "controller": owner.is_controller}


def _term(term: NodeSelectorTerm) -> JsonObject:
    names = [r for r in term.requirements if r.key == labels.NODE_NAME]
    found: JsonObject = {
        "matchExpressions": [
            node_expression(requirement) for requirement in term.requirements if requirement not in names
        ]
    }
    if names:
        found["matchFields"] = [{**node_expression(name), "key": "metadata.name"} for name in names]
    return found
