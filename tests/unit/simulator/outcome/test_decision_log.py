"""Decisions as a story."""

from __future__ import annotations

from datetime import UTC, datetime

from simulator.clock import VirtualClock
from simulator.outcome.decision_log import DecisionLog
from simulator.record import Event


def a_log() -> DecisionLog:
    return DecisionLog(VirtualClock(datetime(2026, 11, 20, tzinfo=UTC)))


def said(log: DecisionLog, *decisions: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    for kind, subject, reason in decisions:
        log.write("provision", {"kind": kind, "subject": subject, "reason": reason, "message": ""})
    return [(told["kind"], told["subject"], told["reason"]) for told in log.entries]


def test_what_stays_the_same_is_told_once() -> None:
    """If this failed, one pod without a place would fill the page."""
    stuck, other = ("unschedulable", "ns/a", "NoOfferingFits"), ("unschedulable", "ns/b", "LimitReached")
    assert said(a_log(), stuck, other, stuck, other, stuck) == [stuck, other]


def test_what_changes_is_told_again() -> None:
    """If this failed, the page would say that a pod has no place which has one, or the other way round."""
    stuck, found = ("unschedulable", "ns/a", "NoOfferingFits"), ("bind", "ns/a", "FitsExisting")
    assert said(a_log(), stuck, found, found, stuck) == [stuck, found, stuck]


def test_another_pod_of_the_same_name_is_another_story() -> None:
    """If this failed, a StatefulSet's pod would be heard of once in its life."""
    log, found = a_log(), ("bind", "ns/db-0", "FitsExisting")
    said(log, found)
    log.see(Event("2026-11-20T00:00:00Z", "podDeleted", {"pod": "ns/db-0", "by": "user"}))
    assert said(log, found) == [found, found]
