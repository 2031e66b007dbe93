"""A world's workloads, drawn by its seed: the usual kinds, with spreads, volumes, protections and PodDisruptionBudgets."""

from __future__ import annotations

from random import Random
from typing import Final

from core.api.objects import JsonObject

NAMESPACE: Final = "default"
STORAGE_CLASS: Final = "ebs"
RUN_SECONDS: Final = "simulate.fleetwright.dev/run-seconds"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"
_HOSTILE: Final = ("$(reboot)", "a,b --anonymous-auth=true", "x\ny", "")
_CPUS: Final = ("250m", "500m", "1", "1500m", "3", "7")
_BUDGETS: Final = (
    {"minAvailable": "50%"},
    {"minAvailable": 1},
    {"maxUnavailable": 1},
    {"maxUnavailable": "25%"},
    {"maxUnavailable": 0},
)


def draw_workloads(rng: Random, *, large: bool) -> list[JsonObject]:
    """Draw some Deployments, and sometimes other kinds."""
    workloads: list[JsonObject] = []
    for number in range(rng.randint(2, 5) if large else rng.randint(1, 3)):
        workloads += _with_budget(rng, _deployment(rng, f"app{number}", replicas=rng.randint(1, 10 if large else 6)))
    if rng.random() < 0.1:
        workloads.append(_hostile_deployment(rng, "odd"))
    if rng.random() < 0.5:
        workloads.append(_storage_class())
        workloads += _with_budget(rng, _stateful_set(rng, "store"))
    if rng.random() < 0.3:
        workloads.append(_job(rng, "job"))
    if rng.random() < 0.3:
        workloads.append(_daemon_set("agent"))
    return workloads


def _deployment(rng: Random, name: str, *, replicas: int) -> JsonObject:
    template = _pod_template(rng, name)
    if rng.random() < 0.25:
        _spread_over_hosts(rng, template, name)
    elif rng.random() < 0.3:
        _spread_over_zones(rng, template, name)
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return _workload("apps/v1", "Deployment", name, spec)


def _hostile_deployment(rng: Random, name: str) -> JsonObject:
    """A workload whose pods require an invalid label value, which a shell would read as a command."""
    template = _pod_template(rng, name)
    term = {"matchExpressions": [{"key": "example.com/team", "operator": "In", "values": [rng.choice(_HOSTILE)]}]}
    required = {"nodeSelectorTerms": [term]}
    template["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return _workload("apps/v1", "Deployment", name, spec)


def _stateful_set(rng: Random, name: str) -> JsonObject:
    template = _pod_template(rng, name)
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec = {
        "replicas": rng.randint(1, 3),
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": STORAGE_CLASS,
                    "resources": {"requests": {"storage": "10Gi"}},
                },
            }
        ],
    }
    return _workload("apps/v1", "StatefulSet", name, spec)


def _job(rng: Random, name: str) -> JsonObject:
    template = _pod_template(rng, name)
    template["metadata"]["annotations"] = {RUN_SECONDS: str(rng.choice((30, 120, 400)))}
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": rng.randint(1, 4), "completions": rng.randint(4, 8), "template": template}
    return _workload("batch/v1", "Job", name, spec)


def _daemon_set(name: str) -> JsonObject:
    container = {"name": "main", "image": name, "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
        },
    }
    return _workload("apps/v1", "DaemonSet", name, spec)


def _pod_template(rng: Random, name: str) -> JsonObject:
    requests = {"cpu": rng.choice(_CPUS), "memory": rng.choice(("256Mi", "1Gi", "4Gi"))}
    spec: JsonObject = {"containers": [{"name": "main", "image": name, "resources": {"requests": requests}}]}
    metadata: JsonObject = {"labels": {"app": name}}
    if rng.random() < 0.15:
        metadata["annotations"] = {DO_NOT_DISRUPT: rng.choice(("true", "3m"))}
    if rng.random() < 0.3:
        spec["terminationGracePeriodSeconds"] = rng.choice((1, 10, 60, 120))
    if rng.random() < 0.1:
        spec["nodeSelector"] = {"karpenter.sh/capacity-type": rng.choice(("spot", "on-demand"))}
    return {"metadata": metadata, "spec": spec}


def _spread_over_hosts(rng: Random, template: JsonObject, name: str) -> None:
    selector = {"matchLabels": {"app": name}}
    if rng.random() < 0.5:
        term = {"topologyKey": _HOSTNAME, "labelSelector": selector}
        template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    else:
        template["spec"]["topologySpreadConstraints"] = [_spread(_HOSTNAME, "DoNotSchedule", name)]


def _spread_over_zones(rng: Random, template: JsonObject, name: str) -> None:
    hardness = rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
    template["spec"]["topologySpreadConstraints"] = [_spread(_ZONE, hardness, name)]


def _spread(key: str, hardness: str, name: str) -> JsonObject:
    selector = {"matchLabels": {"app": name}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": hardness, "labelSelector": selector}


def _with_budget(rng: Random, workload: JsonObject) -> list[JsonObject]:
    if rng.random() < 0.5:
        return [workload]
    name = workload["metadata"]["name"]
    # A PodDisruptionBudget that allows no disruption is rare, as in real clusters.
    bounds = rng.choices(_BUDGETS, weights=(4, 4, 4, 4, 1))[0]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**bounds, "selector": {"matchLabels": {"app": name}}},
    }
    return [workload, budget]


def _storage_class() -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _workload(api_version: str, kind: str, name: str, spec: JsonObject) -> JsonObject:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
