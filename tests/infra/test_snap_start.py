"""SnapStart: sandboxes that start from one snapshot share whatever their modules have read, drawn or opened at import."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from infra import start_check
from infra.constructs.gradual_update import CHECK_TIMEOUT
from infra.packaging.start import CONTROLLERS, ENVIRONMENT
from installation.wiring import ALL_BY_NAME, FUNCTIONS
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
    assert at_import(*(spec.handler.rpartition(".")[0] for spec in ALL_BY_NAME.values())) == []


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


# The modules that each function loads before its controller exists: the cost of a cold start.


LOADED: Final = """
import sys
from importlib import import_module
function, controller = sys.argv[1:]
import_module(f"lambdas.handlers.{function}")
getattr(import_module("lambdas.bootstrap").application(), controller)
print(*sys.modules)
"""

SOLVER: Final = ("numpy", "highspy")
SCHEMAS: Final = ("pydantic", "core.api.schemas")
"""The models of users' objects: the first run that reads a NodePool loads them."""

PLANNER: Final = ("core.scheduling.planner", "core.disruption.decision", "core.packing.optimize")
CANDIDATES: Final = ("core.disruption.candidate", "fractions")
"""What only functions that decide about disruption need."""

NO_CLUSTER: Final = ("adapters.observation.observer", "lambdas.controllers.node_lifecycle")
"""Modules that only functions with access to the cluster need."""

LIGHT: Final = ("watch_audit_log", "refresh_catalogue")


def test_every_function_of_a_bundle_can_be_started() -> None:
    """`make package` starts each: one without an entry ended it, and with it every deployment."""
    assert set(CONTROLLERS) == set(ALL_BY_NAME)


@cache
def loaded_by(function: str) -> frozenset[str]:
    """Return the modules that a cold start of the function loads."""
    command = [sys.executable, "-c", LOADED, function, CONTROLLERS[function]]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return frozenset(answer.stdout.split())


@pytest.mark.ci
@pytest.mark.parametrize("function", list(ALL_BY_NAME))
def test_a_function_starts_without_what_it_may_not_need(function: str) -> None:
    """One import too many delays every pending pod, and no other test notices it."""
    loaded = loaded_by(function)
    forbidden = (*SOLVER, *SCHEMAS)
    if not ALL_BY_NAME[function].needs_solver:
        forbidden += (*PLANNER, *CANDIDATES)
    if function in LIGHT:
        forbidden += NO_CLUSTER
    assert [name for name in forbidden if name in loaded] == []


# The hook that asks a new version whether it can start.


VERSIONS = {"disrupt": "arn:aws:lambda:us-east-1:123456789012:function:disrupt:8"}
EVENT = {"DeploymentId": "d-1", "LifecycleEventHookExecutionId": "hook-1"}


class BusyError(Exception):
    """Lambda's TooManyRequestsException."""


class NotReadyError(Exception):
    """Lambda's SnapStartNotReadyException."""


class Functions:
    """Lambda, whose function is taken for some calls and then answers."""

    exceptions = SimpleNamespace(TooManyRequestsException=BusyError, SnapStartNotReadyException=NotReadyError)

    def __init__(self, *, error: str = "", taken: int = 0, refuses: Exception | None = None) -> None:
        self.error, self.taken, self.refuses = error, taken, refuses
        self.invoked: list[tuple[str, Any]] = []

    def invoke(self, *, FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803 - as botocore has them
        if self.refuses is not None:
            raise self.refuses
        if self.taken:
            self.taken -= 1
            raise BusyError if self.taken % 2 else NotReadyError
        self.invoked.append((FunctionName, json.loads(Payload)))
        told = {"FunctionError": "Unhandled"} if self.error else {}
        return {"Payload": io.BytesIO(self.error.encode() or b"{}"), **told}


class Deployments:
    """CodeDeploy, which knows one deployment and keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def get_deployment(self, *, deploymentId: str) -> dict[str, Any]:  # noqa: N803
        assert deploymentId == "d-1"
        return {"deploymentInfo": {"deploymentGroupName": "disrupt"}}

    def put_lifecycle_event_hook_execution_status(self, **told: str) -> None:
        self.told = told


def asked(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> str:
    """What CodeDeploy is told of the version."""
    deployments = Deployments()
    monkeypatch.setenv("VERSIONS", json.dumps(VERSIONS))
    clients = {"lambda": functions, "codedeploy": deployments}
    monkeypatch.setattr(start_check.boto3, "client", lambda service, **_: clients[service])
    monkeypatch.setattr(start_check.time, "sleep", lambda _: None)
    start_check.handler(EVENT, None)
    assert deployments.told["deploymentId"] == "d-1"
    assert deployments.told["lifecycleEventHookExecutionId"] == "hook-1"
    return deployments.told["status"]


def test_the_slowest_check_ends_before_the_hook_does() -> None:
    """Without an answer CodeDeploy would wait for an hour."""
    slowest = max(spec.timeout.total_seconds() for spec in FUNCTIONS)
    tries = start_check.TRIES * start_check.PAUSE_SECONDS
    assert slowest < start_check.CHECK_SECONDS
    assert tries + start_check.CHECK_SECONDS < CHECK_TIMEOUT.to_seconds()


def test_a_version_that_starts_gets_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = Functions(taken=3)
    assert asked(functions, monkeypatch) == "Succeeded"
    assert functions.invoked == [(VERSIONS["disrupt"], {"source": "fleetwright.start-check"})]


@pytest.mark.parametrize(
    "functions",
    [
        Functions(error='{"errorType": "Runtime.ImportModuleError"}'),
        Functions(taken=start_check.TRIES),
        Functions(refuses=RuntimeError("AccessDenied")),
    ],
    ids=["fails", "is busy for ever", "may not be asked"],
)
def test_a_version_of_which_nobody_knows_gets_none(functions: Functions, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(functions, monkeypatch) == "Failed"
