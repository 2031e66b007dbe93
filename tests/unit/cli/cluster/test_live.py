"""Without -f, the kubeconfig's cluster is read: in pages, with list alone, and with the user's own rights."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from cli.__main__ import main
from core.manifests.wire import resources
from tests.unit.cli.test___main__ import NOW, a_catalogue, a_cluster

TOKEN = "by-the-plugin"
NOT_INSTALLED = resources.NODE_OVERLAYS


def _gives(status: dict[str, str] | None) -> str:
    """A program that answers as a plugin does."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(credential)!r})"


def _python(program: str) -> dict[str, Any]:
    """The fields of a plugin that runs this program."""
    return {"command": sys.executable, "args": ["-c", program]}


def _sign_in_with(user: dict[str, Any], folder: Path) -> None:
    """Let the kubeconfig of `server` sign in by this plugin."""
    path = folder / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    base = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    config["users"] = [{"name": "u", "user": {"exec": {**base, **user}}}]
    path.write_text(yaml.safe_dump(config))


class FakeServer:
    """An API server that lists, two objects a page, for callers with the token."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.forbidden = ""
        self.requests: list[tuple[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, answer = server.answer(self.path, self.headers.get("Authorization", ""))
                server.requests.append((self.command, urlsplit(self.path).path))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._objects = objects
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        resource = next((found for found in resources.ALL if found.path() == parts.path), None)
        if authorization != f"Bearer {TOKEN}":
            return 401, {"message": "Unauthorized"}
        if resource is None or resource == NOT_INSTALLED:
            return 404, {"message": "not found"}
        if resource.plural == self.forbidden:
            return 403, {"message": f"{resource.plural} is forbidden: User cannot list"}
        items = [{k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in self._of(resource)]
        start = int((parse_qs(parts.query).get("continue") or ["0"])[0])
        metadata = {"continue": str(start + 2)} if start + 2 < len(items) else {}
        return 200, {"kind": f"{resource.kind}List", "metadata": metadata, "items": items[start : start + 2]}

    def _of(self, resource: Any) -> list[dict[str, Any]]:
        return [found for found in self._objects if found["kind"] == resource.kind]


@pytest.fixture
def cluster() -> list[dict[str, Any]]:
    """Like `a_cluster`, with pending pods in place of their Deployments."""
    objects = [found for found in a_cluster(5) if found["kind"] != "Deployment"]
    waiting = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "900m"}}}]}
    names = [f"web-{n}" for n in range(5)]
    return objects + [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n, "namespace": "shop"}, "spec": waiting}
        for n in names
    ]


@pytest.fixture
def server(cluster: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    found = FakeServer(cluster)
    plugin = tmp_path / "plugin.py"
    plugin.write_text(_gives({"token": TOKEN}))
    user = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": found.url}}],
        "users": [{"name": "u", "user": {"exec": user}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    (tmp_path / "catalog.json").write_text(json.dumps(a_catalogue()))
    yield found
    found.close()


def ask(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> tuple[int, str]:
    decision = ["--catalog", str(tmp_path / "catalog.json"), "--now", NOW, "--improve-iterations", "5", "-o", "json"]
    code = main([*arguments, *(() if arguments[0] == "snapshot" else decision)])
    return code, capsys.readouterr().out


@pytest.mark.parametrize("command", [("plan",), ("consolidate",), ("explain", "web-0", "--namespace", "shop")])
def test_live_and_file_input_give_the_same_answer(
    command: tuple[str, ...],
    server: FakeServer,
    cluster: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    files = tmp_path / "cluster.yaml"
    files.write_text(yaml.safe_dump_all(cluster))
    assert ask(capsys, tmp_path, *command) == ask(capsys, tmp_path, *command, "-f", str(files))
    assert {verb for verb, _ in server.requests} == {"GET"}


def test_live_and_file_input_give_the_same_snapshot(
    server: FakeServer, cluster: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A snapshot for support must show the cluster as it was."""
    files = tmp_path / "cluster.yaml"
    files.write_text(yaml.safe_dump_all(cluster))
    assert ask(capsys, tmp_path, "snapshot") == ask(capsys, tmp_path, "snapshot", "-f", str(files))


