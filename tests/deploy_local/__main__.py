"""`make deploy-local`: the synthesized stacks in an emulator, and nodes' lives in them; record: build/deploy-local.json.

The stack is updated to the next release while a node is on its way and a message waits in a queue, and rolled back while,
besides, a node is half drained. Nothing is lost, and nothing is done twice.
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

from core.reasons.runs import RunReason
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
POOL_OF: Final = {"a": "general", "b": "general", "c": "batch", "d": "batch"}
CLAIM_TAG: Final = "fleetwright.dev/claim"
INSTANCE_SECONDS, GONE_SECONDS = 300.0, 420.0
QUIET_SECONDS: Final = 15.0
"""How long nothing may change before the work counts as done: a doubled launch or removal comes within seconds."""

CONTEXT: Final = {"partNodes": 2, "distributeFrom": 3}
"""Four nodes are a large cluster here: functions of their own decide about its two NodePools."""

NEXT_RELEASE: Final = {"lookSeconds": 20}
"""The context of the next release: a setting that changes every function's environment, and so its version."""


class Play:
    """Pods get a node each, and nodes go when their pods have gone. `steps` is what happened, with seconds."""

    def __init__(self, around: Surroundings, now: dict[str, Any], following: dict[str, Any]) -> None:
        """`now` is the template that is deployed, `following` that of the next release."""
        self._around = around
        self._now, self._following = now, following
        self.steps: list[dict[str, Any]] = []
        self._ever: dict[str, str] = {}
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
                ("audit line to instance", lambda: self._launched("a")),
                (
                    "update with a node on its way and a message that waits",
                    lambda: self._moved_to(self._following, "b"),
                ),
                ("the next version ends both", lambda: self._settled("a", "b")),
                ("a node is half drained", lambda: self._half_drained("a")),
                ("audit line to another instance", lambda: self._launched("c")),
                ("roll back with a drain, a node on its way and a message", lambda: self._moved_to(self._now, "d")),
                ("the version before ends all three", lambda: self._settled("a", "b", "c", "d")),
                ("consolidation removes the nodes, decided in parts", lambda: self._removed("a", "b", "c", "d")),
                ("no pod had a node too many, and every row was read", lambda: self._nothing_twice(5)),
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

    def _moved_to(self, template: dict[str, Any], waiting: str) -> Any:
        """Update the stack while a message about this pod waits for `provision`, which takes none meanwhile.

        Every function's alias leads to another version, and no machine ends.
        """
        before, running = self._versions(), sorted(self._instances())
        self._take_messages("provision", takes=False)
        self._around.add_pod(waiting, POOL_OF[waiting])
        queued = _wait(lambda: self._waiting_messages("provision"), INSTANCE_SECONDS)
        made = stacks.update(template)
        kept = self._waiting_messages("provision")
        after, now = self._versions(), sorted(self._instances())
        is_moved = all(after[name] != before[name] for name in before)
        if not (queued and kept and is_moved) or not set(running) <= set(now) or made["failed"]:
            raise RuntimeError(f"{queued=} {kept=} {before=} {after=} {running=} {now=} {made=}")
        self._take_messages("provision", takes=True)
        drained = self._around.disrupted_nodes()
        self._around.allow_evictions()
        return {**made, "versions": after, "queued": kept, "drained": drained}

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

    def _source_of(self, function: str) -> dict[str, Any]:
        """Return the event source mapping between a function and its queue."""
        mappings = client("lambda").list_event_source_mappings()["EventSourceMappings"]
        (found,) = (one for one in mappings if f":{self._functions[function]}" in one["FunctionArn"])
        return dict(found)

    def _waiting_messages(self, function: str) -> int:
        """Return how many messages wait in a function's queue."""
        name = self._source_of(function)["EventSourceArn"].rpartition(":")[2]
        url, count = client("sqs").get_queue_url(QueueName=name)["QueueUrl"], "ApproximateNumberOfMessages"
        return int(client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[count])["Attributes"][count])

    def _take_messages(self, function: str, *, takes: bool) -> None:
        client("lambda").update_event_source_mapping(UUID=self._source_of(function)["UUID"], Enabled=takes)

    def _class_is_ready(self) -> Any:
        for _ in range(4):  # the emulator's first answers may exceed the functions' time-outs on a busy machine
            self._invoke("reconcile")
            (found,) = self._around.listed("/apis/karpenter.k8s.aws/v1/ec2nodeclasses")
            if any(
                c["type"] == "Ready" and c["status"] == "True" for c in found.get("status", {}).get("conditions", ())
            ):
                return found["status"]["instanceProfile"]
        return None

    def _launched(self, pod: str) -> Any:
        """Let a pod wait; return the one instance that it gets, which has no Node yet."""
        before = set(self._instances())
        self._around.add_pod(pod, POOL_OF[pod])
        made = _wait(lambda: sorted(set(self._instances()) - before), INSTANCE_SECONDS)
        return made and {"instances": made, "tags": len(self._instances()[made[0]]["Tags"])}

    def _half_drained(self, pod: str) -> Any:
        """Delete the NodeClaim of a pod's node as a user does; return the node once its drain waits for the pod's budget."""
        node = self._around.running_pods()[pod]
        self._around.delete_claim_of(node, keeping=pod)
        return _wait(self._around.disrupted_nodes, INSTANCE_SECONDS)

    def _settled(self, *pods: str) -> Any:
        """Return pod → node once each of these pods, and no other, runs on a node of its own, and nothing changes any more."""
        since: list[float] = []

        def settled() -> Any:
            instances = self._instances()
            self._around.work(instances.values())
            placed = self._around.running_pods()
            is_done = sorted(placed) == sorted(pods) and len(set(placed.values())) == len(instances) == len(pods)
            since[:] = (since or [time.monotonic()]) if is_done else []
            return placed if is_done and time.monotonic() - since[0] >= QUIET_SECONDS else None

        return _wait(settled, GONE_SECONDS)

    def _removed(self, *pods: str) -> Any:
        """Return what each execution of the parts' state machine came to, once no node is left."""
        self._around.remove_pods(*pods)

        def gone() -> Any:
            self._invoke("disrupt")
            return not self._instances() and "RUNNING" not in self._executions().values()

        if not _wait(gone, GONE_SECONDS):
            return None
        outcomes = self._executions()
        if set(outcomes.values()) != {"SUCCEEDED"}:
            raise RuntimeError(f"executions of the parts' state machine: {outcomes}")
        return outcomes

    def _executions(self) -> dict[str, str]:
        """Return execution of the parts' state machine → its status."""
        states = client("stepfunctions")
        (machine,) = states.list_state_machines()["stateMachines"]
        executions = states.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"]
        return {execution["name"]: execution["status"] for execution in executions}

    def _nothing_twice(self, nodes: int) -> Any:
        """Check that so many instances were ever launched, each for a claim of its own.

        The pod of the drained node has had two. A row that a release cannot read is logged and left out, which loses its work.
        An execution succeeds even if a part's function fails, whose nodes are left alone then.
        """
        claims = sorted(self._ever.values())
        if len(claims) != nodes or len(set(claims)) != nodes:
            raise RuntimeError(f"{nodes} nodes were needed, and instance → claim is {self._ever}")
        logs = client("logs")
        lines = [
            event["message"]
            for group in logs.describe_log_groups()["logGroups"]
            for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"])
            for event in page["events"]
        ]
        failures = ("row cannot be read", "row counts as absent", RunReason.PART_NOT_DECIDED)
        odd = [line for line in lines if any(failure in line for failure in failures)]
        if odd:
            raise RuntimeError(odd[0][:600])
        return {"claims": claims, "lines": len(lines)}

    def _instances(self) -> dict[str, dict[str, Any]]:
        """Return our living instances by id; the emulator launches DryRuns, too, which have no claim."""
        listed = (i for r in client("ec2").describe_instances()["Reservations"] for i in r["Instances"])
        ours = {i["InstanceId"]: i for i in listed if any(tag["Key"] == CLAIM_TAG for tag in i.get("Tags", ()))}
        self._ever |= {name: next(t["Value"] for t in i["Tags"] if t["Key"] == CLAIM_TAG) for name, i in ours.items()}
        alive = {name: i for name, i in ours.items() if i["State"]["Name"] in ("pending", "running")}
        addresses = [i["PrivateIpAddress"] for i in alive.values()]
        if len(set(addresses)) < len(addresses):  # a node is named after it, so two instances would be one node
            raise RuntimeError(f"the emulator gave one address twice: {addresses}")
        return alive


def _wait(ask: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(2)
    return None


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
        with mock.patch.dict(os.environ, {"CDK_CONTEXT_JSON": json.dumps(CONTEXT)}):
            templates = synthesize_as_users_do(Path(folder) / "cdk.out")
        with mock.patch.dict(os.environ, {"CDK_CONTEXT_JSON": json.dumps(CONTEXT | NEXT_RELEASE)}):
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
