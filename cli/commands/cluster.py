"""Commands that show a cluster as it is: `status` in a table, `top` on a screen, `console` on a page, `metrics` for Prometheus.

The page asks for answers of other commands, each with arguments that are listed here: none of them changes anything.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from cli import arguments as shared
from cli.arguments import add_all, add_cluster, add_installation, add_namespace, refuse_role_alone
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output
from cli.terminal.style import write_stdout

if TYPE_CHECKING:
    from cli.answers.top import Observation
    from cli.terminal.screen import Terminal


# `status`


_STATUS_EXAMPLES: Final = """examples:
  fleetwright status --cluster prod
  fleetwright status --all --region eu-west-1,us-east-1
  fleetwright status --all --role arn:aws:iam::111122223333:role/ops -o json
  fleetwright status --context staging -o wide
  fleetwright status -f cluster.yaml -o json
"""


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _STATUS_EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_namespace(parser)
    add_installation(parser)
    add_all(parser)
    shared.add_output(parser)
    shared.add_watch(parser)
    shared.add_decision(parser)


def run_status(arguments: argparse.Namespace) -> int:
    """Observe once, and print the result."""
    from cli.answers.plan import set_aside_fields
    from cli.answers.status import status_document, status_names, status_table
    from cli.inputs import read_inputs
    from cli.terminal.style import progress

    refuse_role_alone(arguments)
    if arguments.all:
        return _all(arguments)
    with progress("reading"):
        inputs = read_inputs(arguments)
    document = status_document(inputs.snapshot, inputs.own, cluster=arguments.cluster) | {"prices": inputs.prices}
    document |= set_aside_fields(inputs.set_aside)
    if arguments.namespace:
        from cli.answers.simulation import OneNamespace

        document = OneNamespace(inputs.snapshot, arguments.namespace).status(document)
    output.show(document, arguments.output, status_table, partial(status_table, shows_all=True), status_names)
    return DONE


def _all(arguments: argparse.Namespace) -> int:
    """Observe every cluster; negative if one could not be read."""
    from cli.answers.plan import API_VERSION, set_aside_fields
    from cli.answers.status import organisation_table, status_document
    from cli.cluster.organisation import FoundCluster, find_organisation
    from cli.inputs import observe_installation
    from cli.terminal.style import progress

    if arguments.cluster or arguments.files or arguments.context or arguments.namespace:
        raise InputError("--all reads every cluster: leave out --cluster, --context, --namespace and -f")

    def status(cluster: FoundCluster) -> dict[str, Any]:
        inputs = observe_installation(cluster.installation(), arguments, time.perf_counter())
        document = status_document(inputs.snapshot, inputs.own, cluster=cluster.name)
        return document | {"prices": inputs.prices, **set_aside_fields(inputs.set_aside), **cluster.where()}

    with progress("reading"):
        answers, failed = find_organisation(arguments).ask(status)
    document = {
        "apiVersion": API_VERSION,
        "kind": "StatusList",
        "clusters": [answer for _, answer in answers],
        "unreadable": [failure.document() for failure in failed],
    }
    output.show(document, arguments.output, organisation_table)
    return NEGATIVE if failed else DONE


# `top`


_FRAME_SECONDS: Final = 0.25
_TOP_EXAMPLES: Final = """examples:
  fleetwright top
  fleetwright top --cluster prod --every 30
  fleetwright top -f cluster.yaml
