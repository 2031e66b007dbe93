"""The cluster that tests start from."""

from __future__ import annotations

import pytest

from tests.unit.simulator.cluster.world import World


@pytest.fixture
def world() -> World:
    """An empty cluster."""
    return World()
