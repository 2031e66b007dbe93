"""Builds events in the form in which AWS delivers them, by source: EventBridge, SQS, CloudWatch Logs.

The shapes are those of AWS' documentation.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from core.api.objects import JsonObject

ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"
CONTROL_OWNER: Final = "CloudwatchLogs"


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was received from a queue; times are UTC."""

    id: str
    receipt: str
    body: str
    receives: int
    sent_at: datetime
    first_received_at: datetime


def bus_event(source: str, detail_type: str, detail: JsonObject, event_id: str, now: datetime) -> JsonObject:
    """An event on the account's default bus."""
    return _event(source, detail_type, detail, event_id, now, _resources(detail))


def scheduled_event(rule: str, event_id: str, now: datetime) -> JsonObject:
    """Return the event of a rule with a schedule; `rule` is its name."""
    arn = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{rule}"
    return _event("aws.events", "Scheduled Event", {}, event_id, now, [arn])


def queue_event(queue: str, messages: Sequence[QueuedMessage]) -> JsonObject:
    """A batch of an SQS event source mapping."""
    return {"Records": [_record(queue, message) for message in messages]}


def log_delivery(log_group: str, entries: Sequence[tuple[datetime, str]]) -> JsonObject:
    """A delivery of a CloudWatch Logs subscription: log lines with their times, packed as Lambda gets them."""
    lines = [
        {"id": f"{round(moment.timestamp() * 1000):036d}{number:020d}", "timestamp": _millis(moment), "message": text}
        for number, (moment, text) in enumerate(entries)
    ]
    stream = f"kube-apiserver-audit-{hashlib.md5(log_group.encode(), usedforsecurity=False).hexdigest()}"
    return _packed("DATA_MESSAGE", ACCOUNT, log_group, stream, ["audit-log"], lines)


def control_delivery(now: datetime) -> JsonObject:
    """Return the event that CloudWatch Logs sends now and then to check that its destination is reachable."""
    line = {"id": "", "timestamp": _millis(now), "message": "CWL CONTROL MESSAGE: Checking health of destination"}
    return _packed("CONTROL_MESSAGE", CONTROL_OWNER, "", "", [], [line])


def _event(
    source: str, detail_type: str, detail: JsonObject, event_id: str, now: datetime, resources: list[str]
) -> JsonObject:
    return {
        "version": "0",
        "id": event_id,
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": resources,
        "detail": detail,
    }


def _resources(detail: Mapping[str, Any]) -> list[str]:
    """Return the event's resources: EC2 lists the instance's ARN, Health the affected entities."""
    if "instance-id" in detail:
        return [f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{detail['instance-id']}"]
    return [entity["entityValue"] for entity in detail.get("affectedEntities") or ()]


def _record(queue: str, message: QueuedMessage) -> JsonObject:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.receives),
            "SentTimestamp": str(_millis(message.sent_at)),
            "SenderId": f"AROAEXAMPLE:{queue}",
            "ApproximateFirstReceiveTimestamp": str(_millis(message.first_received_at)),
        },
        "messageAttributes": {},
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
        "awsRegion": REGION,
    }


def _packed(
    kind: str, owner: str, log_group: str, stream: str, filters: list[str], lines: list[JsonObject]
) -> JsonObject:
    payload = {
        "messageType": kind,
        "owner": owner,
        "logGroup": log_group,
        "logStream": stream,
        "subscriptionFilters": filters,
        "logEvents": lines,
    }
    data = gzip.compress(json.dumps(payload).encode(), mtime=0)
    return {"awslogs": {"data": base64.b64encode(data).decode()}}


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
