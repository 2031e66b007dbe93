"""What the embedded table does beside single calls: pages, time, transactions that overlap, loss and restoration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulator.aws.dynamodb.table import TAKES
from simulator.aws.queues import UnansweredError
from tests.fakes.account import FakeAccount

MINUTE = timedelta(minutes=1)


class Bench(FakeAccount):
    """An account, and short words for its table."""

    def __init__(self, spend: Callable[[timedelta], None] | None = None) -> None:
        super().__init__(spend=spend)
        self.dynamodb = self.client("dynamodb")

    def put(self, sort: str, **attributes: Any) -> None:
        self.dynamodb.put_item(TableName=self.table, Item={**key(sort), **attributes})

    def query(self, **more: Any) -> dict[str, Any]:
        return dict(
            self.dynamodb.query(
                TableName=self.table,
                **{
                    "KeyConditionExpression": "pk = :p",
                    "ExpressionAttributeValues": {":p": {"S": "p"}},
                    "ConsistentRead": True,
                    **more,
                },
            )
        )

    def sorts(self, **more: Any) -> list[str]:
        return [item["sk"]["S"] for item in self.query(**more)["Items"]]

    def wait(self, span: timedelta) -> None:
        self.clock.run_until(self.clock.now() + span)


def key(sort: str) -> dict[str, Any]:
    return {"pk": {"S": "p"}, "sk": {"S": sort}}


def test_a_query_gives_a_megabyte_a_page() -> None:
    """If this failed, nobody would notice a listing that forgets the second page."""
    bench = Bench()
    for sort in "abcde":
        bench.put(sort, body={"S": "x" * 300 * 1024})
    first = bench.query()
    assert [item["sk"]["S"] for item in first["Items"]] == list("abcd")
    assert bench.sorts(ExclusiveStartKey=first["LastEvaluatedKey"]) == ["e"]


def test_what_is_handed_out_is_a_copy() -> None:
    """If this failed, a function could change the table without a call."""
    bench = Bench()
    bench.put("a", body={"M": {"inner": {"L": [{"S": "x"}]}}})
    bench.query()["Items"][0]["body"]["M"]["inner"]["L"].clear()
    assert bench.query()["Items"][0]["body"]["M"]["inner"]["L"] == [{"S": "x"}]


def test_an_eventually_consistent_read_may_miss_the_last_moment_and_no_more() -> None:
    """If this failed, code that reads without consistency would look right here."""
    bench = Bench()
    seen = set()
    for number in range(40):
        bench.put(str(number))
        seen.add(str(number) in bench.sorts(ConsistentRead=False))
        bench.wait(timedelta(seconds=2))
        assert str(number) in bench.sorts(ConsistentRead=False)
    assert seen == {True, False}


@pytest.mark.parametrize("is_transaction", [False, True])
def test_who_writes_to_an_item_of_a_running_transaction_is_in_conflict(is_transaction: bool) -> None:
    """If this failed, conflicts would be met in AWS for the first time."""
    conflicts: list[dict[str, Any]] = []

    def interfere() -> None:
        try:
            if is_transaction:
                transact("b", "a")
            else:
                bench.put("a")
        except ClientError as error:
            conflicts.append(error.response)

    def transact(*sorts: str) -> None:
        puts = [{"Put": {"TableName": bench.table, "Item": key(sort)}} for sort in sorts]
        bench.dynamodb.transact_write_items(TransactItems=puts)

    others = [interfere]
    bench = Bench(spend=lambda duration: others.pop()() if duration == TAKES and others else None)
    transact("a")
    (error,) = conflicts
    if is_transaction:
        assert [reason["Code"] for reason in error["CancellationReasons"]] == ["None", "TransactionConflict"]
    else:
        assert error["Error"]["Code"] == "TransactionConflictException"
    assert bench.sorts() == ["a"]


def test_an_item_goes_some_time_after_it_has_expired() -> None:
    """If this failed, what is remembered for a while would stay forever."""
    bench = Bench()
    end = int((bench.clock.now() + MINUTE).timestamp())
    bench.put("a", expires_at={"N": str(end)})
    bench.wait(2 * MINUTE)
    assert bench.sorts() == ["a"], "DynamoDB takes its time"
    bench.wait(20 * MINUTE)
    assert bench.sorts() == []


def test_the_newest_items_can_be_lost() -> None:
    """If this failed, nobody could try what a table that lost its last minutes does to a fleet."""
    bench = Bench()
    for sort in "abcd":
        bench.put(sort)
    bench.put("a", again={"BOOL": True})
    bench.account.table.lose(2)
    assert bench.sorts() == ["b", "c"]
    bench.account.table.lose(None)
    assert bench.sorts() == []


def test_a_restored_table_is_as_it_was() -> None:
    """If this failed, nobody could try what a restored backup does to a fleet."""
    bench = Bench()
    bench.put("a", n={"N": "1"})
    bench.put("b")
    moment = bench.clock.now()
    bench.wait(MINUTE)
    bench.put("a", n={"N": "2"})
    bench.put("c")
    bench.account.table.lose(None)
    bench.account.table.restore(moment)
    assert bench.sorts() == ["a", "b"]
    assert bench.query()["Items"][0]["n"] == {"N": "1"}


def test_a_parameter_without_a_meaning_here_is_not_passed_over() -> None:
    """If this failed, a filter would be ignored here and not in AWS."""
    with pytest.raises(UnansweredError, match="FilterExpression"):
        Bench().query(FilterExpression="a = :p")


def test_a_transaction_of_over_four_megabytes_is_refused() -> None:
    """If this failed, a plan with many long claims would be carried out here and never in AWS."""
    bench = Bench()

    def put(kilobytes: int) -> None:
        items = [{**key(str(n)), "body": {"S": "x" * 1024 * kilobytes}} for n in range(20)]
        bench.dynamodb.transact_write_items(
            TransactItems=[{"Put": {"TableName": bench.table, "Item": item}} for item in items]
        )

    put(200)
    with pytest.raises(ClientError, match="cannot exceed 4MB"):
        put(210)
