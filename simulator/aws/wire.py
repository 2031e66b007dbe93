"""The seam between boto3 and the embedded account: every attempt of every call passes here.

Some calls are answered by the embedded account itself (`answer_with`), the others by moto. An answer of ours goes straight
to the caller and skips what HTTP would cost, except where a fault is armed: then the call takes the whole way, so that the
SDK's own retries are part of the play.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final, Protocol

import botocore
import botocore.endpoint
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ReadTimeoutError
from botocore.handlers import BUILTIN_HANDLERS
from moto.core.models import botocore_stubber

from simulator import calls
from simulator.aws.fault_answers import refusal
from simulator.aws.read_memo import ReadMemo
from simulator.calls import Call, CrashError, Fault

_CALL_HEADER: Final = "x-simulator-call"
Responder = Callable[[dict[str, Any]], dict[str, Any]]
RawResponse = tuple[int, dict[str, str], str | bytes]


class AwsError(Exception):
    """An error that the embedded account answers with."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status


class FaultPlan(Protocol):
    """Says what befalls a call."""

    def take(self, call: str) -> Fault | None:
        """The fault that befalls the attempt that is being made, used up by this."""
        ...


class Wire:
    """Carries boto3's calls to moto or to the embedded account's own answers.

    Attributes:
        fault: What befalls the attempt that is being answered, for answers that differ by it.

    Args:
        faults: What befalls calls.
        spend: Lets virtual time pass; called with each call's duration and with the SDK's own waits.
        latency: How long a call takes.
    """

    def __init__(
        self, faults: FaultPlan, spend: Callable[[timedelta], None], latency: Callable[[str], timedelta]
    ) -> None:
        self._faults = faults
        self._spend = spend
        self._latency = latency
        self._responders: dict[str, Responder] = {}
        self._checks: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._observers: dict[str, list[Callable[[Call, dict[str, Any]], None]]] = {}
        self._in_flight: dict[str, Call] = {}
        self._memo = ReadMemo()
        self._numbers = itertools.count(1)
        self.fault: Fault | None = None
        self._to_moto: Callable[[AWSPreparedRequest], RawResponse | None] = botocore_stubber.process_request

    def answer_with(self, name: str, responder: Responder) -> None:
        """Answer calls of this name with `responder(parameters)` in place of moto."""
        self._responders[name] = responder

    def check_with(self, name: str, check: Callable[[dict[str, Any]], None]) -> None:
        """Call `check(parameters)` before calls of this name reach moto; it may raise AwsError."""
        self._checks[name] = check

    def observe(self, name: str, observer: Callable[[Call, dict[str, Any]], None]) -> None:
        """Call `observer(call, answer)` after each successful call of this name; it may change the answer."""
        self._observers.setdefault(name, []).append(observer)

    def forget_answers(self, service: str) -> None:
        """Something changed in moto without a call: ask it again."""
        self._memo.forget(service)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Stand between boto3 and moto; clients made meanwhile pass here. moto's mock must be active."""
        hooks = [
            ("choose-signer", self._do_not_sign),
            ("before-parameter-build", self._note_parameters),
            ("before-call", self._before_call),
            ("after-call", self._after_call),
        ]
        BUILTIN_HANDLERS.extend(hooks)
        self._to_moto = botocore_stubber.process_request
        setattr(botocore_stubber, "process_request", self._attempt)  # noqa: B010 - moto gives no other seam
        real_time = botocore.endpoint.time
        botocore.endpoint.time = SimpleNamespace(sleep=lambda seconds: self._spend(timedelta(seconds=seconds)))
        try:
            yield
        finally:
            botocore.endpoint.time = real_time
            del botocore_stubber.process_request
            for hook in hooks:
                BUILTIN_HANDLERS.remove(hook)

    def _do_not_sign(self, **_: Any) -> Any:
        return botocore.UNSIGNED

    def _note_parameters(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        context["simulated_call"] = Call(
            service=model.service_model.service_name, operation=model.name, parameters=params
        )

    def _before_call(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> Any:
        call: Call = context["simulated_call"]
        call.fault = self._faults.take(call.name)
        return self._route(call, params, context)

    def _route(self, call: Call, params: dict[str, Any], context: dict[str, Any]) -> Any:
        responder = self._responders.get(call.name)
        known = self._memo.recall(call)
        if (responder is None and known is None) or call.fault is not None:
            number = str(next(self._numbers))
            self._in_flight[number] = call
            context["simulated_number"] = number
            params["headers"][_CALL_HEADER] = number
            return None
        self._spend(self._latency(call.name))
        if responder is None:
            # Another function may have written while time passed.
            call.answer = self._memo.recall(call)
            return self._route(call, params, context) if call.answer is None else _answered(call.answer)
        try:
            call.answer = responder(call.parameters)
        except AwsError as error:
            return _Answered(error.status), _error_answer(error.code, error.message)
        return _answered(call.answer)

    def _after_call(self, http_response: Any, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        call: Call = context["simulated_call"]
        self._in_flight.pop(context.pop("simulated_number", ""), None)
        if http_response.status_code >= 300:
            return
        if call.answer is not None:
            parsed.update(call.answer)
        else:
            self._memo.keep(call, parsed)
        for observer in self._observers.get(call.name, ()):
            observer(call, parsed)

    def _attempt(self, request: AWSPreparedRequest) -> RawResponse | None:
        call = self._in_flight.get(_header(request, _CALL_HEADER))
        if call is None:
            return self._to_moto(request)
        self._spend(self._latency(call.name))
        call.attempts += 1
        fault = call.fault if call.attempts == 1 else self._faults.take(call.name)
        if fault is None:
            return self._perform(call, request)
        return self._perform_with_fault(call, request, fault)

    def _perform_with_fault(self, call: Call, request: AWSPreparedRequest, fault: Fault) -> RawResponse | None:
        refused = refusal(call, fault)
        if refused is not None:
            return error_response(call.service, refused.status, refused.code, refused.message, refused.more)
        if fault.kind == calls.CRASH_BEFORE:
            raise CrashError(call.name)
        if fault.kind == calls.DELAY:
            self._spend(fault.delay)
        response = self._perform(call, request, fault)
        if fault.kind == calls.CRASH_AFTER:
            raise CrashError(call.name)
        if fault.kind != calls.LOST_REPLY:
            return response
        if response is not None and response[0] < 300:
            for observer in self._observers.get(call.name, ()):
                observer(call, {})
        raise ReadTimeoutError(endpoint_url=call.name)

    def _perform(self, call: Call, request: AWSPreparedRequest, fault: Fault | None = None) -> RawResponse | None:
        responder, check = self._responders.get(call.name), self._checks.get(call.name)
        self.fault = fault
        try:
            if check is not None:
                check(call.parameters)
            if responder is None:
                self._memo.touch(call)
                return self._to_moto(request)
            call.answer = responder(call.parameters)
        except AwsError as error:
            return error_response(call.service, error.status, error.code, error.message)
        finally:
            self.fault = None
        return _raw(200, b"{}" if call.service in JSON_SERVICES else b"<Response/>")


JSON_SERVICES: Final = ("dynamodb", "sqs", "ssm", "pricing", "scheduler", "eks", "events", "logs")
_REST_SERVICES: Final = ("s3",)


class _Answered:
    """The little that botocore asks of an HTTP response whose body is known already."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        self.headers: dict[str, str] = {}


def _answered(answer: dict[str, Any]) -> tuple[_Answered, dict[str, Any]]:
    return _Answered(200), {**answer, "ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}}


def _error_answer(code: str, message: str) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"RetryAttempts": 0}}


def error_response(
    service: str, status: int, code: str, message: str, more: Mapping[str, Any] | None = None
) -> RawResponse:
    """An error as the service sends it; `more` are its further members, in JSON alone."""
    if service in JSON_SERVICES:
        body = {"__type": code, "message": message, **(more or {})}
        return _raw(status, json.dumps(body).encode(), {"x-amzn-errortype": code})
    if service in _REST_SERVICES:
        return _raw(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())
    inner = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    if service == "ec2":
        return _raw(status, f"<Response><Errors>{inner}</Errors><RequestID>r</RequestID></Response>".encode())
    return _raw(status, f"<ErrorResponse>{inner}<RequestId>r</RequestId></ErrorResponse>".encode())


def _raw(status: int, body: bytes, headers: dict[str, str] | None = None) -> RawResponse:
    return status, {"content-length": str(len(body)), **(headers or {})}, body


def _header(request: AWSPreparedRequest, name: str) -> str:
    value = request.headers.get(name, "")
    return value.decode() if isinstance(value, bytes) else str(value)