def test_a_kind_that_may_not_be_listed_ends_the_command(
    server: FakeServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Partial input is refused: without PodDisruptionBudgets, evictions would look unlimited."""
    server.forbidden = "poddisruptionbudgets"
    assert main(["consolidate"]) == 2
    assert "poddisruptionbudgets.policy cannot be listed (HTTP 403)" in capsys.readouterr().err


def test_a_missing_kubeconfig_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = f"{tmp_path / 'a'}:{tmp_path / 'b'}"
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", named)  # of KUBECONFIG, once
    assert main(["plan"]) == 2
    assert f"no cluster to read: there is no file {tmp_path / 'a'} or {tmp_path / 'b'}" in capsys.readouterr().err


def test_an_unknown_context_is_reported(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--context", "elsewhere"]) == 2
    assert "no cluster to read" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_reported(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.close()
    assert main(["plan"]) == 2
    assert "the API server does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"command": "no-such-program-of-ours"}, "No such file or directory: 'no-such-program-of-ours'"),
        (_python("raise SystemExit('sign in first')"), "process returned 1. sign in first"),
        (_python("raise SystemExit('x' * 9000)"), "xxx"),
        (_python("print('no JSON')"), "failed to decode"),
        (_python(_gives(None)), "the `exec` plugin failed"),
        (_python(_gives({"token": ""})), "its token is empty"),
    ],
)
def test_a_plugin_that_gives_no_credentials_is_named_and_nothing_is_asked_without_them(
    user: dict[str, Any], said: str, server: FakeServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The package logs it raw and asks as nobody: "Unauthorized" sent people to their roles."""
    _sign_in_with(user, tmp_path)
    assert main(["plan"]) == 2
    written = capfd.readouterr().err
    assert len(written) < 1000
    assert written.startswith("fleetwright: kubeconfig: no credentials: ")
    assert said in written
    assert "ERROR:root" not in written
    assert not server.requests


def test_on_a_terminal_a_plugin_speaks_for_itself(
    server: FakeServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package hands it the terminal, reads nothing of what it says, and fails over that."""
    _sign_in_with(_python("raise SystemExit('sign in first')"), tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["plan"]) == 2
    said, _, told = capfd.readouterr().err.partition("fleetwright: ")
    assert "sign in first" in said
    assert told.startswith("kubeconfig: no credentials: the `exec` plugin failed; what it said is above")
    assert not server.requests


def test_a_plugin_asks_on_the_terminal_while_standard_output_is_a_file(server: FakeServer, tmp_path: Path) -> None:
    """Its question was kept from the user, and both waited for each other."""
    program = (
        "import sys; sys.stderr.write('code: '); sys.stderr.flush()\n"
        "if sys.stdin.readline() != '123\\n': raise SystemExit('no')\n" + _gives({"token": TOKEN})
    )
    _sign_in_with(_python(program), tmp_path)
    ours, theirs = os.openpty()
    taken = tmp_path / "cluster.json"
    with taken.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", "snapshot"], stdin=theirs, stdout=file, stderr=theirs, close_fds=True
        )
    try:
        assert select.select([ours], [], [], 60)[0], "nothing is asked"
        assert os.read(ours, 100).endswith(b"code: ")
        os.write(ours, b"123\n")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
    assert json.loads(taken.read_text())["kind"] == "List"


def test_a_plugin_whose_input_is_no_terminal_may_not_ask(server: FakeServer, tmp_path: Path) -> None:
    """In a loop over contexts, it took the next of them for its answer."""
    told = tmp_path / "told.json"
    program = f"import os, pathlib; pathlib.Path({str(told)!r}).write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
    _sign_in_with(_python(program + _gives({"token": TOKEN})), tmp_path)
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "snapshot"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert json.loads(told.read_text())["spec"]["interactive"] is False


def test_a_session_that_ends_while_pages_are_read_ends_the_command(
    server: FakeServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The package runs the plugin again before each request once its credentials expire soon, and would use the old ones."""
    program = (
        f"import pathlib; runs = pathlib.Path({str(tmp_path / 'runs')!r}); runs.open('a').write('x')\n"
        "if len(runs.read_text()) > 3: raise SystemExit('the session is over')\n"
        + _gives({"token": TOKEN, "expirationTimestamp": "2020-01-01T00:00:00Z"})
    )
    _sign_in_with(_python(program), tmp_path)
    assert main(["plan"]) == 2
    written = capfd.readouterr().err
    assert "no credentials: exec: process returned 1. the session is over" in written
    assert "ERROR:root" not in written
    assert 0 < len(server.requests) <= 3
