"""What the emulator lacks, from the project's own test parts: a Kubernetes API server, and EC2's types, prices and quotas."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import boto3

from tests.deploy_local.emulator import CLUSTER, REGION, client
from tests.e2e.cloud.server import Cloud
from tests.e2e.parts.certificates import Authority
from tests.fakes import api_server

KUBE_PORT: Final = 16443
"""The port that MiniStack states as its first EKS cluster's; without Docker nothing listens there."""

IMAGE: Final = "amazon-eks-node-al2023-x86_64-standard-1.35-v1"
NODE_ROLE: Final = "FleetwrightNodeRole"
PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
_MADE: Final = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))


def _meta(name: str, uid: str) -> dict[str, Any]:
    return {"name": name, "uid": uid, "resourceVersion": "1", "generation": 1, "creationTimestamp": _MADE}


_SELECTED: Final = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
NODE_CLASS: Final = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": _meta("default", "00000000-0000-4000-8000-0000000000c1"),
    "spec": {
        "role": NODE_ROLE,
        "amiFamily": "AL2023",
        "amiSelectorTerms": [{"name": IMAGE, "owner": "self"}],
        "subnetSelectorTerms": _SELECTED,
        "securityGroupSelectorTerms": _SELECTED,
    },
}
NODE_POOLS: Final = ("general", "batch")
"""Each pod asks for one of them by its name, so they share no pods, and a large cluster is decided about in two parts."""
_NODE_POOL: Final = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
                ],
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]},
    },
}


