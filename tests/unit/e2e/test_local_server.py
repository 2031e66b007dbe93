"""The suite's servers answer, wait, and stop at once."""

from __future__ import annotations

import http.client
import socket
import threading

import pytest

from tests.e2e.local_server import Handler, LocalServer

SECONDS = 30


class Hello(Handler):
    def do_GET(self) -> None:  # noqa: N802 - the base class names it
        self.reply(200, {}, b"hello")

    def do_PUT(self) -> None:  # noqa: N802 - the base class names it
        self.reply(200, {}, self.body())


def ask(address: str) -> bytes:
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    connection.request("GET", "/")
    answer = connection.getresponse().read()
    connection.close()
    return answer


def test_a_server_answers_until_it_is_stopped() -> None:
    """Otherwise, a world cannot end: its servers block until a request comes, and none comes any more."""
    server = LocalServer(Hello, "hello")
    server.start()
    assert [ask(server.address), ask(server.address)] == [b"hello", b"hello"]
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(SECONDS)
    assert not stopping.is_alive()
    with pytest.raises(ConnectionRefusedError):
        ask(server.address)


def test_a_server_may_be_stopped_twice() -> None:
    """Otherwise, closing a sandbox that was already killed fails its test."""
    server = LocalServer(Hello, "hello")
    server.start()
    server.stop()
    server.stop()


def test_a_client_that_expects_continue_is_answered_at_once() -> None:
    """Otherwise, each object that a function writes to S3 takes a second, and delays the burst."""
    server = LocalServer(Hello, "hello")
    server.start()
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(1024).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"body")
        assert connection.recv(1024).startswith(b"HTTP/1.1 200 ")
    server.stop()
