"""Values of options: amounts, months and conditions, and what is said of those that are none."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.commands import consolidate, diff, report


def parsed(command: Any, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.configure(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(("text", "nano"), [("0", 0), ("0.05", 50_000_000), ("1e-9", 1), ("2", 2_000_000_000)])
def test_the_price_of_a_move_is_dollars(text: str, nano: int) -> None:
    assert parsed(consolidate, "-f", "x", "--move-price", text).move_price == nano


@pytest.mark.parametrize("text", ["-0.01", "NaN", "Infinity", "-Infinity", "much", ""])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="is not an amount of dollars"):
        parsed(consolidate, "-f", "x", f"--move-price={text}")


def test_a_month_ends_with_its_last_moment_or_now() -> None:
    month = report._month
    assert month("2024-02") == (datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))
    assert month("2024-12") == (datetime(2024, 12, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC))
    now = datetime.now(UTC)
    first, last = month(f"{now:%Y-%m}")
    assert first.day == 1
    assert now <= last <= datetime.now(UTC)
    later = datetime(now.year + 1, 1, 1, tzinfo=UTC)
    assert month(f"{later:%Y-%m}") == (later, later)
    with pytest.raises(argparse.ArgumentTypeError, match="is not a month such as 2026-11"):
        month("2026-13")


@pytest.mark.parametrize(
    ("condition", "changes", "why"),
    [
        ("pods-lost", {"podsLost": ["a/b"]}, "1 pod lost"),
        ("pods-lost", {"nodesDrifted": ["n"]}, ""),
        ("drift", {"nodesDrifted": ["n", "m"]}, "2 nodes drifted"),
        ("drift", {"podsLost": ["a/b"]}, ""),
        ("cost+10", {"after": {"hourly": 1.1}}, ""),
        ("cost+10", {"after": {"hourly": 1.2}}, "it costs $0.2000 an hour more, which is over 10 percent"),
        ("cost+0%", {"after": {"hourly": 1.0}}, ""),
    ],
)
def test_a_condition_of_a_change_is_violated(condition: str, changes: dict[str, Any], why: str) -> None:
    document = {"before": {"hourly": 1.0}, "after": {"hourly": 1.0}, "podsLost": [], "nodesDrifted": [], **changes}
    assert diff._broken(diff._condition(condition), document) == why
