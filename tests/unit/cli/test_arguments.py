"""The options that commands share: of a plan, from arguments and environment, and of a part of a ledger."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.arguments import (
    add_decision,
    add_files,
    add_ledger,
    add_output,
    add_past,
    add_recorded_period,
    feature_gates,
    moment,
    options_of,
    refuse_empty,
    since,
)
from cli.errors import InputError
from core.model.snapshot import FeatureGates, Options


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_decision(parser)
    return parser.parse_args(list(arguments))


def test_without_arguments_karpenters_defaults_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan on the command line must equal the plan in the cluster."""
    monkeypatch.delenv("FEATURE_GATES", raising=False)
    assert options_of(parsed()) == Options()


def test_policies_seed_and_bounds_reach_the_planner() -> None:
    """An option without effect is worse than none."""
    arguments = parsed(
        "--preference-policy", "Ignore", "--min-values-policy", "BestEffort", "--seed", "7", "--improve-iterations", "9"
    )
    found = options_of(arguments)
    assert (found.preference_policy, found.min_values_policy, found.seed) == ("Ignore", "BestEffort", 7)
    assert found.improve_iterations == 9


def test_a_time_budget_of_zero_gives_the_greedy_plan() -> None:
    """Zero means no search at all."""
    assert options_of(parsed("--time-budget", "0")).improve_iterations == 0


