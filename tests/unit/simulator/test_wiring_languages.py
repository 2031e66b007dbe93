"""The small languages of AWS that the wiring is written in: filter patterns, event patterns, schedule expressions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from installation.wiring import AUDIT_LOG_FILTER
from simulator.aws.cron import next_fire
from simulator.events.event_rules import matches
from simulator.events.log_filter import compile_filter

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
"""A Friday."""


def an_event(user: str, verb: str, resource: str, subresource: str = "") -> dict:
    part = {"subresource": subresource} if subresource else {}
    return {
        "stage": "ResponseComplete",
        "user": {"username": user},
        "verb": verb,
        "objectRef": {"resource": resource, **part},
    }


def a_finished_pod(phase: str) -> dict:
    """A kubelet's patch of a pod's status with this phase."""
    event = an_event("system:node:ip-10-0-0-1", "patch", "pods", "status")
    return {**event, "requestObject": {"status": {"phase": phase}}}


@pytest.mark.parametrize(
    ("pattern", "event", "hit"),
    [
        ('{ $.a = "1" }', {"a": "1"}, True),
        ('{ $.a.b = "1" }', {"a": {"b": "1"}}, True),
        ('{ $.a.b = "1" }', {"a": "1"}, False),
        ('{ $.a != "1" }', {}, True),
        ('{ ($.a = "1") && (($.b = "2") || ($.c = "3")) }', {"a": "1", "c": "3"}, True),
        ('{ ($.a = "1") && (($.b = "2") || ($.c = "3")) }', {"c": "3"}, False),
        ('{ $.a = "x:*" }', {"a": "x:y"}, True),
        ('{ $.a != "x:*" }', {"a": "x:y"}, False),
        ('{ $.a = "x.*" }', {"a": "x:y"}, False),
        ("{ $.a.b NOT EXISTS }", {"a": {}}, True),
        ("{ $.a.b NOT EXISTS }", {"a": {"b": "c"}}, False),
        (AUDIT_LOG_FILTER, an_event("system:kube-scheduler", "patch", "pods", "status"), True),
        (AUDIT_LOG_FILTER, an_event("system:node:ip-10-0-0-1", "patch", "pods", "status"), False),
        (AUDIT_LOG_FILTER, a_finished_pod("Running"), False),
        (AUDIT_LOG_FILTER, a_finished_pod("Succeeded"), True),
        (AUDIT_LOG_FILTER, a_finished_pod("Failed"), True),
        (AUDIT_LOG_FILTER, an_event("system:node:ip-10-0-0-1", "delete", "pods"), True),
        (AUDIT_LOG_FILTER, an_event("someone", "create", "pods", "eviction"), False),
        (AUDIT_LOG_FILTER, an_event("someone", "patch", "nodepools"), True),
        (AUDIT_LOG_FILTER, an_event("someone", "patch", "nodepools", "status"), False),
        (AUDIT_LOG_FILTER, an_event("someone", "list", "nodepools"), False),
        (AUDIT_LOG_FILTER, {"stage": "RequestReceived", "objectRef": {"resource": "nodepools"}}, False),
    ],
)
def test_filter_patterns(pattern: str, event: dict, hit: bool) -> None:
    """If this failed, the simulated subscription would deliver other events than the deployed one, or every kubelet's."""
    assert compile_filter(pattern)(event) == hit


@pytest.mark.parametrize("pattern", ["$.a = 1", "{ $.a = 1 }", '{ ($.a = "1" }', '{ $.a = "1" junk }', "{ }"])
def test_a_filter_pattern_that_is_none_is_refused(pattern: str) -> None:
    """If this failed, a misspelt filter would let everything through."""
    with pytest.raises(ValueError, match=r"."):
        compile_filter(pattern)


@pytest.mark.parametrize(
    ("pattern", "event", "hit"),
    [
        ({"source": ["aws.ec2"]}, {"source": "aws.ec2", "other": 1}, True),
        ({"detail": {"state": ["running", "stopped"]}}, {"detail": {"state": "stopped"}}, True),
        ({"detail": {"state": ["running"]}}, {"detail": {}}, False),
        ({"source": [{"prefix": "aws."}]}, {"source": "aws.health"}, True),
        ({"source": [{"anything-but": ["aws.ec2"]}]}, {"source": "aws.ec2"}, False),
        ({"x": [{"exists": False}]}, {}, True),
        ({"tags": ["a"]}, {"tags": ["b", "a"]}, True),
    ],
)
def test_event_patterns(pattern: dict, event: dict, hit: bool) -> None:
    """If this failed, rules would wake functions that they do not wake when deployed."""
    assert matches(pattern, event) == hit


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("cron(0 8 ? * SUN *)", datetime(2026, 11, 22, 8, tzinfo=UTC)),
        ("cron(0 8 ? * 1 *)", datetime(2026, 11, 22, 8, tzinfo=UTC)),
        ("cron(30 12 * * ? *)", datetime(2026, 11, 20, 12, 30, tzinfo=UTC)),
        ("cron(0 12 * * ? *)", datetime(2026, 11, 21, 12, tzinfo=UTC)),
        ("cron(0 0 1 1 ? 2027)", datetime(2027, 1, 1, tzinfo=UTC)),
        ("at(2026-11-20T13:00:00)", datetime(2026, 11, 20, 13, tzinfo=UTC)),
        ("at(2026-11-20T12:00:00)", None),
        ("rate(5 minutes)", datetime(2026, 11, 20, 12, 5, tzinfo=UTC)),
    ],
)
def test_schedule_expressions(expression: str, fires: datetime | None) -> None:
    """If this failed, budget windows would open at other hours than on EventBridge."""
    assert next_fire(expression, NOW) == fires


@pytest.mark.parametrize("expression", ["cron(0 8 * * SUN)", "every day", "cron(61 8 * * ? *)"])
def test_a_schedule_that_is_none_is_refused(expression: str) -> None:
    """If this failed, a malformed schedule would silently never fire, as in moto."""
    with pytest.raises(ValueError, match=r"."):
        next_fire(expression, NOW)
