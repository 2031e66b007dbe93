"""Pods as an API server sends them: most of their fields are irrelevant to a planner."""

from __future__ import annotations

from typing import Final

from benchmarks.workloads.ec2 import ec2_cluster, plain_types
from benchmarks.workloads.manifests import Workload
from benchmarks.workloads.services import MICRO, drawn_services
from core.api.objects import JsonObject

_ENVIRONMENT: Final = 64
_CONDITION_TIME: Final = "2026-11-20T11:00:00Z"
_UNSCHEDULABLE: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/12 nodes are available: 12 Insufficient cpu.",
    "lastProbeTime": None,
    "lastTransitionTime": _CONDITION_TIME,
}
_MOUNT: Final = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}


def as_sent(pods: int, services: int, catalogue: JsonObject) -> Workload:
    """Pods of lognormal services with everything that admission, controllers and field managers add; some 7 KB each."""
    manifests: list[JsonObject] = []
    for shape, replicas in drawn_services("s", pods, services, MICRO, seed=0):
        for _ in range(replicas):
            manifests.append(
                _dressed(shape.manifest(f"{shape.labels['app']}-{len(manifests):06d}"), shape.labels["app"])
            )
    return Workload(manifests, ec2_cluster(), plain_types(catalogue))


def _dressed(pod: JsonObject, service: str) -> JsonObject:
    replica_set = f"{service}-7c9d8b6f5"
    pod["metadata"] |= {
        "generateName": f"{replica_set}-",
        "resourceVersion": "123456789",
        "labels": pod["metadata"]["labels"]
        | {f"app.kubernetes.io/{key}": service for key in ("name", "instance", "part-of")},
        "annotations": {
            f"example.com/{key}": f"{service}-{key}" * 4 for key in ("revision", "checksum", "team", "log")
        },
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": replica_set, "controller": True}
        ],
        "managedFields": [_managed("kube-controller-manager"), _managed("kube-scheduler")],
    }
    main = pod["spec"]["containers"][0]
    main |= {
        "env": [{"name": f"SETTING_{number}", "value": f"value-of-{number}"} for number in range(_ENVIRONMENT)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "livenessProbe": _probe("/live"),
        "readinessProbe": _probe("/ready"),
        "volumeMounts": [_MOUNT],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }
    pod["spec"] |= {
        "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [{"downwardAPI": {"items": []}}]}}],
        "tolerations": [_passing("not-ready"), _passing("unreachable")],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": service,
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
    }
    pod["status"]["conditions"] = [_UNSCHEDULABLE]
    return pod


def _managed(manager: str) -> JsonObject:
    fields: JsonObject = {
        f"f:{name}": {".": {}, "f:name": {}, "f:value": {}} for name in ("env", "image", "ports", "resources")
    }
    container: JsonObject = {
        f'k:{{"name":"SETTING_{number}"}}': {".": {}, "f:name": {}, "f:value": {}} for number in range(20)
    }
    inner = {"f:metadata": {"f:annotations": fields}, "f:spec": {"f:containers": {"f:env": container, **fields}}}
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _CONDITION_TIME, "fieldsV1": inner}


def _probe(path: str) -> JsonObject:
    return {"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3}


def _passing(state: str) -> JsonObject:
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
