"""`status`, `top`, `console` and `metrics`: what each shows of a cluster, and what it does where one cannot be read."""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from cli.__main__ import command_parser, main
from cli.answers.monitoring import CONTENT_TYPE, RULES, dashboard
from cli.commands import cluster
from cli.commands.cluster import HOST, Console, Observations, Reader, local_server, metrics_server
from cli.errors import InputError
from tests import page

# `status --all`


Capture = pytest.CaptureFixture[str]


class Organisation:
    """Two clusters, and some that cannot be read."""

    def __init__(self, *failed: str) -> None:
        self.failed = tuple(SimpleNamespace(document=lambda name=name: {"cluster": name}) for name in failed)
        self.clusters: list[Any] = [
            SimpleNamespace(
                name=name,
                installation=lambda name=name: f"installation of {name}",
                where=lambda name=name: {"cluster": name, "region": f"{name}-1"},
            )
            for name in ("a", "b")
        ]

    def ask(self, question: Any) -> Any:
        return [(found, question(found)) for found in self.clusters], self.failed


@pytest.mark.parametrize("failed", [(), ("c",)])
def test_each_cluster_is_observed_and_the_answer_is_negative_if_one_is_not(
    failed: tuple[str, ...], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observed(installation: str, arguments: Any, started: float) -> Any:
        assert arguments.all
        assert started > 0
        return SimpleNamespace(snapshot=installation, own="own", prices={"region": "r"}, set_aside=())

    def document(snapshot: str, own: str, *, cluster: str) -> dict[str, Any]:
        return {"kind": "Status", "cluster": f"{cluster} before", "of": [snapshot, own]}

    monkeypatch.setattr("cli.cluster.organisation.find_organisation", lambda _: Organisation(*failed))
    monkeypatch.setattr("cli.inputs.observe_installation", observed)
    monkeypatch.setattr("cli.answers.status.status_document", document)
    assert main(["status", "--all", "-o", "json"]) == len(failed)
    assert json.loads(capsys.readouterr().out) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "StatusList",
        "clusters": [
            {
                "kind": "Status",
                "cluster": name,
                "of": [f"installation of {name}", "own"],
                "prices": {"region": "r"},
                "region": f"{name}-1",
            }
            for name in ("a", "b")
        ],
        "unreadable": [{"cluster": name} for name in failed],
    }


@pytest.mark.parametrize("words", [("--cluster", "a"), ("-f", "x"), ("--context", "c"), ("-n", "shop")])
def test_all_clusters_are_not_narrowed_to_one(words: tuple[str, ...], capsys: Capture) -> None:
    assert main(["status", "--all", *words]) == 2
    assert "--all reads every cluster: leave out" in capsys.readouterr().err


# `top`


ROOT = Path(__file__).parents[4]
DEADLINE = 60.0


def test_a_reading_that_fails_is_said_and_the_last_one_stays() -> None:
    left: list[Any] = ["first", InputError("no answer"), RuntimeError("bug"), "second"]

    def read(show: Any) -> None:
        step = left.pop(0)
        if isinstance(step, Exception):
            raise step
        show(step)

    reader = Reader(read, 0)
    problems = []
    while left:
        reader.read_once()
        problems.append((reader.found, reader.problem))
    assert problems == [
        ("first", ""),
        ("first", "no answer"),
        ("first", "internal error: RuntimeError: bug"),
        ("second", ""),
    ]


@pytest.mark.parametrize("text", ["0", "1.9", "-5", "nan", "inf", "soon"])
def test_readings_are_some_seconds_apart(text: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    cluster.configure_top(parser)
    assert parser.parse_args(["--every", "2"]).every == 2
    with pytest.raises(argparse.ArgumentError, match="is not a number of seconds"):
        parser.parse_args(["--every", text])


def test_a_user_looks_around_in_a_real_terminal(cluster: list[str]) -> None:
    main, side = pty.openpty()
    command = (sys.executable, "-m", "cli", "top", *cluster)
    process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, cwd=ROOT)  # noqa: S603 - our own command
    os.close(side)
    try:
        screen = _until(main, r"1 node 1|deciding|0 nodes")
        os.write(main, b"3")
        screen += _until(main, "shop/huge")
        os.write(main, b"q")
        screen += _rest(main)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait(DEADLINE)
    os.close(main)
    assert screen.startswith("\x1b[?1049h")
    assert screen.rstrip().endswith("\x1b[?25h\x1b[?1049l")


