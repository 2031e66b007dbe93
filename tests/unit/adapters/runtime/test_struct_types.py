"""Threads may decode JSON into types that no thread has used before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
FIRST_BATCH = """
import json, sys, threading
from datetime import timedelta
sys.setswitchinterval(1e-6)
from core.manifests.wire import api_resources as resources
from core.manifests.wire import decoding as wire
from adapters.runtime.parallel_tasks import WORKERS, in_threads
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
