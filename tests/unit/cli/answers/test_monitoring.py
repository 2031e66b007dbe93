"""Metrics for Prometheus, with a dashboard and alert rules that read them; promtool judges all three where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from cli.answers.monitoring import HELP, OF_FUNCTIONS, PANELS, RULES, dashboard, exposition, rules
from core import labels
from core.brakes import Brake, BrakeKind
from core.forecast import Forecast, ForecastRules, Ramp, RoomUse
from core.model.node_pool import Budget, Calendar, Cap, Disruption
from core.model.snapshot import Snapshot
from core.model.values.quantity import HOURLY, nanodollars
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type

SMALL = a_type("m5.large", price=0.1)
SPOT = a_type("m5.xlarge", price=0.2)
SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")


CAPPED = {HOURLY: nanodollars(12.5), "cpu": 4_000}


CAP = Cap(name="costs/shop", namespaces=("shop",), limits=CAPPED, periods={"Day": 24_000 * 10**9})


def a_cluster(**changes: Any) -> Snapshot:
    """Two nodes of a NodePool with limits, one of them spot; one pod runs, one waits."""
    pairs = [a_node_of(SMALL, "first"), a_node_of(SPOT, "second", capacity_type=labels.SPOT)]
    pool = a_pool(disruption=Disruption(budgets=(Budget(nodes="1"),)), limits={"cpu": 100_000, "memory": 2**40})
    fields = {
        "node_pools": (pool,),
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "pods": (a_pod("running", node_name="first"), a_pod("waiting")),
        "calendars": (Calendar(name="costs", caps=(CAP,)),),
    }
    return a_snapshot(types=(SMALL, SPOT), **{**fields, **changes})


RAMP = Ramp(
    pool="default",
    weekdays=(0, 1, 2, 3, 4, 5, 6),
    starts=timedelta(0),
    lasts=timedelta(minutes=5),
    pods=10,
    amounts={"cpu": 10000, "memory": 0},
    places=10,
    requests={"cpu": 1000},
    days=20,
    used_percent=90,
    covered_percent=90,
    waited=timedelta(seconds=60),
    hourly=nanodollars(3),
    recent=(RoomUse("2026-11-18", 10, 8),),
)
FORECAST = Forecast(
    at=NOW,
    rules=ForecastRules(time_zone="UTC"),
    ramps=(RAMP, msgspec.structs.replace(RAMP, starts=timedelta(hours=9), used_percent=10)),
)


def functions(**changes: Any) -> Any:
    """What the functions know: a command, a proposal, a brake, and a check that fails."""
    command = SimpleNamespace(command=SimpleNamespace(reason="Underutilized"), phase="draining")
    fields = {
        "view": SimpleNamespace(commands=(command, command)),
        "proposals": (object(),),
        "forecast": FORECAST,
        "brakes": SimpleNamespace(brakes=(Brake(kind=BrakeKind.PAUSE, message="paused"),)),
        "sweeps": {"claims": SimpleNamespace(failures=2), "nodes": SimpleNamespace(failures=0)},
    }
    return SimpleNamespace(**{**fields, **changes})


def read(text: str) -> dict[tuple[str, str], float]:
    """Each sample, by its name and labels as written."""
    samples: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.match(line)
            assert match is not None, line
            key = (match["name"], match["labels"] or "")
            assert key not in samples, line
            samples[key] = float(match["value"])
    return samples


def named(text: str, name: str) -> dict[str, float]:
    """The samples of one metric, by their labels."""
    return {found: value for (own, found), value in read(text).items() if own == name}


def test_dollars_nodes_and_pods_are_those_of_status() -> None:
    text = exposition(a_cluster(), None)
    assert named(text, "karpenter_nodepools_cost_total") == {'nodepool="default"': 0.18}
    assert named(text, "fleetwright_fleet_dollars_per_hour") == {
        'capacity_type="spot"': 0.08,
        'capacity_type="other"': 0.1,
    }
    assert named(text, "karpenter_cluster_state_node_count") == {"": 2}
    assert named(text, "fleetwright_pending_pods") == {"": 1}
    assert named(text, "fleetwright_observed_timestamp_seconds") == {"": NOW.timestamp()}


def test_resources_have_karpenters_units_and_names() -> None:
    """CPU in cores, all else in base units; hyphens become underscores (`resourceNameToString` of Karpenter)."""
    snapshot = a_cluster()
    text = exposition(snapshot, None)
    limit = named(text, "karpenter_nodepools_limit")
    assert limit == {
        'nodepool="default",resource_type="cpu"': 100,
        'nodepool="default",resource_type="memory"': 2**40,
    }
    usage = named(text, "karpenter_nodepools_usage")
    capacity = sum(node.capacity["cpu"] for node in snapshot.nodes)
    assert usage['nodepool="default",resource_type="cpu"'] == capacity / 1000
    assert usage['nodepool="default",resource_type="nodes"'] == 2
    offered = sum(node.allocatable["cpu"] for node in snapshot.nodes)
    requested = snapshot.pods[0].spec.requests["cpu"]
    percent = named(text, "karpenter_cluster_utilization_percent")['resource_type="cpu"']
    assert percent == pytest.approx(100 * requested / offered)


def test_each_node_has_the_labels_that_dashboards_group_by() -> None:
    text = exposition(a_cluster(), None)
    (found,) = [key for key in named(text, "karpenter_nodes_total_pod_requests") if 'resource_type="cpu"' in key]
    for wanted in ('node_name="first"', 'nodepool="default"', 'instance_type="m5.large"', 'capacity_type="on-demand"'):
        assert wanted in found
    assert 'managed="true"' in found


def test_budgets_without_a_bound_let_every_node_leave() -> None:
    bounded = named(exposition(a_cluster(), None), "karpenter_nodepools_allowed_disruptions")
    assert set(bounded.values()) == {1}
    pool = a_pool(disruption=Disruption(budgets=(Budget(nodes="100%"),)))
    free = named(exposition(a_cluster(node_pools=(pool,)), None), "karpenter_nodepools_allowed_disruptions")
    assert set(free.values()) == {2}


def test_caps_are_in_dollars_and_cores() -> None:
    limits = named(exposition(a_cluster(), None), "fleetwright_cap_limit")
    assert limits == {
        'cap="costs/shop",resource_type="fleetwright.dev/dollars_per_hour"': 12.5,
        'cap="costs/shop",resource_type="cpu"': 4,
    }


def test_what_only_the_functions_know_is_missing_without_them() -> None:
    """A zero would look like an all-clear."""
    without = {name for name, _ in read(exposition(a_cluster(), None))}
    assert without == set(HELP) - set(OF_FUNCTIONS)
    text = exposition(a_cluster(), functions())
    assert {name for name, _ in read(text)} == set(HELP)
    assert named(text, "fleetwright_commands") == {'reason="Underutilized",phase="draining"': 2}
    assert named(text, "fleetwright_failing_sweeps") == {"": 1}
    assert named(text, "fleetwright_brake_engaged") == {f'brake="{BrakeKind.PAUSE}",nodepool="",zone=""': 1}


def test_a_forecast_has_the_room_of_this_moment_its_price_and_its_use() -> None:
    text = exposition(a_cluster(), functions())
    assert named(text, "fleetwright_forecast_room_pods") == {'nodepool="default"': 10}
    assert named(text, "fleetwright_forecast_room_dollars_per_hour") == {'nodepool="default"': 3}
    assert named(text, "fleetwright_forecast_used_percent") == {'nodepool="default"': 80}
    assert named(text, "fleetwright_forecast_recent_dollars") == {'nodepool="default"': 0.8}
    assert named(text, "fleetwright_forecast_ramps") == {
        'nodepool="default",state="room"': 1,
        'nodepool="default",state="stopped"': 0,
        'nodepool="default",state="unused"': 1,
    }
    later = exposition(a_cluster(now=NOW + timedelta(hours=1)), functions())
    assert named(later, "fleetwright_forecast_room_pods") == {'nodepool="default"': 0}
    assert not any("forecast_room" in name for name, _ in read(exposition(a_cluster(), functions(forecast=None))))


def test_text_of_users_cannot_break_a_line() -> None:
    brake = Brake(kind=BrakeKind.PAUSE, message="", node_pool='a"b\\c\nd')
    text = exposition(a_cluster(), functions(brakes=SimpleNamespace(brakes=(brake,))))
    assert r'nodepool="a\"b\\c\nd"' in text
    assert read(text)


def test_panels_and_rules_name_metrics_that_exist() -> None:
    expressions = [rule.expression for rule in RULES] + [line for panel in PANELS for line in panel.lines.values()]
    for expression in expressions:
        found = set(re.findall(r"\b(?:karpenter|fleetwright)_\w+", expression))
        assert found, expression
        assert found <= set(HELP), expression


def test_rules_send_to_pages_that_exist() -> None:
    root = Path(__file__).parents[4]
    assert [rule.page for rule in RULES if not (root / rule.page).exists()] == []


def test_panels_lie_side_by_side_and_none_hides_another() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(PANELS)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


# What Prometheus' own program says.


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not on the path: it is part of Debian's package prometheus")
    return found


def told(*command: str | Path, text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 - promtool
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_reads_the_metrics(promtool: str) -> None:
    """It has nothing to say but that names of Karpenter's end as those of counters and histograms do."""
    text = exposition(a_cluster(), functions())
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)  # noqa: S603 - promtool
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if not line.startswith("karpenter_")] == []


