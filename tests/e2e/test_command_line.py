"""The command line reads a real API server, as a user who may list and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, Final

import pytest
import yaml

from core.api.crds import definitions
from core.manifests.wire import resources
from tests.e2e.parts.admin import Admin
from tests.e2e.parts.control_plane import ControlPlane
from tests.e2e.parts.processes import Processes
from tests.unit.cli.test___main__ import NOW, a_catalogue, a_cluster

ROOT: Final = Path(__file__).parents[2]
READER: Final = "reader"
NODES: Final = 300
ANSWER_SECONDS: Final = 20.0
"""Of a command on a cluster of 300 nodes, on a machine that does other things too."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("command-line")
    with Processes(folder / "logs") as processes:
        found = ControlPlane(processes, folder / "control-plane")
        found.start_servers()
        found.admin.apply(definitions())
        found.admin.apply(_objects())
        yield found
        found.stop()


def _objects() -> list[dict[str, Any]]:
    """A cluster as users have it, 300 nodes of another team, and a user that may list."""
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}]
    reader = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER, "namespace": "default"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": READER},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": READER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER},
            "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": "default"}],
        },
    ]
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("shop", "shop-a", "aaa")
    ]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"other-{n}"}} for n in range(NODES)]
    wanted = [found for found in a_cluster(4) if found["kind"] in ("NodePool", "EC2NodeClass", "PodDisruptionBudget")]
    waiting = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "900m"}}}]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"web-{n}", "namespace": "shop"}, "spec": waiting}
        for n in range(40)
    ]
    return [*reader, *spaces, *wanted, *nodes, *pods]


@pytest.fixture(scope="module")
def kubeconfig(plane: ControlPlane) -> Path:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": READER},
        "spec": {},
    }
    path = f"/api/v1/namespaces/default/serviceaccounts/{READER}/token"
    token = plane.admin._send("create", "POST", path, request)["status"]["token"]
    return plane.kubeconfig(token)


@pytest.fixture
def ask(kubeconfig: Path, tmp_path: Path) -> Any:
    (tmp_path / "catalog.json").write_text(json.dumps(a_catalogue()))

    def answered(*arguments: str) -> tuple[str, float, float]:
        """The output, its seconds, and its seconds of processor time."""
        decision = [
            "--catalog",
            str(tmp_path / "catalog.json"),
            "--now",
            NOW,
            "--improve-iterations",
            "5",
            "-o",
            "json",
        ]
        command = [sys.executable, "-m", "cli", *arguments, *(() if arguments[0] == "snapshot" else decision)]
        began = time.monotonic()
        environment = {"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin"}
        before = _processor_seconds()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout, time.monotonic() - began, _processor_seconds() - before

    return answered


def _processor_seconds() -> float:
    """Of the commands that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture
def in_files(plane: ControlPlane, tmp_path: Path) -> Path:
    """The same objects as `kubectl get -o yaml` prints them."""
    found = []
    for resource in (
        resources.NODE_POOLS,
        resources.EC2_NODE_CLASSES,
        resources.NODES,
        resources.NAMESPACES,
        resources.PODS,
    ):
        name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        found += [
            {"apiVersion": resource.api_version, "kind": resource.kind, **one} for one in listed(plane.admin, name)
        ]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(found))
    return path


def listed(admin: Admin, resource: str) -> list[dict[str, Any]]:
    return admin.list(resource)


@pytest.mark.parametrize("command", [("plan",), ("consolidate",), ("explain", "shop/web-0")])
def test_the_live_answer_is_that_about_what_kubectl_prints(command: tuple[str, ...], ask: Any, in_files: Path) -> None:
    live, seconds, processor = ask(*command)
    print(f"{command[0]} on {NODES} nodes: {seconds:.2f} s, of which the processor works {processor:.2f} s")
    assert live == ask(*command, "-f", str(in_files))[0]
    assert seconds < ANSWER_SECONDS


def test_a_snapshot_of_the_cluster_gives_the_same_plan(ask: Any, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(ask("snapshot")[0])
    assert ask("plan", "-f", str(snapshot))[0] == ask("plan")[0]
    hidden = tmp_path / "hidden.json"
    hidden.write_text(ask("snapshot", "--anonymize")[0])
    plain, without_names = json.loads(ask("plan")[0]), json.loads(ask("plan", "-f", str(hidden))[0])
    assert without_names["cost"] == plain["cost"]
    assert "web-0" not in hidden.read_text()


def test_the_user_asks_for_nothing_but_lists(plane: ControlPlane, ask: Any) -> None:
    """If this failed, a read-only command would need more than read permissions."""
    ask("plan")
    events = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    mine = {event["verb"] for event in events if event["user"]["username"].endswith(f":{READER}")}
    assert mine <= {"list"}
