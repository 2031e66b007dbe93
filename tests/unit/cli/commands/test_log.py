"""The log on a wide and on a narrow terminal."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from cli.__main__ import main
from cli.commands.log import log_table
from cli.terminal import output
from tests.builders import NOW
from tests.unit.cli.cluster.switches import Parameters, switch
from tests.unit.cli.ledger.stored import MemoryLedger, an_entry

LINE: dict[str, Any] = {
    "id": "81c04f2b6d",
    "time": "2026-11-22T05:01:10Z",
    "what": "launch 13 nodes (4 x c6a.2xlarge, 9 x c6a.large) for 31 pods, and remove ip-10-0-0-4.ec2.internal",
    "reason": "Underutilized",
    "moves": 1,
    "hourly": -0.306,
    "state": "done in part: NodePoolBreakerOpen",
}


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_line_fits_the_terminal_and_keeps_everything(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns a decision was told in 18 of them, and the table was 90 wide."""
    monkeypatch.setattr(output, "line_width", lambda: width)
    told = log_table({"entries": [LINE], "unreadable": []})
    assert max(len(line) for line in told.splitlines()) <= max(width, 72)
    words = " ".join(told.split())
    for part in ("81c04f2b6d", "Underutilized", "-0.3060", "NodePoolBreakerOpen", "ip-10-0-0-4"):
        assert part in words


def test_one_decision_is_singular() -> None:
    """`1 decisions` read as if others were hidden."""
    told = log_table({"entries": [LINE], "unreadable": []})
    assert "1 decision: $0.0000 launched and $0.3060 saved an hour, with 1 moved pod" in told


@pytest.mark.parametrize(("regions", "code"), [("a,b", 0), ("a,bad", 1)])
def test_every_cluster_is_listed_in_order_of_time_and_one_that_cannot_be_read_is_told(
    regions: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A complete list and a part of one must not look alike to a script."""

    def session(_: str | None, region: str | None) -> Any:
        found = Parameters({switch(f"in-{region}"): "run"}, denied=())
        found.region_name = str(region)
        if region == "bad":
            monkeypatch.setattr(found, "client", lambda *_, **__: (_ for _ in ()).throw(NoCredentialsError()))
        return found

    def installed(_: object, cluster: str) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(cluster_name=cluster, bucket_name=cluster))

    ledgers = {
        "in-a": MemoryLedger(
            an_entry("first", NOW, cluster="in-a"), an_entry("third", NOW + timedelta(hours=2), cluster="in-a")
        ),
        "in-b": MemoryLedger(an_entry("second", NOW + timedelta(hours=1), cluster="in-b")),
    }
    monkeypatch.setattr("cli.cluster.own_state._session", session)
    monkeypatch.setattr("cli.cluster.organisation.installation_in", installed)
    monkeypatch.setattr("cli.ledger.entries.ledger_of_bucket", lambda _, bucket: ledgers[bucket])
    assert main(["log", "--all", "--region", regions, "-o", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    listed = [(line["id"], line["cluster"], line["region"]) for line in document["entries"]]
    second = [("second", "in-b", "b")] if code == 0 else []
    assert listed == [("first", "in-a", "a"), *second, ("third", "in-a", "a")]
    assert len(document["unreadable"]) == code


def test_one_ledger_and_all_of_them_are_not_asked_for_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "--all", "--ledger", "x"]) == 2
    assert "--all reads every cluster: leave out --cluster and --ledger" in capsys.readouterr().err


def test_what_was_launched_and_what_was_saved_are_added_apart() -> None:
    lines = [
        {**LINE, "hourly": hourly, "moves": moves}
        for hourly, moves in ((0.5, 0), (0.0, 2), (-0.25, 1), (1.0, 0), (-1, 0))
    ]
    told = " ".join(log_table({"entries": lines, "unreadable": []}).split())
    assert "5 decisions: $1.5000 launched and $1.2500 saved an hour, with 3 moved pods" in told


def test_a_row_has_the_second_of_its_decision_and_on_a_narrow_terminal_one_column_for_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = {**LINE, "what": "launch 1 node", "moves": 2, "state": "done"}
    wide = [" ".join(line.split()) for line in log_table({"entries": [plain], "unreadable": []}).splitlines()]
    assert wide[1] == "11-22 05:01:10 81c04f2b6d launch 1 node Underutilized 2 -0.3060 done"
    monkeypatch.setattr(output, "line_width", lambda: 99)
    for moves, said in ((2, ", 2 moved pods"), (0, "")):
        told = " ".join(log_table({"entries": [{**plain, "moves": moves}], "unreadable": []}).split())
        assert f"11-22 05:01:10 81c04f2b6d launch 1 node [Underutilized]{said}, done -0.3060" in told


def test_a_log_without_a_decision_says_where_to_look() -> None:
    assert log_table({"entries": [], "unreadable": []}) == (
        "no such decision; pods are named NAMESPACE/NAME, and --since looks further back"
    )
