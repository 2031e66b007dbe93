"""HTTP on a free port of 127.0.0.1, the base of all servers in the suite."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LocalServer:
    """Answers each connection in a thread of its own. `address` is its host and port.

    It sleeps until someone comes: a world has dozens of these, and what looks around all the time takes the interpreter
    from those who work.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], name: str) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._is_open = True
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.address: str = f"127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Start answering."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering; a second call has no effect."""
        self._is_open = False
        with suppress(OSError):  # stopped before
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a connection
        self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        while self._is_open:
            self._server.handle_request()


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open; quiet, for a request is no news."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def handle_expect_100(self) -> bool:
        """Say at once that the body may come: answers are buffered, and clients wait for this one, AWS' SDK a second."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def body(self) -> bytes:
        """What came with the request, where its length was told."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, headers: Mapping[str, str], body: bytes, *, length: int | None = None) -> None:
        """Send status, headers and body; `length` where another one than the body's is to be told."""
        self.send_response_only(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing."""
