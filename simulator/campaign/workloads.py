"""A world's workloads, drawn by its seed: the usual kinds, with spreads, volumes, protections and PodDisruptionBudgets."""

from __future__ import annotations

import copy
from collections.abc import Iterator
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


# Groups of pods that start together, in several ways of writing, and ProvisioningRequests.


GROUPS_SHARE: Final = 0.5
"""Share of the worlds with options that have groups."""

_TEMPLATE: Final = "room"
_CLASSES: Final = (
    "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "check-capacity.autoscaling.x-k8s.io",
)
_CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"


def draw_groups(rng: Random, last: int) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return groups and requests of a world, and what users do to them until `last`: they grow, shrink, and go."""
    objects, steps = list[JsonObject](), list[JsonObject]()
    if rng.random() >= GROUPS_SHARE:
        return objects, steps
    for number in range(rng.randint(1, 3)):
        written = _group(rng, f"gang{number}")
        if rng.random() < 0.5:
            objects += written
        else:
            steps.append({"at": rng.randint(20, last), "apply": written})
        steps += _changes_of(rng, written, last)
    if rng.random() < 0.5:
        steps += _requests(rng, last)
    return objects, steps


def _group(rng: Random, name: str) -> list[JsonObject]:
    """Draw a group of one or two shapes of pods, all of them or all but one together."""
    shapes = rng.choice((1, 1, 2))
    sizes = [rng.randint(1, 4) for _ in range(shapes)]
    minimum = max(1, sum(sizes) - rng.choice((0, 0, 1)))
    spelling, in_one_zone = rng.choice(("annotation", "kueue", "native", "coscheduling")), rng.random() < 0.5
    written = []
    for part, size in enumerate(sizes):
        workload = (
            _deployment(rng, f"{name}-{part}", replicas=size) if rng.random() < 0.5 else _job(rng, f"{name}-{part}")
        )
        if workload["kind"] == "Job":
            workload["spec"] |= {"parallelism": size, "completions": size}
        template = workload["spec"]["template"]
        template["spec"].pop("topologySpreadConstraints", None)
        _spell(template, spelling, name, minimum if spelling != "kueue" else sum(sizes))
        if in_one_zone:
            template["metadata"]["annotations"]["fleetwright.dev/group-topology"] = _ZONE
        written.append(workload)
    if spelling == "native":
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        written.append(_workload("scheduling.k8s.io/v1beta1", "PodGroup", name, policy))
    if spelling == "coscheduling":
        written.append(_workload("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"minMember": minimum}))
    return written


def _spell(template: JsonObject, spelling: str, name: str, count: int) -> None:
    metadata = template["metadata"]
    notes = metadata.setdefault("annotations", {})
    if spelling == "annotation":
        notes |= {"fleetwright.dev/group": name, "fleetwright.dev/group-minimum": str(count)}
    elif spelling == "kueue":
        metadata["labels"]["kueue.x-k8s.io/pod-group-name"] = name
        notes["kueue.x-k8s.io/pod-group-total-count"] = str(count)
    elif spelling == "coscheduling":
        metadata["labels"]["scheduling.x-k8s.io/pod-group"] = name
    else:
        template["spec"]["schedulingGroup"] = {"podGroupName": name}


def _changes_of(rng: Random, written: list[JsonObject], last: int) -> Iterator[JsonObject]:
    """A user scales a part of a group, or deletes one, perhaps while its nodes start."""
    first = written[0]
    reference = {"kind": first["kind"], "name": first["metadata"]["name"], "namespace": NAMESPACE}
    if first["kind"] == "Deployment" and rng.random() < 0.4:
        yield {"at": rng.randint(20, last), "scale": {**reference, "replicas": rng.randint(0, 5)}}
    if rng.random() < 0.3:
        yield {"at": rng.randint(40, last), "delete": [reference]}


def _requests(rng: Random, last: int) -> Iterator[JsonObject]:
    """A ProvisioningRequest, whose pods come, perhaps too late, or which its user gives up."""
    template = _pod_template(rng, _TEMPLATE)
    pod_template = {**_workload("v1", "PodTemplate", _TEMPLATE, {}), "template": template}
    del pod_template["spec"]
    name, pods, at = "room-1", rng.randint(1, 4), rng.randint(20, last)
    spec = {
        "provisioningClassName": rng.choice(_CLASSES),
        "parameters": {"ValidUntilSeconds": rng.choice(("300", "3600"))},
        "podSets": [{"podTemplateRef": {"name": _TEMPLATE}, "count": pods}],
    }
    yield {"at": at, "apply": [pod_template, _workload("autoscaling.x-k8s.io/v1", "ProvisioningRequest", name, spec)]}
    if rng.random() < 0.6:
        job = _job(rng, "consumer")
        consuming = copy.deepcopy(template)
        consuming["metadata"].setdefault("annotations", {})[_CONSUMES] = name
        consuming["metadata"]["annotations"][RUN_SECONDS] = "120"
        consuming["spec"]["restartPolicy"] = "Never"
        job["spec"] = {"parallelism": pods, "completions": pods, "template": consuming}
        yield {"at": at + rng.choice((60, 120, 700)), "apply": [job]}
    else:
        reference = {"kind": "ProvisioningRequest", "name": name, "namespace": NAMESPACE}
        yield {"at": at + rng.choice((5, 20, 60, 300)), "delete": [reference]}
