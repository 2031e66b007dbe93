"""The custom resource that has the market read: a deployment is done once it was read, and fails if it cannot be read."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, Final

import pytest

from infra import first_market
from infra.constructs.first_market import TIMEOUT
from installation.wiring import BY_NAME

VERSION: Final = "arn:aws:lambda:us-east-1:123456789012:function:refresh:8"
REQUEST: Final = {
    "RequestType": "Create",
    "StackId": "stack",
    "RequestId": "request",
    "LogicalResourceId": "Market",
    "ResourceProperties": {"Version": VERSION},
}


class BusyError(Exception):
    """Lambda's TooManyRequestsException."""


class NotReadyError(Exception):
    """Lambda's SnapStartNotReadyException."""


class Functions:
    """Lambda: the reader is taken for some calls, then fails for some, and then reads."""

    exceptions = SimpleNamespace(TooManyRequestsException=BusyError, SnapStartNotReadyException=NotReadyError)

    def __init__(self, *, taken: int = 0, refused: int = 0, failing: int = 0, seconds: float = 5) -> None:
        self.taken, self.refused, self.failing, self.seconds = taken, refused, failing, seconds
        self.invoked: list[str] = []
        self.context = Context()

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - as botocore has them
        assert json.loads(Payload) == {}
        if self.taken:
            self.taken -= 1
            raise BusyError if self.taken % 2 else NotReadyError
        if self.refused:
            self.refused -= 1
            raise PermissionError("AccessDeniedException: not authorized to perform: lambda:InvokeFunction")
        self.invoked.append(FunctionName)
        self.context.sleep(self.seconds)
        if self.failing:
            self.failing -= 1
            error = b'{"errorMessage": "ec2:DescribeInstanceTypes: UnauthorizedOperation"}'
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(error)}
        return {"Payload": io.BytesIO(b"{}")}


class Context:
    """Lambda's context of an invocation that has just begun."""

    def __init__(self) -> None:
        self.left = float(TIMEOUT.to_seconds())

    def sleep(self, seconds: float) -> None:
        self.left -= seconds

    def get_remaining_time_in_millis(self) -> float:
        return self.left * 1000


@pytest.fixture
def answers() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The URL of a bucket that keeps what it is sent."""
    kept: list[dict[str, Any]] = []

    class Bucket(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            assert self.headers["Content-Type"] == "", "the signature of the URL covers it"
            kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/answer", kept
    server.shutdown()
    server.server_close()


def told(
    functions: Functions, answers: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, **more: Any
) -> dict[str, Any]:
    """The only answer that CloudFormation got."""
    url, kept = answers
    monkeypatch.setattr(first_market.boto3, "client", lambda service, **_: {"lambda": functions}[service])
    monkeypatch.setattr(first_market.time, "sleep", functions.context.sleep)
    first_market.handler({**REQUEST, "ResponseURL": url, **more}, functions.context)
    (answer,) = kept
    assert {key: answer[key] for key in ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId")} == {
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Market",
        "PhysicalResourceId": "Market",
    }
    assert functions.context.left > 0, "Lambda would have ended it, and CloudFormation would wait for its time-out"
    return answer


@pytest.mark.parametrize(
    "functions",
    [
        Functions(),
        Functions(taken=20, seconds=300),
        Functions(refused=2),
        Functions(failing=3),
        Functions(taken=3, failing=1),
    ],
    ids=["at once", "a scheduled run holds the only execution", "new role", "new policy", "both"],
)
def test_a_deployment_is_done_once_the_market_was_read(
    functions: Functions, answers: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toolkit's trigger tries once: the first deployment would be rolled back where the schedule was a second earlier."""
    assert told(functions, answers, monkeypatch)["Status"] == "SUCCESS"
    assert set(functions.invoked) == {VERSION}


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        (Functions(failing=99), "ec2:DescribeInstanceTypes: UnauthorizedOperation"),
        (Functions(failing=99, seconds=300), "ec2:DescribeInstanceTypes: UnauthorizedOperation"),
        (Functions(refused=99), "not authorized to perform: lambda:InvokeFunction"),
        (Functions(taken=999), "its concurrency is taken"),
    ],
    ids=["denied", "slow", "may not ask", "busy for ever"],
)
def test_a_market_that_cannot_be_read_fails_the_deployment_and_says_why(
    functions: Functions, reason: str, answers: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = told(functions, answers, monkeypatch)
    assert answer["Status"] == "FAILED"
    assert reason in answer["Reason"]


def test_removal_and_roll_back_need_no_market(
    answers: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = Functions(failing=99)
    assert told(functions, answers, monkeypatch, RequestType="Delete")["Status"] == "SUCCESS"
    assert functions.invoked == []


def test_a_request_that_is_not_understood_is_answered(
    answers: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = told(Functions(), answers, monkeypatch, ResourceProperties={})
    assert (answer["Status"], "Version" in answer["Reason"]) == ("FAILED", True)


def test_an_answer_is_waited_for_as_long_as_the_reader_may_take() -> None:
    """The SDK would give up after a minute, and ask the busy function again."""
    assert BY_NAME["refresh_catalogue"].timeout.total_seconds() < first_market.READING_SECONDS
