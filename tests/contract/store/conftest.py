"""Each test on the simulator's table, which all other tests use, and on DynamoDB Local."""

from __future__ import annotations

import pytest

from adapters.aws.dynamodb.table import DynamoTable
from tests.contract.store.stores import Store, a_table_at, dynamo
from tests.fakes.account import FakeAccount

SIMULATED = "simulated"
LOCAL = pytest.param("local", marks=pytest.mark.e2e)


@pytest.fixture(scope="module")
def in_simulator() -> DynamoTable:
    account = FakeAccount()
    return DynamoTable(account.client("dynamodb"), account.table)


@pytest.fixture(scope="module")
def on_dynamodb_local(dynamodb_local: str) -> DynamoTable:
    return a_table_at(dynamodb_local)


@pytest.fixture(params=[SIMULATED, LOCAL])
def table(request: pytest.FixtureRequest) -> DynamoTable:
    table: DynamoTable = request.getfixturevalue("in_simulator" if request.param == SIMULATED else "on_dynamodb_local")
    return table


@pytest.fixture(params=[SIMULATED, LOCAL])
def store(request: pytest.FixtureRequest) -> Store:
    table = request.getfixturevalue("in_simulator" if request.param == SIMULATED else "on_dynamodb_local")
    return dynamo(table, request.node.name)
