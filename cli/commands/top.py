"""`fleetwright top`: a cluster's nodes, NodePools, pending pods and work on a screen that follows it."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from contextlib import redirect_stderr
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import msgspec

from cli import arguments as shared
from cli.cluster.arguments import add_cluster, add_installation
from cli.errors import DONE, InputError

if TYPE_CHECKING:
    from cli.answers.top import Observation
    from cli.terminal.screen import Terminal

_FRAME_SECONDS: Final = 0.25
_EXAMPLES: Final = """examples:
  fleetwright top
  fleetwright top --cluster prod --every 30
  fleetwright top -f cluster.yaml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_installation(parser)
    parser.add_argument(
        "--every",
        type=shared.seconds_between_readings,
        default=shared.EVERY_DEFAULT,
        metavar="SECONDS",
        help="time between two readings (default: %(default)s)",
    )
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Follow the cluster until `q`."""
    from cli.terminal.screen import terminal

    with terminal() as taken:
        reader = Reader(lambda show: observe(arguments, show), arguments.every)
        reader.start()
        try:
            follow(taken, reader)
        finally:
            reader.stop()
    return DONE


def observe(arguments: argparse.Namespace, show: Callable[[Observation], None]) -> None:
    """Read once; show it at once, and again when it is known why nodes stay or go. Raises InputError."""
    from cli.answers.top import observation
    from cli.inputs import read_inputs
    from cli.search_time import share_of_time
    from core.containment import contained
    from core.disruption import disrupt

    inputs = read_inputs(arguments)
    show(observation(inputs.snapshot, inputs.own, None, cluster=arguments.cluster))
    time_limit = share_of_time(arguments)
    decided = contained(inputs.snapshot, lambda given: disrupt(given, out_of_time=time_limit, proves=False))
    show(observation(decided.snapshot, inputs.own, decided.result, cluster=arguments.cluster))


class Reader(Thread):
    """Reads the cluster again and again beside the screen, so that keys never wait for a reading.

    Attributes:
        found: The latest observation, None before the first.
        problem: Why the latest reading failed, empty if it did not.
    """

    def __init__(self, read: Callable[[Callable[[Observation], None]], None], every: float) -> None:
        super().__init__(daemon=True)
        self.found: Observation | None = None
        self.problem = ""
        self._read, self._every = read, every
        self._now, self._is_over = Event(), False

    def run(self) -> None:
        """Read until `stop`."""
        while not self._is_over:
            self._now.clear()
            self.read_once()
            self._now.wait(self._every)

    def read_once(self) -> None:
        """Read, and remember what was found or why nothing was."""
        try:
            with redirect_stderr(io.StringIO()):  # warnings would be written across the screen
                self._read(self._show)
        except InputError as error:
            self.problem = error.problem
        except Exception as error:  # noqa: BLE001 - the screen says it, and the next reading may succeed
            self.problem = f"internal error: {type(error).__name__}: {error}"

    def again(self) -> None:
        """Read now."""
        self._now.set()

    def stop(self) -> None:
        """End after the present reading."""
        self._is_over = True
        self._now.set()

    def _show(self, found: Observation) -> None:
        self.found, self.problem = found, ""


def follow(taken: Terminal, reader: Reader) -> None:
    """Show what the reader has, and do what keys say, until `q`."""
    from cli.answers.top import View, frame, pressed

    view = View()
    while not view.is_over:
        width, height = taken.size()
        taken.screen.show(frame(reader.found, view, width, height, reader.problem), (width, height))
        for key in taken.pressed(_FRAME_SECONDS):
            if reader.found is not None:
                view = pressed(view, key, reader.found, height)
            elif key == "q":
                return
        if view.wants_reading:
            reader.again()
            view = msgspec.structs.replace(view, wants_reading=False)
