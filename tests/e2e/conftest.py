"""The tests with real parts run when they are named (`pytest tests/e2e`, `make e2e`), never by the way."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass this folder over unless the command line names it or something in it."""
    named = (Path(str(argument).partition("::")[0]).absolute() for argument in config.args)
    return None if any(path.is_relative_to(HERE) for path in named) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of them has the mark."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
