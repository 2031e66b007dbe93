"""The ledger of a whole run: queried, and replayed in another process."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

import simulator.world
from adapters.ledger import DecisionDraft, LedgerWriter
from adapters.run_report import RunReport
from cli.__main__ import main
from cli.commands.ledger import replay_table
from cli.report import PageContent, render
from cli.report.page import compared
from cli.schemas.periods import ANSWERS
from cli.terminal.style import Steps
from core import labels
from core.ledger.entry import DecisionSummary
from simulator.campaign.crashes import LIGHT, FaultPeriod, recorded
from simulator.campaign.trial import WRITERS, Plan, draw_ledger_outages, plan_of, play, watch_ledger
from simulator.campaign.worlds import draw_world
from simulator.checkers.remains import LEDGER_WRITE
from simulator.invocation.faults import Fault
from simulator.world import Result, World, open_world, run
from tests.simulation.worlds import assert_lawful, deployment, node_pool, write

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Nodes are launched, emptied and removed; one launch is refused."""
    folder = tmp_path_factory.mktemp("ledger")
    steps = [
        {"at": "1m", "capacity": {"instanceType": "test.small", "available": 0}},
        {"at": "4m", "scale": {"kind": "Deployment", "name": "web", "replicas": 9}},
        {"at": "14m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}},
    ]
    scenario = write(folder, node_pool(), deployment(5), steps=steps, duration="30m")
    result = run(scenario, ledger=folder / "ledger")
    return folder / "ledger", result


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main([*arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def in_another_process(arguments: Sequence[str]) -> tuple[int, dict[str, Any]]:
    environment = {"PATH": "/usr/bin", "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-m", "cli", *arguments, "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env=environment)  # noqa: S603
    return done.returncode, json.loads(done.stdout)


@pytest.mark.ci
def test_every_decision_is_repeated_byte_for_byte(played: tuple[Path, Result]) -> None:
    """Otherwise, nobody can say why a node went."""
    code, document = in_another_process(["replay", "--ledger", str(played[0])])
    assert (document["different"], document["unreadable"]) == ([], [])
    assert document["equal"] == document["decisions"] >= 6
    assert code == 0


def test_the_log_has_each_launch_and_each_removal_once(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted in each snapshot, a saving would be reported many times."""
    _, document = answer(capsys, "log", "--ledger", str(played[0]))
    tags = {
        event.fields["tags"]["fleetwright.dev/decision"]
        for event in played[1].events
        if event.event == "instanceLaunched"
    }
    ids = [line["id"] for line in document["entries"]]
    assert len(set(ids)) == len(ids)
    launches = [line for line in document["entries"] if line["function"] == "provision" and line["hourly"] > 0]
    assert tags == {line["id"] for line in launches}
    gone = [event.fields["node"] for event in played[1].events if event.event == "nodeDeleted"]
    removed = [
        name.removeprefix("Node/")
        for line in document["entries"]
        if line["function"] == "disrupt" and line["hourly"] < 0
        for name in line["objects"]
        if name.startswith("Node/") and name.removeprefix("Node/") in line["what"]
    ]
    assert sorted(gone) == sorted(removed)


def test_events_on_pods_nodes_and_claims_say_what_the_log_says(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    """Events of the cluster and the ledger must give the same answer, and each must lead to the other."""
    _, document = answer(capsys, "log", "--ledger", str(played[0]), "--acts")
    written = [
        e.fields["object"] for e in played[1].events if e.event == "objectApplied" and e.fields["kind"] == "Event"
    ]
    told = {
        (event["involvedObject"]["kind"], event["involvedObject"]["name"], match.group(1)): event["message"]
        for event in written
        if (match := re.search(r"\(decision (\w+)\)$", event["message"])) is not None
    }
    assert document["entries"]
    for line in document["entries"]:
        if line["state"].startswith("came to nothing"):
            continue
        about = [name for name in line["objects"] if not name.startswith("Command/")]
        if line["function"] == "disrupt":
            about = [name for name in about if name.partition("/")[2] in line["what"]]
        for name in about:
            kind, _, rest = name.partition("/")
            message = told[kind, rest.rpartition("/")[2], line["id"]]
            assert any(message.startswith(part) for part in line["what"].split("; "))
    names = [(event["metadata"]["namespace"], event["metadata"]["name"]) for event in written]
    assert len(set(names)) == len(names)


def test_the_log_answers_about_one_pod_and_one_node(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    pod, node = next((e.fields["pod"], e.fields["node"]) for e in played[1].events if e.event == "podBound")
    _, about_pod = answer(capsys, "log", "--ledger", str(played[0]), "--pod", pod)
    assert about_pod["entries"]
    assert all(f"Pod/{pod}" in line["objects"] for line in about_pod["entries"])
    _, about_node = answer(capsys, "log", "--ledger", str(played[0]), "--node", node)
    assert all(f"Node/{node}" in line["objects"] for line in about_node["entries"])
    _, later = answer(capsys, "log", "--ledger", str(played[0]), "--since", "2026-11-20T00:10:00Z")
    assert len(later["entries"]) > 0
    assert all(line["time"] >= "2026-11-20T00:10" for line in later["entries"])


def test_a_node_is_explained_as_it_was_seen(played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster has changed since; what was decided has not."""
    _, document = answer(capsys, "log", "--ledger", str(played[0]), "--acts")
    line = next(line for line in document["entries"] if line["function"] == "disrupt")
    node = next(
        name.removeprefix("Node/") for name in line["objects"] if name.startswith("Node/") and name[5:] in line["what"]
    )
    _, told = answer(capsys, "explain", node, "--ledger", str(played[0]), "--decision", line["id"][:6])
    assert (told["node"], told["outcome"], told["decision"]) == (node, "goes", line["id"])
    _, earlier = answer(capsys, "explain", node, "--ledger", str(played[0]), "--at", line["time"])
    assert earlier["decision"] == line["id"]
    launch = next(line for line in document["entries"] if line["function"] == "provision")
    pod = next(name.removeprefix("Pod/") for name in launch["objects"] if name.startswith("Pod/"))
    _, about = answer(capsys, "explain", pod, "--ledger", str(played[0]), "--decision", launch["id"])
    assert about["outcome"].startswith("needs a new node")
    assert main(["explain", "no/such", "--ledger", str(played[0]), "--decision", launch["id"]]) == 2


def test_names_are_taken_as_the_log_and_kubectl_write_them(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    """The log shows nodes without their domain; what it shows is typed into the next command."""
    ledger = ("--ledger", str(played[0]))
    pod, node = next((e.fields["pod"], e.fields["node"]) for e in played[1].events if e.event == "podBound")
    host = node.partition(".")[0]
    assert host != node
    assert answer(capsys, "log", *ledger, "--node", host) == answer(capsys, "log", *ledger, "--node", node)
    (_, with_domain), (_, short), (_, with_kind) = (
        answer(capsys, "explain", name, *ledger) for name in (node, host, f"node/{host}")
    )
    assert with_domain["node"] == node
    assert with_domain == short == with_kind
    namespace, _, name = pod.partition("/")
    _, by_key = answer(capsys, "explain", pod, *ledger)
    _, by_name = answer(capsys, "explain", f"pod/{name}", "-n", namespace, *ledger)
    assert by_key == by_name


def test_a_damaged_entry_is_told_and_the_others_are_repeated(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = min(played[0].rglob("decisions/**/*-provision-*"))
    content = first.read_bytes()
    try:
        first.write_bytes(content[:-40])
        code, document = answer(capsys, "replay", "--ledger", str(played[0]))
    finally:
        first.write_bytes(content)
    assert code == 1
    assert [entry["id"] for entry in document["unreadable"]] == [first.name.rpartition("-")[2]]
    assert document["equal"] == document["decisions"] - 1


@pytest.mark.parametrize(
    ("decided_by", "words"),
    [
        (None, "version 0.1.0)"),
        ("c3d4", "code c3d4; here runs a1b2: to repeat it, use the build that was deployed then"),
        ("a1b2", "the code that runs here, a1b2: report this"),
    ],
)
def test_a_difference_names_the_code_that_decided(decided_by: str | None, words: str) -> None:
    """Builds of one release can decide otherwise; that the same code does is a defect."""
    different = {
        "id": "9f",
        "function": "disrupt",
        "time": "…",
        "version": "0.1.0",
        "code": decided_by,
        "differences": [],
    }
    told = replay_table({"code": "a1b2", "decisions": 1, "equal": 0, "different": [different], "unreadable": []})
    assert words in " ".join(told.split())


def test_a_ledger_that_cannot_be_found_is_no_green_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: tuple[Path, Result]
) -> None:
    assert main(["replay", "--ledger", str(tmp_path / "nowhere")]) == 2
    assert main(["replay", "--ledger", str(tmp_path)]) == 2
    assert main(["replay", "--ledger", str(played[0]), "no-such-id"]) == 2
    assert "there is no decision 'no-such-id'" in capsys.readouterr().err


def played_until_the_end(folder: Path) -> tuple[str, ...]:
    return ("what-if", "--ledger", str(folder), "--to", "2026-11-20T00:30:00Z")


def test_the_play_of_what_was_asked_for_costs_what_the_run_cost_and_less_than_without_consolidation(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    """The play has no boots and no drains, so the dollars are near and not equal."""
    code, document = answer(capsys, *played_until_the_end(played[0]), "--policy", "none")
    assert code == 0
    assert document["before"]["dollars"] == pytest.approx(played[1].summary["dollars"], rel=0.15)
    assert (document["before"]["unplaced"], document["before"]["nodesAtEnd"]) == ([], played[1].summary["nodesAtEnd"])
    assert document["after"]["dollars"] > document["before"]["dollars"]
    assert (document["after"]["moves"], document["after"]["commands"]) == (0, {})
    msgspec.convert(document, ANSWERS["what-if"])


def test_on_demand_nodes_would_have_cost_as_much_more_as_their_prices(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Spot costs a third in this market, and every node of the recorded pool is spot."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand"]
    (tmp_path / "change.yaml").write_text(yaml.safe_dump(pool))
    _, document = answer(capsys, *played_until_the_end(played[0]), "-f", str(tmp_path / "change.yaml"))
    assert document["after"]["dollars"] > 2 * document["before"]["dollars"]
    assert document["difference"]["podsLost"] == []


def test_nothing_changed_or_nothing_recorded_is_no_answer(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ledger = str(played[0])
    assert main(["what-if", "--ledger", ledger]) == 2
    assert "nothing is changed" in capsys.readouterr().err
    assert main(["what-if", "--ledger", ledger, "--to", "2026-11-19T00:00:00Z", "--policy", "none"]) == 2
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n")
    assert main(["what-if", "--ledger", ledger, "-f", str(tmp_path / "pod.yaml")]) == 2


def test_the_dollars_of_a_report_are_those_of_the_instances_that_ran(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted from the world's own record: within a thousandth."""
    moments = {"since": "2026-11-20T00:00:00Z", "to": "2026-11-20T00:30:00Z"}
    period = ("--from", moments["since"], "--to", moments["to"])
    by = "nodepool,namespace,capacity-type,instance-type,zone"
    code, document = answer(capsys, "report", "--ledger", str(played[0]), *period, "--by", by)
    assert code == 0
    end = datetime.fromisoformat(moments["to"])
    ended = {
        e.fields["instance"]: datetime.fromisoformat(e.t) for e in played[1].events if e.event == "instanceTerminated"
    }
    spent = sum(
        e.fields["price"] * ((ended.get(e.fields["instance"], end) - datetime.fromisoformat(e.t)) / timedelta(hours=1))
        for e in played[1].events
        if e.event == "instanceLaunched"
    )
    assert document["dollars"] == pytest.approx(spent, rel=1e-3)
    assert document["dollars"] == pytest.approx(played[1].summary["dollars"], abs=0.006)
    assert document["instances"] == played[1].summary["nodesLaunched"]
    for rows in document["by"].values():
        assert sum(rows.values()) == pytest.approx(document["dollars"], rel=1e-4)
    assert document["baselines"]["onDemand"] == pytest.approx(document["dollars"] / 0.3, rel=1e-3)
    assert document["baselines"]["withoutConsolidation"] > document["dollars"]
    assert document["provenMinimum"]["dollars"] <= document["provenMinimum"]["spentMeanwhile"]
    assert document["idle"]["dollars"] < document["dollars"]
    msgspec.convert(document, ANSWERS["report"])


def test_a_report_is_written_for_people_and_for_sheets(
    played: tuple[Path, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--ledger", str(played[0]), "--to", "2026-11-20T00:30:00Z", "--no-baseline"]
    told = {}
    for form in ("table", "markdown", "html", "csv"):
        assert main([*words, "-o", form]) == 0
        told[form] = capsys.readouterr().out
    assert "NAMESPACE" in told["table"]
    assert told["markdown"].startswith("### 2026-11-20 00:00")
    assert "http" not in told["html"]
    rows = list(csv.DictReader(told["csv"].splitlines()))
    assert {row["by"] for row in rows} == {"nodepool", "namespace"}
    assert main([*words, "--by", "team"]) == 2
    assert main([*words, "--month", "2026-13"]) == 2


def test_a_page_compares_the_run_with_karpenters_moves_and_the_proven_minimum(played: tuple[Path, Result]) -> None:
    """The same pods in every snapshot: no moves beat the minimum, and ours cost no more than Karpenter's at the end."""
    comparison = compared(str(played[0]), Steps(0))
    events = [(datetime.fromisoformat(event.t), event.event, event.fields) for event in played[1].events]
    text = render(
        PageContent(summary=played[1].summary, events=events, decisions=played[1].decisions, comparison=comparison)
    )
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text)[0].replace("<\\/", "</"))
    assert len(data["karpenter"]) == len(data["minimum"]) == len(data["t"])
    last = {name: data[name][-1] for name in ("hourly", "karpenter", "minimum")}
    assert 0 < last["minimum"] <= min(last["hourly"], last["karpenter"]) + 1e-4
    assert last["hourly"] <= last["karpenter"] + 1e-4
    assert data["karpenter"][0] is None  # nothing is played before the first look


# A ledger that cannot be written: nodes are launched as always, and none goes voluntarily until it can be written again.


DOWN: int = 20
"""Minutes for which no function can write the ledger."""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a world is compared with the ledger."""

    @contextmanager
    def opened(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:
            watch_ledger(world)
            yield world

    monkeypatch.setattr(simulator.world, "open_world", opened)


def played_with_outages(folder: Path, kind: str) -> Result:
    """Pods come and go, while the ledger cannot be written for the first twenty minutes."""
    fault = {"call": "s3:PutObject", "kind": kind, "for": f"{DOWN}m"}
    steps = [
        *({"at": "0m", "fault": {**fault, "function": function}} for function in WRITERS),
        {"at": "4m", "scale": {"kind": "Deployment", "name": "web", "replicas": 20}},
        {"at": "8m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}},
    ]
    return run(write(folder, node_pool(), deployment(5), steps=steps, duration="40m"), ledger=folder / "ledger")


def minutes(result: Result, event: str, **fields: str) -> list[int]:
    """When events happened, in minutes from the start, which is at midnight."""
    matching = (
        occurrence
        for occurrence in result.events
        if occurrence.event == event and fields.items() <= occurrence.fields.items()
    )
    return [int(event.t[14:16]) for event in matching]


@pytest.mark.ci
@pytest.mark.usefixtures("watched")
def test_pods_get_nodes_meanwhile_and_no_node_goes(tmp_path: Path) -> None:
    """If this failed, pods would wait for a bucket, or nodes would go for reasons that nobody can look up."""
    result = played_with_outages(tmp_path, "denied")
    assert_lawful(result)
    assert max(minutes(result, "podBound")[:20]) < 8
    assert result.summary["podsPending"] == 0
    assert min(minutes(result, "nodeTainted", key=labels.DISRUPTED_TAINT)) >= DOWN
    assert result.summary["nodesTerminated"] > 0
    assert "LedgerNotWritten" in {decision["reason"] for decision in result.decisions}


@pytest.mark.usefixtures("watched")
def test_a_command_without_its_decision_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, the campaign would not notice commands that begin while the ledger cannot be written."""
    write_ = LedgerWriter.try_write
    monkeypatch.setattr(LedgerWriter, "try_write", lambda *given, **how: write_(*given, **how) or True)
    laws = {violation.law for violation in played_with_outages(tmp_path, "error").violations}
    assert laws == {"commandsWithoutDecision"}


@pytest.mark.ci
def test_launches_that_wait_for_the_ledger_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, the campaign would not notice pods that wait until the ledger can be written again."""
    plan = next(plan for plan in map(plan_of, range(2, 200, 2)) if plan.intensity == LIGHT and _keeps(plan))
    for_good = [
        FaultPeriod(timedelta(0), timedelta(hours=3), LEDGER_WRITE, Fault(kind="error"), name) for name in WRITERS
    ]
    monkeypatch.setattr("simulator.campaign.trial.draw_ledger_outages", lambda *_: for_good)
    assert play(plan).violations == ()

    def try_write(writer: LedgerWriter, draft: DecisionDraft, summary: DecisionSummary, _: RunReport) -> bool:
        writer.write(draft, summary)
        return True

    monkeypatch.setattr(LedgerWriter, "try_write", try_write)
    assert "unexplainedPending" in {violation.law for violation in play(plan).violations}


def _keeps(plan: Plan) -> bool:
    return draw_world(plan.world).keeps_ledger


def test_half_of_the_worlds_keep_a_ledger_and_some_cannot_write_it() -> None:
    """If this failed, writes of the ledger would be call sites at which no function ever dies."""
    worlds = [draw_world(seed).keeps_ledger for seed in range(1, 201)]
    assert 80 <= sum(worlds) <= 120
    outages = [draw_ledger_outages(Random(seed), timedelta(minutes=6), timedelta(hours=2)) for seed in range(100)]  # noqa: S311
    assert 30 <= sum(map(bool, outages)) <= 70
    assert {period.lasting for drawn in outages for period in drawn} == {
        timedelta(minutes=2),
        timedelta(minutes=5),
        timedelta(hours=2),
    }
    assert {(function, "s3:PutObject") for function in WRITERS} <= recorded().sites()
