"""The tests with real parts run when they are named (`pytest tests/e2e`, `make e2e`), never by the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.suite import WORLD_OF, Suite, shared_dynamodb

if TYPE_CHECKING:
    from tests.e2e.report import Report
    from tests.e2e.world import World

HERE: Final = Path(__file__).parent
BUILD: Final = HERE.parents[1] / "build"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass this folder over unless it is named."""
    return None if _is_named(config) else True


def pytest_configure(config: pytest.Config) -> None:
    """What the worlds show is put together at the end, and there is an end."""
    if _is_named(config):
        config.pluginmanager.register(Suite(config, BUILD / "e2e.json"), Suite.__name__)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test here has the mark; the files are in their order."""
    if not _is_named(config):
        return
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
    places = {name: place for place, name in enumerate(WORLD_OF)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def _is_named(config: pytest.Config) -> bool:
    """Whether the command line names this folder or something in it."""
    named = (Path(str(argument).partition("::")[0]).absolute() for argument in config.args)
    return any(path.is_relative_to(HERE) for path in named)


@pytest.fixture(scope="session")
def world(pytestconfig: pytest.Config) -> Iterator[World]:
    """All real parts, started once; their logs stay in build/e2e, in a folder named by the run's process."""
    with opened_world(pytestconfig) as started:
        yield started


@pytest.fixture(scope="session")
def report(world: World, pytestconfig: pytest.Config) -> Iterator[Report]:
    """What this world shows."""
    with gathered_report(world, pytestconfig) as collected:
        yield collected


@contextmanager
def opened_world(config: pytest.Config, *, starts_groups: bool = False) -> Iterator[World]:
    """A world for as long as the block lasts; with `starts_groups`, its Kubernetes knows groups of pods itself."""
    from tests.e2e.world import World

    for former in (BUILD / "e2e").glob("*"):
        if not Path("/proc", former.name.partition("-")[0]).exists():
            shutil.rmtree(former, ignore_errors=True)
    folder = BUILD / "e2e" / f"{os.getpid()}{'-groups' if starts_groups else ''}"
    with World(folder, dynamodb=shared_dynamodb(config), starts_groups=starts_groups) as started:
        yield started


@contextmanager
def gathered_report(world: World, config: pytest.Config) -> Iterator[Report]:
    """A report that is handed over at the end of the block, with what the world's functions did."""
    from tests.e2e.report import Report

    collected = Report()
    yield collected
    audit_record = world.read_audit_record()
    collected.refused, collected.used = sorted(audit_record.refused), sorted(audit_record.used)
    collected.add_invocations(world.functions.invocations)
    suite = config.pluginmanager.get_plugin(Suite.__name__)
    assert isinstance(suite, Suite)
    suite.hand_over(collected)
