"""The API server's audit log reaches `watch_audit_log` as CloudWatch Logs would bring it."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.e2e.functions.audit import BATCH_BYTES, AuditTail, split
from tests.e2e.parts.admin import until

NOW = datetime(2026, 11, 22, tzinfo=UTC)
WANTED = {"stage": "ResponseComplete", "verb": "patch", "objectRef": {"resource": "pods", "subresource": "status"}}
UNWANTED = {"stage": "ResponseComplete", "verb": "create", "objectRef": {"resource": "pods"}}


SECONDS = 60.0


def delivered(seen: list[dict[str, Any]]) -> int:
    return sum(len(payload(delivery).get("logEvents", ())) for delivery in seen[1:])


def payload(delivery: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(delivery["awslogs"]["data"])))
    return read


def test_what_the_filter_lets_through_is_delivered_once_and_in_order(tmp_path: Path) -> None:
    """If this failed, the function would be woken by events that its subscription keeps away, or not by its own."""
    log, seen = tmp_path / "audit.log", list[dict[str, Any]]()
    log.write_text(json.dumps({**WANTED, "number": 0}) + "\n")
    tail = AuditTail(log, "/aws/eks/e2e/cluster", seen.append, delay=0.1, gather=0.1)
    tail.start()
    with log.open("a") as file:
        for number in range(1, 4):
            file.write(json.dumps({**WANTED, "number": number}) + "\n" + json.dumps(UNWANTED) + "\n")
        file.write('{"half": ')
    until(lambda: delivered(seen) >= 3, seconds=SECONDS, what="three events")
    tail.close()
    control, *data = [payload(delivery) for delivery in seen]
    assert control["messageType"] == "CONTROL_MESSAGE"
    assert [json.loads(line["message"])["number"] for found in data for line in found["logEvents"]] == [1, 2, 3]
    assert data[0]["logGroup"] == "/aws/eks/e2e/cluster"


def test_more_than_a_batch_holds_is_split() -> None:
    """If this failed, a burst would be one delivery larger than any that a function gets."""
    entries = [(NOW, f"{number:06d}" + "x" * 100_000) for number in range(25)]
    batches = split(entries)
    assert [entry for batch in batches for entry in batch] == entries
    assert len(batches) == 3
    assert all(sum(len(text) for _, text in batch) <= BATCH_BYTES for batch in batches)
