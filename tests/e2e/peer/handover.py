"""`python -m tests.e2e.peer.handover`: nodes of Karpenter's own controller are adopted, given back, and its own again.

Karpenter launches nodes with its kwok provider on a real control plane and is stopped while it reboots one of them. `adopt` and
`release` act there with their own code; only EC2 is played: to them kwok's instances and its node class look like EC2's. The
node that reboots is left to Karpenter until the reboot is over; then all nodes are adopted and given back, and Karpenter is
started again. It must find its NodeClaims as it needs them: none is replaced, no pod moves, its hashes are current, nothing has
drifted; and at last it removes the nodes as its own, finalizers included.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import boto3
import msgspec

from adapters.aws.services import AwsService
from adapters.composition.functions import Adapters
from adapters.kube import HttpKubernetes
from adapters.ports import Instance, Listing, PortError
from adapters.runtime import SystemClock
from cli.takeover.environment import TakeoverEnvironment
from cli.takeover.steps import adoption, release
from core import labels
from core.api.crds import definitions
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.plan import REBOOTING
from tests.e2e.parts import builds
from tests.e2e.parts.admin import until
from tests.e2e.parts.processes import PartError
from tests.e2e.peer import objects
from tests.e2e.peer.karpenter_side import KarpenterSide
from tests.e2e.scenarios.objects import is_ready, node_class
from tests.fakes.lab import SETTINGS, aws
from tests.fakes.world import FakeCatalogues

BUILD: Final = Path(__file__).parents[3] / "build"
LACKING: Final = 2
REPLICAS: Final = 4
SECONDS: Final = 300.0
"""How long anything may take on a machine that does other things, too."""

WATCHED: Final = 150.0
"""How long Karpenter is watched after it came back: its garbage collection runs every two minutes."""

EC2: Final = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": objects.NODE_CLASS}

CLASS_HASH: Final = {labels.NODECLASS_HASH: "18384931360192618908", labels.NODECLASS_HASH_VERSION: "v6"}
"""The hash that the AWS provider 1.15.2 writes on the EC2NodeClass of this scene and on the NodeClaims made from it."""

FAULT: Final = "KWOKRebootRequired"
"""A Node's condition that Karpenter's kwok provider lets a reboot clear: after half a minute, with a drain of a minute."""


class LeadingKarpenter(KarpenterSide):
    """Karpenter with its Lease, as users run it, and with node repair."""

    elects_leader = True
    feature_gates = "NodeRepair=true"


class KwokAsEc2:
    """The cluster to our commands: what is read of NodeClaims and NodePools names an EC2NodeClass; writes pass unchanged."""

    def __init__(self, kubernetes: HttpKubernetes) -> None:
        self._kubernetes = kubernetes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kubernetes, name)

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """List, with the other reference."""
        found = self._kubernetes.list(resource, fields=fields, labels=labels)
        return msgspec.structs.replace(found, items=tuple(_on_ec2(resource, item) for item in found.items))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """Get, with the other reference."""
        return _on_ec2(resource, self._kubernetes.get(resource, name, namespace))


class KwokInstances:
    """EC2: an instance for each NodeClaim that Karpenter launched, with the tags that it puts on."""

    def __init__(self, side: KarpenterSide) -> None:
        self._side = side
        self.tags: dict[str, dict[str, str]] = {}

    def instances(self, ids: Sequence[str] = ()) -> tuple[Instance, ...]:
        """All of them, or those of these ids."""
        found = (self._instance(obj) for obj in self._side.admin.list("nodeclaims.karpenter.sh"))
        return tuple(one for one in found if not ids or one.instance_id in ids)

    def call(self, operation: str, **arguments: Any) -> JsonObject:
        """Answer CreateTags and DeleteTags."""
        tags = self.tags[arguments["Resources"][0]]
        for tag in arguments["Tags"]:
            if operation == "CreateTags":
                tags[tag["Key"]] = tag["Value"]
            else:
                tags.pop(tag["Key"], None)
        return {}

    def _instance(self, obj: JsonObject) -> Instance:
        name, own = str(obj["status"]["providerID"]).rpartition("/")[2], obj["metadata"]["labels"]
        theirs = {labels.CLUSTER_TAG: SETTINGS.cluster_name, labels.NODEPOOL: own[labels.NODEPOOL]}
        return Instance(
            instance_id=name,
            instance_type=own[labels.INSTANCE_TYPE],
            zone=own[labels.ZONE],
            capacity_type=own[labels.CAPACITY_TYPE],
            state="running",
            launched_at=datetime.fromisoformat(obj["metadata"]["creationTimestamp"]),
            tags=dict(self.tags.setdefault(name, theirs)),
        )


class StoppedSwitch:
    """SSM: the kill switch has said `stop` for an hour."""

    def call(self, operation: str, **_: Any) -> JsonObject:
        """Answer GetParameter."""
        del operation
        return {"Parameter": {"Value": "stop", "LastModifiedDate": datetime.now(UTC) - timedelta(hours=1)}}


def main() -> int:
    """Exit code 2: a tool is missing; 1: a part did not come up, or something did not go as it must."""
    if lacking := builds.missing():
        print("Karpenter and the real parts cannot be had here:", *lacking, sep="\n  ", file=sys.stderr)
        return LACKING
    folder = BUILD / "e2e-handover" / str(os.getpid())
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with LeadingKarpenter(folder) as side, aws() as session:
            _play(side, session)
    except (PartError, PortError, TimeoutError, AssertionError) as error:
        print(f"FAILED: {error!r}", file=sys.stderr)
        return 1
    print("Nodes went from Karpenter to us and back: none was replaced, no pod moved.")
    return 0


def _play(side: LeadingKarpenter, session: boto3.Session) -> None:
    side.admin.apply([one for one in definitions() if one["spec"]["names"]["kind"] == "EC2NodeClass"])
    side.admin.apply([node_class()])
    side.apply_pools(objects.pools()[:1])
    side.admin.apply(_workload())
    until(lambda: _running(side) == REPLICAS, seconds=SECONDS, what="the pods running on Karpenter's nodes")
    until(
        lambda: all(map(is_ready, side.admin.list("nodeclaims.karpenter.sh"))), seconds=SECONDS, what="Ready NodeClaims"
    )
    _leave_as_the_provider_does(side)
    before = _seen(side)
    _tell(f"Karpenter runs {len(before['claims'])} nodes with {len(before['pods'])} pods")

    document, _ = adoption(_environment(side, session), is_acting=True)
    assert "its Lease in namespace default is held" in document["hindrances"][0], document["hindrances"]
    assert _seen(side) == before
    _play_reboot(side, session)
    assert _seen(side) == before, "something moved or was replaced when a node rebooted"
    _stop(side, session)

    environment = _environment(side, session)
    document = _all_are(adoption(environment, is_acting=False), "adoptable")
    assert not any(item["drift"] for item in document["items"]), document
    _all_are(adoption(environment, is_acting=True), "adopted")
    _all_are(adoption(_environment(side, session), is_acting=False), "ours")
    assert _seen(side) == before, "something moved or was replaced when it became ours"
    _all_have(side, labels.TERMINATION_FINALIZER)
    kept = side.admin.get("ec2nodeclasses.karpenter.k8s.aws", objects.NODE_CLASS)
    assert kept is not None
    assert not kept["metadata"].get("finalizers"), kept["metadata"]
    _tell("they are ours")

    _all_are(release(_environment(side, session), is_acting=True), "released")
    assert _seen(side) == before, "something moved or was replaced when it was given back"
    _all_have(side, labels.KARPENTER_FINALIZER)
    returned = side.admin.get("ec2nodeclasses.karpenter.k8s.aws", objects.NODE_CLASS)
    assert returned is not None
    assert labels.NODECLASS_HASH_VERSION not in returned["metadata"]["annotations"], returned["metadata"]
    _tell("they are given back")

    side.start_karpenter()
    _watch(side, before)
    _tell(f"Karpenter has had them for {WATCHED:.0f} seconds")
    _let_karpenter_remove_them(side)


def _leave_as_the_provider_does(side: LeadingKarpenter) -> None:
    """Write what Karpenter's provider for AWS 1.15 keeps on its objects, and its kwok provider does not."""
    hashed = {"metadata": {"annotations": CLASS_HASH}}
    finalizers = {"finalizers": [labels.KARPENTER_CLASS_FINALIZER]}
    name, resource = objects.NODE_CLASS, "ec2nodeclasses.karpenter.k8s.aws"
    side.admin.patch(resource, name, {"metadata": {**hashed["metadata"], **finalizers}})
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": moment}
        for kind in ("AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "Ready")
    ]
    status = {"instanceProfile": "shop_1234", "conditions": conditions}
    side.admin.patch(resource, name, {"status": status}, subresource="status")
    for claim in side.admin.list("nodeclaims.karpenter.sh"):
        side.admin.patch("nodeclaims.karpenter.sh", claim["metadata"]["name"], hashed)


