"""The embedded table refuses what DynamoDB refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.exceptions import ClientError

from simulator.aws.account import Account, Surroundings, open_account
from simulator.aws.region import Region
from simulator.clock import VirtualClock
from simulator.faults import Faults, MessageFaults
from simulator.record import Recorder
from tests.builders import a_type


@pytest.fixture
def account() -> Iterator[Account]:
    clock = VirtualClock(datetime(2026, 11, 20, tzinfo=UTC))
    recorder = Recorder(clock)
    around = Surroundings(
        clock=clock,
        recorder=recorder,
        faults=Faults(clock, recorder),
        message_faults=MessageFaults(clock, recorder),
        bus=lambda *_: None,
        spend=lambda _: clock.spend(timedelta(0)),
        seed=1,
    )
    with open_account(around, Region(types=(a_type("m5.large"),))) as opened:
        yield opened


def test_a_transaction_of_over_four_megabytes_is_refused(account: Account) -> None:
    """If this failed, a plan with many long claims would be carried out here and never in AWS."""
    table, client = account.settings.table_name, boto3.client("dynamodb")

    def put(kilobytes: int) -> None:
        items = [
            {"pk": {"S": f"p{kilobytes}"}, "sk": {"S": str(n)}, "body": {"S": "x" * 1024 * kilobytes}}
            for n in range(20)
        ]
        client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": item}} for item in items])

    put(200)
    with pytest.raises(ClientError, match="cannot exceed 4MB"):
        put(210)
