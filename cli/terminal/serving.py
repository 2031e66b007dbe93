"""Serves answers to GET requests on an address of this machine; nothing that a request says is written or carried out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple

from cli.errors import InputError

PLAIN, JSON, HTML = "text/plain", "application/json", "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page loads nothing from elsewhere, and no other page shows it."""


class Reply(NamedTuple):
    """What a request gets."""

    status: int
    text: str
    kind: str = PLAIN


def served(
    answer: Callable[[str], Reply], address: tuple[str, int], source: str, hosts: Collection[str] = ()
) -> ThreadingHTTPServer:
    """Return a server that answers GET.

    Args:
        answer: The path with its query → the reply.
        address: Where to listen.
        source: The option that gave the address, for errors.
        hosts: By which names clients may call the server; empty for any. A page of another site that has its name point to
            this machine calls it by that name.

    Raises:
        InputError: If the address cannot be used.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            """Answer, or refuse a client that calls the server by a name that it does not have."""
            name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
            is_refused = bool(hosts) and name not in hosts
            reply = Reply(403, f"this server is not {name}\n") if is_refused else answer(self.path)
            body = reply.text.encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            with suppress(ConnectionError):  # the client has gone
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
            """Write nothing: Prometheus asks each minute."""

    try:
        return ThreadingHTTPServer(address, Handler)
    except OSError as error:
        raise InputError(f"{address[0]}:{address[1]}: {error.strerror or error}", source=source) from error