def _play_reboot(side: LeadingKarpenter, session: boto3.Session) -> None:
    """Karpenter is stopped while it reboots a node, which is left alone; started again, it ends the reboot."""
    side.admin.apply([_closed_budget()])
    node = min(node["metadata"]["name"] for node in _karpenters_nodes(side))
    _set_fault(side, node, "True")
    until(lambda: _is_rebooting(side, node), seconds=SECONDS, what="Karpenter rebooting a node")
    _stop(side, session)
    _tell(f"Karpenter was stopped while it reboots {node}")

    document, is_complete = adoption(_environment(side, session), is_acting=False)
    states = Counter((item["state"], item["reason"], item["node"] == node) for item in document["items"])
    assert states == {("adoptable", "", False): REPLICAS - 1, ("refused", "Rebooting", True): 1}, document
    assert not is_complete
    assert document["nodeClasses"] == [], "the class of a NodeClaim that stays Karpenter's"
    assert {"node": node, "reason": "Rebooting"} in _why_nodes_stay(side)

    _set_fault(side, node, "False")
    side.start_karpenter()
    until(lambda: _has_rebooted(side, node), seconds=SECONDS, what="the end of the reboot")
    side.admin.delete("poddisruptionbudgets.policy", "web", "default")
    _tell(f"Karpenter has rebooted {node}")


