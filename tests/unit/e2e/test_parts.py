"""A check is skipped only if its parts cannot be had on this machine, never because of our own fault."""

from __future__ import annotations

import dataclasses
import http.client
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.manifests.wire.resources import NODES
from tests.e2e.local_server import Handler, LocalServer
from tests.e2e.parts import __main__ as parts
from tests.e2e.parts import builds
from tests.e2e.parts.admin import Admin
from tests.e2e.parts.builds import Recipe
from tests.e2e.parts.processes import LackingError, PartError, Processes, answers, free_ports
from tests.fakes.api_server import ApiServer, Failure, serving


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`--build-only`, where each step raises the given error; nothing is built."""

    def exit_code(
        *, missing: tuple[str, ...] = (), binaries: Exception | None = None, package: Exception | None = None
    ) -> int:
        monkeypatch.setattr("sys.argv", ["parts", "--build-only"])
        monkeypatch.setattr(builds, "missing", lambda **_: list(missing))
        monkeypatch.setattr(builds, "unbuilt", list)
        monkeypatch.setattr(builds, "binaries", _raising(binaries))
        monkeypatch.setattr(parts, "package", _raising(package))
        return parts.main()

    return exit_code


def _raising(error: Exception | None) -> Callable[[], None]:
    def step() -> None:
        if error is not None:
            raise error

    return step


def test_all_there(run: Callable[..., int]) -> None:
    assert run() == 0


def test_unavailable_parts_are_skipped(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(missing=("Maven (mvn) fetches DynamoDB Local (found: none).",)) == parts.LACKING
    assert run(binaries=LackingError("etcd was not built\nno such host")) == parts.LACKING
    assert capsys.readouterr().err.splitlines()[-1] == "The real parts cannot be had here: etcd was not built"


def test_our_own_faults_fail(run: Callable[..., int]) -> None:
    """A dependency without a wheel, or a module that does not compile, passed as green."""
    assert run(package=PartError("the functions' bundle was not built: pip gave 1")) == 1
    assert run(binaries=PartError("kube-apiserver was not built: undefined: x")) == 1


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("main.go:3:2: undefined: x", PartError),
        ('go: example.com/x@v1: Get "https://proxy/x": dial tcp: lookup proxy: no such host', LackingError),
        ("Could not transfer artifact from/to central: Unknown host repo.maven.apache.org", LackingError),
        ("Could not find artifact com.example:x:jar:9 in central", PartError),
    ],
)
def test_a_failed_build_differs_from_an_unreachable_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[PartError]
) -> None:
    monkeypatch.setenv("FLEETWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    broken = Recipe("tool", tmp_path, ("sh", "-c", f"echo '{said}'; exit 1"), ())
    monkeypatch.setattr(builds, "recipes", lambda: (broken,))
    with pytest.raises(PartError) as raised:
        builds.binaries()
    assert type(raised.value) is error


# What the suite's administrator does where a busy server gives no answer.


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def test_an_apply_without_an_answer_is_sent_again() -> None:
    """Otherwise, a server that is busy with new definitions for 20 seconds fails every test of a module."""
    server = ApiServer()
    server.objects["/api/v1"] = {"resources": [{"name": "nodes", "kind": "Node", "namespaced": False}]}
    server.put(NODES.path(), NODE)
    with serving(server) as url:
        admin = Admin(url, b"", "token")
        admin.get("nodes", "n")
        server.failures += [Failure(drops=True)] * 2
        admin.apply([NODE])
    assert [request.method for request in server.requests] == ["GET", "GET", "PATCH", "PATCH", "PATCH"]


# Where the programs come from, without building one.


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEETWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache"


def recipe(tmp_path: Path, text: str = "v1") -> Recipe:
    pin = tmp_path / "go.mod"
    pin.write_text(text)
    return Recipe("tool", tmp_path, ("sh", "-c", "echo x >> {out}; echo x >> count"), (pin,))


def use(monkeypatch: pytest.MonkeyPatch, one: Recipe) -> None:
    monkeypatch.setattr(builds, "recipes", lambda: (one,))
    monkeypatch.setattr(builds, "Binaries", lambda **paths: paths)


def test_every_program_has_a_recipe() -> None:
    names = {one.name.replace("-", "_") for one in builds.recipes()}
    assert names == {field.name for field in dataclasses.fields(builds.Binaries)}


def test_a_program_is_built_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, recipe(tmp_path))
    assert builds.unbuilt() == ["tool"]
    assert builds.binaries() == builds.binaries()
    assert (tmp_path / "count").read_text() == "x\n"
    assert builds.unbuilt() == []


def test_another_pin_builds_again(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, raising a version in go.mod still tests the old server."""
    use(monkeypatch, recipe(tmp_path))
    first = builds.binaries()
    use(monkeypatch, recipe(tmp_path, "v2"))
    assert builds.binaries() != first


def test_existing_programs_are_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert set(builds.unbuilt()) == {one.name for one in builds.recipes()} - {"etcd"}