"""


def configure_top(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _TOP_EXAMPLES
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


def run_top(arguments: argparse.Namespace) -> int:
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
    from cli.arguments import share_of_time
    from cli.inputs import read_inputs
    from core.containment import contained
    from core.disruption import disrupt

    inputs = read_inputs(arguments)
    show(observation(inputs.snapshot, inputs.own, None, cluster=arguments.cluster))
    time_limit = share_of_time(arguments)
    decided = contained(inputs.snapshot, lambda snapshot: disrupt(snapshot, out_of_time=time_limit, proves=False))
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

    def _show(self, observed: Observation) -> None:
        self.found, self.problem = observed, ""


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


# A server of this machine: nothing that a request says is written or carried out.


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


def local_server(
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


# `console`

PORT_DEFAULT: Final = 9480
HOST: Final = "127.0.0.1"
"""The page has no login: only this machine reaches it."""
_HOSTS: Final = (HOST, "localhost")
_PORT_MAX: Final = 65535
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_:-]{0,300}")
"""What a request may name: no option begins so."""
_DOLLARS: Final = re.compile(r"\d{1,3}(\.\d{1,4})?")
_CONSOLE_EXAMPLES: Final = """examples:
  fleetwright console
  fleetwright console --cluster prod
  fleetwright console -f cluster.yaml --ledger build/ledger
