"""Child processes with a log each, a bound on their readiness, and an end that always comes."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

READY_SECONDS: Final = 180.0
"""A part that is not ready by then will not be: the slowest takes five seconds on two idle cores."""

STOP_SECONDS: Final = 10.0
"""What a part has to end by itself after SIGTERM; then it is killed."""

LAST_SECONDS: Final = 2.0
"""The same at the end of everything, when nobody will ask for what it has."""

POLL_SECONDS: Final = 0.05
PORTS: Final = range(20_000, 32_000)
"""Below what Linux gives to outgoing connections: a port stays free for a part that is started again."""

PORT_ATTEMPTS_MAX: Final = 200
_LOG_TAIL_LINES: Final = 15
_REAPER: Final = Path(__file__).with_name("reaper.py")


class PartError(Exception):
    """A part did not start or did not get ready; the message names the log to read."""


class LackingError(PartError):
    """A part cannot be had here: a tool is missing, or no registry answers. No fault of the sources."""


class Part:
    """One running child. `log` holds what it says, on either stream."""

    def __init__(self, name: str, child: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._child = child

    @property
    def pid(self) -> int:
        """Its process id, which is its process group's too."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether the process still runs."""
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; negative: by which signal; None while it runs."""
        return self._child.poll()

    def end(self, *, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM to its group, then SIGKILL to what is left of it."""
        if self.is_running:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(seconds)
        self._signal(signal.SIGKILL)
        self._child.wait()

    def kill(self) -> None:
        """SIGKILL at once: a crash."""
        self._signal(signal.SIGKILL)
        self._child.wait()

    def tail(self) -> str:
        """Return the last lines of the part's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._child.pid, number)
        except ProcessLookupError:
            return


class Processes:
    """Starts parts and stops exactly those, last first: at the end of the block, after a failure, on SIGINT and SIGTERM.

    A small watcher process ends them too where this one is killed and cannot.
    """

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.logs = logs
        self._parts: list[Part] = []
        self._reaper: subprocess.Popen[str] | None = None
        self._former: signal._HANDLER = None

    def __enter__(self) -> Self:
        try:
            self._former = signal.signal(signal.SIGTERM, signal.default_int_handler)
        except ValueError:  # not the main thread, which handles the signals
            self._former = None
        self._reaper = subprocess.Popen(
            [sys.executable, "-S", str(_REAPER)], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._parts:
                self.stop(self._parts[-1], seconds=LAST_SECONDS)
        finally:
            if self._reaper is not None and self._reaper.stdin is not None:
                self._reaper.stdin.close()
                self._reaper.wait(STOP_SECONDS)
            if self._former is not None:
                signal.signal(signal.SIGTERM, self._former)

    @property
    def running(self) -> tuple[Part, ...]:
        """Return the parts that were started and not stopped, oldest first."""
        return tuple(self._parts)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        seconds: float = READY_SECONDS,
    ) -> Part:
        """Start a part; return when `ready` says yes. `environment` replaces this process's own.

        Raises:
            PartError: If it ended before it was ready, or was not ready in time; it is stopped then.
        """
        log = self.logs / f"{name}.log"
        with log.open("ab") as stream:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
            )
        part = Part(name, child, log)
        self._parts.append(part)
        self._tell_reaper(f"+{child.pid}")
        try:
            if ready is not None:
                _wait_until_ready(part, ready, seconds)
        except BaseException:
            self.stop(part)
            raise
        return part

    def stop(self, part: Part, *, seconds: float = STOP_SECONDS) -> None:
        """Stop one part, if it still runs."""
        part.end(seconds=seconds)
        if part in self._parts:
            self._parts.remove(part)
            self._tell_reaper(f"-{part.pid}")

    def _tell_reaper(self, line: str) -> None:
        if self._reaper is None or self._reaper.stdin is None:
            raise PartError("parts are started inside `with Processes(…)`")
        self._reaper.stdin.write(f"{line}\n")
        self._reaper.stdin.flush()


def free_ports(number: int) -> list[int]:
    """Return distinct free ports of 127.0.0.1."""
    found: list[int] = []
    with _held_open() as hold:
        for _ in range(PORT_ATTEMPTS_MAX):
            if len(found) == number:
                return found
            port = random.SystemRandom().choice(PORTS)
            if hold(port):
                found.append(port)
    raise PartError(f"no {number} free ports between {PORTS.start} and {PORTS.stop}")


def answers(port: int, path: str = "/") -> Callable[[], bool]:
    """A readiness check: whether anything speaks HTTP at this port of 127.0.0.1, whatever it says."""

    def check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", path)
            return bool(connection.getresponse().status)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return check


@contextmanager
def _held_open() -> Iterator[Callable[[int], bool]]:
    held: list[socket.socket] = []

    def hold(port: int) -> bool:
        one = socket.socket()
        held.append(one)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

    try:
        yield hold
    finally:
        for one in held:
            one.close()


def _wait_until_ready(part: Part, ready: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if not part.is_running:
            raise PartError(
                f"{part.name} ended with {part.exit_code} before it was ready; read {part.log}:\n{part.tail()}"
            )
        if time.monotonic() > end:
            raise PartError(f"{part.name} was not ready after {seconds:g} s; read {part.log}:\n{part.tail()}")
        time.sleep(POLL_SECONDS)