def test_a_failed_build_says_why_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a partial program in the cache is taken for a complete one at the next run."""
    use(monkeypatch, Recipe("tool", tmp_path, ("sh", "-c", "touch {out}; echo no space left; exit 1")))
    with pytest.raises(PartError, match=r"tool was not built(.|\n)*no space left"):
        builds.binaries()
    assert builds.unbuilt() == ["tool"]
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_missing_tools_are_named_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    java, go, maven = builds.missing()
    assert "Java 17" in java
    assert "https://go.dev/dl" in go
    assert "apt install maven" in maven
    assert builds.missing(to_build=False) == [java]


def test_a_release_has_programs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The releases share etcd and kwok; the control plane is built from the module that pins it."""
    monkeypatch.setenv(builds.RELEASE_VARIABLE, "1.35")
    usual = {one.name: one for one in builds.recipes()}
    monkeypatch.setenv(builds.RELEASE_VARIABLE, "1.31")
    older = {one.name: one for one in builds.recipes()}
    changed = {name for name in usual if usual[name].key != older[name].key}
    assert changed == {"kube-apiserver", "kube-scheduler", "kube-controller-manager"}
    assert any("gitVersion=v1.31" in word for word in older["kube-scheduler"].command)


def test_a_release_without_a_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(builds.RELEASE_VARIABLE, raising=False)
    newest = {one.name: one for one in builds.recipes()}
    assert newest["etcd"].folder.name == newest["kube-apiserver"].folder.name == "controlplane_1_37"
    assert any("gitVersion=v1.37.2 " in word for word in newest["kube-scheduler"].command)
    monkeypatch.setenv(builds.RELEASE_VARIABLE, "1.19")
    with pytest.raises(PartError, match=r"1\.31, 1\.35"):
        builds.recipes()


# Every started process is stopped, whatever happens in between.


ROOT = Path(__file__).parents[3]
SLEEPER = (sys.executable, "-S", "-c", "import time; time.sleep(60)")
STUBBORN = (
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
)


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until_gone(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_the_end_of_the_block_stops_every_part(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        parts = [processes.start(f"sleeper-{n}", SLEEPER) for n in range(2)]
        assert all(part.is_running for part in parts)
    assert not any(is_alive(part.pid) for part in parts)


def test_a_failure_inside_the_block_stops_every_part(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Processes(tmp_path) as processes:
        part = processes.start("sleeper", SLEEPER)
        raise ZeroDivisionError
    assert not is_alive(part.pid)


def test_children_of_a_part_are_stopped_with_it(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        part = processes.start("shell", ["sh", "-c", "sleep 60 & echo $!; wait"])
        while not (said := part.log.read_text()).strip():
            time.sleep(0.01)
    assert until_gone(int(said))


def test_a_part_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        part = processes.start("stubborn", STUBBORN, ready=lambda: "up" in (tmp_path / "stubborn.log").read_text())
        processes.stop(part, seconds=0.1)
        assert part.exit_code == -signal.SIGKILL


def test_a_part_that_ends_early_is_named_with_its_log(tmp_path: Path) -> None:
    with (
        Processes(tmp_path) as processes,
        pytest.raises(PartError, match=r"(?s)broken ended with 3 .*broken\.log.*no such flag"),
    ):
        processes.start("broken", ["sh", "-c", "echo no such flag; exit 3"], ready=lambda: False)


def test_a_part_that_never_gets_ready_is_stopped_and_named(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        with pytest.raises(PartError, match=r"sleeper was not ready after 0\.1 s"):
            processes.start("sleeper", SLEEPER, ready=lambda: False, seconds=0.1)
        assert not processes.running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_test_run_stops_the_parts_too(number: signal.Signals, tmp_path: Path) -> None:
    """Examples: Ctrl-C, a cancelled CI job, a killed one."""
    program = f"""
        import sys, time
        from pathlib import Path
        from tests.e2e.parts.processes import Processes
        with Processes(Path({str(tmp_path)!r})) as processes:
            print(processes.start("sleeper", {SLEEPER!r}).pid, flush=True)
            time.sleep(60)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert is_alive(pid)
    os.kill(run.pid, number)
    run.wait(10)
    run.stdout.close()
    assert until_gone(pid)


def test_free_ports_are_distinct_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert not any(answers(port)() for port in ports)


# The suite's servers answer, wait, and stop at once.


SECONDS = 30


class Hello(Handler):
    def do_GET(self) -> None:  # noqa: N802 - the base class names it
        self.reply(200, {}, b"hello")

    def do_PUT(self) -> None:  # noqa: N802 - the base class names it
        self.reply(200, {}, self.body())


def ask(address: str) -> bytes:
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    connection.request("GET", "/")
    answer = connection.getresponse().read()
    connection.close()
    return answer


def test_a_server_answers_until_it_is_stopped() -> None:
    """Otherwise, a world cannot end: its servers block until a request comes, and none comes any more."""
    server = LocalServer(Hello, "hello")
    server.start()
    assert [ask(server.address), ask(server.address)] == [b"hello", b"hello"]
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(SECONDS)
    assert not stopping.is_alive()
    with pytest.raises(ConnectionRefusedError):
        ask(server.address)


def test_a_server_may_be_stopped_twice() -> None:
    """Otherwise, closing a sandbox that was already killed fails its test."""
    server = LocalServer(Hello, "hello")
    server.start()
    server.stop()
    server.stop()


def test_a_client_that_expects_continue_is_answered_at_once() -> None:
    """Otherwise, each object that a function writes to S3 takes a second, and delays the burst."""
    server = LocalServer(Hello, "hello")
    server.start()
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(1024).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"body")
        assert connection.recv(1024).startswith(b"HTTP/1.1 200 ")
    server.stop()
