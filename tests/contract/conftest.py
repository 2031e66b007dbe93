"""DynamoDB Local, for the store's contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.parts.builds import unbuilt
from tests.e2e.parts.dynamodb_local import DynamoDBLocal
from tests.e2e.parts.processes import Processes


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; it runs for as long as the tests do."""
    if unbuilt():
        pytest.skip(f"{', '.join(unbuilt())} not built yet: run `make e2e` once")
    with Processes(tmp_path_factory.mktemp("dynamodb-local")) as processes:
        server = DynamoDBLocal(processes)
        server.start()
        yield server.endpoint
