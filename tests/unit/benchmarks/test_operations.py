"""Pictures and bills agree with the metrics and usage that they are made from."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.operations import bill, clusters
from benchmarks.operations.cost_page import GOALS, costs, total
from benchmarks.operations.pictures import PERIOD, in_periods, with_gaps
from simulator.scenario import read_scenario
from tests.builders import NOW
from tests.figures import DOCS


def test_sums_are_added_and_levels_are_not() -> None:
    told = [(NOW, 2.0), (NOW + timedelta(seconds=30), 3.0), (NOW + timedelta(hours=1), 7.0)]
    assert list(in_periods(told, "Sum").values()) == [5.0, 7.0]
    assert list(in_periods(told, "Maximum").values()) == [3.0, 7.0]


def test_no_line_leads_over_hours_without_data() -> None:
    """It looked as if something had been measured there."""
    times, values = with_gaps({NOW: 1.0, NOW + PERIOD: 2.0, NOW + timedelta(hours=1): 7.0})
    assert times == [NOW, NOW + PERIOD, NOW + 2 * PERIOD, NOW + timedelta(hours=1)]
    assert [math.isnan(value) for value in values] == [False, False, True, False]


def test_a_bill_is_usage_times_price() -> None:
    counts = dict.fromkeys(bill.PRICES, 0) | {"lambdaRequests": 1_000_000, "logBytes": 10**9}
    usage = SimpleNamespace(counts=counts, gigabyte_seconds={"provision": 1000.0}, metrics=lambda: 2)
    found = bill.monthly(cast("Any", SimpleNamespace(usage=usage, nodes=0)))
    assert found["functions"] == pytest.approx(730 * (0.0133334 + 0.20), abs=0.01)
    assert found["logs"] == 365.0
    assert found["metrics"] == 0.60
    assert found["alarms"] == pytest.approx(bill.watched() * 0.10)


def test_the_clusters_workloads_grow_and_shrink_again(tmp_path: Path) -> None:
    scenario = read_scenario(clusters.scenario(tmp_path, 100))
    assert len(scenario.steps) == 2 * (clusters.MEASURED // clusters.CHANGE_EVERY)
    assert not read_scenario(clusters.scenario(tmp_path, 0)).steps


def test_a_larger_cluster_costs_what_the_line_of_the_two_largest_says() -> None:
    measured = {
        0: {"table": 9.0, "metrics": 0.0},
        100: {"table": 1.0, "metrics": 3.0},
        1000: {"table": 10.0, "metrics": 3.0},
    }
    assert bill.calculated(5000, measured) == {"table": 50.0, "metrics": 3.0}


def test_the_costs_on_the_page_are_below_their_goals() -> None:
    kept = json.loads((DOCS / "cost.json").read_text(encoding="utf-8"))
    assert {name: total(kept[name]) <= goal for name, goal in GOALS.items()} == dict.fromkeys(GOALS, True)
    assert kept["idle"]["alarms"] == pytest.approx(bill.watched() * bill.ALARM), "measured with other alarms"


def test_the_table_of_costs_has_what_costs_something() -> None:
    run = {
        "idle": {"table": 0.5, "storage": 0.0, "logs": 0.0},
        "5000 (calculated)": {"table": 9, "storage": 0.0, "logs": 1},
    }
    assert costs(run).splitlines()[2:] == [
        "| | table | logs | sum | goal |",
        "| --- | --- | --- | --- | --- |",
        "| no nodes | 0.50 | 0.00 | 0.50 | 2.5 |",
        "| 5,000 nodes, calculated | 9.00 | 1.00 | 10.00 |  |",
    ]
