"""Lambda's Runtime API for one sandbox: the function asks for its next invocation and answers it (version 2018-06-01)."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from typing import Final

import msgspec

from simulator.aws.queues import Lineage
from tests.e2e.local_server import Handler, LocalServer

PREFIX: Final = "/2018-06-01/runtime/"
NEXT: Final = PREFIX + "invocation/next"
INIT_ERROR: Final = PREFIX + "init/error"
ERROR_TYPE: Final = "Lambda-Runtime-Function-Error-Type"
UNHANDLED: Final = "Unhandled"
JSON: Final = {"Content-Type": "application/json"}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One invocation as the function receives it; `deadline` is in epoch seconds, `lineage` the chain that ends with it."""

    request_id: str
    function_arn: str
    deadline: float
    event: bytes
    lineage: Lineage = {}


def trace_header(lineage: Lineage) -> str:
    """Return the trace header in which Lambda carries a chain: the SDK sends it along with each call.

    Lambda names functions by a hash, and here they have their names (docs/engineering/aws-facts.md#lambda-loops).
    """
    chain = ",".join(f"{name}:{number}" for name, number in sorted(lineage.items()))
    root = "Root=1-00000000-000000000000000000000000;Parent=0000000000000000;Sampled=0"
    return f"{root};Lineage={chain}" if chain else root


def lineage_in(header: str) -> dict[str, int]:
    """Return the chain that a trace header carries."""
    _, found, chain = header.partition("Lineage=")
    pairs = (part.partition(":") for part in chain.partition(";")[0].split(",")) if found else ()
    return {name: int(number) for name, _, number in pairs}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the function answered: `error_type` is empty for a response."""

    body: bytes
    error_type: str = ""


class RuntimeApi:
    """Serves one sandbox on a port of 127.0.0.1 of its own.

    Attributes:
        address: What the sandbox gets as AWS_LAMBDA_RUNTIME_API.
        asked_at: When the function first asked for work (monotonic seconds): its cold start is over; None before.
    """

    def __init__(self) -> None:
        self.asked_at: float | None = None
        self._asked = threading.Event()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._current: Order | None = None
        api = self

        class Mine(_Handler):
            runtime = api

        self._server = LocalServer(Mine, "runtime-api")
        self.address = self._server.address
        self._server.start()

    def wait_until_asked(self, seconds: float) -> bool:
        """Return whether the function asks for work within this time, or has asked before."""
        return self._asked.wait(seconds)

    def give(self, order: Order) -> None:
        """Give the function an invocation at its next request for work."""
        self._current = order
        self._orders.put(order)

    def answer(self, seconds: float) -> Answer | None:
        """Return the function's answer to its invocation or to its start, or None if there is none within this time."""
        try:
            return self._answers.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop serving; a function that still waits for work is sent away."""
        self._orders.put(None)
        self._server.stop()

    def _take(self) -> Order | None:
        if self.asked_at is None:
            self.asked_at = time.monotonic()
            self._asked.set()
        return self._orders.get()

    def _accept(self, request_id: str, answer: Answer) -> bool:
        """Return whether this answers the current invocation, not an earlier one."""
        if self._current is None or self._current.request_id != request_id:
            return False
        self._current = None
        self._answers.put(answer)
        return True

    def _failed_to_start(self, answer: Answer) -> None:
        self._answers.put(answer)
        self._asked.set()


class _Handler(Handler):
    runtime: RuntimeApi

    def handle(self) -> None:
        """As the base class, but a sandbox that was killed while it was being answered is no news."""
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:  # noqa: N802 - the base class names it
        if self.path != NEXT:
            self.reply(404, JSON, b"{}")
            return
        order = self.runtime._take()
        if order is None:
            self.reply(410, JSON, b"{}")
            return
        headers = {
            "Lambda-Runtime-Aws-Request-Id": order.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int(order.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": order.function_arn,
            "Lambda-Runtime-Trace-Id": trace_header(order.lineage),
        }
        self.reply(200, {**JSON, **headers}, order.event)

    def do_POST(self) -> None:  # noqa: N802 - the base class names it
        body = self._chunks() if self._is_chunked() else self.body()
        error_type = self.headers.get(ERROR_TYPE) or UNHANDLED
        if self.path == INIT_ERROR:
            self.runtime._failed_to_start(Answer(body=body, error_type=error_type))
            self.reply(202, JSON, b'{"status":"OK"}')
            return
        request_id, _, what = self.path.removeprefix(PREFIX + "invocation/").partition("/")
        answer = Answer(body=body, error_type=error_type if what == "error" else "")
        taken = what in ("response", "error") and self.runtime._accept(request_id, answer)
        self.reply(202 if taken else 400, JSON, b'{"status":"OK"}')

    def _is_chunked(self) -> bool:
        return "chunked" in (self.headers.get("Transfer-Encoding") or "")

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body