def _stop(side: LeadingKarpenter, session: boto3.Session) -> None:
    side.stop_karpenter()
    until(lambda: not _environment(side, session).hindrances(), seconds=SECONDS, what="Karpenter's Lease given up")


def _closed_budget() -> JsonObject:
    """A PodDisruptionBudget that lets no pod go: a drain lasts as long as it may."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _set_fault(side: LeadingKarpenter, name: str, status: str) -> None:
    """Write the condition of the fault beside the node's others."""
    node = side.admin.get("nodes", name)
    assert node is not None
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fault = {"type": FAULT, "status": status, "reason": "Fault", "message": "", "lastTransitionTime": moment}
    others = [condition for condition in node["status"]["conditions"] if condition["type"] != FAULT]
    side.admin.patch("nodes", name, {"status": {"conditions": [*others, fault]}}, subresource="status")


def _is_rebooting(side: LeadingKarpenter, node: str) -> bool:
    """Whether Karpenter has closed the node and said so on its NodeClaim."""
    return labels.REBOOTING_TAINT in _taints(side, node) and _reboot(side, node).get("status") == "True"


def _has_rebooted(side: LeadingKarpenter, node: str) -> bool:
    """Whether the node is open and Ready again, by its NodeClaim."""
    claim = _claim_of(side, node)
    is_over = _reboot(side, node).get("reason") == "RebootSucceeded"
    return is_over and is_ready(claim) and labels.REBOOTING_TAINT not in _taints(side, node)


def _reboot(side: LeadingKarpenter, node: str) -> JsonObject:
    conditions = _claim_of(side, node)["status"]["conditions"]
    return next((condition for condition in conditions if condition["type"] == REBOOTING), {})


def _claim_of(side: LeadingKarpenter, node: str) -> JsonObject:
    claims = side.admin.list("nodeclaims.karpenter.sh")
    return next(claim for claim in claims if claim["status"].get("nodeName") == node)


def _taints(side: LeadingKarpenter, node: str) -> list[str]:
    present = side.admin.get("nodes", node)
    return [taint["key"] for taint in ((present or {}).get("spec") or {}).get("taints") or ()]


