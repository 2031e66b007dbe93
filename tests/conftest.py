"""Settings and hooks for all tests."""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from core.interpreter import TrackedObjects
from installation.array_threads import ARRAY_THREADS
from tests.checked_requests import check_every_request

os.environ.update(ARRAY_THREADS)  # before numpy is loaded: texts of whole results are compared to the last byte

settings.register_profile(
    "ci",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly", max_examples=200, print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""CI draws the same few examples each time. A night draws many others, keeps what failed in `.hypothesis`, and prints its blob.

A test sets no number of its own: it would be the same at night.
"""

settings.register_profile(
    "mutants",
    settings.get_profile("ci"),
    max_examples=100,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
"""A mutant is killed by the first example that fails; nobody reads a smaller one."""

settings.load_profile(
    "ci"
)  # `--hypothesis-profile` chooses another one; Hypothesis' own has deadlines that fail under load

os.environ["FLEETWRIGHT_CACHE_DIR"] = ""
"""Tests do not use the user's cache, where other runs of the program leave files; tests of the cache choose a folder."""

os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
"""No test asks for one of the 1,300 images that moto would make for each account of a test, and again at its end."""


check_every_request()

_CORE: Final = Path(__file__).parents[1] / "core"
_UNIT: Final = Path(__file__).parent / "unit"


def _is_of_the_core(test: Path) -> bool:
    """Whether this file in tests/unit mirrors a package or a module of the core."""
    if not test.is_relative_to(_UNIT):
        return False
    name = test.relative_to(_UNIT).parts[0]
    return (_CORE / name).is_dir() or (_CORE / name.removeprefix("test_")).is_file()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their parameter and place: compressed bytes hold the time, and all processes must collect one list."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight, and read each of AWS's API models once.

    Else a full collection in any test, or in a fork of one, would look through 15,000 tests and all that they import; and each
    test with a session of its own would parse the models of a dozen services.
    """
    if session := sys.modules.get("botocore.session"):
        session.create_loader = functools.cache(session.create_loader)
    gc.collect()
    TrackedObjects.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure coverage of the core by its own unit tests only.

    Simulations and random cases run almost every line without asking what it did, which hides rules that no test asks for;
    and the tracer triples their time.

    pytest-cov's marker `no_cover` pauses its own tracer; worker processes of pytest-xdist carry a second one.
    """
    if sys.gettrace() is None or _is_of_the_core(item.path):
        return (yield)
    tracer, thread_tracer = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type] - None switches tracing off, as in `sys.settrace`
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        threading.settrace(thread_tracer)  # type: ignore[arg-type] - whatever was set before
