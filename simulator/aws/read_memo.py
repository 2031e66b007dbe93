"""Answers to DynamoDB reads, kept until something in their partition is written: an idle world reads much and writes little."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lambdas.wiring import TABLE
from simulator.calls import Call

_READS: Final = ("dynamodb:Query", "dynamodb:GetItem")


class ReadMemo:
    """Remembers answers by partition."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, dict[str, Any]]] = {}

    def recall(self, call: Call) -> dict[str, Any] | None:
        """The answer to this very read, None if it is not known."""
        if call.name not in _READS:
            return None
        return self._answers.get(_partition_read(call), {}).get(_text(call))

    def keep(self, call: Call, answer: dict[str, Any]) -> None:
        """Remember the answer to a read."""
        if call.name in _READS:
            self._answers.setdefault(_partition_read(call), {})[_text(call)] = dict(answer)

    def touch(self, call: Call) -> None:
        """A call is about to reach DynamoDB: forget what it may change."""
        if call.service == "dynamodb" and call.name not in _READS:
            for partition in _partitions_written(call):
                self._answers.pop(partition, None)


def _partition_read(call: Call) -> str:
    if call.operation == "GetItem":
        return _partition(call.parameters["Key"])
    return str(call.parameters["ExpressionAttributeValues"].get(":p", {}).get("S", ""))


def _partitions_written(call: Call) -> Iterator[str]:
    if call.operation != "TransactWriteItems":
        yield _partition(call.parameters.get("Item") or call.parameters["Key"])
        return
    for entry in call.parameters["TransactItems"]:
        for arguments in entry.values():
            yield _partition(arguments.get("Item") or arguments["Key"])


def _partition(key: Mapping[str, Any]) -> str:
    return str(key[TABLE.partition_key]["S"])


def _text(call: Call) -> str:
    return call.operation + json.dumps(call.parameters, sort_keys=True, default=str)
