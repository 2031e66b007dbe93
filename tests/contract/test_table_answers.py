"""The simulator's table answers as DynamoDB Local does: random calls are compared reply by reply, errors included."""

from __future__ import annotations

import secrets
from decimal import Decimal
from random import Random
from typing import Any, Final

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.fakes.account import FakeAccount, create_table

pytestmark = pytest.mark.e2e

SEQUENCES: Final = 40
CALLS: Final = 60
PARTITIONS: Final = ("p", "q")
SORTS: Final = ("a", "b", "b!", "ä", "z")
NAMES: Final = ("a_n", "a_s", "a_m", "a_l", "a_set", "a_names")
"""Names that are not reserved words of DynamoDB."""
NUMBERS: Final = ("0", "1", "-1", "007", "1.50", "1e2", "12345678901234567890123456789012345678")


class Draws:
    """Valid and invalid requests over few keys and attributes, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)  # noqa: S311 - repeatable

    def call(self) -> tuple[str, dict[str, Any]]:
        kind = self._rng.choice(("put", "put", "update", "update", "update", "delete", "get", "query", "transact"))
        return getattr(self, f"_{kind}")()  # type: ignore[no-any-return]

    def _put(self) -> tuple[str, dict[str, Any]]:
        returns = self._maybe("ReturnValues", ("NONE", "ALL_OLD"))
        return "put_item", {"Item": self._item(), **self._conditional({}), **returns, **self._answers()}

    def _delete(self) -> tuple[str, dict[str, Any]]:
        returns = self._maybe("ReturnValues", ("NONE", "ALL_OLD"))
        return "delete_item", {"Key": self._key(), **self._conditional({}), **returns, **self._answers()}

    def _update(self) -> tuple[str, dict[str, Any]]:
        changed = self._changed()
        # For updated list elements, DynamoDB Local returns their new positions.
        updated = () if "[" in changed["UpdateExpression"] else ("UPDATED_OLD", "UPDATED_NEW")
        returns = self._maybe("ReturnValues", ("NONE", "ALL_OLD", "ALL_NEW", *updated))
        return "update_item", {"Key": self._key(), **changed, **returns, **self._answers()}

    def _get(self) -> tuple[str, dict[str, Any]]:
        return "get_item", {"Key": self._key(), "ConsistentRead": True}

    def _query(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        condition, values = "#p = :p", {":p": {"S": rng.choice(PARTITIONS)}}
        more = rng.choice(("", "sk = :a", "sk < :a", "sk >= :a", "sk BETWEEN :a AND :b", "begins_with(sk, :a)"))
        if more:
            condition += f" AND {more}"
            values[":a"] = {"S": rng.choice(SORTS)}
        if ":b" in more:
            values[":b"] = {"S": rng.choice(SORTS)}
        request: dict[str, Any] = {
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": {"#p": "pk"},
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
        }
        # At the end of a range DynamoDB Local returns no further key, which DynamoDB leaves to the next page.
        request |= self._maybe("ScanIndexForward", (True, False)) | ({} if more else self._maybe("Limit", (1, 2)))
        return "query", request

    def _transact(self) -> tuple[str, dict[str, Any]]:
        rng, writes = self._rng, []
        # DynamoDB Local accepts two operations on one item, which DynamoDB refuses.
        for key in rng.sample([(p, s) for p in PARTITIONS for s in SORTS], rng.randint(1, 3)):
            kind = rng.choice(("Put", "Update", "Delete", "ConditionCheck"))
            if kind == "Put":
                content = {"Item": self._item(), **self._conditional({})}
            elif kind == "Update":
                content = {"Key": self._key(), **self._changed(), "UpdateExpression": self._last_update}
            elif kind == "Delete":
                content = {"Key": self._key(), **self._conditional({})}
            else:
                content = {"Key": self._key(), **self._conditional({}, always=True)}
            held = content["Item"] if kind == "Put" else content["Key"]
            held |= {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
            writes.append({kind: {**content, **self._answers()}})
        return "transact_write_items", {"TransactItems": writes}

    def _key(self) -> dict[str, Any]:
        key = {"pk": {"S": self._rng.choice(PARTITIONS)}, "sk": {"S": self._rng.choice(SORTS)}}
        if self._rng.random() < 0.03:
            key["sk"] = self._rng.choice(({"S": ""}, {"N": "1"}))
        return key

    def _item(self) -> dict[str, Any]:
        names = self._rng.sample(NAMES, self._rng.randint(0, len(NAMES)))
        return {**self._key(), **{name: self._value(name) for name in names}}

    def _value(self, name: str) -> dict[str, Any]:
        rng = self._rng
        if rng.random() < 0.1:
            name = rng.choice(NAMES)
        if name == "a_n":
            return {"N": rng.choice(NUMBERS)}
        if name == "a_s":
            return rng.choice(({"S": "text"}, {"S": "tex"}, {"S": ""}, {"B": b"text"}, {"BOOL": True}, {"NULL": True}))
        if name == "a_m":
            return {"M": {"a_in": {"N": rng.choice(NUMBERS)}, "a_l": {"L": [{"S": "x"}]}}}
        if name == "a_l":
            return {"L": [{"N": rng.choice(NUMBERS)} for _ in range(rng.randint(0, 3))]}
        if name == "a_set":
            return {"NS": sorted(rng.sample(("1", "2", "3"), rng.randint(1, 3)))}
        return {"SS": sorted(rng.sample(("x", "y", "z"), rng.randint(1, 3)))}

    def _conditional(self, values: dict[str, Any], *, always: bool = False) -> dict[str, Any]:
        """A condition, and the attributes that it and `values` name."""
        rng = self._rng
        names: dict[str, str] = {}
        request: dict[str, Any] = {}
        if always or rng.random() < 0.6:
            text = self._condition(names, values)
            if rng.random() < 0.3:
                text = f"{text} {rng.choice(('AND', 'OR'))} NOT ({self._condition(names, values)})"
            request["ConditionExpression"] = text
        if rng.random() < 0.02:
            values[":unused"] = {"S": "x"}
        if names:
            request["ExpressionAttributeNames"] = names
        if values:
            request["ExpressionAttributeValues"] = values
        return request

    def _condition(self, names: dict[str, str], values: dict[str, Any]) -> str:
        rng = self._rng
        name = rng.choice(NAMES)
        names[f"#{name}"] = name
        path = f"#{name}"
        if name == "a_m" and rng.random() < 0.5:
            names["#in"] = "a_in"
            path = "#a_m.#in"
        if name == "a_l" and rng.random() < 0.5:
            path = "#a_l[0]"
        form = rng.choice(("exists", "not_exists", "=", "<>", "<", ">=", "between", "in", "begins", "contains", "size"))
        if form == "exists":
            return f"attribute_exists({path})"
        if form == "not_exists":
            return f"attribute_not_exists({path})"
        value = f":{len(values)}"
        if form == "between":
            low, high = rng.randint(-3, 3), rng.randint(-1, 3)
            values[value], values[f"{value}b"] = {"N": str(low)}, {"N": str(high)}
            return f"{path} BETWEEN {value} AND {value}b"
        if form == "size":
            values[value] = {"N": "1"}
            return f"size({path}) >= {value}"
        if form in ("begins", "contains"):
            values[value] = rng.choice(({"S": "te"}, {"S": "x"}))
            return f"{'begins_with' if form == 'begins' else 'contains'}({path}, {value})"
        values[value] = {"N": rng.choice(NUMBERS)} if form in ("<", ">=") else self._value(name)
        return f"{path} IN ({value})" if form == "in" else f"{path} {form} {value}"

    def _changed(self) -> dict[str, Any]:
        rng, values = self._rng, dict[str, Any]()
        clauses: list[str] = []
        for word, draw in (("SET", self._set), ("ADD", self._add), ("REMOVE", self._remove), ("DELETE", self._discard)):
            if rng.random() < 0.4:
                clauses.append(f"{word} {draw(values)}")
        self._last_update = " ".join(clauses) or f"SET a_s = {self._given(values, {'S': 'x'})}"
        return {"UpdateExpression": self._last_update, **self._conditional(values)}

    def _set(self, values: dict[str, Any]) -> str:
        rng = self._rng
        name = rng.choice(NAMES)
        operand = self._given(values, self._value(name))
        return rng.choice(
            (
                f"{name} = {operand}",
                f"{name} = if_not_exists({name}, {operand})",
                f"a_n = a_n + {self._given(values, {'N': '2'})}, {'a_s' if name == 'a_n' else name} = {operand}",
                f"a_l = list_append(a_l, {self._given(values, {'L': [{'S': 'end'}]})}), a_s = {operand}",
                f"a_m.a_o = {operand}",
                f"a_l[1] = {operand}",
            )
        )

    def _add(self, values: dict[str, Any]) -> str:
        name = self._rng.choice(("a_n", "a_set", "a_names"))
        return f"{name} {self._given(values, self._value(name))}"

    def _remove(self, _: dict[str, Any]) -> str:
        return self._rng.choice((*NAMES, "a_m.a_l", "a_l[0]", "a_gone"))

    def _discard(self, values: dict[str, Any]) -> str:
        name = self._rng.choice(("a_set", "a_names"))
        return f"{name} {self._given(values, self._value(name))}"

    def _given(self, values: dict[str, Any], value: dict[str, Any]) -> str:
        values[f":{len(values)}"] = value
        return f":{len(values) - 1}"

    def _answers(self) -> dict[str, Any]:
        return self._maybe("ReturnValuesOnConditionCheckFailure", ("ALL_OLD", "NONE"))

    def _maybe(self, name: str, values: tuple[Any, ...]) -> dict[str, Any]:
        return {name: self._rng.choice(values)} if self._rng.random() < 0.5 else {}


@pytest.fixture(scope="module")
def local(dynamodb_local: str) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=dynamodb_local,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_sequence_of_calls_gets_equal_replies(local: Any, seed: int) -> None:
    """Otherwise, a fault that the campaign finds, or misses, may be the simulator's own."""
    account, draws = FakeAccount(), Draws(seed)
    ours, table = account.client("dynamodb"), f"answers-{secrets.token_hex(4)}"
    create_table(local, table)
    for step in range(CALLS):
        operation, request = draws.call()
        mine = answer(ours, operation, named(request, account.table))
        theirs = answer(local, operation, named(request, table))
        assert mine == theirs, f"call {step}: {operation} {request}"
    local.delete_table(TableName=table)


