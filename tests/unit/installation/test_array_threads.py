"""Every process that plans computes on one thread."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from installation.array_threads import ARRAY_THREADS

(VARIABLE,) = ARRAY_THREADS


@pytest.mark.parametrize("module", ["benchmarks.disruption", "simulator.campaign", "tests.conftest"])
def test_the_variable_is_set_before_numpy_is_loaded(module: str) -> None:
    """On two threads, the last bits of products differ, and with them, rarely, a plan; on busy processors, threads spin."""
    program = f"import os, sys, {module}; print(os.environ[{VARIABLE!r}], 'numpy' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - the program and its arguments are ours
        [sys.executable, "-c", program], env={**os.environ, VARIABLE: "2"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [ARRAY_THREADS[VARIABLE], "False"]


def test_the_tests_compute_on_one_thread() -> None:
    """Texts of whole results are compared to the last byte, on machines with any number of processors."""
    assert os.environ.items() >= ARRAY_THREADS.items()
