"""Fields of audit events, whoever wrote them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from lambdas.controllers.events.audit_events import has_happened, moment_of, object_of


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"stage": "ResponseComplete", "responseStatus": {"code": 200}}, True),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 299}}, True),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 300}}, False),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 199}}, False),
        ({"stage": "ResponseComplete", "responseStatus": {"code": 409}}, False),
        ({"stage": "ResponseComplete", "responseStatus": {"code": "200"}}, False),
        ({"stage": "RequestReceived", "responseStatus": {"code": 200}}, False),
        ({"stage": "Panic"}, False),
        ({"stage": "ResponseComplete", "responseStatus": None}, True),
        ({"responseStatus": {"code": 201}}, True),
        ({}, True),
    ],
)
def test_only_a_complete_request_with_a_success_has_happened(entry: dict[str, Any], expected: bool) -> None:
    assert has_happened(entry) is expected


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-11-20T00:00:00Z", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T01:00:00+01:00", datetime(2026, 11, 20, 1, tzinfo=timezone(timedelta(hours=1)))),
        ("2026-11-20T00:00:00", None),
        ("at noon", None),
        ("", None),
        (20, None),
        (None, None),
    ],
)
def test_a_moment_without_a_zone_is_none(written: Any, moment: datetime | None) -> None:
    """It could not be compared with ours."""
    assert moment_of(written) == moment


@pytest.mark.parametrize(("value", "found"), [({"a": 1}, {"a": 1}), ({}, {}), (None, {}), ("a", {}), (["a"], {})])
def test_what_is_no_object_has_no_fields(value: Any, found: dict[str, Any]) -> None:
    assert object_of(value) == found