def named(request: dict[str, Any], table: str) -> dict[str, Any]:
    """The request for this table."""
    if "TransactItems" not in request:
        return {"TableName": table, **request}
    entries = [
        {kind: {"TableName": table, **content} for kind, content in entry.items()} for entry in request["TransactItems"]
    ]
    return {"TransactItems": entries}


def answer(client: Any, operation: str, request: dict[str, Any]) -> Any:
    """The client's reply, with sets in order and numbers by amount; of an error, its codes and items."""
    try:
        reply = getattr(client, operation)(**request)
    except ClientError as error:
        reasons = [(r["Code"], r.get("Item")) for r in error.response.get("CancellationReasons", ())]
        if any(code == "ValidationError" for code, _ in reasons):
            # DynamoDB reports it as a cancellation reason, DynamoDB Local as an error.
            return "ValidationException", None, []
        return error.response["Error"]["Code"], _ordered(error.response.get("Item")), _ordered(reasons)
    # DynamoDB Local returns the capacity of deletions without being asked.
    reply = {key: value for key, value in reply.items() if key not in ("ResponseMetadata", "ConsumedCapacity")}
    return _ordered(reply)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _comparable(key, content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [_ordered(element) for element in value]
    return value


def _comparable(key: str, content: Any) -> Any:
    if key in ("SS", "NS"):
        return sorted(content)
    # Within lists and maps DynamoDB Local keeps numbers as they were written, DynamoDB does not.
    return Decimal(content) if key == "N" else _ordered(content)
