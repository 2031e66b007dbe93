"""The tests with real parts run when they are named (`pytest tests/e2e`, `make e2e`), never by the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.suite import Suite

if TYPE_CHECKING:
    from tests.e2e.report import Report
    from tests.e2e.world import World

HERE: Final = Path(__file__).parent
BUILD: Final = HERE.parents[1] / "build"

WORLDS: Final = (
    ("test_scenarios.py",),
    ("test_outage.py", "test_access.py", "test_bad_input.py", "test_optional_settings.py"),
    ("test_burst.py",),
)
"""With `-n 3 --dist loadgroup` each line has a world of its own, and the tests in it their order; all other tests come last."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass this folder over unless it is named."""
    return None if _is_named(config) else True


def pytest_configure(config: pytest.Config) -> None:
    """What the worlds show is put together at the end, and there is an end."""
    if _is_named(config):
        config.pluginmanager.register(Suite(config, BUILD / "e2e.json"), Suite.__name__)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Each test has the mark and its world: here, for pytest-xdist asks for it before items are sorted."""
    if _is_named(item.config):
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
        item.add_marker(pytest.mark.xdist_group(f"world-{_place(item)[0]}"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest first."""
    if _is_named(config):
        items.sort(key=_place)


def _is_named(config: pytest.Config) -> bool:
    """Whether the command line names this folder or something in it."""
    named = (Path(str(argument).partition("::")[0]).absolute() for argument in config.args)
    return any(path.is_relative_to(HERE) for path in named)


def _place(item: pytest.Item) -> tuple[int, int]:
    places = {name: (world, place) for world, names in enumerate(WORLDS) for place, name in enumerate(names)}
    return places.get(item.path.name, (len(WORLDS), 0))


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
def report(world: World, pytestconfig: pytest.Config) -> Iterator[Report]:
    """What this world shows."""
    from tests.e2e.report import Report

    collected = Report()
    yield collected
    book = world.book_now()
    collected.refused, collected.used = sorted(book.refused), sorted(book.used)
    collected.hear(world.functions.invocations)
    suite = pytestconfig.pluginmanager.get_plugin(Suite.__name__)
    assert isinstance(suite, Suite)
    suite.hand_over(collected)