class Surroundings:
    """The running parts. `market` is the address of EC2's market, `ca` the file with the API server's authority."""

    def __init__(self, folder: Path) -> None:
        self._pods: dict[str, str] = {}
        self._cloud = Cloud()
        self._cloud.http._knows = lambda _: True  # type: ignore[method-assign]  # MiniStack's roles are not known there
        self._cloud.start()
        authority = Authority("deploy-local")
        pair = authority.issue("localhost", folder)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(authority.pem)
        bundle = folder / "server.pem"
        bundle.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
        self.kubernetes = api_server.ApiServer()
        self.kubernetes.put("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", NODE_CLASS)
        for number, name in enumerate(NODE_POOLS, 1):
            meta = _meta(name, f"00000000-0000-4000-8000-0000000000b{number}")
            self.kubernetes.put("/apis/karpenter.sh/v1/nodepools", {**_NODE_POOL, "metadata": meta})
        self.kubernetes.put(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta("default", "n1")}
        )
        self._http = ThreadingHTTPServer(("127.0.0.1", KUBE_PORT), api_server._handler(self.kubernetes))
        self._http.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(bundle)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def market(self) -> str:
        return str(self._cloud.http.url)

    def room_of(self, instance_type: str) -> dict[str, str]:
        """Return what a kubelet on this type reports, by EC2's description of it."""
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        ec2 = boto3.client("ec2", endpoint_url=self.market, region_name=REGION, **keys)
        (found,) = ec2.describe_instance_types(InstanceTypes=[instance_type])["InstanceTypes"]
        memory = found["MemoryInfo"]["SizeInMiB"] * 92 // 100
        return {
            "cpu": str(found["VCpuInfo"]["DefaultVCpus"]),
            "memory": f"{memory}Mi",
            "pods": "29",
            "ephemeral-storage": "20Gi",
        }

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Return the objects below a path."""
        return [listed for at, listed in sorted(self.kubernetes.objects.items()) if at.startswith(f"{path}/")]

    def add_pod(self, name: str, node_pool: str) -> None:
        """Let a pod wait for a node of its own in a NodePool, which the audit log tells."""
        pod = _pending_pod(name, node_pool)
        self._pods[name] = node_pool
        self.kubernetes.put(PODS, pod)
        _put_audit_line(
            {
                "requestURI": f"{PODS}/{name}/status",
                "verb": "patch",
                "user": {"username": "system:kube-scheduler"},
                "objectRef": {"resource": "pods", "namespace": "default", "name": name, "subresource": "status"},
                "requestObject": {"status": pod["status"]},
            }
        )

    def remove_pods(self, *names: str) -> None:
        """Delete these pods for good."""
        for name in names:
            del self._pods[name]
            del self.kubernetes.objects[f"{PODS}/{name}"]

    def running_pods(self) -> dict[str, str]:
        """Return pod → node of those that run."""
        pods = self.listed(PODS)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"}

    def delete_claim_of(self, node: str, *, keeping: str) -> None:
        """Delete a node's NodeClaim as `kubectl` does, while the budget of this pod allows no eviction.

        The audit log tells: without its line, `reconcile` would see the deletion in its next whole round, after minutes.
        """
        self.kubernetes.blocked[f"{PODS}/{keeping}"] = "web"
        (claim,) = (one for one in self.listed(NODE_CLAIMS) if one.get("status", {}).get("nodeName") == node)
        name, now = claim["metadata"]["name"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.kubernetes.put(NODE_CLAIMS, {**claim, "metadata": {**claim["metadata"], "deletionTimestamp": now}})
        _put_audit_line(
            {
                "requestURI": f"{NODE_CLAIMS}/{name}",
                "verb": "delete",
                "user": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
                "objectRef": {"resource": "nodeclaims", "name": name, "apiGroup": "karpenter.sh", "apiVersion": "v1"},
            }
        )

    def allow_evictions(self) -> None:
        """Let every budget allow evictions again."""
        self.kubernetes.blocked.clear()

    def disrupted_nodes(self) -> list[str]:
        """Return the nodes that are being drained."""
        return [
            node["metadata"]["name"]
            for node in self.listed(NODES)
            if any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", ()))
        ]

    def work(self, instances: Iterable[dict[str, Any]]) -> None:
        """Do once what others do: kubelets join, ReplicaSets replace evicted pods, and pods run on open nodes, one each."""
        joined = {node["spec"]["providerID"].rpartition("/")[2] for node in self.listed(NODES)}
        for instance in instances:
            if instance["InstanceId"] not in joined:
                self.kubernetes.put(NODES, _node(instance, self.room_of(instance["InstanceType"])))
        for name in sorted(self._pods.keys() - {pod["metadata"]["name"] for pod in self.listed(PODS)}):
            self.add_pod(name, self._pods[name])
        for pod in self.listed(PODS):
            if pod["status"]["phase"] == "Pending":
                self._place(pod)

    def _place(self, pod: dict[str, Any]) -> None:
        """Run a pod on the node that it is bound to; one that is not goes to the first open node of its pool without a pod."""
        taken = {other["spec"].get("nodeName") for other in self.listed(PODS)}
        selected = pod["spec"]["nodeSelector"].items()
        open_nodes = [
            node["metadata"]["name"]
            for node in self.listed(NODES)
            if _is_open(node) and selected <= node["metadata"]["labels"].items()
        ]
        name = pod["spec"].get("nodeName") or next((node for node in open_nodes if node not in taken), None)
        if name in open_nodes:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            conditions = [
                {"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("PodScheduled", "Ready")
            ]
            status = {"phase": "Running", "startTime": now, "conditions": conditions}
            self.kubernetes.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": name}, "status": status})

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._cloud.stop()


def _is_open(node: dict[str, Any]) -> bool:
    """Whether kube-scheduler would choose this node: it is initialized, and nobody drains it."""
    is_initialized = (node["metadata"].get("labels") or {}).get("karpenter.sh/initialized") == "true"
    return is_initialized and not node["spec"].get("taints") and "deletionTimestamp" not in node["metadata"]


def _pending_pod(name: str, node_pool: str) -> dict[str, Any]:
    """Return a pod of a ReplicaSet that shares its node, which is of this NodePool, with no other."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}-{time.monotonic_ns()}",
        "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"set-{name}", "controller": True}
        ],
        "resourceVersion": "1",
        "creationTimestamp": now,
    }
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [container],
            "affinity": affinity,
            "nodeSelector": {"karpenter.sh/nodepool": node_pool},
        },
        "status": {"phase": "Pending", "conditions": [waits]},
    }


def _put_audit_line(request: dict[str, Any]) -> None:
    """Write what a request that succeeded leaves in the API server's audit log."""
    group, stream = f"/aws/eks/{CLUSTER}/cluster", f"kube-apiserver-audit-{time.monotonic_ns()}"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    line = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "stage": "ResponseComplete",
        **request,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": stamp,
        "stageTimestamp": stamp,
    }
    logs = client("logs")
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    events = [{"timestamp": int(time.time() * 1000), "message": json.dumps(line)}]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


def _node(instance: dict[str, Any], room: dict[str, str]) -> dict[str, Any]:
    """Return the Node with which the instance's kubelet would register: EKS names it after the instance's private name."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    zone, identity = instance["Placement"]["AvailabilityZone"], instance["InstanceId"]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    name = instance.get("PrivateDnsName") or f"ip-{instance['PrivateIpAddress'].replace('.', '-')}.ec2.internal"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": instance["InstanceType"],
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": REGION,
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/nodepool": tags["karpenter.sh/nodepool"],
    }
    meta = {
        "name": name,
        "uid": f"uid-{identity}",
        "resourceVersion": "1",
        "creationTimestamp": now,
        "labels": labels,
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now, "lastHeartbeatTime": now}
    taint = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"providerID": f"aws:///{zone}/{identity}", "taints": [taint]},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }
