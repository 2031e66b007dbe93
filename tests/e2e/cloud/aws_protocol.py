"""Decodes requests of AWS SDKs (caller, operation, parameters) and encodes answers in the service's protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import NotFound

# Errors as services send them over HTTP.


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


_CREDENTIAL: Final = re.compile(r"Credential=([^/,\s]+)/\d{8}/([^/]*)/([^/]*)/aws4_request")
_HOSTS: Final = {"pricing": "api.pricing", "monitoring": "monitoring"}
_MODELS: Final = {"monitoring": "cloudwatch", "servicequotas": "service-quotas"}
_FORM: Final = "application/x-www-form-urlencoded"


class SignedRequest(msgspec.Struct, kw_only=True):
    """One attempt of one call.

    Attributes:
        service: The service's signing name, empty for an unsigned request.
        operation: The service's name for the operation, empty if the request does not show it.
        access_key: The access key that signed the request.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    service: str = ""
    region: str = ""
    operation: str = ""
    access_key: str = ""

    @property
    def name(self) -> str:
        """The call's name as in faults: `ec2:CreateFleet`."""
        return f"{self.service}:{self.operation}"

    @property
    def host(self) -> str:
        """The service's own host."""
        return f"{_HOSTS.get(self.service, self.service)}.{self.region or 'us-east-1'}.amazonaws.com"

    def header(self, name: str) -> str:
        """Return a header, whose name is case-insensitive; empty if it is missing."""
        return next((value for key, value in self.headers.items() if key.lower() == name), "")


def signed_request(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SignedRequest:
    """Read a request's caller, operation and parameters."""
    request = SignedRequest(method=method, path=path, headers=headers, body=body)
    found = _CREDENTIAL.search(request.header("authorization"))
    if found is not None:
        request.access_key, request.region, request.service = found.groups()
        request.operation = _operation(request)
    return request


def answer(request: SignedRequest, responder: Callable[[dict[str, Any]], dict[str, Any]]) -> RawResponse:
    """Return the answer of `responder` to the call's parameters, encoded in the service's protocol."""
    service = get_service_model(_MODELS.get(request.service, request.service))
    operation = service.operation_model(request.operation)
    protocol = determine_request_protocol(service, request.header("content-type"))
    asked = _request(request)
    router_says = get_service_router(service.service_name).match(asked)[1] if protocol.startswith("rest-") else {}
    parameters = _parser(protocol)(operation).parse(
        {
            "method": request.method,
            "values": asked.values,
            "headers": asked.headers,
            "body": request.body,
            "url_path": asked.path,
            "url_params": router_says,
        }
    )
    serialized = get_serializer_class(service.service_name, protocol)(operation).serialize(responder(parameters))
    return serialized["status_code"], dict(serialized["headers"]), serialized["body"]


class _KnowsPrefixes:
    """Indexes the prefixes of a call's parameters: CreateFleet has a thousand, and moto scans all for each possible field."""

    _prefixes: frozenset[str] | None = None

    def _gonna_recurse(self, query_params: Mapping[str, Any], prefix: str) -> bool:
        if self._prefixes is None:
            self._prefixes = frozenset(beginning for key in query_params for beginning in _beginnings(key))
        return prefix != "" and prefix not in self._prefixes


def _beginnings(key: str) -> Iterator[str]:
    """`A.1.B` begins with `A`, `A.1` and itself."""
    parts = key.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def _parser(protocol: str) -> Any:
    """Return moto's parser, with indexed prefixes for the query protocols, where it is slow."""
    theirs = PROTOCOL_PARSERS[protocol]
    return type(theirs.__name__, (_KnowsPrefixes, theirs), {})


def _operation(request: SignedRequest) -> str:
    target = request.header("x-amz-target")
    if target:
        return target.rpartition(".")[2]
    if request.header("content-type").startswith(_FORM):
        return parse_qs(request.body.decode()).get("Action", [""])[0]
    action = parse_qs(urlsplit(request.path).query).get("Action")
    if action:
        return action[0]
    try:
        return str(get_service_router(request.service).match(_request(request))[0].name)
    except NotFound:
        return ""


def _request(request: SignedRequest) -> Request:
    return Request.from_primitives(
        request.method, f"https://{request.host}{request.path}", request.headers, request.body
    )
