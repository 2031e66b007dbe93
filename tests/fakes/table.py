"""Creates the table of the template on any DynamoDB endpoint."""

from __future__ import annotations

from typing import Any

from installation.wiring import TABLE


def create_table(dynamodb: Any, name: str) -> None:
    """Create it with this client."""
    keys = (TABLE.partition_key, TABLE.sort_key)
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=True)],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    expiry = {"Enabled": True, "AttributeName": TABLE.expiry}
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)
