"""A ledger that cannot be written: nodes are launched as always, and none goes voluntarily until it can be written again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import simulator.run
from adapters.ledger import DecisionDraft, LedgerWriter
from adapters.run_report import RunReport
from core import labels
from core.ledger.entry import DecisionSummary
from simulator.campaign.crashes import LIGHT, FaultPeriod, recorded
from simulator.campaign.trial import WRITE, WRITERS, Plan, draw_ledger_outages, plan_of, play, watch_ledger
from simulator.campaign.worlds import draw_world
from simulator.invocation.faults import Fault
from simulator.run import Result, run
from simulator.world import World, open_world
from tests.simulation.worlds import assert_lawful, deployment, node_pool, write

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

    monkeypatch.setattr(simulator.run, "open_world", opened)


def played(folder: Path, kind: str) -> Result:
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
    found = (one for one in result.events if one.event == event and fields.items() <= one.fields.items())
    return [int(one.t[14:16]) for one in found]


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("kind", ["error", "denied", "throttle"])
def test_pods_get_nodes_meanwhile_and_no_node_goes(tmp_path: Path, kind: str) -> None:
    """If this failed, pods would wait for a bucket, or nodes would go for reasons that nobody can look up."""
    result = played(tmp_path, kind)
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
    laws = {violation.law for violation in played(tmp_path, "error").violations}
    assert laws == {"commandsWithoutDecision"}


def test_launches_that_wait_for_the_ledger_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, the campaign would not notice pods that wait until the ledger can be written again."""
    plan = next(plan for plan in map(plan_of, range(2, 200, 2)) if plan.intensity == LIGHT and _keeps(plan))
    for_good = [FaultPeriod(timedelta(0), timedelta(hours=3), WRITE, Fault(kind="error"), name) for name in WRITERS]
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
