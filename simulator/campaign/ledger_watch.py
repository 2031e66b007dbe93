"""Watches the functions' ledger in a world of the campaign: its judge, and the periods in which it cannot be written."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, Final

from simulator.aws.dynamodb.items import Key
from simulator.aws.errors import AwsError
from simulator.campaign.chances import FaultPeriod
from simulator.checkers.decisions import DecisionJudge
from simulator.invocation import calls
from simulator.invocation.calls import Call, Fault
from simulator.outcome.table_rows import COMMANDS, kind_of_partition, record_of
from simulator.world import World

WRITE: Final = "s3:PutObject"

WRITERS: Final = ("provision", "disrupt", "execute")
"""The functions that write the ledger; `refresh_catalogue` writes the market to the same bucket."""

_LASTING: Final = (timedelta(minutes=2), timedelta(minutes=5), None)
"""How long the ledger cannot be written; None: to the end of the world, which comes to rest without it."""


def draw_ledger_outages(rng: Random, fault_time: timedelta, duration: timedelta) -> list[FaultPeriod]:
    """Draw a period in which no function can write the ledger, in half of the worlds.

    Voluntary disruption waits meanwhile, and launches do not: in a world that ends so, no pod may wait without a reason.
    """
    if rng.random() >= 0.5:
        return []
    after, lasting = fault_time * rng.random(), rng.choice(_LASTING)
    fault = Fault(kind=rng.choice((calls.ERROR, calls.DENIED)))
    return [FaultPeriod(after, lasting or duration, WRITE, fault, function) for function in WRITERS]


def watch_ledger(world: World) -> None:
    """Judge each command that is written in this world, whose functions keep a ledger."""
    judge = DecisionJudge(world.judges.report)

    def to_bucket(call: Call, answer: dict[str, Any] | AwsError) -> None:
        if call.name == WRITE and not isinstance(answer, AwsError):
            judge.object_written(str(call.parameters["Key"]))

    def to_table(key: Key, item: dict[str, Any] | None) -> None:
        if item is not None and world.sandboxes.running() and kind_of_partition(key.partition) == COMMANDS:
            judge.command_written(record_of(item))

    world.account.wire.listen(to_bucket)
    world.account.table.listen(to_table)
