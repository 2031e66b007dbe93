"""The share of an audit log that the subscription's filter passes."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.audit_share import share_of


def line(username: str, verb: str, resource: str, subresource: str = "", **more: Any) -> bytes:
    reference = {"resource": resource, **({"subresource": subresource} if subresource else {})}
    event = {"stage": "ResponseComplete", "verb": verb, "user": {"username": username}, "objectRef": reference, **more}
    return json.dumps(event).encode() + b"\n"


def test_events_that_pass_are_counted_by_what_they_are_about() -> None:
    log = [
        line("system:kube-scheduler", "patch", "pods", "status"),
        line("system:node:a", "patch", "pods", "status"),
        line("system:node:a", "delete", "pods"),
        line("somebody", "list", "nodepools"),
        b'{"stage": "RequestReceived", "objectRef": {"resource": "pods"}}\n',
        b'{"stage": "ResponseComplete", "verb": "get", "requestURI": "/healthz"}\n',
    ]
    found = share_of(log)
    assert (found.events, found.size, found.passing) == (6, sum(map(len, log)), 2)
    assert found.passing_size == len(log[0]) + len(log[2])
    assert found.resources == {"pods": 2}
    assert str(found).startswith("2 of 6 events, 0.0 of 0.0 MB: 33.3% (pods 2)")
