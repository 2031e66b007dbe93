"""`log`, `replay`, `report` and `what-if`: which decisions are read, what is said of them, and what is refused."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml
from botocore.exceptions import NoCredentialsError

from cli.__main__ import main
from cli.arguments import own_code
from cli.commands import ledger as report
from cli.commands.ledger import log_table, replay_table
from cli.ledger import entries
from cli.schemas.periods import ForecastAnswer
from cli.terminal import output
from core import codec
from core.counterfactual.simulation import RecordedPeriod, SimulationRules
from core.ledger.entry import PROVISION
from core.ledger.reading import decision_key
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed
from tests.unit.cli.answers.test_periods import RECORDED, THEN
from tests.unit.cli.cluster.switches import Parameters, switch
from tests.unit.cli.conftest import CATALOG
from tests.unit.cli.ledger.stored import MemoryLedger, an_entry
from tests.unit.cli.ledger.test_entries import WORLD, disrupted, stored

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


# `replay`


PLAN = codec.encode_plan(schedule(WORLD))
OTHER = json.loads(PLAN) | {"bindings": [], "another": 1}


@pytest.fixture
def ledger() -> MemoryLedger:
    return stored(MemoryLedger(), "aaaa1", PROVISION, PLAN)


def replayed(ledger: MemoryLedger, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    for key, content in ledger.objects.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(content)
    code = main(["replay", "--ledger", str(folder), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_decision_that_is_the_same_again(
    ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed(ledger, tmp_path, capsys) == (
        0,
        {
            "apiVersion": "fleetwright.dev/v1",
            "kind": "Replay",
            "code": own_code(),
            "decisions": 1,
            "equal": 1,
            "different": [],
            "unreadable": [],
        },
    )


@pytest.mark.parametrize("build", ["", "abc"])
def test_one_that_differs_is_told_by_its_fields_beside_one_that_is_the_same(
    build: str, ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(ledger, "bbbb2", PROVISION, json.dumps(OTHER).encode(), at=NOW + timedelta(hours=1), code=build)
    code, document = replayed(ledger, tmp_path, capsys)
    (different,) = document.pop("different")
    assert "another: 1 became null" in different.pop("differences")
    assert different == {
        "id": "bbbb2",
        "time": (NOW + timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
        "function": PROVISION,
        "version": "7",
        "code": build or None,
    }
    assert (code, document["decisions"], document["equal"], document["unreadable"]) == (1, 2, 1, [])


def test_one_that_cannot_be_read_hides_no_other(
    ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.objects[decision_key("c", NOW + timedelta(hours=1), PROVISION, "cccc3")] = b"nothing"
    code, document = replayed(ledger, tmp_path, capsys)
    (unreadable,) = document["unreadable"]
    assert unreadable["id"] == "cccc3"
    assert "is not an entry of a ledger" in unreadable["problem"]
    assert (code, document["decisions"], document["equal"], document["different"]) == (1, 2, 1, [])


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (None, "version 7) is different:"),
        ("here", "version 7, the code that runs here, here: report this) is different:"),
        (
            "abc",
            "version 7, code abc; here runs here: to repeat it, use the build that was deployed then) is different:",
        ),
    ],
)
def test_people_read_which_code_decided(build: str | None, said: str) -> None:
    different = {
        "id": "b",
        "function": PROVISION,
        "time": "T",
        "version": "7",
        "code": build,
        "differences": ["x: 1", "y: 2"],
    }
    document = {
        "equal": 1,
        "decisions": 3,
        "code": "here",
        "different": [different],
        "unreadable": [{"id": "c", "problem": "is odd"}],
    }
    parts = replay_table(document).split("\n\n")
    assert parts[0] == "1 of 3 decisions are the same, byte for byte"
    assert " ".join(parts[1].split()) == f"b (provision, T, {said} x: 1 y: 2"
    assert parts[1].splitlines()[-2:] == ["  x: 1", "  y: 2"]
    assert parts[2:] == ["c cannot be read: is odd"]


def test_one_of_a_function_that_this_release_does_not_know_hides_no_other(
    ledger: MemoryLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later release may record decisions of another function."""
    stored(ledger, "dddd4", "rebalance", PLAN, at=NOW + timedelta(hours=1))
    code, document = replayed(ledger, tmp_path, capsys)
    assert (code, document["decisions"], document["equal"], document["different"]) == (1, 2, 1, [])
    assert [found["id"] for found in document["unreadable"]] == ["dddd4"]
    assert "'rebalance' is not a function that decides" in document["unreadable"][0]["problem"]


