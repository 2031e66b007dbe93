"""SnapStart: sandboxes that start from one snapshot share whatever their modules have read, drawn or opened at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from infra.packaging.start import ENVIRONMENT
from installation.wiring import FUNCTIONS
from tests.infra.conftest import ROOT, synthesize

PROBING: Final = """
import json, socket, sys
from botocore.session import Session
root, *handlers = sys.argv[1:]
builtin = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "localtime", "gmtime"}
builtin |= {"now", "utcnow", "today", "urandom", "getrandom", "random", "getrandbits", "seed", "generate_time_safe"}
written = {getattr(Session, name).__code__: name for name in ("create_client", "get_credentials")}
asked = {}
def note(frame, name):
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        file = frame.f_code.co_filename
        if file.startswith(root) and "site-packages" not in file:
            asked.setdefault(f"{file}:{frame.f_lineno}", name)
            return
        frame = frame.f_back
def look(frame, event, called):
    if event == "c_call" and called.__name__ in builtin:
        note(frame, called.__name__)
    elif event == "call" and frame.f_code in written:
        note(frame, written[frame.f_code])
def audit(event, _):
    if event.startswith("socket."):
        note(sys._getframe(1), event)
sys.addaudithook(audit)
sys.setprofile(look)
for name in handlers:
    __import__(name)
sys.setprofile(None)
from lambdas.bootstrap import _Sandbox
print(json.dumps([*map(" ".join, asked.items()), *(["application"] if _Sandbox.current else [])]))
"""
"""Imports handlers, and prints each line of our own modules that reaches a clock, chance, the network or AWS while it is
imported, through libraries too. What a library does when it is imported is its own."""


def at_import(*modules: str, folder: Path = ROOT) -> list[str]:
    command = [sys.executable, "-c", PROBING, f"{folder}{os.sep}", *modules]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(map(str, dict.fromkeys((folder, ROOT))))}
    ended = subprocess.run(  # noqa: S603 - fixed arguments
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return list(json.loads(ended.stdout))


def test_modules_keep_no_time_no_chance_no_client_no_credentials_and_no_connection() -> None:
    """They come with a sandbox's first event, after the snapshot."""
    assert at_import(*(spec.handler.rpartition(".")[0] for spec in FUNCTIONS)) == []


KEEPING: Final = """import datetime, random, secrets, socket, time, uuid
from botocore.session import get_session
from adapters.runtime import SystemClock
DAY = datetime.datetime.now(datetime.UTC)
STARTED = SystemClock().now()
NANOSECONDS = time.time_ns()
OWNER = uuid.uuid4()
TOKEN = secrets.token_hex(8)
DRAWN = random.randint(0, 9)
CHOSEN = random.choice("ab")
CLIENT = get_session().create_client("sqs", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
CREDENTIALS = get_session().get_credentials()
OPEN = socket.socket()
FOUND = socket.getaddrinfo("127.0.0.1", 1)
"""
"""A module with a line, behind three imports, for each thing that it must not keep."""


def test_a_module_that_keeps_any_of_these_is_noticed(tmp_path: Path) -> None:
    """Only calls of nine functions were seen, and none that a library made: all but one of these lines passed."""
    (tmp_path / "keeping.py").write_text(KEEPING)
    lines = {int(found.partition(" ")[0].rpartition(":")[2]) for found in at_import("keeping", folder=tmp_path)}
    assert sorted(lines) == list(range(4, len(KEEPING.splitlines()) + 1))


@pytest.mark.slow  # a synthesis of its own: `make lint-templates` runs it
@pytest.mark.parametrize("given", [True, "true"])
def test_each_function_of_the_wiring_starts_from_a_snapshot_where_that_is_asked(tmp_path: Path, given: object) -> None:
    assert snapshots(synthesize(tmp_path, {"snapStart": given})) == {spec.handler for spec in FUNCTIONS}


def test_no_function_does_by_default(templates: dict[str, dict[str, Any]]) -> None:
    """AWS bills a snapshot for as long as its version exists: $26 a month."""
    assert snapshots(templates) == set()


def snapshots(templates: dict[str, dict[str, Any]]) -> set[str]:
    resources = templates["fleetwright-fleetwright"]["Resources"].values()
    functions = [found["Properties"] for found in resources if found["Type"] == "AWS::Lambda::Function"]
    for function in (one for one in functions if "SnapStart" in one):
        assert function["Environment"]["Variables"]["AWS_ACCOUNT_ID_ENDPOINT_MODE"] == "disabled"
    return {f["Handler"] for f in functions if f.get("SnapStart") == {"ApplyOn": "PublishedVersions"}}
