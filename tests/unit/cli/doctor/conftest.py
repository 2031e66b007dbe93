"""An API server that the doctor asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.api_server import ApiServer, serving


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def url(server: ApiServer) -> Iterator[str]:
    with serving(server) as address:
        yield address
