"""A cluster that functions of their own decide about in parts: its decisions, and what failures cost."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from core.reasons.runs import RunReason
from simulator.invocation import faults
from simulator.invocation.faults import Fault
from simulator.world import Result, World, run
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, write

TEAMS = ("blue", "red")
STEPS = [{"at": "6m", "scale": {"kind": "Deployment", "name": team, "replicas": 2}} for team in TEAMS]
START = "stepfunctions:StartExecution"


def of_team(team: str) -> list[dict[str, Any]]:
    """A NodePool whose taint keeps other teams' pods away, and a Deployment that tolerates it."""
    pool, pods = node_pool(), copy.deepcopy(deployment(14, team))
    pool["metadata"]["name"] = team
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand"]
    pool["spec"]["template"]["spec"]["taints"] = [{"key": "team", "value": team, "effect": "NoSchedule"}]
    toleration = {"key": "team", "operator": "Equal", "value": team, "effect": "NoSchedule"}
    pods["spec"]["template"]["spec"]["tolerations"] = [toleration]
    return [pool, pods]


def played(folder: Path, *, beside: Callable[[World], object] = lambda _: None, **spec: Any) -> Result:
    """Each team's pods become fewer; a cluster of two nodes is decided about in two parts."""
    objects = [obj for team in TEAMS for obj in of_team(team)]
    settings = {"partNodes": 1, "distributeFrom": 1}
    path = write(folder, *objects, **{"steps": STEPS, "settings": settings, "duration": "30m", **spec})
    return run(path, ledger=folder / "ledger", beside=beside)


def assert_replayed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that one process, which decides about all parts in turn, decides the same, byte for byte."""
    capsys.readouterr()
    main(["replay", "--ledger", str(folder / "ledger"), "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert (answer["different"], answer["unreadable"]) == ([], [])
    assert answer["equal"] == answer["decisions"] > 0


def triggered(result: Result, function: str) -> list[str]:
    """The outcome of each invocation of the function by Step Functions."""
    invocations = named(result, "invocation")
    return [
        invocation["outcome"]
        for invocation in invocations
        if invocation["function"] == function and invocation["trigger"] == "states"
    ]


def left_alone(result: Result) -> set[str]:
    return {d["subject"] for d in result.decisions if d["reason"] == RunReason.PART_NOT_DECIDED}


def assert_both_teams_are_smaller(result: Result) -> None:
    gone = {decision["subject"] for decision in result.decisions if decision["kind"] == "terminate"}
    assert len(gone) >= len(TEAMS)
    assert len(named(result, "nodeDeleted")) == len(TEAMS)


def test_parts_are_decided_by_functions_and_a_replay_decides_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = played(tmp_path)
    assert_lawful(result)
    ends = [ended["status"] for ended in named(result, "executionEnded")]
    assert set(ends) == {"SUCCEEDED"}
    assert triggered(result, "decide_part") == ["ok"] * (len(TEAMS) * len(ends))
    assert triggered(result, "disrupt") == ["ok"] * len(ends)
    assert_both_teams_are_smaller(result)
    assert not left_alone(result)
    assert_replayed(tmp_path, capsys)


def arms(call: str, kind: str, **more: Any) -> Callable[[World], None]:
    """Strike the first such call of a function."""

    def arm(world: World) -> None:
        delay = {"delay": more.pop("delay")} if "delay" in more else {}
        world.faults.arm(call, Fault(kind=kind, **delay), count=more.pop("count", 1), **more)

    return arm


@pytest.mark.ci
@pytest.mark.parametrize(
    ("beside", "lost"),
    [
        (arms("s3:PutObject", faults.CRASH_BEFORE, function="decide_part"), 1),
        (arms("s3:GetObject", faults.DELAY, function="decide_part", delay=timedelta(minutes=12)), 1),
        (arms("s3:PutObject", faults.CRASH_AFTER, function="decide_part"), 0),
        (arms("s3:GetObject", faults.ERROR, function="decide_part", count=5), 0),
        (arms(START, faults.LOST_REPLY), 0),
        (arms(START, faults.DENIED, count=2), 0),
    ],
    ids=[
        "a part fails",
        "a part is late",
        "a part fails at its end",
        "a part is tried again",
        "start twice",
        "no start",
    ],
)
def test_a_failed_part_costs_itself_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: Callable[[World], None], lost: int
) -> None:
    result = played(tmp_path, beside=beside)
    assert result.violations == ()
    starts = [started["execution"] for started in named(result, "executionStarted")]
    assert len(set(starts)) == len(starts)
    assert {ended["status"] for ended in named(result, "executionEnded")} == {"SUCCEEDED"}
    assert len(left_alone(result)) == lost
    assert_both_teams_are_smaller(result)
    assert_replayed(tmp_path, capsys)


@pytest.mark.ci
def test_answers_that_are_lost_have_functions_decide_and_join_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Step Functions tries again where it has no answer; each command is stored once."""
    result = played(tmp_path, aws={"repeats": 0.4})
    assert_lawful(result)
    again = {lost["function"] for lost in named(result, "answerLost")}
    assert again == {"decide_part", "disrupt"}
    assert_both_teams_are_smaller(result)
    assert_replayed(tmp_path, capsys)


@pytest.mark.ci
def test_a_failed_execution_holds_up_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While functions are refused, nothing goes; then the next run need not wait until the execution's lease ends."""

    def refuse(world: World) -> None:
        world.account.executions.on_task(lambda function, *rest: _is_late(world) and world.pump.task(function, *rest))

    def _is_late(world: World) -> bool:
        return world.clock.now() >= world.scenario.start + timedelta(minutes=20)

    result = played(tmp_path, beside=refuse, duration="32m")
    assert_lawful(result)
    assert {ended["status"] for ended in named(result, "executionEnded")} == {"FAILED", "SUCCEEDED"}
    assert_both_teams_are_smaller(result)
    assert_replayed(tmp_path, capsys)
