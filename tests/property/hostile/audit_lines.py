"""Deliveries of audit log lines, as CloudWatch Logs hands them to a function."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any


def delivery_of(lines: Sequence[Any]) -> dict[str, Any]:
    """Return one delivery of these audit events."""
    events = [{"id": str(number), "timestamp": 1, "message": json.dumps(line)} for number, line in enumerate(lines)]
    body = {"messageType": "DATA_MESSAGE", "logGroup": "g", "logStream": "s", "logEvents": events}
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(body).encode())).decode()}}