def _why_nodes_stay(side: LeadingKarpenter) -> list[JsonObject]:
    """What `consolidate` says of the cluster as it is: each node that stays, with the code of the reason."""
    kubeconfig = side.control_plane.kubeconfig(side.control_plane.admin_token)
    command = [sys.executable, "-m", "cli", "consolidate", "--improve-iterations", "0", "-o", "json"]
    environment = {"KUBECONFIG": str(kubeconfig), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=BUILD.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [{"node": why["node"], "reason": why["reason"]} for why in json.loads(done.stdout)["blocked"]]


def _watch(side: LeadingKarpenter, before: JsonObject) -> None:
    """Karpenter uses its hashes again and changes nothing."""
    until(lambda: all(map(_has_karpenters_hash, _pairs(side))), seconds=SECONDS, what="Karpenter's own hashes")
    end = time.monotonic() + WATCHED
    while time.monotonic() < end:
        assert _seen(side) == before, "Karpenter replaced or moved something"
        for claim, _ in _pairs(side):
            told = {c["type"]: c["status"] for c in claim["status"]["conditions"]}
            assert told["Ready"] == "True", told
            assert told.get("Drifted") != "True", claim["status"]["conditions"]
            assert not claim["metadata"].get("deletionTimestamp"), claim["metadata"]
        time.sleep(1)


def _let_karpenter_remove_them(side: LeadingKarpenter) -> None:
    """Karpenter can delete its own objects: a finalizer of ours would keep them for ever."""
    for claim in side.admin.list("nodeclaims.karpenter.sh"):
        side.admin.delete("nodeclaims.karpenter.sh", claim["metadata"]["name"])
    side.admin.delete("deployments.apps", "web", "default")
    side.admin.delete("nodepools.karpenter.sh", objects.pools()[0]["metadata"]["name"])
    until(
        lambda: not side.admin.list("nodeclaims.karpenter.sh") and not _karpenters_nodes(side),
        seconds=SECONDS,
        what="Karpenter's own removal of the nodes",
    )


def _environment(side: KarpenterSide, session: boto3.Session) -> TakeoverEnvironment:
    kubernetes: Any = KwokAsEc2(HttpKubernetes(side.admin._transport))
    market = FakeCatalogues(Catalogue())
    settings = msgspec.structs.replace(SETTINGS, kill_switch_parameter="/fleetwright/test/mode")
    adapters = Adapters(settings, session, SystemClock(), kubernetes=kubernetes, catalogues=market)
    instances: Any = _INSTANCES.setdefault(id(side), KwokInstances(side))
    adapters.cloud = instances
    switch: Any = StoppedSwitch()
    service: AwsService = instances
    return TakeoverEnvironment(adapters, service, switch)


_INSTANCES: Final[dict[int, KwokInstances]] = {}


def _workload() -> list[JsonObject]:
    """Pods that keep apart, so that there are several nodes."""
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": labels.HOSTNAME,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "topologySpreadConstraints": spread},
    }
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": "default"}
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}]


def _running(side: KarpenterSide) -> int:
    return sum(pod.get("status", {}).get("phase") == "Running" for pod in side.admin.list("pods", "default"))


def _seen(side: KarpenterSide) -> JsonObject:
    """Who is there, by UID, and where each pod runs."""
    pods = side.admin.list("pods", "default", labels="app=web")
    return {
        "claims": sorted(claim["metadata"]["uid"] for claim in side.admin.list("nodeclaims.karpenter.sh")),
        "nodes": sorted(node["metadata"]["uid"] for node in _karpenters_nodes(side)),
        "pods": sorted((pod["metadata"]["uid"], pod["spec"].get("nodeName")) for pod in pods),
    }


def _karpenters_nodes(side: KarpenterSide) -> list[JsonObject]:
    return side.admin.list("nodes", labels=labels.NODEPOOL)


def _pairs(side: KarpenterSide) -> list[tuple[JsonObject, JsonObject]]:
    """Each NodeClaim with its NodePool."""
    pools = {pool["metadata"]["name"]: pool for pool in side.admin.list("nodepools.karpenter.sh")}
    claims = side.admin.list("nodeclaims.karpenter.sh")
    return [(claim, pools[claim["metadata"]["labels"][labels.NODEPOOL]]) for claim in claims]


def _has_karpenters_hash(pair: tuple[JsonObject, JsonObject]) -> bool:
    """Whether NodeClaim and NodePool have the same hash, of a version that is not ours."""
    claim, pool = (found["metadata"].get("annotations") or {} for found in pair)
    keys = (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION)
    return all(claim.get(key) == pool.get(key) for key in keys) and claim[keys[1]].startswith("v")


def _all_are(answer: tuple[JsonObject, bool], state: str) -> JsonObject:
    document, is_complete = answer
    assert document["items"], document
    assert {item["state"] for item in document["items"]} == {state}, document
    assert is_complete, document
    return document


def _all_have(side: KarpenterSide, finalizer: str) -> None:
    for found in (*side.admin.list("nodeclaims.karpenter.sh"), *_karpenters_nodes(side)):
        assert found["metadata"]["finalizers"] == [finalizer], found["metadata"]


def _on_ec2(resource: Resource, item: Any) -> Any:
    if resource not in (resources.NODE_CLAIMS, resources.NODE_POOLS):
        return item
    spec = item["spec"]
    if resource == resources.NODE_CLAIMS:
        return {**item, "spec": {**spec, "nodeClassRef": EC2}}
    template = {**spec["template"], "spec": {**spec["template"]["spec"], "nodeClassRef": EC2}}
    return {**item, "spec": {**spec, "template": template}}


def _tell(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
