"""moto's answers to reads, kept until something they may depend on is written: an idle world reads much and writes little.

DynamoDB's are kept by partition, those of the other services until the service is written to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lambdas.wiring import TABLE
from simulator.calls import Call

_SERVICES: Final = ("ec2", "iam", "scheduler")
_READING: Final = ("Describe", "Get", "List")
_DYNAMO_READS: Final = ("Query", "GetItem")


class ReadMemo:
    """Remembers answers by what they depend on."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, dict[str, Any]]] = {}

    def recall(self, call: Call) -> dict[str, Any] | None:
        """The answer to this very read, None if it is not known."""
        source = _read_from(call)
        return None if source is None else self._answers.get(source, {}).get(_text(call))

    def keep(self, call: Call, answer: dict[str, Any]) -> None:
        """Remember the answer to a read."""
        source = _read_from(call)
        if source is not None:
            self._answers.setdefault(source, {})[_text(call)] = dict(answer)

    def touch(self, call: Call) -> None:
        """A call is about to reach moto: forget what it may change."""
        if _read_from(call) is None:
            for source in _written_by(call):
                self._answers.pop(source, None)

    def forget(self, service: str) -> None:
        """Something of this service changed without a call."""
        self._answers.pop(service, None)


def _read_from(call: Call) -> str | None:
    """What the answer to a read depends on; None for a write, and for a read that is not kept."""
    if call.service in _SERVICES:
        return call.service if call.operation.startswith(_READING) else None
    if call.service != "dynamodb" or call.operation not in _DYNAMO_READS:
        return None
    if call.operation == "GetItem":
        return _partition(call.parameters["Key"])
    return str(call.parameters["ExpressionAttributeValues"].get(":p", {}).get("S", ""))


def _written_by(call: Call) -> Iterator[str]:
    if call.service != "dynamodb":
        yield call.service
    elif call.operation == "TransactWriteItems":
        for entry in call.parameters["TransactItems"]:
            for arguments in entry.values():
                yield _partition(arguments.get("Item") or arguments["Key"])
    else:
        yield _partition(call.parameters.get("Item") or call.parameters["Key"])


def _partition(key: Mapping[str, Any]) -> str:
    return str(key[TABLE.partition_key]["S"])


def _text(call: Call) -> str:
    return call.operation + json.dumps(call.parameters, sort_keys=True, default=str)
