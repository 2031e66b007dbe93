"""Fills in what the API server and its admission plugins do when an object is created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource

Lookup = Callable[[Resource, str], JsonObject | None]
"""Finds a cluster-wide object by name; without a name the one that is marked as the default."""

NODE_TROUBLE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TROUBLE_TOLERATED_SECONDS: Final = 300
"""The default time for which a pod stays on a node that is not ready (admission, DefaultTolerationSeconds)."""

_ROLLING: Final = {"type": "RollingUpdate"}
_SPEC_DEFAULTS: Final[Mapping[Resource, Mapping[str, Any]]] = {
    kinds.DEPLOYMENTS: {"replicas": 1, "revisionHistoryLimit": 10},
    kinds.REPLICA_SETS: {"replicas": 1},
    kinds.REPLICATION_CONTROLLERS: {"replicas": 1},
    kinds.STATEFUL_SETS: {"replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": _ROLLING},
    kinds.DAEMON_SETS: {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
    kinds.JOBS: {"backoffLimit": 6, "suspend": False, "completionMode": "NonIndexed"},
    kinds.CRON_JOBS: {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    kinds.PERSISTENT_VOLUME_CLAIMS: {"volumeMode": "Filesystem"},
    kinds.PERSISTENT_VOLUMES: {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
}
_WITH_STATUS: Final = (kinds.NODES,)
"""The kinds whose status a creator may give; all others begin without one."""

_EMPTY_STATUS: Final[Mapping[Resource, JsonObject]] = {
    kinds.PODS: {"phase": "Pending"},
    kinds.NAMESPACES: {"phase": "Active"},
    kinds.PERSISTENT_VOLUMES: {"phase": "Available"},
    kinds.PERSISTENT_VOLUME_CLAIMS: {"phase": "Pending"},
}


def defaulted(resource: Resource, obj: JsonObject, lookup: Lookup) -> JsonObject:
    """The object as the API server would keep it."""
    obj = dict(obj)
    if resource not in _WITH_STATUS:
        obj.pop("status", None)
    if resource in _EMPTY_STATUS:
        obj["status"] = dict(_EMPTY_STATUS[resource])
    if resource in _SPEC_DEFAULTS:
        obj["spec"] = {**_SPEC_DEFAULTS[resource], **_given(obj.get("spec"))}
    shape = _SHAPES.get(resource)
    return shape(obj, lookup) if shape else obj


def _given(mapping: JsonObject | None) -> JsonObject:
    """Without nulls, which count as absent."""
    return {key: value for key, value in (mapping or {}).items() if value is not None}


def _pod(obj: JsonObject, lookup: Lookup) -> JsonObject:
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        **_given(obj.get("spec")),
    }
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container(container) for container in spec[field]]
    spec["tolerations"] = _with_default_tolerations(spec.get("tolerations") or [])
    if "priority" not in spec:
        found = lookup(kinds.PRIORITY_CLASSES, spec.get("priorityClassName", ""))
        spec["priority"] = (
            int(found.get("value", 0)) if found else _SYSTEM_PRIORITIES.get(spec.get("priorityClassName"), 0)
        )
    return {**obj, "spec": spec}


_SYSTEM_PRIORITIES: Final[Mapping[Any, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def _container(container: JsonObject) -> JsonObject:
    """A container's limits become its requests where no request is given."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}}}


def _with_default_tolerations(tolerations: list[JsonObject]) -> list[JsonObject]:
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TROUBLE_TOLERATED_SECONDS}
        for key in NODE_TROUBLE
        if not any(t.get("key") in (None, "", key) and t.get("effect") in (None, "", "NoExecute") for t in tolerations)
    ]
    return [*tolerations, *added]


def _deployment(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    strategy = _given(obj["spec"].get("strategy"))
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxSurge": "25%", "maxUnavailable": "25%", **_given(strategy.get("rollingUpdate"))}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {**obj, "spec": {**obj["spec"], "strategy": strategy}}


def _replication_controller(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    selector = obj["spec"].get("selector") or obj["spec"]["template"].get("metadata", {}).get("labels", {})
    return {**obj, "spec": {**obj["spec"], "selector": selector}}


def _job(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    spec = obj["spec"]
    if "parallelism" not in spec:
        spec = {"completions": 1, **spec, "parallelism": 1}
    return {**obj, "spec": spec}


def _storage_class(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    return {"volumeBindingMode": "Immediate", "reclaimPolicy": "Delete", **_given(obj)}


def _claim(obj: JsonObject, lookup: Lookup) -> JsonObject:
    if "storageClassName" in obj["spec"]:
        return obj
    default = lookup(kinds.STORAGE_CLASSES, "")
    return {**obj, "spec": {**obj["spec"], "storageClassName": default["metadata"]["name"]}} if default else obj


def _namespace(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    metadata = obj["metadata"]
    own = {"kubernetes.io/metadata.name": metadata["name"]}
    return {**obj, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **own}}}


def _node(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    metadata = obj["metadata"]
    own = {"kubernetes.io/hostname": metadata["name"]}
    return {**obj, "metadata": {**metadata, "labels": {**own, **(metadata.get("labels") or {})}}}


_SHAPES: Final[Mapping[Resource, Callable[[JsonObject, Lookup], JsonObject]]] = {
    kinds.PODS: _pod,
    kinds.DEPLOYMENTS: _deployment,
    kinds.REPLICATION_CONTROLLERS: _replication_controller,
    kinds.JOBS: _job,
    kinds.STORAGE_CLASSES: _storage_class,
    kinds.PERSISTENT_VOLUME_CLAIMS: _claim,
    kinds.NAMESPACES: _namespace,
    kinds.NODES: _node,
}
