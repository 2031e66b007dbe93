"""The pods of the large cluster, 6 KB each."""

from __future__ import annotations

from benchmarks.scale.names import CREATED, NAMESPACES, SERVICES, WITH_VOLUME
from core.api.objects import JsonObject


def pod_on(index: int, node: str) -> JsonObject:
    """Return one pod, with what controllers, admission and kubelets add; without a node, one that waits."""
    service = index % SERVICES
    app, replica_set = f"web-{service}", f"web-{service}-7d9f8b6c5d"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": replica_set, "controller": True}
    metadata = {
        "name": f"{replica_set}-{index:06x}",
        "generateName": f"{replica_set}-",
        "namespace": f"ns-{service % NAMESPACES}",
        "uid": f"00000000-0000-4000-8000-{index:012d}",
        "resourceVersion": str(index),
        "creationTimestamp": CREATED,
        "labels": {"app": app, "pod-template-hash": "7d9f8b6c5d", "team": f"t{service % 40}", "tier": "web"},
        "annotations": {"prometheus.io/scrape": "true", "example.com/address": f"10.0.{index // 256}.{index % 256}"},
        "ownerReferences": [owner],
        "managedFields": [_managed("kube-controller-manager", 15), _managed("kubelet", 5)],
    }
    return {"metadata": metadata, "spec": _pod_spec(app, index, node), "status": _pod_status(node)}


def _pod_spec(app: str, index: int, node: str) -> JsonObject:
    container = {
        "name": "main",
        "image": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{app}:v1",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"VAR_{n}", "value": "some-value-of-a-variable"} for n in range(20)],
        "resources": {"limits": {"memory": "2800Mi"}, "requests": {"cpu": "700m", "memory": "2800Mi"}},
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/token"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    token: JsonObject = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    has_volume = node and index % WITH_VOLUME == 0
    data: list[JsonObject] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{index}"}}]
    return {
        "volumes": [token, *(data if has_volume else [])],
        "containers": [container],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "topologySpreadConstraints": [spread],
        "tolerations": [_passing("not-ready"), _passing("unreachable")],
        "priority": 0,
        **({"nodeName": node} if node else {}),
    }


def _pod_status(node: str) -> JsonObject:
    if not node:
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": CREATED}
        return {"phase": "Pending", "conditions": [waits]}
    container = {
        "name": "main",
        "state": {"running": {"startedAt": CREATED}},
        "ready": True,
        "restartCount": 0,
        "allocatedResources": {"cpu": "700m", "memory": "2800Mi"},
        "resources": {"limits": {"memory": "2800Mi"}, "requests": {"cpu": "700m", "memory": "2800Mi"}},
        "imageID": "123456789012.dkr.ecr.us-east-1.amazonaws.com/web@sha256:" + "a" * 64,
        "containerID": "containerd://" + "b" * 64,
    }
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [{"type": name, "status": "True", "lastTransitionTime": CREATED} for name in types],
        "startTime": CREATED,
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }


def _managed(manager: str, entries: int) -> JsonObject:
    fields: JsonObject = {f'k:{{"name":"VAR_{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(entries)}
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": CREATED, "fieldsV1": fields}


def _passing(state: str) -> JsonObject:
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
