"""`make deploy-local`: the synthesized stacks in an emulator, and the life of nodes in them; record: build/deploy-local.json.

The stacks are updated to the next release and rolled back, each time while a pod waits. The release before is this tree with
another setting, or the tree of a revision: `make deploy-local FROM=REVISION`. Then a command is half executed, too, which takes
six minutes more.
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
from tests.deploy_local.stacks import Release
from tests.deploy_local.surroundings import KUBE_PORT, Surroundings
from tests.infra.conftest import synthesize_as_users_do

BUILD: Final = stacks.ROOT / "build"
INSTANCE_SECONDS, GONE_SECONDS = 300.0, 420.0
COMMAND_SECONDS: Final = 480.0
"""A NodePool's change settles for two minutes before nodes are replaced, the next change for four."""

OTHER_SETTING: Final = {"lookSeconds": 20}
"""The context of the other release: a setting that changes every function's environment, and so its version."""

_CLAIM_TAG: Final = "fleetwright.dev/claim"


class Play:
    """Pods get nodes, drifted nodes are replaced, and the nodes go with the pods. `steps` is what happened, with seconds."""

    def __init__(self, around: Surroundings, before: Release, after: Release, *, has_commands: bool) -> None:
        """`before` is deployed and updated to `after`; `has_commands`: whether nodes are being replaced meanwhile."""
        self._has_commands = has_commands
        self._around = around
        self._before, self._after = before, after
        self.steps: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {}
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
                ("audit line to instance", lambda: self._launched("first")),
                ("pod runs", lambda: self._settled(1)),
                *self._command("second"),
                ("update", lambda: self._moved_to(self._after, "pod-of-update")),
                ("the next release ends the work", lambda: self._settled(2)),
                *self._command("third"),
                ("roll back", lambda: self._moved_to(self._before, "pod-of-roll-back")),
                ("the release before ends the work", lambda: self._settled(3)),
                ("consolidation removes the nodes", self._removed),
                ("no row was left out", self._every_row_was_read),
            )
        )

    def _command(self, generation: str) -> tuple[tuple[str, Callable[[], Any]], ...]:
        if not self._has_commands:
            return ()
        return ((f"command half executed for the {generation} label", lambda: self._command_begins(generation)),)

    def _step(self, name: str, work: Callable[[], Any]) -> bool:
        began = time.monotonic()
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever failed belongs into the record
            result, problem = None, repr(error)
        else:
            problem = "" if result else f"it did not happen in time; {self._last}"
        seconds = round(time.monotonic() - began, 1)
        self.steps.append({"step": name, "seconds": seconds, "result": result, "problem": problem})
        print(f"{name}: {problem or 'ok'} ({seconds} s)", flush=True)  # noqa: T201 - the target's output
        return not problem

    def _moved_to(self, release: Release, waiting: str) -> Any:
        """Update the stacks while this pod begins to wait; every alias leads to another version, and no machine ends."""
        before, running = self._versions(), sorted(_instances())
        self._around.add_pod(waiting)
        made = stacks.update(release.templates)
        after = self._versions()
        failed = [problem for stack in made.values() for problem in stack["failed"]]
        is_moved = all(after[name] != before[name] for name in before if name in after)
        if failed or not is_moved or not set(running) <= set(_instances()):
            raise RuntimeError(f"{failed=} {before=} {after=} {running=}")
        return {"stacks": made, "versions": after}

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
        said = [f"{decision['kind']} {decision['subject']} {decision['reason']}" for decision in decisions][:10]
        self._last = {"function": function, "decisions": said}
        return self._last

    def _class_is_ready(self) -> Any:
        for _ in range(4):  # the emulator's first answers may exceed the functions' time-outs on a busy machine
            self._invoke("reconcile")
            (node_class,) = self._around.listed("/apis/karpenter.k8s.aws/v1/ec2nodeclasses")
            conditions = node_class.get("status", {}).get("conditions", ())
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                return node_class["status"]["instanceProfile"]
        return None

    def _launched(self, pod: str) -> Any:
        self._around.add_pod(pod)
        instance = _wait(lambda: next(iter(_instances().values()), None), INSTANCE_SECONDS)
        return instance and {"instance": instance["InstanceId"], "tags": len(instance["Tags"])}

    def _command_begins(self, generation: str) -> Any:
        """Let the nodes drift; return the replacement, which has no Node yet, so that its command waits for it."""
        self._around.label_nodes(generation)
        before = set(_instances())

        def replacement() -> Any:
            self._invoke("disrupt")
            return sorted(set(_instances()) - before)

        return _wait(replacement, COMMAND_SECONDS)

    def _settled(self, pods: int) -> Any:
        """Return the instances once each of so many pods runs on an initialized node of its own, and no other is left."""

        def settled() -> Any:
            instances = _instances()
            self._around.work(instances.values())
            names = self._around.names_of_running_pods()
            return sorted(instances) if len(names) == len(instances) == pods else None

        return _wait(settled, GONE_SECONDS)

    def _removed(self) -> Any:
        self._around.remove_pods()

        def gone() -> Any:
            self._invoke("disrupt")
            return not _instances()

        return _wait(gone, GONE_SECONDS)

    def _every_row_was_read(self) -> Any:
        """Neither release found a row that it could not read; such a row is logged and left out."""
        logs = client("logs")
        groups = [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]]
        lines = [
            event["message"]
            for group in groups
            for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group)
            for event in page["events"]
        ]
        odd = [line for line in lines if "row cannot be read" in line or "row counts as absent" in line]
        if odd:
            raise RuntimeError(odd[0][:600])
        return {"lines": len(lines)}


