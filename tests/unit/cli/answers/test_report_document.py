"""A period's cost as data, text, Markdown, HTML and CSV: every form has the same figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cli.answers.plan_document import API_VERSION
from cli.answers.report_document import ASSUMPTIONS, OBJECTS_SHOWN, BaselineSimulation, report_document
from core.api.objects import JsonObject
from core.cost_report.report import CostReport, IdleCause
from core.counterfactual.proven_minimum import ProvenMinimum
from core.ledger.log import LogEntry

START = datetime(2026, 11, 20, tzinfo=UTC)
DOLLAR = 1_000_000_000
WEEK = timedelta(days=7)
REPORT = CostReport(
    cost=10 * DOLLAR,
    hours=4.0,
    instances=2,
    by={"namespace": {"shop": 7 * DOLLAR, "(idle)": 3 * DOLLAR}, "nodepool": {"general": 10 * DOLLAR}},
    covered=None,
    on_demand=None,
    idle=3 * DOLLAR,
    causes=(),
    minimum=None,
)


def decided(
    function: str = "disrupt", *, moves: int = 0, hourly: int = 0, objects: tuple[str, ...] = ("Node/a",)
) -> LogEntry:
    return LogEntry(
        id="1",
        time=START,
        function=function,
        what="remove a",
        reason="Empty",
        objects=objects,
        moves=moves,
        hourly=hourly,
        state="done",
    )


def reported(
    *log: LogEntry, baseline: BaselineSimulation | None = None, by: tuple[str, ...] = ("namespace",), **changes: Any
) -> JsonObject:
    period = (START, START + timedelta(hours=2))
    return report_document(msgspec.structs.replace(REPORT, **changes), log, baseline, period=period, by=by)


def test_what_is_not_known_is_null() -> None:
    assert reported() == {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "from": "2026-11-20T00:00:00Z",
        "to": "2026-11-20T02:00:00Z",
        "dollars": 10.0,
        "instanceHours": 4.0,
        "instances": 2,
        "covered": None,
        "baselines": {"onDemand": None, "withoutConsolidation": None},
        "provenMinimum": None,
        "consolidation": {"commands": 0, "podsMoved": 0, "hourlySaved": 0.0, "hourlySavedPerMove": None},
        "by": {"namespace": {"shop": 7.0, "(idle)": 3.0}},
        "idle": {"dollars": 3.0, "causes": []},
        "assumptions": list(ASSUMPTIONS),
    }


def test_the_pace_of_the_simulations_is_said_where_there_are_any() -> None:
    said = reported(baseline=BaselineSimulation(4, 6, WEEK))["assumptions"]
    assert said[:-1] == list(ASSUMPTIONS)
    assert said[-1].startswith("with consolidation, nodes are let go every 40 minutes at most; every 5 minutes")


def test_what_is_known_is_in_dollars_and_the_tables_are_those_asked_for() -> None:
    minimum = ProvenMinimum(cost=4 * DOLLAR, spent=8 * DOLLAR, over=timedelta(minutes=90))
    document = reported(on_demand=25 * DOLLAR, covered=2 * DOLLAR, minimum=minimum, by=("nodepool", "namespace"))
    assert document["baselines"]["onDemand"] == 25.0
    assert document["covered"] == 2.0
    assert document["provenMinimum"] == {"dollars": 4.0, "spentMeanwhile": 8.0, "hours": 1.5}
    assert list(document["by"]) == ["nodepool", "namespace"]


@pytest.mark.parametrize(
    ("covered", "baseline", "kept"),
    [
        (None, BaselineSimulation(4, 6, WEEK), 15.0),
        (2 * DOLLAR, BaselineSimulation(4, 6, WEEK), 14.0),
        (0, BaselineSimulation(4, 4, WEEK), 10.0),
        (None, BaselineSimulation(0, 6, WEEK), None),
        (None, None, None),
    ],
)
def test_without_consolidation_what_no_commitment_covers_grows_as_the_simulations_do(
    covered: int | None, baseline: BaselineSimulation | None, kept: float | None
) -> None:
    assert reported(covered=covered, baseline=baseline)["baselines"]["withoutConsolidation"] == kept


def test_commands_that_moved_or_changed_the_bill_count_as_consolidation() -> None:
    cent = DOLLAR // 100
    document = reported(
        decided(moves=3, hourly=-30 * cent),
        decided(moves=1),
        decided(hourly=10 * cent),
        decided(),
        decided(moves=9, hourly=-90 * cent, objects=()),
        decided("provision", moves=9, hourly=90 * cent),
    )
    assert document["consolidation"] == {
        "commands": 3,
        "podsMoved": 4,
        "hourlySaved": 0.2,
        "hourlySavedPerMove": 0.05,
    }


def test_idle_dollars_are_summed_by_reason_the_highest_first_and_at_equal_sums_by_name() -> None:
    causes = [
        *((IdleCause("Budget", f"pool {number}"), DOLLAR) for number in range(OBJECTS_SHOWN + 1)),
        (IdleCause("DoNotDisrupt", "pod a"), 9 * DOLLAR),
        (IdleCause("Nominated", "free"), 0),
        (IdleCause("AlsoSix", "b"), 6 * DOLLAR),
    ]
    found = reported(causes=tuple(causes))["idle"]["causes"]
    assert [(cause["reason"], cause["dollars"]) for cause in found] == [
        ("DoNotDisrupt", 9.0),
        ("AlsoSix", 6.0),
        ("Budget", 6.0),
    ]
    assert found[2]["objects"] == [{"message": f"pool {number}", "dollars": 1.0} for number in range(OBJECTS_SHOWN)]
