"""Runs the public scenarios of Karpenter's behaviour: `python -m tests.conformance FOLDER`.

A scenario that contradicts a witness from outside fails on purpose: `DECIDED` names it, with the witness. Exit code 1 where
another scenario fails, or where a decided one passes, because then its entry is out of date.

The corpus's own runners start a program for each scenario. That program is a client of a process that has loaded the command
line and forks for each of them: half of a scenario's processor time would go into loading.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import cli
import core
from core.interpreter import TrackedObjects
from installation.array_threads import ARRAY_THREADS

ROOT: Final = Path(__file__).parents[1]

CLIENT: Final = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    call = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)])
    socket.send_fds(server, [call.encode()], [0, 1, 2])
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.makefile().read() or 70))
"""
"""Hands its arguments, folder, environment and streams over, and ends with the exit code that comes back."""

CALL_BYTES_MAX: Final = 1 << 20

DECIDED: Final = {
    "combined-taint-and-spread": (
        "Karpenter counts a zone that only a tainted NodePool could serve. kube-scheduler counts zones with nodes, so that"
        " pods without the toleration run in the others (pkg/scheduler/framework/plugins/podtopologyspread/filtering.go)."
    ),
    "ds-limits-default-to-requests": (
        "Karpenter adds a DaemonSet that fits on no type to every new node, so that nothing is launched. kube-scheduler lets"
        " the DaemonSet's pod wait and binds the others. One object must not stop all launches"
        " (docs/explanation/failure-model.md)."
    ),
    "seed-gpu-without-toleration-unschedulable": (
        "EKS admits pods with ExtendedResourceToleration: a pod that requests nvidia.com/gpu tolerates the taint nvidia.com/gpu"
        " (EKS user guide, platform versions; Kubernetes documentation, admission controllers)."
    ),
}
"""Scenario → why it fails here on purpose, with the witness."""

RUNS: Final = (("run.py", ()), ("run_disruption.py", ("--have", "feature-gates")))
SECONDS_MAX: Final = 3600


@contextmanager
def command_line() -> Iterator[str]:
    """A command that answers as `python -m cli` does, in a fork of a process that has loaded all of it."""
    with tempfile.TemporaryDirectory() as folder:
        address, client = Path(folder) / "socket", Path(folder) / "client.py"
        client.write_text(CLIENT)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(address))
            server.listen(64)
            process = os.fork()
            if process == 0:
                _serve(server)
            try:
                yield shlex.join([sys.executable, "-I", "-S", str(client), str(address)])
            finally:
                os.kill(process, signal.SIGTERM)
                os.waitpid(process, 0)


def _serve(server: socket.socket) -> None:
    """Load the command line, then fork for each client until the process is ended."""
    os.environ.update(ARRAY_THREADS)
    for package in (core, cli):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    TrackedObjects.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = server.accept()
        if os.fork() == 0:
            try:
                _answer(client)
            finally:
                os._exit(0)
        client.close()


def _answer(client: socket.socket) -> None:
    """Run one command with the client's arguments, folder, environment and streams, and send its exit code back."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text, streams, _, _ = socket.recv_fds(client, CALL_BYTES_MAX, 3)
    while rest := client.recv(CALL_BYTES_MAX):
        text += rest
    arguments, folder, environment = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = import_module("cli.__main__").main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(str(code).encode())


def failing(folder: Path, program: str) -> tuple[set[str], int]:
    """Return the names of the scenarios that fail, and how many ran.

    Raises:
        SystemExit: If a runner could not judge its corpus.
    """
    names: set[str] = set()
    total = 0
    for script, arguments in RUNS:
        with tempfile.TemporaryDirectory() as temporary:
            results = Path(temporary) / "results.json"
            command = [sys.executable, str(folder / script), "--cmd", program, "--json", str(results), *arguments]
            done = subprocess.run(command, cwd=ROOT, timeout=SECONDS_MAX, check=False)  # noqa: S603 - the corpus's own runner
            if done.returncode not in (0, 1) or not results.exists():
                sys.exit(f"{script} could not judge its scenarios: exit code {done.returncode}")
            entries = json.loads(results.read_text())["results"]
        total += len(entries)
        names |= {entry["name"] for entry in entries if entry["status"] not in ("pass", "passed", "skipped")}
    return names, total


def verdict(names: set[str]) -> list[str]:
    """Return a line for each scenario that fails without a decision, and for each decision without a failure."""
    undecided = [f"{name} fails" for name in sorted(names - DECIDED.keys())]
    return undecided + [
        f"{name} passes: its entry in DECIDED is out of date" for name in sorted(DECIDED.keys() - names)
    ]


def main() -> int:
    """Print what fails, and why on purpose."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with command_line() as program:
        names, total = failing(folder, program)
    for name in sorted(names & DECIDED.keys()):
        sys.stdout.write(f"{name} fails on purpose: {DECIDED[name]}\n")
    wrong = verdict(names)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(
        f"{total - len(names)} of {total} scenarios hold, {len(names & DECIDED.keys())} decided otherwise\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
