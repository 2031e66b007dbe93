"""Lines over time: pods that wait, instances by capacity type, dollars an hour and dollars spent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.report.series import POINTS_MAX, from_events

START = datetime(2026, 11, 20, tzinfo=UTC)


def recorded(*events: tuple[float, str, dict[str, Any]]) -> list[tuple[datetime, str, dict[str, Any]]]:
    return [(START + timedelta(minutes=minutes), event, fields) for minutes, event, fields in events]


def launched(instance: str, price: float, **more: str) -> tuple[str, dict[str, Any]]:
    return "instanceLaunched", {"instance": instance, "price": price, **more}


def test_no_events_make_empty_lines() -> None:
    lines = from_events([])
    assert (lines.times, lines.pending, lines.nodes, lines.spent) == ((), (), {}, ())


def test_a_pod_waits_from_its_creation_until_it_is_bound_deleted_or_finished() -> None:
    pods = [{"pod": f"a/{number}", "owner": "ReplicaSet/r"} for number in range(3)]
    lines = from_events(
        recorded(
            *((number, "podCreated", pod) for number, pod in enumerate(pods)),
            (2.5, "podCreated", {"pod": "a/daemon", "owner": "DaemonSet/d"}),
            (3, "podBound", pods[0]),
            (4, "podDeleted", pods[1]),
            (5, "podFinished", pods[2]),
            (6, "podFinished", pods[2]),
        )
    )
    assert lines.pending == (1, 2, 3, 3, 2, 1, 0, 0)


def test_money_counts_from_launch_to_end_and_instances_by_capacity_type() -> None:
    lines = from_events(
        recorded(
            (0, *launched("i-1", 1.0)),
            (30, *launched("i-2", 0.5, capacityType="spot")),
            (60, "instanceTerminated", {"instance": "i-1"}),
            (90, "instanceTerminated", {"instance": "i-1"}),
        )
    )
    assert lines.nodes == {"on-demand": (1, 1, 0, 0), "spot": (0, 1, 1, 1)}
    assert (lines.hourly, lines.kept) == ((1.0, 1.5, 0.5, 0.5),) * 2
    assert lines.spent == pytest.approx((0.0, 0.5, 1.25, 1.5))


def test_without_consolidation_what_it_removed_stays_and_what_it_launched_never_came() -> None:
    lines = from_events(
        recorded(
            (0, *launched("removed", 1.0)),
            (0, *launched("other", 0.25)),
            (30, *launched("replacement", 0.5)),
            (60, "instanceTerminated", {"instance": "removed"}),
            (61, "instanceTerminated", {"instance": "other"}),
            (62, "end", {}),
        ),
        {"removed"},
        {"replacement"},
    )
    assert lines.kept == (1.25, 1.25, 1.25, 1.0, 1.0)
    assert lines.hourly == (1.25, 1.75, 0.75, 0.5, 0.5)


def test_of_events_closer_than_a_pixel_the_peak_of_waiting_pods_and_the_last_of_all_else_are_drawn() -> None:
    pixel = 60 / POINTS_MAX
    waiting = {"pod": "a/p"}
    lines = from_events(
        recorded(
            (0, "podCreated", waiting),
            (pixel / 2, *launched("i-1", 1.0)),
            (pixel / 2, "podBound", waiting),
            (pixel, *launched("i-2", 1.0)),
            (60, "end", {}),
        )
    )
    assert lines.times == tuple(START + timedelta(minutes=minutes) for minutes in (0, pixel, 60))
    assert (lines.pending, lines.hourly) == ((1, 0, 0), (1.0, 2.0, 2.0))
