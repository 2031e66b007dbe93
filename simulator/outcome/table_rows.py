"""The functions' rows in the table, as plain JSON for the judges."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from installation.wiring import TABLE
from simulator.aws.installation import CLUSTER

Item = dict[str, Any]

CLAIMS = "claims"
COMMANDS = "commands"


def kind_of(item: Item) -> str:
    """Return the kind of an item, or of one with this key, such as `claims`. A kind may lie in several partitions."""
    return kind_of_partition(item.get(TABLE.partition_key, {}).get("S", ""))


def kind_of_partition(partition: str) -> str:
    """The same by the partition alone."""
    return partition.removeprefix(f"{CLUSTER}#").partition("#")[0]


def record_of(item: Item) -> Item:
    """The record in an item that has one."""
    body = item["body"]
    text = body["S"].encode() if "S" in body else zlib.decompress(bytes(body["B"]))
    record: Item = msgspec.json.decode(text)
    return record