def _instances() -> dict[str, dict[str, Any]]:
    """Return our living instances by id; the emulator launches DryRuns, too, which have no NodePool."""
    listed = (i for r in client("ec2").describe_instances()["Reservations"] for i in r["Instances"])
    alive = (i for i in listed if i["State"]["Name"] in ("pending", "running"))
    return {i["InstanceId"]: i for i in alive if any(t["Key"] == _CLAIM_TAG for t in i.get("Tags", ()))}


def _wait(ask: Callable[[], Any], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := ask():
            return answer
        time.sleep(2)
    return None


def commands(around: Surroundings) -> dict[str, Any]:
    """Return how each command of the program answers about the deployment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}
    environment |= {**keys, "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": ENDPOINT, "SSL_CERT_FILE": str(around.ca)}
    answers = {}
    for name in ("status", "log", "doctor"):
        command = [sys.executable, "-m", "cli", name, "--cluster", CLUSTER, "-o", "json"]
        ran = subprocess.run(  # noqa: S603 - our own program
            command, cwd=stacks.ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False
        )
        answers[name] = {"exit": ran.returncode, "answers": ran.stdout[:1] in "{[", "error": ran.stderr[-400:]}
    return answers


def releases(folder: Path, revision: str) -> tuple[Release, Release]:
    """Return the release before and this one: this tree with two settings, or a revision's tree and this one."""
    now = Release(synthesize_as_users_do(folder / "now.out"), stacks.ROOT)
    if revision:
        root = stacks.checked_out(revision, folder / "before")
        return Release(synthesize_as_users_do(folder / "before.out", root), root), now
    with mock.patch.dict(os.environ, {"CDK_CONTEXT_JSON": json.dumps(OTHER_SETTING)}):
        return Release(synthesize_as_users_do(folder / "before.out"), stacks.ROOT), now


def main() -> int:
    """Deploy, play, ask the commands; 0 if all went well, 0 with a word if the emulator cannot be installed."""
    BUILD.mkdir(exist_ok=True)
    revision = next(iter(sys.argv[1:]), "")
    record: dict[str, Any] = {"apiVersion": "fleetwright.dev/v1", "kind": "DeployLocal", "from": revision}
    target = BUILD / "deploy-local.json"
    try:
        require_free(PORT, KUBE_PORT)
        program = install(BUILD / "ministack")
    except NotInstalledError as error:
        target.write_text(json.dumps({**record, "skipped": str(error)}, indent=2))
        print(error)  # noqa: T201 - the target's output
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before, after = releases(Path(folder), revision)
        around = Surroundings(Path(folder))
        try:
            with MiniStack(program, Path(folder) / "state"):
                stacks.account()
                record |= stacks.deploy(before, after, around)
                play = Play(around, before, after, has_commands=bool(revision))
                is_done = play.run()
                record |= {"steps": play.steps, "commands": commands(around), "succeeded": is_done}
        finally:
            around.close()
            target.write_text(json.dumps(record, indent=2, default=str))
    return 0 if record.get("succeeded") else 1


if __name__ == "__main__":
    sys.exit(main())
