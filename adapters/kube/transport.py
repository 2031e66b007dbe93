"""Sends requests to the API server, with tokens, timeouts and retries. Threads may share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import urllib3

from adapters.kube import errors
from adapters.kube.pool import Endpoint, pool_of
from adapters.ports import PortError
from core.version import VERSION

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0
"""The read timeout. A page of 500 pods takes the server well under a second; a busy server takes longer."""

HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": f"fleetwright/{VERSION}",
}
"""The user agent by which the server's audit log distinguishes our requests."""

LATE: Final = 504
"""An API server whose cache is behind etcd answers a list after three seconds and requests a retry."""

READ_AGAIN: Final = urllib3.Retry(
    total=2, connect=1, read=1, status=2, status_forcelist=(LATE,), allowed_methods=("GET",), raise_on_status=False
)
"""Retries of reads: the server may have closed an idle connection. A repeated read is harmless; a repeated write is not."""


class Token(Protocol):
    """Provides the bearer token."""

    def __call__(self) -> str:
        """Return the current token."""
        ...

    def renew(self) -> None:
        """Discard the token: the server rejected it."""
        ...


class Answer(NamedTuple):
    """The server's answer; `retry_after` is the header of that name, empty for none."""

    status: int
    body: bytes
    retry_after: str = ""

    def error(self, call: str) -> PortError:
        """Return the error for an unsuccessful answer."""
        return errors.of_answer(call, self.status, self.body, retry_after=self.retry_after)


class Transport:
    """Sends requests. The server's address is resolved at the first request, so that a cold start does not wait for it.

    Args:
        limit: Called before each request; it may wait.
    """

    def __init__(self, endpoint: Callable[[], Endpoint], token: Token, limit: Callable[[], None] | None = None) -> None:
        self._endpoint = endpoint
        self._token = token
        self._limit = limit
        self._server: tuple[str, urllib3.PoolManager] | None = None

    def send(self, call: str, method: str, path: str, body: bytes | None = None, *, content_type: str = "") -> Answer:
        """Send one request. A token that the server no longer accepts is renewed once. Raises PortError."""
        answer = self._send(call, method, path, body, content_type)
        if answer.status == errors.UNAUTHORIZED:
            self._token.renew()
            answer = self._send(call, method, path, body, content_type)
        return answer

    def _send(self, call: str, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        if self._limit is not None:
            self._limit()
        headers = {**HEADERS, "Authorization": f"Bearer {self._token()}"}
        if body is not None:
            headers["Content-Type"] = content_type or "application/json"
        try:
            url, pool = self._connected(call)
            response = pool.request(
                method,
                url + path,
                body=body,
                headers=headers,
                retries=READ_AGAIN if method == "GET" else False,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            )
        except urllib3.exceptions.HTTPError as error:
            raise errors.of_transport(call, error, is_write=method != "GET") from error
        return Answer(response.status, response.data, response.headers.get("Retry-After", ""))

    def _connected(self, call: str) -> tuple[str, urllib3.PoolManager]:
        server = self._server
        if server is None:
            endpoint = self._endpoint()
            server = self._server = (endpoint.url.rstrip("/"), pool_of(endpoint, call))
        return server
