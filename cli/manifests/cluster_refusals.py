"""What the API server refuses in budgets, volumes, classes, quotas and autoscalers: tables beside those of workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.manifests import workload_refusals
from cli.manifests.checks import (
    WITH_VALUES,
    WITHOUT_VALUES,
    Check,
    Missing,
    Refusal,
    all_of,
    amount_of,
    amounts,
    between,
    caseless_name,
    dns_label,
    dns_name,
    entries,
    exclusive,
    is_firm,
    is_whole,
    label_map,
    label_selector,
    list_of,
    map_of,
    metadata_with,
    not_negative,
    object_with,
    one_of,
    plain_text,
    positive,
    qualified_name,
    readable,
    requirement,
)
from cli.manifests.refusals import access_modes, claim_spec, driver_name, node_term, storage_amount, toleration_list
from cli.manifests.workload_refusals import share_of_all
from core.api.objects import mapping, sequence
from core.api.status import Location


def _kind(
    fields: Mapping[str, Check], *object_checks: Check, name: Check = dns_name, needs: tuple[str, ...] = ()
) -> Check:
    """Return a check of an object with its metadata."""
    return object_with({"metadata": metadata_with(name), **fields}, *object_checks, needs=needs)


# PodDisruptionBudgets: pkg/apis/policy/validation.


def _path_segment(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a name that must only fit into a path: the API server asks no more of a budget's."""
    if isinstance(value, str) and (value in (".", "..") or "/" in value or "%" in value):
        yield at, f"{value!r} is . or .., or has a slash or a percent sign"


