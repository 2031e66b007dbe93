"""One HTTPS connection pool to the API server: certificate authority, token, time-outs. Threads may share it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec
import urllib3

from lambdas.adapters.kube import errors
from lambdas.ports import DeniedError

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0
"""A page of 500 pods takes the server well under a second; a busy server takes its time."""

LATE: Final = 504
"""How an API server answers a list whose cache is behind what etcd has: it says so after three seconds, ask again."""

CONNECTIONS: Final = 10
"""Kept open: one for each message that `execute` handles at once."""

READ_AGAIN: Final = urllib3.Retry(
    total=2, connect=1, read=1, status=2, status_forcelist=(LATE,), allowed_methods=("GET",), raise_on_status=False
)
"""A kept connection may have been closed by the server meanwhile; reading again is harmless, writing again is not."""


class Token(Protocol):
    """Gives the bearer token."""

    def __call__(self) -> str:
        """The token now."""
        ...

    def renew(self) -> None:
        """Forget it: the server did not take it."""
        ...


class Endpoint(msgspec.Struct, frozen=True):
    """Where the API server is. `certificate_authority` is base64 of PEM, as EKS gives it; empty for the system's own."""

    url: str
    certificate_authority: str = ""


class Answer(NamedTuple):
    """What the server answered; `retry_after` is the header of that name, empty for none."""

    status: int
    body: bytes
    retry_after: str = ""


class Transport:
    """Sends requests. The server is looked up at the first one, so that a cold start does not wait for it."""

    def __init__(self, endpoint: Callable[[], Endpoint], token: Token) -> None:
        self._endpoint = endpoint
        self._token = token
        self._pool: urllib3.HTTPConnectionPool | None = None

    def send(self, call: str, method: str, path: str, body: bytes | None = None, *, content_type: str = "") -> Answer:
        """Send one request. A token that the server no longer takes is renewed once. Raises PortError."""
        answer = self._send(call, method, path, body, content_type)
        if answer.status == errors.UNAUTHORIZED:
            self._token.renew()
            answer = self._send(call, method, path, body, content_type)
        return answer

    def _send(self, call: str, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        headers = {"Authorization": f"Bearer {self._token()}", "Accept": "application/json", "Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        try:
            response = self._connected(call).request(
                method,
                path,
                body=body,
                headers=headers,
                retries=READ_AGAIN if method == "GET" else False,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            )
        except urllib3.exceptions.HTTPError as error:
            raise errors.of_transport(call, error, is_write=method != "GET") from error
        return Answer(response.status, response.data, response.headers.get("Retry-After", ""))

    def _connected(self, call: str) -> urllib3.HTTPConnectionPool:
        pool = self._pool
        if pool is None:
            pool = self._pool = _pool_of(self._endpoint(), call)
        return pool


def _pool_of(endpoint: Endpoint, call: str) -> urllib3.HTTPConnectionPool:
    try:
        return urllib3.connection_from_url(endpoint.url, maxsize=CONNECTIONS, **_tls(endpoint))
    except (ValueError, ssl.SSLError) as error:
        problem = f"the certificate authority of {endpoint.url} cannot be read: {error}"
        raise DeniedError(call, problem) from error


def _tls(endpoint: Endpoint) -> dict[str, ssl.SSLContext]:
    if not endpoint.url.startswith("https:"):
        return {}
    context = ssl.create_default_context()
    if endpoint.certificate_authority:
        context = ssl.create_default_context(cadata=base64.b64decode(endpoint.certificate_authority).decode())
    return {"ssl_context": context}
