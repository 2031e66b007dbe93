"""The page on this machine: what it shows is what commands answer, and what it may ask for is listed."""

from __future__ import annotations

import argparse
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError

import pytest

from cli.__main__ import command_parser
from cli.commands.console import HOST, Console
from cli.terminal.serving import served
from tests import page

ROOT = Path(__file__).parents[4]
FILES = ("-f", str(ROOT / "examples" / "pools"), "-f", str(ROOT / "examples" / "workloads"))


def given(*words: str) -> argparse.Namespace:
    return command_parser("console").parse_args([*FILES, "--time-budget", "0", *words])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(Console(given()).reply, (HOST, 0), "--port", (HOST, "localhost")) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_address[1]}"
        server.shutdown()


def answer(path: str) -> dict[str, object]:
    reply = Console(given()).reply(path)
    assert reply.status == 200
    document: dict[str, object] = json.loads(reply.text)
    return document


def test_the_tables_are_those_of_top() -> None:
    tables = answer("/data/cluster")["tables"]
    assert isinstance(tables, dict)
    assert list(tables) == ["nodes", "pools", "pods", "work"]
    assert [row["cells"][0] for row in tables["pools"]["rows"] if row["cells"][0] == "gpu"] == ["gpu"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/data/why?of=nodepool/gpu", "NodePool gpu"),
        ("/data/what-if?price=0.05&budgets=ignored&policy=karpenter", "no node"),
        ("/data/why?of=--help", "is no name"),
        ("/data/why", "is no name"),
        ("/data/what-if?price=1;rm", "is no price"),
        ("/data/decisions", "start the console with --cluster NAME or --ledger PLACE"),
        ("/data/replay?id=81c0", "start the console with --cluster NAME or --ledger PLACE"),
    ],
)
def test_an_answer_is_a_commands_own_or_says_what_is_wrong(path: str, said: str) -> None:
    assert said in str(answer(path)["text"])


def test_decisions_are_read_from_the_ledger_that_is_named(tmp_path: Path) -> None:
    console = Console(given("--ledger", str(tmp_path)))
    assert "no decision" in json.loads(console.reply("/data/decisions").text)["text"]


def test_nothing_else_is_served() -> None:
    assert Console(given()).reply("/data/approve").status == 404


def test_a_page_of_another_site_that_points_its_name_here_is_refused(address: str) -> None:
    request = urllib.request.Request(address, headers={"Host": "evil.example:80"})  # noqa: S310 - our own server
    with pytest.raises(HTTPError, match="403"):
        urllib.request.urlopen(request)  # noqa: S310
    with pytest.raises(HTTPError, match="501"):
        urllib.request.urlopen(address, data=b"x")  # noqa: S310 - a POST


@pytest.mark.skipif(page.browser() is None, reason="no Chromium is here")
def test_the_page_shows_the_cluster_in_a_browser(address: str, tmp_path: Path) -> None:
    """A row that the address names is selected, and says why."""
    program = page.browser()
    assert program is not None
    flags = [flag for flag in page.FLAGS.split() if not flag.startswith("--virtual-time")]
    command = [program, *flags, f"--user-data-dir={tmp_path}", "--virtual-time-budget=60000", "--dump-dom"]
    done = subprocess.run([*command, f"{address}/#pools/gpu"], capture_output=True, text=True, timeout=120, check=True)  # noqa: S603 - a fixed program
    assert "pods waiting (read at" in done.stdout
    assert 'aria-selected="true">pools 4' in done.stdout
    assert "<h2>gpu</h2>" in done.stdout
    assert "NodePool gpu" in done.stdout
    assert ">what if<" in done.stdout