def _until(descriptor: int, wanted: str) -> str:
    text, end = "", time.monotonic() + DEADLINE
    while not re.search(wanted, text):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{wanted} did not appear: {text!r}"
        text += os.read(descriptor, 65536).decode()
    return text


def _rest(descriptor: int) -> str:
    text = ""
    try:
        while select.select([descriptor], [], [], 0.5)[0]:
            read = os.read(descriptor, 65536)
            if not read:
                break
            text += read.decode()
    except OSError:  # the other side is closed
        pass
    return text


FILES = ("-f", str(ROOT / "examples" / "pools"), "-f", str(ROOT / "examples" / "workloads"))


def given(*words: str) -> argparse.Namespace:
    return command_parser("console").parse_args([*FILES, "--time-budget", "0", *words])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local_server(Console(given()).reply, (HOST, 0), "--port", (HOST, "localhost")) as server:
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
        ("/data/week", "clocks of UTC"),
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


# `metrics`


def test_metrics_of_files_are_printed(cluster: list[str], capsys: Capture) -> None:
    assert main(["metrics", *cluster]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "karpenter_cluster_state_node_count 1" in lines
    assert "fleetwright_pending_pods 4" in lines
    assert "# TYPE fleetwright_pending_pods gauge" in lines


def test_dashboard_and_rules_need_no_cluster(capsys: Capture) -> None:
    assert main(["metrics", "--dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == dashboard()
    assert main(["metrics", "--rules"]) == 0
    (group,) = yaml.safe_load(capsys.readouterr().out)["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [rule.alert for rule in RULES]


@pytest.mark.parametrize("address", ["9400", "localhost:http", "127.0.0.1:70000"])
def test_an_address_is_a_host_and_a_port(address: str, capsys: Capture) -> None:
    assert main(["metrics", "--listen", address]) == 2
    assert "is not HOST:PORT" in capsys.readouterr().err


def scrape(observe: Callable[[], str], path: str = "/metrics") -> tuple[int, str, str]:
    """What a scrape gets: status, type and text."""
    with metrics_server(Observations(observe, 60), ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}{path}", timeout=20) as reply:
                return reply.status, reply.headers["Content-Type"], reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, str(error.headers["Content-Type"]), error.read().decode()
        finally:
            server.shutdown()
            thread.join()


def test_prometheus_gets_the_metrics_and_an_error_if_the_cluster_cannot_be_read() -> None:
    def fails() -> str:
        raise InputError("cluster prod cannot be read")

    assert scrape(lambda: "a 1\n") == (200, CONTENT_TYPE, "a 1\n")
    assert scrape(lambda: "a 1\n", "/") == (404, "text/plain", "only /metrics is here\n")
    assert scrape(fails) == (503, "text/plain", "cluster prod cannot be read\n")


def test_an_observation_is_served_again_until_it_is_old() -> None:
    now, seen = [0.0], [0]

    def observe() -> str:
        seen[0] += 1
        return str(seen[0])

    observations = Observations(observe, 60, lambda: now[0])
    assert [observations.text(), observations.text()] == ["1", "1"]
    now[0] = 59.9
    assert observations.text() == "1"
    now[0] = 60.0
    assert observations.text() == "2"


def test_a_failure_is_not_remembered() -> None:
    left: list[Any] = [InputError("not now"), "a 1\n"]

    def observe() -> str:
        found = left.pop(0)
        if isinstance(found, InputError):
            raise found
        return str(found)

    observations = Observations(observe, 60)
    with pytest.raises(InputError):
        observations.text()
    assert observations.text() == "a 1\n"


def test_an_address_in_use_is_said() -> None:
    with metrics_server(Observations(str, 60), ("127.0.0.1", 0)) as server, pytest.raises(InputError, match="in use"):
        metrics_server(Observations(str, 60), ("127.0.0.1", server.server_address[1]))
