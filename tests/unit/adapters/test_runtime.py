"""Threads may decode JSON into types that no thread has used before."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.runtime import stopwatch
from tests.builders import NOW
from tests.fakes.world import FakeClock


def test_a_stopwatch_starts_with_the_first_question_and_returns_the_elapsed_share() -> None:
    """Otherwise, the search's first kind of step takes all of the time."""
    clock = FakeClock(NOW)
    over = stopwatch(clock, timedelta(seconds=4))
    clock.advance(seconds=9)
    shares = []
    for _ in range(6):
        shares.append(over())
        clock.advance(seconds=1)
    assert shares == [0, 0.25, 0.5, 0.75, 1, 1.25]


def test_time_without_cpu_counts_for_a_quarter() -> None:
    """On a busy CPU, or with little memory configured, a burst's plan remained the greedy one, three times as expensive."""
    clock = FakeClock(NOW)
    over = stopwatch(clock, timedelta(seconds=4))
    over()
    clock.advance(seconds=1)
    clock.pause(timedelta(seconds=2))
    assert over() == 0.25
    clock.pause(timedelta(seconds=13))
    assert over() == 1


def test_a_stopwatch_without_time_is_over_at_once() -> None:
    assert stopwatch(FakeClock(NOW), timedelta(0))() >= 1


ROOT = Path(__file__).parents[3]
FIRST_BATCH = """
import json, sys, threading
from datetime import timedelta
sys.setswitchinterval(1e-6)
from core.manifests.wire import resources
from core.manifests.wire import decoding as wire
from adapters.runtime import WORKERS, in_threads
pod = json.dumps({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}, "status": {}}).encode()
kinds = (resources.PODS, resources.NODES, resources.POD_DISRUPTION_BUDGETS, resources.DAEMON_SETS)
together = threading.Barrier(WORKERS)
def read():
    together.wait()
    for kind in kinds:
        try:
            wire.decode(kind, pod)
        except Exception:
            pass
done = in_threads([read] * WORKERS, timedelta(seconds=30))
assert all(done), done
"""
TRIES = 6
"""Without the preparation, about half of the processes ended with a segmentation fault."""


@pytest.mark.parametrize("number", range(TRIES))
def test_a_new_sandbox_reads_its_first_batch_in_threads(number: int) -> None:
    """Otherwise, a cold start with several messages ends the function without an error message."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", FIRST_BATCH], cwd=ROOT, env=environment, check=False)  # noqa: S603
    assert run.returncode == 0
