"""Errors as services send them over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

RawResponse = tuple[int, dict[str, str], str | bytes]

_JSON_SERVICES: Final = ("dynamodb", "sqs", "ssm", "pricing", "scheduler", "eks", "events", "logs", "servicequotas")
_REST_SERVICES: Final = ("s3",)


def error_response(
    service: str, status: int, code: str, message: str, more: Mapping[str, Any] | None = None
) -> RawResponse:
    """An error as the service sends it; `more` are its further members, in JSON alone."""
    if service in _JSON_SERVICES:
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
