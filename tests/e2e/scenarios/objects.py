"""Manifests for scenarios: each says only what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.api.objects import JsonObject

CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
DISCOVERY: Final = [{"tags": {"karpenter.sh/discovery": "fleetwright"}}]
AMD64: Final = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
GENERAL: Final = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}
CURRENT: Final = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]}


def is_ready(one: JsonObject | None) -> bool:
    """Whether there is such an object and its condition Ready is true."""
    conditions = (one or {}).get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def namespace(name: str) -> JsonObject:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def node_class(name: str = "default") -> JsonObject:
    """An EC2NodeClass that takes the account's subnets and the latest AL2023."""
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "role": "FleetwrightNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": DISCOVERY,
            "securityGroupSelectorTerms": DISCOVERY,
        },
    }


def requirement(key: str, *values: str, operator: str = "In") -> JsonObject:
    """A requirement of a NodePool, or a term of a node affinity."""
    return {"key": key, "operator": operator, "values": list(values)}


def node_pool(
    name: str,
    *requirements: JsonObject,
    consolidate_after: str = "Never",
    policy: str = "WhenEmptyOrUnderutilized",
    template: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    """A NodePool of everyday types; by default it consolidates nothing, and its budget allows everything."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": dict(labels or {})},
                "spec": {
                    "nodeClassRef": CLASS_REF,
                    "expireAfter": "Never",
                    "requirements": [*requirements, GENERAL, CURRENT],
                    **(template or {}),
                },
            },
            "disruption": {
                "consolidationPolicy": policy,
                "consolidateAfter": consolidate_after,
                "budgets": [{"nodes": "100%"}],
            },
            **spec,
        },
    }


def deployment(
    namespace_name: str,
    name: str,
    replicas: int,
    *,
    cpu: str = "500m",
    memory: str = "512Mi",
    ports: Sequence[int] = (),
    **spec: Any,
) -> JsonObject:
    """A Deployment; `spec` is its pods'. They end at once on SIGTERM."""
    container: JsonObject = {
        "name": "main",
        "image": "registry.example.com/main:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    if ports:
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    pod_spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace_name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec},
        },
    }


def own_pool(name: str, *requirements: JsonObject, **more: Any) -> JsonObject:
    """A NodePool for the pods of one scene alone, see `on`."""
    taint = {"key": "scene", "value": name, "effect": "NoSchedule"}
    template = {"taints": [taint], **more.pop("template", {})}
    return node_pool(name, *requirements, template=template, **more)


def on(pool: str) -> JsonObject:
    """What a pod's spec needs to be taken by `own_pool(pool)` and no other."""
    return {
        "nodeSelector": {"karpenter.sh/nodepool": pool},
        "tolerations": [{"key": "scene", "value": pool, "effect": "NoSchedule"}],
    }


def budget(namespace_name: str, name: str, **spec: Any) -> JsonObject:
    """A PodDisruptionBudget of the pods of this app."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace_name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def near(app: str, topology_key: str, *, apart: bool = False) -> JsonObject:
    """Pods of this app must share the domain, or must not (`apart`)."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key}
    kind = "podAntiAffinity" if apart else "podAffinity"
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(app: str, topology_key: str, *, skew: int = 1, must: bool = True, **more: Any) -> JsonObject:
    """Pods of this app spread over the domains."""
    constraint = {
        "maxSkew": skew,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "DoNotSchedule" if must else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}


def node_terms(*terms: JsonObject) -> JsonObject:
    """All of these must hold for the node."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": list(terms)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def prefers(term: JsonObject, weight: int = 50) -> JsonObject:
    """This would be good to have of the node."""
    preference = [{"weight": weight, "preference": {"matchExpressions": [term]}}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preference}}}
