"""The hook that asks a new version whether it can start."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from infra import start_check
from infra.constructs.gradual_update import CHECK_TIMEOUT
from installation.wiring import FUNCTIONS

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