# `report`


Capture = pytest.CaptureFixture[str]
DOCUMENT = {"kind": "CostReport", "dollars": 1.5}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """The arguments with which a period was read; each form of the answer is its name and the dollars."""
    found: list[argparse.Namespace] = []

    def read(arguments: argparse.Namespace, _: Any) -> dict[str, Any]:
        found.append(arguments)
        return DOCUMENT

    monkeypatch.setattr("cli.ledger.entries.report_of_period", read)
    for form in ("csv", "html", "markdown", "table"):
        told = f"{form} of {DOCUMENT['dollars']}\n"
        monkeypatch.setattr(f"cli.answers.difference.report_{form}", lambda _, told=told: told)
    return found


@pytest.mark.parametrize("form", ["csv", "html", "markdown", "table"])
def test_a_report_has_the_form_that_was_asked_for(
    form: str, asked: list[argparse.Namespace], capsys: Capture, tmp_path: Path
) -> None:
    assert main(["report", "--ledger", str(tmp_path), "-o", form]) == 0
    assert capsys.readouterr().out == f"{form} of 1.5\n"
    (arguments,) = asked
    assert (arguments.by, arguments.no_baseline, arguments.month) == (("nodepool", "namespace"), False, None)


def test_programs_read_json_and_people_a_table(asked: list[argparse.Namespace], capsys: Capture) -> None:
    assert main(["report", "--ledger", "x", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == DOCUMENT
    assert main(["report", "--ledger", "x"]) == 0
    assert capsys.readouterr().out == "table of 1.5\n"
    assert main(["report", "--ledger", "x", "-o", "xml"]) == 2
    assert len(asked) == 2


def test_a_month_is_a_whole_period(asked: list[argparse.Namespace], capsys: Capture) -> None:
    assert main(["report", "--ledger", "x", "--month", "2024-02", "--color", "never", "--no-baseline"]) == 0
    (arguments,) = asked
    assert (arguments.since, arguments.until) == (datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))
    assert arguments.no_baseline
    capsys.readouterr()
    for words in (("--from", "7d"), ("--to", "2024-03-01T00:00:00Z"), ("--from", "7d", "--to", "1d")):
        assert main(["report", "--ledger", "x", "--month", "2024-02", *words]) == 2
        assert "--month is a whole month: leave out --from and --to" in capsys.readouterr().err
    assert main(["report", "--ledger", "x", "--from", "2024-02-01T00:00:00Z"]) == 0
    assert (asked[-1].since, asked[-1].until) == (datetime(2024, 2, 1, tzinfo=UTC), None)


def test_columns_are_those_that_a_report_can_have() -> None:
    assert report._columns(" zone,nodepool, ,zone") == ("zone", "nodepool")
    for text, said in (("", "'' is none of"), (",", "',' is none of"), ("zone,x,y", "'x, y' is none of nodepool, ")):
        with pytest.raises(argparse.ArgumentTypeError, match=said):
            report._columns(text)


# `what-if`


Rules = list[SimulationRules]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Rules:
    """The rules of the simulations, in order."""
    seen: Rules = []

    def simulate(
        snapshots: Iterable[Any], rules: Sequence[SimulationRules], until: object
    ) -> tuple[RecordedPeriod, Any]:
        assert [snapshot.now for snapshot in snapshots] == [NOW]
        assert until == NOW
        seen.extend(rules)
        return RECORDED, (THEN, THEN)

    monkeypatch.setattr("cli.ledger.entries.opened_ledger", lambda _: disrupted(MemoryLedger()))
    monkeypatch.setattr("core.counterfactual.simulation.simulated_periods", simulate)
    return seen


@pytest.mark.parametrize(
    ("policy", "consolidates", "karpenter_alone"), [("karpenter", True, True), ("none", False, False)]
)
def test_a_policy_is_that_of_the_second_simulation(
    policy: str, consolidates: bool, karpenter_alone: bool, simulated: Rules, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", "--ledger", "x", "--policy", policy, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "WhatIf"
    before, after = simulated
    assert before == SimulationRules()
    assert (after.consolidates, after.karpenter_moves_only) == (consolidates, karpenter_alone)
    assert after.change(WORLD) == WORLD


def test_manifests_and_prices_replace_the_recorded_ones(
    simulated: Rules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = changed(changed(NODE_POOL, "metadata.name", WORLD.node_pools[0].name), "spec.weight", 7)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([pool, NODE_CLASS]))
    (tmp_path / "c.json").write_text(json.dumps(CATALOG))
    files = ["-f", str(tmp_path / "a.yaml"), "--catalog", str(tmp_path / "c.json")]
    assert main(["what-if", "--ledger", "x", *files, "-o", "markdown"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("### Fleetwright: what this would have done")
    assert "ignored: EC2NodeClass; only NodePools, NodeOverlays and PodDisruptionBudgets count" in printed.err
    after = simulated[1].change(WORLD)
    assert [found.weight for found in after.node_pools] == [7]
    assert [found.name for found in after.catalogue.default] == ["m.small"]
    assert (simulated[1].consolidates, simulated[1].karpenter_moves_only) == (True, False)


@pytest.mark.parametrize(("wait", "is_told"), [("30s", True), ("10m", False), ("Never", False), (None, False)])
@pytest.mark.usefixtures("simulated")
def test_a_changed_setting_that_is_shorter_than_a_tick_is_told(
    wait: str | None, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None: as recorded."""
    recorded = WORLD.node_pools[0]
    before = f"{(recorded.disruption.consolidate_after or timedelta(0)) // timedelta(seconds=1)}s"
    pool = changed(NODE_POOL, "metadata.name", recorded.name)
    pool = changed(pool, "spec.disruption.consolidateAfter", wait or before)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(pool))
    assert main(["what-if", "--ledger", "x", "-f", str(tmp_path / "a.yaml"), "-o", "json"]) == 0
    told = "consolidateAfter of 30 s is shorter than the 5 minutes between two decisions" in capsys.readouterr().err
    assert told == is_told


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        (None, "nothing is changed"),
        ([NODE_CLASS], "there is no NodePool, NodeOverlay or PodDisruptionBudget in the files"),
        ([changed(NODE_POOL, "spec.weight", 0)], "must be at least 1"),
    ],
)
def test_what_changes_nothing_or_cannot_be_read_is_refused(
    objects: list[Any] | None, problem: str, simulated: Rules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(objects or []))
    files = ["-f", str(tmp_path / "a.yaml")] if objects is not None else []
    assert main(["what-if", "--ledger", "x", *files]) == 2
    assert problem in capsys.readouterr().err
    assert simulated == []


# `forecast`


MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
WEEKS = 4
FORECAST_POOL = a_pool("default")


class RecordedWeeks:
    """What a ledger of four weeks holds: on Mondays at 9 six pods come, and on Tuesdays at 9 once."""

    since, until = MONDAY, MONDAY + timedelta(weeks=WEEKS)

    def __init__(self, _place: object, _arguments: object) -> None:
        pass

    def __len__(self) -> int:
        return 2 * 7 * WEEKS

    def __iter__(self) -> Iterator[Snapshot]:
        _, node = a_node_of(a_type(), "n1")
        for day in range(7 * WEEKS):
            nine = MONDAY + timedelta(days=day, hours=9)
            number = 6 if day % 7 == 0 else 40 if day == 1 else 0
            pods = tuple(
                a_pod(
                    f"p{day}-{index}",
                    cpu="500m",
                    node_name="n1",
                    created_at=nine,
                    started_at=nine + timedelta(minutes=1),
                )
                for index in range(number)
            )
            for hours, present in ((1, pods), (8, ())):
                now = nine + timedelta(hours=hours)
                yield a_snapshot(
                    now=now, nodes=(node,), pods=present, node_pools=(FORECAST_POOL,), types=(a_type(cpu="4"),)
                )


@pytest.fixture
def recorded_weeks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "PeriodReader", RecordedWeeks)
    monkeypatch.setattr(entries, "opened_ledger", lambda _: None)


def forecast_answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["forecast", "--ledger", "x", "-o", "json", *arguments]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(document, ForecastAnswer)
    return document


@pytest.mark.usefixtures("recorded_weeks")
def test_a_ramp_is_told_with_its_evidence_and_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    (ramp,) = forecast_answer(capsys)["ramps"]
    assert (ramp["nodePool"], ramp["days"], ramp["from"], ramp["to"]) == ("default", ["Mon"], "09:00", "09:05")
    assert (ramp["pods"], ramp["requests"], ramp["evidenceDays"]) == (6, {"cpu": "500m", "memory": "1Gi"}, 4)
    assert ramp["pays"]
    assert ramp["hourly"] > 0
    assert ramp["message"] == (
        "Mon 09:00 to 09:05: p90 of 4 days is 6 pods of cpu 500m, memory 1Gi; forecast from the other days, 100 % was used, "
        "by 100 % of the pods; pods waited 60 s"
    )


@pytest.mark.usefixtures("recorded_weeks")
def test_the_table_says_it_in_words_and_so_does_an_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "--ledger", "x"]) == 0
    assert "default: Mon 09:00 to 09:05: p90 of 4 days" in capsys.readouterr().out
    assert main(["forecast", "--ledger", "x", "--except", "2026-11-02,2026-11-09"]) == 0
    assert "no ramp recurs" in capsys.readouterr().out


@pytest.mark.usefixtures("recorded_weeks")
def test_the_calendars_are_valid_and_end_by_themselves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["forecast", "--ledger", "x", "--calendar", "--except", "2026-12-07"]) == 0
    text = capsys.readouterr().out
    (calendar,) = yaml.safe_load_all(text)
    (rule,) = calendar["spec"]["rules"]
    assert rule == {
        "name": "ramp-0900",
        "windows": [{"days": ["Mon"], "from": "09:00", "to": "09:05"}],
        "exceptDates": ["2026-12-07"],
        "validUntil": "2026-12-14",
        "settings": {
            "leadTime": "3m",
            "warm": {"pods": 6, "requests": {"cpu": "500m", "memory": "1Gi"}, "refill": False},
        },
    }
    (tmp_path / "calendar.yaml").write_text(text)
    assert main(["validate", "-f", str(tmp_path / "calendar.yaml"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["errors"] == 0


@pytest.mark.usefixtures("recorded_weeks")
def test_the_room_costs_no_more_than_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    (whole,) = forecast_answer(capsys)["ramps"]
    (less,) = forecast_answer(capsys, "--dollars-per-hour", str(whole["hourly"] / 2))["ramps"]
    assert (less["pods"], less["capped"]) == (3, True)
    document = forecast_answer(capsys, "--dollars-per-hour", "0.000001")
    assert (document["ramps"][0]["pods"], document["ramps"][0]["pays"], document["calendars"]) == (0, False, [])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--dollars-per-hour", "much"], "not an amount of dollars"),
        (["--dollars-per-hour", "-1"], "not an amount above 0"),
        (["--time-zone", "Mars/Olympus"], "not an IANA time zone"),
        (["--except", "Monday"], "not a list of dates"),
        (["--percentile", "0"], "not a percentage"),
        (["--slot", "7"], "invalid choice"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", "--ledger", "x", *arguments]) == 2
    assert problem in capsys.readouterr().err
