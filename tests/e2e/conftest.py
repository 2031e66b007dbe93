"""The tests with real parts run when they are named (`pytest tests/e2e`, `make e2e`), never by the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.report import Report
    from tests.e2e.world import World

HERE = Path(__file__).parent
LAST = "test_permissions.py"
BUILD = HERE.parents[1] / "build"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass this folder over unless the command line names it or something in it."""
    named = (Path(str(argument).partition("::")[0]).absolute() for argument in config.args)
    return None if any(path.is_relative_to(HERE) for path in named) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of them has the mark, and what sums the others up comes last."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """All real parts, started once; their logs stay in build/e2e, in a folder named by the run's process."""
    from tests.e2e.world import World

    for former in (BUILD / "e2e").glob("*"):
        if not Path("/proc", former.name).exists():
            shutil.rmtree(former, ignore_errors=True)
    with World(BUILD / "e2e" / str(os.getpid())) as started:
        yield started


@pytest.fixture(scope="session")
def report(world: World) -> Iterator[Report]:
    """The suite's figures, written to build/e2e.json at the end."""
    from infra import cluster_role
    from tests.e2e.report import Report

    collected = Report()
    yield collected
    world.book_now()
    collected.write(
        BUILD / "e2e.json",
        cold_starts=world.functions.cold_starts(),
        missing=sorted(world.book.refused),
        unused=world.book.unused(cluster_role.RULES),
        functions=world.functions.figures(),
    )
