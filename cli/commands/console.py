"""`fleetwright console`: a page on this machine with the cluster, its decisions, why they are made, and what would change them.

The page asks for answers of other commands, each with arguments that are listed here: none of them changes anything.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from cli import arguments as shared
from cli.cluster.arguments import add_cluster, add_installation
from cli.errors import DONE, InputError
from cli.terminal.serving import HTML, JSON, Reply, served

if TYPE_CHECKING:
    from cli.answers.top import Observation

PORT_DEFAULT: Final = 9480
HOST: Final = "127.0.0.1"
"""The page has no login: only this machine reaches it."""
_HOSTS: Final = (HOST, "localhost")
_PORT_MAX: Final = 65535
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_:-]{0,300}")
"""What a request may name: no option begins so."""
_DOLLARS: Final = re.compile(r"\d{1,3}(\.\d{1,4})?")
_EXAMPLES: Final = """examples:
  fleetwright console
  fleetwright console --cluster prod
  fleetwright console -f cluster.yaml --ledger build/ledger
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    shared.add_files(parser, is_required=False)
    add_cluster(parser)
    add_installation(parser)
    parser.add_argument("--ledger", metavar="PLACE", help="decisions: FOLDER or s3://BUCKET (default: --cluster's)")
    parser.add_argument(
        "--port", type=_port, default=PORT_DEFAULT, help="the port on 127.0.0.1 (default: %(default)s; 0 for any)"
    )
    shared.add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C. Raises InputError, if the port is taken."""
    pages = Console(arguments)
    with served(pages.reply, (HOST, arguments.port), "--port", _HOSTS) as server:
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
            ["--ledger", arguments.ledger] if arguments.ledger else _words(arguments, ("cluster",), given=False)
        )
        self._ledger += _words(arguments, ("profile", "region", "stack"), given=False) if not arguments.ledger else []
        self._lock = Lock()
        self._answers: Mapping[str, Callable[[Mapping[str, str]], dict[str, object]]] = {
            "/data/cluster": lambda _: self._tables(),
            "/data/decisions": lambda _: self._command("log", *self._of_ledger()),
            "/data/replay": lambda asked: self._command("replay", _name(asked, "id"), *self._of_ledger()),
            "/data/savings": lambda _: self._command("savings", *_words(arguments, ("context", "region", "catalog"))),
            "/data/what-if": self._what_if,
            "/data/why": lambda asked: self._command("explain", _name(asked, "of"), *self._cluster),
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
        from cli.inputs import read_inputs
        from cli.search_time import share_of_time
        from core.containment import contained
        from core.disruption import disrupt

        given = argparse.Namespace(**vars(self._arguments))
        inputs = read_inputs(given)
        time_limit = share_of_time(given)
        decided = contained(inputs.snapshot, lambda snapshot: disrupt(snapshot, out_of_time=time_limit, proves=False))
        return _document(observation(decided.snapshot, inputs.own, decided.result, cluster=given.cluster))

    def _what_if(self, asked: Mapping[str, str]) -> dict[str, object]:
        """Consolidate as if a move cost so much, without budgets, or with Karpenter's moves."""
        price = asked.get("price", "")
        if price and not _DOLLARS.fullmatch(price):
            raise InputError(f"{price!r} is no price in dollars an hour", source="price")
        words = ["--move-price", price] if price else []
        words += ["--ignore-budgets"] if asked.get("budgets") == "ignored" else []
        words += ["--policy", "karpenter"] if asked.get("policy") == "karpenter" else []
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


def _words(arguments: argparse.Namespace, names: tuple[str, ...], *, given: bool = True) -> list[str]:
    """Return the options with values, and the files, as they were given to this command."""
    words = [word for path in arguments.files if given for word in ("-f", path)]
    words += [word for name in names if (value := getattr(arguments, name, None)) for word in (f"--{name}", str(value))]
    return words


def _name(asked: Mapping[str, str], key: str) -> str:
    name = asked.get(key, "")
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name", source=key)
    return name


def _document(found: Observation) -> dict[str, object]:
    tables = {
        name: {
            "headings": table.headings,
            "rows": [{"cells": row.cells, "details": row.details} for row in table.rows],
        }
        for name, table in found.tables.items()
    }
    return {"title": found.title, "readAt": found.read_at.isoformat(timespec="seconds"), "tables": tables}


def _page() -> str:
    """Return the page with the style of reports."""
    assets = files("cli") / "assets"
    return (assets / "console.html").read_text().replace("/* style */", (assets / "report.css").read_text())


def _port(text: str) -> int:
    """Parse a port; for argparse."""
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to {_PORT_MAX}")
    return int(text)
