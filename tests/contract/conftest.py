"""DynamoDB Local, for the store's contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.parts.builds import unbuilt
from tests.e2e.parts.dynamodb_local import DynamoDBLocal
from tests.e2e.parts.processes import Processes
from tests.e2e.suite import shared_dynamodb


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[str]:
    """Its address; it runs for as long as the tests do. The one that all worlds share, where there is one."""
    if address := shared_dynamodb(pytestconfig):
        yield address
        return
    if unbuilt():
        pytest.skip(f"{', '.join(unbuilt())} not built yet: run `make e2e` once")
    with Processes(tmp_path_factory.mktemp("dynamodb-local")) as processes, DynamoDBLocal(processes) as server:
        yield server.endpoint
