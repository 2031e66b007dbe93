"""The cluster that runs of `provision` begin with."""

from __future__ import annotations

import pytest

from tests.fakes.lab import Lab


@pytest.fixture
def lab() -> Lab:
    """No node, no pod."""
    return Lab()
