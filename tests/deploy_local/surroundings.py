"""What the emulator lacks, from the project's own test parts: a Kubernetes API server, and EC2's types, prices and quotas."""

from __future__ import annotations

import ssl
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import boto3

from tests.deploy_local.emulator import CLUSTER, REGION
from tests.e2e.cloud.server import Cloud
from tests.e2e.parts.certificates import Authority
from tests.fakes import api_server

KUBE_PORT: Final = 16443
"""The port that MiniStack states as its first EKS cluster's; without Docker nothing listens there."""

IMAGE: Final = "amazon-eks-node-al2023-x86_64-standard-1.35-v1"
NODE_ROLE: Final = "FleetwrightNodeRole"
PODS: Final = "/api/v1/pods"
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
NODE_POOL: Final = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": _meta("general", "00000000-0000-4000-8000-0000000000b1"),
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
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s"},
    },
}


class Surroundings:
    """The running parts. `market` is the address of EC2's market, `ca` the file with the API server's authority."""

    def __init__(self, folder: Path) -> None:
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
        self.kubernetes.put("/apis/karpenter.sh/v1/nodepools", NODE_POOL)
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

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._cloud.stop()
