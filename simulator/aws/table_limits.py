"""What DynamoDB refuses and moto lets through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simulator.aws.wire import AwsError

TRANSACTION_BYTES_MAX: Final = 4 * 1024 * 1024
"""DynamoDB's quota for all items of one transaction together."""


def check_transaction(request: dict[str, Any]) -> None:
    """Raise AwsError for a transaction that is too large (dynamodb:TransactWriteItems)."""
    size = sum(_sizes(request["TransactItems"]))
    if size > TRANSACTION_BYTES_MAX:
        raise AwsError("ValidationException", f"Transaction payload size cannot exceed 4MB. Payload Size: {size}")


def _sizes(operations: list[dict[str, Any]]) -> Iterator[int]:
    for operation in operations:
        for arguments in operation.values():
            for name, typed in (arguments.get("Item") or arguments["Key"]).items():
                yield len(name) + sum(len(value) for value in typed.values())
