"""`fleetwright metrics`: a cluster's state for Prometheus, printed or served, with a dashboard and alert rules."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from threading import Lock
from typing import Final

from cli import arguments as shared
from cli.cluster.arguments import add_cluster, add_installation
from cli.errors import DONE, InputError
from cli.terminal import serving
from cli.terminal.serving import Reply
from cli.terminal.style import write_stdout

EVERY_DEFAULT: Final = 60
"""Seconds for which an observation is served again: reading a large cluster takes seconds of the API server's time."""

_PORT_MAX: Final = 65535
_EXAMPLES: Final = """examples:
  fleetwright metrics --cluster prod
  fleetwright metrics --cluster prod --listen 127.0.0.1:9400
  fleetwright metrics --dashboard > fleetwright.json
  fleetwright metrics --rules > fleetwright-rules.yaml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_installation(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--listen", type=_address, metavar="HOST:PORT", help="serve them at /metrics until Ctrl-C")
    what.add_argument("--dashboard", action="store_true", help="print a Grafana dashboard instead; no cluster is read")
    what.add_argument("--rules", action="store_true", help="print Prometheus alert rules instead; no cluster is read")
    parser.add_argument(
        "--every",
        type=int,
        default=EVERY_DEFAULT,
        metavar="SECONDS",
        help="with --listen: how long an observation is served again (default: %(default)s)",
    )
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics, serve them, or print what is read with them."""
    import json

    from cli.answers import monitoring

    if arguments.dashboard:
        write_stdout(json.dumps(monitoring.dashboard(), indent=2))
    elif arguments.rules:
        import yaml

        write_stdout(yaml.safe_dump(monitoring.rules(), sort_keys=False, width=1000), end="")
    elif arguments.listen is None:
        write_stdout(_observed(arguments), end="")
    else:
        with served(Observations(lambda: _observed(arguments), arguments.every), arguments.listen) as server:
            host, port = server.server_address[:2]
            print(f"serving http://{host!s}:{port}/metrics", file=sys.stderr)
            server.serve_forever()
    return DONE


def _observed(arguments: argparse.Namespace) -> str:
    """Read the cluster once. Raises InputError."""
    from cli.answers.monitoring import exposition
    from cli.inputs import read_inputs

    inputs = read_inputs(arguments)
    return exposition(inputs.snapshot, inputs.own)


class Observations:
    """The latest observation, made again when it is older than `every` seconds; one thread reads at a time."""

    def __init__(self, observe: Callable[[], str], every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._observe, self._every, self._clock = observe, every, clock
        self._lock = Lock()
        self._made_at: float | None = None
        self._text = ""

    def text(self) -> str:
        """Return the metrics. Raises InputError, if the cluster cannot be read now."""
        with self._lock:
            if self._made_at is None or self._clock() - self._made_at >= self._every:
                self._text = self._observe()
                self._made_at = self._clock()
            return self._text


def served(observations: Observations, address: tuple[str, int]) -> ThreadingHTTPServer:
    """Return a server of the metrics. Raises InputError, if the address cannot be used."""

    def answer(path: str) -> Reply:
        """Answer /metrics; a cluster that cannot be read is a 503, so that Prometheus' `up` is 0."""
        from cli.answers.monitoring import CONTENT_TYPE

        if path.partition("?")[0] != "/metrics":
            return Reply(404, "only /metrics is here\n")
        try:
            return Reply(200, observations.text(), CONTENT_TYPE)
        except InputError as error:
            return Reply(503, f"{error}\n")

    return serving.served(answer, address, "--listen")


def _address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; for argparse."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9400")
    return host, int(port)