"""


def configure_console(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _CONSOLE_EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_installation(parser)
    parser.add_argument("--ledger", metavar="PLACE", help="decisions: FOLDER or s3://BUCKET (default: --cluster's)")
    parser.add_argument(
        "--port", type=_port, default=PORT_DEFAULT, help="the port on 127.0.0.1 (default: %(default)s; 0 for any)"
    )
    shared.add_decision(parser)


def run_console(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C. Raises InputError, if the port is taken."""
    pages = Console(arguments)
    with local_server(pages.reply, (HOST, arguments.port), "--port", _HOSTS) as server:
        print(f"open http://{HOST}:{server.server_address[1]}/ in a browser; Ctrl-C ends", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return DONE
    return DONE


class Console:
    """Answers the page's requests, one at a time: commands write to the process' own output."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._cluster = _words(arguments, ("context", "cluster", "profile", "region", "stack", "catalog"))
        self._ledger = (
            ["--ledger", arguments.ledger] if arguments.ledger else _words(arguments, ("cluster",), with_files=False)
        )
        self._ledger += (
            _words(arguments, ("profile", "region", "stack"), with_files=False) if not arguments.ledger else []
        )
        self._lock = Lock()
        self._answers: Mapping[str, Callable[[Mapping[str, str]], dict[str, object]]] = {
            "/data/cluster": lambda _: self._tables(),
            "/data/decisions": lambda _: self._command("log", *self._of_ledger()),
            "/data/replay": lambda query: self._command("replay", _name(query, "id"), *self._of_ledger()),
            "/data/savings": lambda _: self._command("savings", *_words(arguments, ("context", "region", "catalog"))),
            "/data/week": lambda _: self._command("calendar", "--week", *self._cluster),
            "/data/what-if": self._what_if,
            "/data/why": lambda query: self._command("explain", _name(query, "of"), *self._cluster),
        }

    def reply(self, path: str) -> Reply:
        """Return the page, or an answer for it."""
        target = urlsplit(path)
        if target.path == "/":
            return Reply(200, _page(), HTML)
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        try:
            answer = self._answers[target.path]
        except KeyError:
            return Reply(404, "there is no such page\n")
        try:
            with self._lock:
                return Reply(200, json.dumps(answer(query)), JSON)
        except InputError as error:
            return Reply(200, json.dumps({"code": 2, "text": str(error)}), JSON)

    def _tables(self) -> dict[str, object]:
        """Read the cluster; the page's tables are those of `fleetwright top`, with why each node stays or goes."""
        from cli.answers.top import observation
        from cli.arguments import share_of_time
        from cli.inputs import read_inputs
        from core.containment import contained
        from core.disruption import disrupt

        arguments = argparse.Namespace(**vars(self._arguments))
        inputs = read_inputs(arguments)
        time_limit = share_of_time(arguments)
        decided = contained(inputs.snapshot, lambda snapshot: disrupt(snapshot, out_of_time=time_limit, proves=False))
        return _document(observation(decided.snapshot, inputs.own, decided.result, cluster=arguments.cluster))

    def _what_if(self, query: Mapping[str, str]) -> dict[str, object]:
        """Consolidate as if a move cost so much, without budgets, or with Karpenter's moves."""
        price = query.get("price", "")
        if price and not _DOLLARS.fullmatch(price):
            raise InputError(f"{price!r} is no price in dollars an hour", source="price")
        words = ["--move-price", price] if price else []
        words += ["--ignore-budgets"] if query.get("budgets") == "ignored" else []
        words += ["--policy", "karpenter"] if query.get("policy") == "karpenter" else []
        return self._command("consolidate", *words, *self._cluster)

    def _of_ledger(self) -> list[str]:
        if not self._ledger:
            raise InputError("decisions are in a ledger: start the console with --cluster NAME or --ledger PLACE")
        return self._ledger

    def _command(self, *words: str) -> dict[str, object]:
        from cli.__main__ import main  # it loads this file

        written = io.StringIO()
        with redirect_stdout(written), redirect_stderr(written):
            code = main(words)
        return {"code": code, "text": written.getvalue()}


def _words(arguments: argparse.Namespace, names: tuple[str, ...], *, with_files: bool = True) -> list[str]:
    """Return the options with values, and the files, as they were given to this command."""
    words = [word for path in arguments.files if with_files for word in ("-f", path)]
    words += [word for name in names if (value := getattr(arguments, name, None)) for word in (f"--{name}", str(value))]
    return words


def _name(query: Mapping[str, str], key: str) -> str:
    name = query.get(key, "")
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name", source=key)
    return name


def _document(observed: Observation) -> dict[str, object]:
    tables = {
        name: {
            "headings": table.headings,
            "rows": [{"cells": row.cells, "details": row.details} for row in table.rows],
        }
        for name, table in observed.tables.items()
    }
    return {"title": observed.title, "readAt": observed.read_at.isoformat(timespec="seconds"), "tables": tables}


def _page() -> str:
    """Return the page with the style of reports."""
    assets = files("cli") / "assets"
    return (assets / "console.html").read_text().replace("/* style */", (assets / "report.css").read_text())


def _port(text: str) -> int:
    """Parse a port; for argparse."""
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to {_PORT_MAX}")
    return int(text)


# `metrics`


EVERY_DEFAULT: Final = 60
"""Seconds for which an observation is served again: reading a large cluster takes seconds of the API server's time."""

_METRICS_EXAMPLES: Final = """examples:
  fleetwright metrics --cluster prod
  fleetwright metrics --cluster prod --listen 127.0.0.1:9400
  fleetwright metrics --dashboard > fleetwright.json
  fleetwright metrics --rules > fleetwright-rules.yaml
"""


def configure_metrics(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _METRICS_EXAMPLES
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


def run_metrics(arguments: argparse.Namespace) -> int:
    """Print the metrics, serve them, or print what is read with them."""
    from cli.answers import monitoring

    if arguments.dashboard:
        write_stdout(json.dumps(monitoring.dashboard(), indent=2))
    elif arguments.rules:
        import yaml

        write_stdout(yaml.safe_dump(monitoring.rules(), sort_keys=False, width=1000), end="")
    elif arguments.listen is None:
        write_stdout(_current_metrics(arguments), end="")
    else:
        with metrics_server(
            Observations(lambda: _current_metrics(arguments), arguments.every), arguments.listen
        ) as server:
            host, port = server.server_address[:2]
            print(f"serving http://{host!s}:{port}/metrics", file=sys.stderr)
            server.serve_forever()
    return DONE


def _current_metrics(arguments: argparse.Namespace) -> str:
    """Read the cluster once. Raises InputError."""
    from cli.answers.monitoring import exposition
    from cli.inputs import read_inputs, warn_of

    inputs = read_inputs(arguments)
    warn_of(inputs.set_aside)
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


def metrics_server(observations: Observations, address: tuple[str, int]) -> ThreadingHTTPServer:
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

    return local_server(answer, address, "--listen")


def _address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; for argparse."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9400")
    return host, int(port)
