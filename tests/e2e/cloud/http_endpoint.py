"""AWS over HTTP on 127.0.0.1: the embedded account's own answers where it has one, moto's for all other calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partialmethod
from typing import Any, Final, Protocol
from unittest.mock import patch

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.models import botocore_stubber
from moto.sqs.models import SQSBackend

from simulator.aws.queues import AwsError, refusal
from simulator.invocation import faults
from simulator.invocation.faults import Call, Fault
from tests.e2e.cloud.aws_protocol import RawResponse, SignedRequest, answer, error_response, signed_request
from tests.e2e.local_server import Handler, LocalServer

UNKNOWN_KEY: Final = AwsError(
    "UnrecognizedClientException", "The security token included in the request is invalid.", 403
)
_HOP: Final = frozenset({"connection", "content-length", "date", "server", "status", "transfer-encoding"})

Responder = Callable[[dict[str, Any]], dict[str, Any]]
Listener = Callable[[SignedRequest], None]


class FaultPlan(Protocol):
    """Chooses the fault of a call (`simulator.invocation.faults.Faults`)."""

    def take(self, call: str) -> Fault | None:
        """Return the fault of this attempt, or None."""
        ...


class HttpEndpoint:
    """One address for all AWS services, which SDKs take as `AWS_ENDPOINT_URL`.

    Attributes:
        url: The address.
        failures: Unexpected exceptions in this server.
    """

    def __init__(self, faults: FaultPlan, lock: threading.RLock, knows: Callable[[str], bool]) -> None:
        self._faults = faults
        self._lock = lock
        self._knows = knows
        self._answers: dict[str, Responder] = {}
        self._before: dict[str, Listener] = {}
        self._after: dict[str, Listener] = {}
        self.failures: list[str] = []
        self._server = LocalServer(_handler(self), "aws-endpoint")
        self.url = f"http://{self._server.address}"

    def start(self) -> None:
        """Start answering."""
        self._server.start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.stop()

    def answer_with(self, name: str, responder: Responder) -> None:
        """Answer calls of this name (`ec2:CreateFleet`) with `responder(parameters)` in place of moto."""
        self._answers[name] = responder

    def before(self, name: str, listener: Listener) -> None:
        """Call `listener` when a call of this name has arrived, before it is carried out."""
        self._before[name] = listener

    def after(self, name: str, listener: Listener) -> None:
        """Call `listener` when a call of this name has been carried out, before its reply is sent."""
        self._after[name] = listener

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> RawResponse | None:
        """Return status, headers and body; or None if the connection is to be cut."""
        request = signed_request(method, path, headers, body)
        if not self._knows(request.access_key):
            return error_response(request.service, UNKNOWN_KEY.status, UNKNOWN_KEY.code, UNKNOWN_KEY.message)
        self._tell(self._before, request)
        fault = self._faults.take(request.name)
        kind = "" if fault is None else fault.kind
        operation = request.name.partition(":")[2]
        call = Call(service=request.service, operation=operation, parameters={})
        refused = None if fault is None else refusal(call, fault)
        if refused is not None:
            return error_response(request.service, refused.status, refused.code, refused.message, refused.more)
        if fault is not None and kind == faults.DELAY:
            threading.Event().wait(fault.delay.total_seconds())
        if kind == faults.CRASH_BEFORE:
            return None
        response = self._perform(request)
        self._tell(self._after, request)
        return None if kind in (faults.LOST_REPLY, faults.CRASH_AFTER) else response

    def _perform(self, request: SignedRequest) -> RawResponse:
        responder = self._answers.get(request.name)
        try:
            # moto's sets and dictionaries are not thread-safe: receiving a message while another is deleted would fail.
            with self._lock:
                return _ask_moto(request) if responder is None else answer(request, responder)
        except AwsError as error:
            return error_response(request.service, error.status, error.code, error.message)

    def _tell(self, listeners: Mapping[str, Listener], request: SignedRequest) -> None:
        listener = listeners.get(request.name)
        if listener is not None:
            listener(request)


def _ask_moto(request: SignedRequest) -> RawResponse:
    headers = HTTPHeaders()
    for key, value in request.headers.items():
        headers[key] = request.host if key.lower() == "host" else value
    url = f"https://{request.host}{request.path}"
    prepared = AWSPreparedRequest(request.method, url, headers, request.body, stream_output=False)
    with _traced(request):
        response = botocore_stubber.process_request(prepared)
    if response is None:
        return error_response(request.service, 404, "UnknownOperationException", f"nobody answers {request.name}")
    status, given, body = response
    return status, given, body


def _traced(request: SignedRequest) -> AbstractContextManager[object]:
    """Return a context in which moto keeps the request's trace header with the messages that are sent, as SQS does."""
    header = next((value for key, value in request.headers.items() if key.lower() == "x-amzn-trace-id"), "")
    if not header or not request.name.startswith("sqs:SendMessage"):
        return nullcontext()
    attributes = {"AWSTraceHeader": {"DataType": "String", "StringValue": header}}
    send = partialmethod(SQSBackend.send_message, system_attributes=attributes)
    return patch.object(SQSBackend, "send_message", send)


def _handler(endpoint: HttpEndpoint) -> type[Handler]:
    class Calls(Handler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            try:
                self._answer()
            except ConnectionError:
                self.close_connection = True

        def _answer(self) -> None:
            body = self.body()
            try:
                response = endpoint.respond(self.command, self.path, dict(self.headers.items()), body)
            except Exception as failure:  # noqa: BLE001 - answered as AWS answers its own faults, and kept for the test
                endpoint.failures.append(f"{self.command} {self.path}: {failure!r}")
                response = error_response("ec2" if b"Action=" in body else "sqs", 500, "InternalFailure", repr(failure))
            if response is None:
                self.close_connection = True
                return
            self._write(*response)

        def _write(self, status: int, headers: Mapping[str, str], content: str | bytes) -> None:
            body = content.encode() if isinstance(content, str) else content
            kept = {key: str(value) for key, value in headers.items() if key.lower() not in _HOP}
            if self.command != "HEAD":
                self.reply(status, kept, body)
                return
            given = {key.lower(): value for key, value in headers.items()}
            self.reply(status, kept, b"", length=int(given.get("content-length", len(body))))

    return Calls