def test_an_unknown_gate_is_reported_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Karpenter ignores it silently, so a typo leaves a gate off."""
    given = {"FEATURE_GATES": "SpotToSpotConsolidaton=true,NodeOverlay=true"}
    assert feature_gates(given) == FeatureGates(node_overlay=True)
    assert "'SpotToSpotConsolidaton' in this release, did you mean SpotToSpotConsolidation?" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["NodeOverlay", "NodeOverlay=yes", "=,x"])
def test_a_malformed_gate_is_refused(text: str) -> None:
    """A gate that a typo leaves off is hard to find."""
    with pytest.raises(InputError, match="FEATURE_GATES"):
        feature_gates({"FEATURE_GATES": text})


def test_the_time_zone_is_utc() -> None:
    """Budget windows are in UTC."""
    assert moment("2026-11-20T01:00:00+01:00") == datetime(2026, 11, 20, tzinfo=UTC)
    assert moment("2026-11-20T00:00:00Z").tzinfo is UTC


def test_moves_policy_and_budgets_of_a_disruption_reach_the_planner() -> None:
    given = argparse.Namespace(
        **{
            **vars(parsed("--time-budget", "2.5")),
            "policy": "karpenter",
            "ignore_budgets": True,
            "moves": "few",
            "move_price": 7,
            "part_nodes": 9,
        }
    )
    found = options_of(given)
    assert (found.karpenter_moves_only, found.ignore_budgets, found.moves, found.move_price) == (True, True, "few", 7)
    assert (found.improve_iterations, found.part_nodes) == (None, 9)
    assert not options_of(argparse.Namespace(**{**vars(given), "policy": "fleetwright"})).karpenter_moves_only


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("--time-budget", "0", 0.0),
        ("--time-budget", "1e3", 1000.0),
        ("--time-budget", "-1", None),
        ("--time-budget", "inf", None),
        ("--time-budget", "nan", None),
        ("--time-budget", "fast", None),
        ("--improve-iterations", "0", 0),
        ("--improve-iterations", "12", 12),
        ("--improve-iterations", "1.5", None),
        ("--improve-iterations", "-1", None),
        ("--now", "2026-11-20T00:00:00+02:00", datetime(2026, 11, 19, 22, tzinfo=UTC)),
        ("--now", "2026-11-20T00:00:00", None),
        ("--now", "soon", None),
        ("--preference-policy", "Ignore", "Ignore"),
        ("--preference-policy", "ignore", None),
    ],
)
def test_an_option_is_read_or_refused(
    option: str, text: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    if value is not None:
        assert vars(parsed(f"{option}={text}"))[option.removeprefix("--").replace("-", "_")] == value
        return
    with pytest.raises(SystemExit) as ended:
        parsed(f"{option}={text}")
    assert ended.value.code == 2
    assert repr(text) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("json", ""),
        ("jsonpath={.a}", ""),
        ("jsn", "there is no form 'jsn', did you mean json?"),
        ("xml12345", "there is no form 'xml12345': one of table, wide, name, json, yaml and jsonpath=TEMPLATE"),
    ],
)
def test_the_form_of_an_answer_is_one_that_there_is(
    text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_output(parser)
    assert parser.parse_args([]).output == "table"
    if not problem:
        assert parser.parse_args(["-o", text]).output == text
        return
    with pytest.raises(SystemExit):
        parser.parse_args(["-o", text])
    assert problem in capsys.readouterr().err


def test_files_may_be_named_several_times_or_not_at_all() -> None:
    required, optional = argparse.ArgumentParser(), argparse.ArgumentParser()
    add_files(required)
    add_files(optional, is_required=False)
    assert required.parse_args(["-f", "a", "--filename", "b"]).files == ["a", "b"]
    assert optional.parse_args([]).files == []
    with pytest.raises(SystemExit):
        required.parse_args([])


@pytest.mark.parametrize(("objects", "allows", "is_refused"), [(0, False, True), (0, True, False), (1, False, False)])
def test_an_input_without_objects_is_refused_unless_it_is_allowed(objects: int, allows: bool, is_refused: bool) -> None:
    given = argparse.Namespace(allow_empty=allows, files=[])
    if is_refused:
        with pytest.raises(InputError, match="the input has no object"):
            refuse_empty(given, objects)
    else:
        refuse_empty(given, objects)


def test_the_schedulers_configuration_is_one_document(tmp_path: Path) -> None:
    spread = "{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}"
    file = tmp_path / "config.yaml"
    file.write_text(f"podTopologySpread: {{defaultConstraints: [{spread}]}}\n")
    (found,) = options_of(parsed("--scheduler-config", str(file))).default_spreads
    assert (found.max_skew, found.topology_key) == (2, "topology.kubernetes.io/zone")
    file.write_text("---\na: 1\n---\nb: 1\n")
    with pytest.raises(InputError, match="holds 2 documents instead of one"):
        options_of(parsed("--scheduler-config", str(file)))


# The options that select a part of a ledger.


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "span"),
    [("1d", DAY), ("30d", 30 * DAY), ("24h", DAY), ("90m", timedelta(minutes=90)), ("1h30m", timedelta(minutes=90))],
)
def test_a_span_ends_now(text: str, span: timedelta) -> None:
    before = datetime.now(UTC)
    found = since(text)
    assert before - span <= found <= datetime.now(UTC) - span


def test_a_time_is_itself() -> None:
    assert since("2026-11-20T01:00:00+01:00") == datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "d", "-1d", "1.5d", "1w", "yesterday", "2026-11-20", "7"])
def test_anything_else_is_refused_with_both_forms(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        since(text)
    assert str(refused.value) == (f"{text!r} is not a time such as 2026-11-20T00:00:00Z, nor a span such as 24h or 30d")


def test_a_period_has_a_begin_and_an_end_of_either_form() -> None:
    parser = argparse.ArgumentParser()
    add_recorded_period(parser)
    given = parser.parse_args(["--ledger", "l", "--cluster", "prod", "--from", "1d", "--to", "2026-11-20T00:00:00Z"])
    assert (given.ledger, given.cluster, given.until) == ("l", "prod", datetime(2026, 11, 20, tzinfo=UTC))
    assert given.since < datetime.now(UTC)
    nothing = parser.parse_args([])
    assert (nothing.ledger, nothing.cluster, nothing.since, nothing.until, nothing.region) == (None,) * 5
    named = argparse.ArgumentParser()
    add_recorded_period(named, "--since", "--until")
    assert named.parse_args(["--since", "2026-11-20T00:00:00Z"]).since == datetime(2026, 11, 20, tzinfo=UTC)


def test_a_decision_of_the_past_is_named_by_its_id_or_its_time() -> None:
    parser = argparse.ArgumentParser()
    add_past(parser)
    given = parser.parse_args(["--decision", "7f3a", "--at", "2026-11-20T00:00:00Z", "--since", "2026-11-19T00:00:00Z"])
    assert (given.decision, given.at, given.since) == (
        "7f3a",
        datetime(2026, 11, 20, tzinfo=UTC),
        datetime(2026, 11, 19, tzinfo=UTC),
    )
    with pytest.raises(SystemExit):
        parser.parse_args(["--at", "1d"])


def test_a_ledger_is_read_with_chosen_permissions() -> None:
    parser = argparse.ArgumentParser()
    add_ledger(parser)
    given = parser.parse_args(["--region", "eu-west-1", "--profile", "ops"])
    assert (given.region, given.profile) == ("eu-west-1", "ops")
