"""`metrics`: printed once or served, with the files that read them."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from cli.answers.monitoring import CONTENT_TYPE, RULES, dashboard
from cli.commands.metrics import Observations, served
from cli.errors import InputError

Capture = pytest.CaptureFixture[str]


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


def answer(observe: Callable[[], str], path: str = "/metrics") -> tuple[int, str, str]:
    """What a scrape gets: status, type and text."""
    with served(Observations(observe, 60), ("127.0.0.1", 0)) as server:
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

    assert answer(lambda: "a 1\n") == (200, CONTENT_TYPE, "a 1\n")
    assert answer(lambda: "a 1\n", "/") == (404, "text/plain", "only /metrics is here\n")
    assert answer(fails) == (503, "text/plain", "cluster prod cannot be read\n")


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
    with served(Observations(str, 60), ("127.0.0.1", 0)) as server, pytest.raises(InputError, match="in use"):
        served(Observations(str, 60), ("127.0.0.1", server.server_address[1]))
