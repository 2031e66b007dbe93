"""`make deploy-local`: the synthesized stacks in an emulator, and a node's life in them; record: build/deploy-local.json.

While the node is on its way, the stack is updated to the next release; while it works, the stack is rolled back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

from tests.deploy_local import stacks
from tests.deploy_local.emulator import (
    CLUSTER,
    ENDPOINT,
    PORT,
    REGION,
    MiniStack,
    NotInstalledError,
    client,
    install,
    require_free,
)
from tests.deploy_local.surroundings import KUBE_PORT, Surroundings
from tests.infra.conftest import synthesize_as_users_do

BUILD: Final = stacks.ROOT / "build"
POOL_TAG: Final = "karpenter.sh/nodepool"
INSTANCE_SECONDS, GONE_SECONDS = 300.0, 420.0
NEXT_RELEASE: Final = {"lookSeconds": 20}
"""The context of the next release: a setting that changes every function's environment, and so its version."""


class Play:
    """One pod gets a node, and the node goes when the pod has gone. `steps` is what happened, with seconds."""

    def __init__(self, around: Surroundings, now: dict[str, Any], following: dict[str, Any]) -> None:
        """`now` is the template that is deployed, `following` that of the next release."""
        self._around = around
        self._now, self._following = now, following
        self.steps: list[dict[str, Any]] = []
        self._functions = {
            function["Handler"].split(".")[2]: function["FunctionName"]
            for function in client("lambda").list_functions()["Functions"]
            if function["Handler"].startswith("lambdas.")
        }

    def run(self) -> bool:
        """Return whether every step came to its end."""
        return all(
            self._step(name, work)
            for name, work in (
                ("market read", lambda: self._invoke("refresh_catalogue")),
                ("class ready", self._class_is_ready),
                ("audit line to instance", self._launched),
                ("update with a node on its way", lambda: self._moved_to(self._following)),
                ("node initialized by the next version", self._initialized),
                ("roll back with a node at work", lambda: self._moved_to(self._now)),
                ("consolidation removes it", self._removed),
            )
        )

    def _step(self, name: str, work: Callable[[], Any]) -> bool:
        began = time.monotonic()
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever failed belongs into the record
            result, problem = None, repr(error)
        else:
            problem = "" if result else "it did not happen in time"
        seconds = round(time.monotonic() - began, 1)
        self.steps.append({"step": name, "seconds": seconds, "result": result, "problem": problem})
        print(f"{name}: {problem or 'ok'} ({seconds} s)", flush=True)  # noqa: T201 - the target's output
        return not problem

    def _moved_to(self, template: dict[str, Any]) -> Any:
        """Update the stack; every function's alias must lead to another version, and the machine must go on."""
        before, running = self._versions(), [i["InstanceId"] for i in _instances()]
        made = stacks.update(template)
        after = self._versions()
        is_moved = all(after[name] != before[name] for name in before)
        is_kept = [i["InstanceId"] for i in _instances()] == running
        return {**made, "versions": after} if is_moved and is_kept and not made["failed"] else None

    def _versions(self) -> dict[str, str]:
        return {
            name: client("lambda").get_alias(FunctionName=function, Name="live")["FunctionVersion"]
            for name, function in sorted(self._functions.items())
        }

    def _invoke(self, function: str) -> dict[str, Any]:
        answer = client("lambda").invoke(FunctionName=f"{self._functions[function]}:live", Payload=b"{}")
        told = json.loads(answer["Payload"].read() or b"{}")
        if answer.get("FunctionError"):
            raise RuntimeError(f"{function}: {json.dumps(told)[:600]}")
        decisions = told.get("decisions") or ()
        return {"decisions": [f"{one['kind']} {one['subject']} {one['reason']}" for one in decisions][:10]}

    def _class_is_ready(self) -> Any:
        for _ in range(4):  # the emulator's first answers may exceed the functions' time-outs on a busy machine
            self._invoke("reconcile")
            (found,) = self._listed("/apis/karpenter.k8s.aws/v1/ec2nodeclasses")
            if any(
                c["type"] == "Ready" and c["status"] == "True" for c in found.get("status", {}).get("conditions", ())
            ):
                return found["status"]["instanceProfile"]
        return None

    def _listed(self, path: str) -> list[dict[str, Any]]:
        return [found for at, found in self._around.kubernetes.objects.items() if at.startswith(path)]

    def _launched(self) -> Any:
        pod = _pending_pod()
        self._around.kubernetes.put("/api/v1/namespaces/default/pods", pod)
        _put_audit_line(pod)
        found = _wait(lambda: next(iter(_instances()), None), INSTANCE_SECONDS)
        return found and {"instance": found["InstanceId"], "tags": len(found["Tags"])}

    def _initialized(self) -> Any:
        (instance,) = _instances()
        node = _node(instance, self._around.room_of(instance["InstanceType"]))
        self._around.kubernetes.put("/api/v1/nodes", node)
        name = node["metadata"]["name"]

        def labelled() -> Any:
            found = next((n for n in self._listed("/api/v1/nodes") if n["metadata"]["name"] == name), {})
            return (found.get("metadata", {}).get("labels") or {}).get("karpenter.sh/initialized")

        return _wait(labelled, INSTANCE_SECONDS)

    def _removed(self) -> Any:
        for path in [at for at in self._around.kubernetes.objects if "/pods/" in at]:
            del self._around.kubernetes.objects[path]

        def gone() -> Any:
            self._invoke("disrupt")
            return not _instances()

        return _wait(gone, GONE_SECONDS)


