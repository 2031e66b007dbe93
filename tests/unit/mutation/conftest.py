"""Tests of the mutation tool start whole test runs: they belong to the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow: mutation testing is a report of the night, not a target."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