def test_promtool_parses_each_rule_and_each_panel(promtool: str, tmp_path: Path) -> None:
    panels = [line for panel in PANELS for line in panel.lines.values()]
    recorded = [{"record": f"panel:{number}", "expr": line} for number, line in enumerate(panels)]
    document = {"groups": [*rules()["groups"], {"name": "panels", "rules": recorded}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(document))
    said = told(promtool, "check", "rules", tmp_path / "rules.yaml")
    assert f"SUCCESS: {len(RULES) + len(panels)} rules found" in said


def series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}


@pytest.mark.parametrize(
    ("alert", "inputs", "at", "fires"),
    [
        ("FleetwrightPodsWait", [series("fleetwright_pending_pods", "3x60")], "16m", True),
        ("FleetwrightPodsWait", [series("fleetwright_pending_pods", "3x60")], "14m", False),
        ("FleetwrightPodsWait", [series("fleetwright_pending_pods", "3 3 3 0 3x60")], "16m", False),
        (
            "FleetwrightLimitNearlyReached",
            [
                series('karpenter_nodepools_usage{nodepool="a",resource_type="cpu"}', "91x60"),
                series('karpenter_nodepools_limit{nodepool="a",resource_type="cpu"}', "100x60"),
            ],
            "16m",
            True,
        ),
        (
            "FleetwrightLimitNearlyReached",
            [
                series('karpenter_nodepools_usage{nodepool="a",resource_type="cpu"}', "91x60"),
                series('karpenter_nodepools_limit{nodepool="b",resource_type="cpu"}', "100x60"),
            ],
            "16m",
            False,
        ),
        ("FleetwrightBrakeEngaged", [series('fleetwright_brake_engaged{brake="Paused"}', "1x60")], "11m", True),
        ("FleetwrightProposalWaits", [series("fleetwright_proposals_waiting", "0x60")], "30m", False),
        ("FleetwrightMetricsOld", [series("fleetwright_observed_timestamp_seconds", "0x60")], "16m", True),
        ("FleetwrightMetricsOld", [series("fleetwright_observed_timestamp_seconds", "0+60x60")], "40m", False),
    ],
)
def test_promtool_plays_the_alerts(
    promtool: str, tmp_path: Path, alert: str, inputs: list[dict[str, str]], at: str, fires: bool
) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()))
    expected = [{"exp_labels": _labels(alert, inputs), "exp_annotations": _annotations(alert, inputs)}] if fires else []
    played = [{"eval_time": at, "alertname": alert, "exp_alerts": expected}]
    case = {"interval": "1m", "input_series": inputs, "alert_rule_test": played}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [case]}))
    told(promtool, "test", "rules", tmp_path / "test.yaml")


def _labels(alert: str, inputs: list[dict[str, str]]) -> dict[str, str]:
    (severity,) = [rule.severity for rule in RULES if rule.alert == alert]
    named = dict(re.findall(r'(\w+)="([^"]*)"', inputs[0]["series"]))
    return {"severity": severity, **named}


def _annotations(alert: str, inputs: list[dict[str, str]]) -> dict[str, str]:
    (rule,) = [rule for rule in RULES if rule.alert == alert]
    values = {"{{ $value }}": inputs[0]["values"][0], "{{ $value | humanizePercentage }}": "91%"}
    text = rule.summary
    for written, value in values.items():
        text = text.replace(written, value)
    for label, value in _labels(alert, inputs).items():
        text = text.replace(f"{{{{ $labels.{label} }}}}", value)
    return {"summary": text, "page": rule.page}