def _instances() -> list[dict[str, Any]]:
    """Return our living instances; the emulator launches DryRuns, too, which have no NodePool."""
    found = (i for r in client("ec2").describe_instances()["Reservations"] for i in r["Instances"])
    alive = (i for i in found if i["State"]["Name"] in ("pending", "running"))
    return [i for i in alive if any(t["Key"] == "fleetwright.dev/claim" for t in i.get("Tags", ()))]


def _wait(ask: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(2)
    return None


def _pending_pod() -> dict[str, Any]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now}
    meta = {
        "name": "waits",
        "namespace": "default",
        "uid": "uid-waits",
        "resourceVersion": "1",
        "creationTimestamp": now,
    }
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": "default-scheduler", "containers": [container]},
        "status": {"phase": "Pending", "conditions": [waits]},
    }


def _put_audit_line(pod: dict[str, Any]) -> None:
    """Write what kube-scheduler's mark of the pod leaves in the API server's audit log."""
    group, stream, name = f"/aws/eks/{CLUSTER}/cluster", "kube-apiserver-audit-1", pod["metadata"]["name"]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    line = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/default/pods/{name}/status",
        "verb": "patch",
        "user": {"username": "system:kube-scheduler"},
        "objectRef": {"resource": "pods", "namespace": "default", "name": name, "subresource": "status"},
        "responseStatus": {"code": 200},
        "requestObject": {"status": pod["status"]},
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
        POOL_TAG: tags[POOL_TAG],
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


def commands(around: Surroundings) -> dict[str, Any]:
    """Return how each command of the program answers about the deployment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}
    environment |= {**keys, "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": ENDPOINT, "SSL_CERT_FILE": str(around.ca)}
    found = {}
    for name in ("status", "log", "doctor"):
        command = [sys.executable, "-m", "cli", name, "--cluster", CLUSTER, "-o", "json"]
        ran = subprocess.run(  # noqa: S603 - our own program
            command, cwd=stacks.ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
        found[name] = {"exit": ran.returncode, "answers": ran.stdout[:1] in "{[", "error": ran.stderr[-400:]}
    return found


def main() -> int:
    """Deploy, play, ask the commands; 0 if all went well, 0 with a word if the emulator cannot be installed."""
    BUILD.mkdir(exist_ok=True)
    record: dict[str, Any] = {"apiVersion": "fleetwright.dev/v1", "kind": "DeployLocal"}
    target = BUILD / "deploy-local.json"
    try:
        require_free(PORT, KUBE_PORT)
        program = install(BUILD / "ministack")
    except NotInstalledError as error:
        target.write_text(json.dumps({**record, "skipped": str(error)}, indent=2))
        print(error)  # noqa: T201 - the target's output
        return 0
    with tempfile.TemporaryDirectory() as folder:
        templates = synthesize_as_users_do(Path(folder) / "cdk.out")
        with mock.patch.dict(os.environ, {"CDK_CONTEXT_JSON": json.dumps(NEXT_RELEASE)}):
            following = synthesize_as_users_do(Path(folder) / "next.out")
        around = Surroundings(Path(folder))
        try:
            with MiniStack(program, Path(folder) / "state"):
                stacks.account()
                stacks.upload_code()
                record |= stacks.deploy(templates, around)
                stacks.fit(following, around)
                play = Play(around, templates[stacks.STACKS[-1]], following[stacks.STACKS[-1]])
                is_done = play.run()
                record |= {"steps": play.steps, "commands": commands(around), "succeeded": is_done}
        finally:
            around.close()
            target.write_text(json.dumps(record, indent=2, default=str))
    return 0 if record.get("succeeded") else 1


if __name__ == "__main__":
    sys.exit(main())
