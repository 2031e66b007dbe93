"""The options that select a part of a ledger."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

import pytest

from cli.ledger.arguments import add_ledger, add_past, add_recorded_period, since

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