def _single_bound(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        yield (*at, "maxUnavailable"), "cannot stand beside minAvailable"


_budget: Final = _kind(
    {
        "spec": object_with(
            {
                "minAvailable": share_of_all,
                "maxUnavailable": share_of_all,
                "selector": label_selector,
                "unhealthyPodEvictionPolicy": one_of("IfHealthyBudget", "AlwaysAllow"),
            },
            _single_bound,
        )
    },
    name=_path_segment,
)

# PersistentVolumes: ValidatePersistentVolumeSpec.


_SOURCES: Final[Mapping[str, Check]] = {
    "awsElasticBlockStore": object_with({}, needs=["volumeID"]),
    "csi": object_with({"driver": driver_name}, needs=["driver", "volumeHandle"]),
    "hostPath": object_with({}, needs=["path"]),
    "local": object_with({}, needs=["path"]),
    "nfs": object_with({}, needs=["server", "path"]),
}
_OTHER_SOURCES: Final = (
    *(
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "glusterfs",
        "iscsi",
    ),
    *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)


def _source(value: Any, at: Location) -> Iterator[Refusal]:
    if not any(value.get(name) is not None for name in (*_SOURCES, *_OTHER_SOURCES)):
        yield (*at, "csi"), Missing("is missing: a volume names what holds its data, with csi, local, nfs or another")
    if value.get("local") is not None and value.get("nodeAffinity") is None:
        yield (*at, "nodeAffinity"), Missing("is missing, which a local volume needs")


def _capacity(value: Any, at: Location) -> Iterator[Refusal]:
    yield from storage_amount(value.get("storage"), (*at, "storage"))
    for name in entries(value):
        if name != "storage":
            yield (*at, name), "is no size of a volume: storage is"


_volume: Final = _kind(
    {
        "spec": object_with(
            {
                **_SOURCES,
                "capacity": object_with({}, _capacity),
                "accessModes": access_modes,
                "nodeAffinity": object_with(
                    {"required": object_with({"nodeSelectorTerms": list_of(node_term)}, needs=["nodeSelectorTerms"])},
                    needs=["required"],
                ),
                "persistentVolumeReclaimPolicy": one_of("Delete", "Retain", "Recycle"),
                "storageClassName": dns_name,
                "volumeMode": one_of("Block", "Filesystem"),
            },
            exclusive([*_SOURCES], is_needed=False, what="a volume"),
            _source,
            needs=["accessModes", "capacity"],
        )
    },
    needs=("spec",),
)

# Classes: pkg/apis/storage/validation, pkg/apis/scheduling/validation, pkg/apis/node/validation.


def _distinct(value: Any, at: Location) -> Iterator[Refusal]:
    before: set[str] = set()
    for index, item in enumerate(map(str, sequence(value))):
        if item in before:
            yield (*at, index), f"{item!r} is there already"
        before.add(item)


_topology: Final = object_with(
    {
        "matchLabelExpressions": list_of(
            object_with({"key": qualified_name, "values": _distinct}, needs=["key", "values"]), "key"
        )
    }
)
_storage_class: Final = _kind(
    {
        "provisioner": caseless_name,
        "parameters": map_of(lambda _, __: iter(()), plain_text),
        "reclaimPolicy": one_of("Delete", "Retain"),
        "volumeBindingMode": one_of("Immediate", "WaitForFirstConsumer"),
        "allowedTopologies": list_of(_topology),
    },
    needs=("provisioner",),
)
_USER_PRIORITY_MAX: Final = 1_000_000_000
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _priority(obj: Any, at: Location) -> Iterator[Refusal]:
    name, value = str(mapping(obj.get("metadata")).get("name")), obj.get("value")
    if name in _SYSTEM_PRIORITIES and (value != _SYSTEM_PRIORITIES[name] or obj.get("globalDefault")):
        yield (*at, "value"), f"is not that of Kubernetes' own class, {_SYSTEM_PRIORITIES[name]}"
    elif name.startswith("system-") and name not in _SYSTEM_PRIORITIES:
        yield (*at, "metadata", "name"), "begins with system-, which is for Kubernetes' own classes"
    elif not name.startswith("system-"):
        yield from between(-(1 << 31), _USER_PRIORITY_MAX)(value, (*at, "value"))


_priority_class: Final = _kind({"preemptionPolicy": one_of("Never", "PreemptLowerPriority")}, _priority)
_TOLERATION_KEYS: Final = ("key", "operator", "value", "effect")


def _distinct_tolerations(value: Any, at: Location) -> Iterator[Refusal]:
    before: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(map(mapping, sequence(value))):
        key = tuple(str(toleration.get(name) or "") for name in _TOLERATION_KEYS)
        if key in before:
            yield (*at, index), "is there already"
        before.add(key)


_runtime_class: Final = _kind(
    {
        "handler": dns_label,
        "overhead": object_with({"podFixed": amounts}),
        "scheduling": object_with(
            {"nodeSelector": label_map, "tolerations": all_of(toleration_list, _distinct_tolerations)}
        ),
    },
    needs=("handler",),
)

# LimitRanges: ValidateLimitRange.


_ORDERED: Final = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""A field whose amounts are at most those of another, and the field that is refused otherwise."""
_LIMITS: Final = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
_THOUSAND: Final = 1000


def _limits(limit: Any, at: Location) -> Iterator[Refusal]:
    """Check the limits of one type: their names, and that they do not contradict each other."""
    kind, amounts_by_field = limit.get("type"), {field: entries(limit.get(field)) for field in _LIMITS}
    for field, written in amounts_by_field.items():
        yield from readable(written, (*at, field))
    if kind == "Pod":
        for field in ("default", "defaultRequest"):
            if amounts_by_field[field]:
                yield (*at, field), "is not for type Pod"
            amounts_by_field[field] = {}
    if kind in ("Pod", "Container"):
        for field in _LIMITS:
            yield from amounts(dict.fromkeys(amounts_by_field[field], "0"), (*at, field))
    if kind == "PersistentVolumeClaim" and "storage" not in {**amounts_by_field["min"], **amounts_by_field["max"]}:
        yield (*at, "max"), Missing("is missing: a limit of claims has a min or a max of storage")
    for less, more, refused in _ORDERED:
        for name in amounts_by_field[less].keys() & amounts_by_field[more].keys():
            if amount_of(amounts_by_field[less][name], name) > amount_of(amounts_by_field[more][name], name):
                message = (
                    f"{less} of {amounts_by_field[less][name]} is more than {more} of {amounts_by_field[more][name]}"
                )
                yield (*at, refused, name), message
    yield from _firm_defaults(amounts_by_field, at)
    yield from _ratios(amounts_by_field, at)


def _firm_defaults(amounts_by_field: Mapping[str, Mapping[str, Any]], at: Location) -> Iterator[Refusal]:
    requests, limits = amounts_by_field["defaultRequest"], amounts_by_field["default"]
    for name in requests.keys() & limits.keys():
        if is_firm(name) and amount_of(requests[name], name) < amount_of(limits[name], name):
            yield (*at, "defaultRequest", name), f"is not the default of {limits[name]}: it cannot be overcommitted"


def _ratios(amounts_by_field: Mapping[str, Mapping[str, Any]], at: Location) -> Iterator[Refusal]:
    for name, written in amounts_by_field["maxLimitRequestRatio"].items():
        ratio, place = amount_of(written, "cpu"), (*at, "maxLimitRequestRatio", name)
        least, most = (amount_of(amounts_by_field[field].get(name, 0), name) for field in ("min", "max"))
        if ratio < _THOUSAND:
            yield place, f"{written} is less than 1"
        elif name in amounts_by_field["min"] and name in amounts_by_field["max"] and ratio * least > most * _THOUSAND:
            yield place, f"{written} is more than max divided by min"


def _known_type(limit: Any, at: Location) -> Iterator[Refusal]:
    kind = str(limit.get("type") or "")
    if "/" not in kind:
        yield from one_of("Pod", "Container", "PersistentVolumeClaim")(kind, (*at, "type"))


_limit: Final = object_with({"type": qualified_name}, _limits, _known_type, needs=["type"])
_limit_range: Final = object_with(
    {
        "metadata": metadata_with(dns_name, is_needed=False),
        "spec": object_with({"limits": list_of(_limit, "type")}),
    }
)

# ResourceQuotas: ValidateResourceQuotaSpec; pkg/apis/core/helper/helpers.go.


_COUNTED: Final = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
_COMPUTED: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_STORED: Final = frozenset(
    {"ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
)
_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_OF_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "BestEffort": frozenset({"pods"}),
    **dict.fromkeys(
        ("NotBestEffort", "Terminating", "NotTerminating", "PriorityClass", "CrossNamespacePodAffinity"),
        _COMPUTED | {"pods"},
    ),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""Scope → the resources that a quota of it may bound, among those without a domain."""
_scope: Final = one_of(*_OF_SCOPES)
_MARKS: Final = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")


def _bounds(value: Any, at: Location) -> Iterator[Refusal]:
    yield from readable(value, at)
    for name, amount in entries(value).items():
        is_known = name in _COUNTED | _COMPUTED | _STORED or name.startswith(_HUGE_PAGES)
        if "/" not in name and not is_known:
            yield (*at, name), "is no resource of a quota: others are written as count/deployments.apps"
        elif any(qualified_name(name, ())):
            yield (*at, name), "is not a qualified name such as requests.example.com/name"
        elif str(amount).startswith("-") and amount_of(str(amount)[1:], name):
            yield (*at, name), f"{amount} is negative"
        elif name in _COUNTED and not is_whole(str(amount)):
            yield (*at, name), f"{amount} is not a whole number"


def _scoped(value: Any, at: Location) -> Iterator[Refusal]:
    """Check that a quota's scopes go together, and with what it bounds."""
    hard = {name for name in entries(value.get("hard")) if "/" not in name and not name.startswith(_HUGE_PAGES)}
    selected = sequence(mapping(value.get("scopeSelector")).get("matchExpressions"))
    for place, scopes in (
        ((*at, "scopes"), [str(scope) for scope in sequence(value.get("scopes"))]),
        (
            (*at, "scopeSelector", "matchExpressions"),
            [str(mapping(term).get("scopeName")) for term in selected],
        ),
    ):
        for scope in dict.fromkeys(scopes):
            if beyond := sorted(hard - _OF_SCOPES.get(scope, frozenset(hard))):
                yield place, f"{scope} does not go with {beyond[0]}"
        for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
            if pair <= {*scopes}:
                yield place, f"{' and '.join(sorted(pair))} exclude each other"


def _of_scope(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("scopeName") in _MARKS and value.get("operator") != "Exists":
        yield (*at, "operator"), f"must be Exists for {value['scopeName']}"
    else:
        yield from requirement({**WITH_VALUES, **WITHOUT_VALUES}, "In and NotIn take some, the others none")(value, at)


_quota: Final = _kind(
    {
        "spec": object_with(
            {
                "hard": _bounds,
                "scopes": list_of(_scope),
                "scopeSelector": object_with(
                    {"matchExpressions": list_of(object_with({"scopeName": _scope}, _of_scope, needs=["scopeName"]))}
                ),
            },
            _scoped,
        )
    }
)

# HorizontalPodAutoscalers: pkg/apis/autoscaling/validation.


_METRICS: Final = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
"""Type of a metric → the field that describes it."""


def _described(value: Any, at: Location) -> Iterator[Refusal]:
    field = _METRICS.get(str(value.get("type")))
    if field is not None and value.get(field) is None:
        yield (*at, field), Missing(f"is missing, which type {value['type']} needs")
    for other in _METRICS.values():
        if field is not None and other != field and value.get(other) is not None:
            yield (*at, other), f"is not for type {value['type']}"


_target: Final = object_with(
    {"type": one_of("Utilization", "Value", "AverageValue"), "averageUtilization": positive}, needs=["type"]
)
_metric: Final = object_with(
    {
        "type": one_of(*_METRICS),
        "resource": object_with({"target": _target}, needs=["name", "target"]),
        "containerResource": object_with({"target": _target}, needs=["name", "container", "target"]),
        **dict.fromkeys(
            ("object", "pods", "external"),
            object_with({"target": _target, "metric": object_with({}, needs=["name"])}, needs=["metric", "target"]),
        ),
    },
    _described,
    needs=["type"],
)
_rules: Final = object_with(
    {
        "stabilizationWindowSeconds": between(0, 3600),
        "selectPolicy": one_of("Max", "Min", "Disabled"),
        "policies": list_of(
            object_with(
                {"type": one_of("Pods", "Percent"), "value": positive, "periodSeconds": between(1, 1800)},
                needs=["type", "value", "periodSeconds"],
            )
        ),
    }
)


def _ordered(value: Any, at: Location) -> Iterator[Refusal]:
    least, most = value.get("minReplicas"), value.get("maxReplicas")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        yield (*at, "maxReplicas"), f"{most} is less than minReplicas of {least}"


def _from_zero(value: Any, at: Location) -> Iterator[Refusal]:
    if value.get("minReplicas") == 0 and not any(
        mapping(metric).get("type") in ("Object", "External") for metric in sequence(value.get("metrics"))
    ):
        yield (*at, "minReplicas"), "0 needs a metric of type Object or External, which exists without pods"


def _part_of_path(value: Any, at: Location) -> Iterator[Refusal]:
    """Check a name that is to stand in a path (ValidatePathSegmentName)."""
    if isinstance(value, str) and (value in (".", "..") or "/" in value or "%" in value):
        yield at, f"{value!r} cannot be a name: it has / or %, or is a dot or two"


def _scaler(fields: Mapping[str, Check], *spec_checks: Check) -> Check:
    bounds = {"minReplicas": not_negative, "maxReplicas": positive}
    target = object_with(dict.fromkeys(("kind", "name"), _part_of_path), needs=["kind", "name"])
    parts = {**bounds, "scaleTargetRef": target, **fields}
    spec = object_with(parts, _ordered, *spec_checks, needs=["maxReplicas", "scaleTargetRef"])
    return _kind({"spec": spec}, needs=("spec",))


_autoscaler: Final = _scaler(
    {"metrics": list_of(_metric), "behavior": object_with({"scaleUp": _rules, "scaleDown": _rules})}, _from_zero
)
_of_first_version: Final = _scaler({"targetCPUUtilizationPercentage": positive})
_METRICS_NOTE: Final = "autoscaling.alpha.kubernetes.io/metrics"


def _first_autoscaler(value: Any, at: Location) -> Iterator[Refusal]:
    """Check one of `autoscaling/v1`, whose other metrics stand in an annotation."""
    yield from _of_first_version(value, at)
    if _METRICS_NOTE not in mapping(mapping(value.get("metadata")).get("annotations")):
        yield from _from_zero(mapping(value.get("spec")), (*at, "spec"))


CHECKS: Final[Mapping[tuple[str, str], Check]] = {
    **workload_refusals.CHECKS,
    ("autoscaling/v1", "HorizontalPodAutoscaler"): _first_autoscaler,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _autoscaler,
    ("node.k8s.io/v1", "RuntimeClass"): _runtime_class,
    ("policy/v1", "PodDisruptionBudget"): _budget,
    ("scheduling.k8s.io/v1", "PriorityClass"): _priority_class,
    ("storage.k8s.io/v1", "StorageClass"): _storage_class,
    ("v1", "LimitRange"): _limit_range,
    ("v1", "PersistentVolume"): _volume,
    ("v1", "PersistentVolumeClaim"): _kind({"spec": claim_spec}, needs=("spec",)),
    ("v1", "ResourceQuota"): _quota,
}
