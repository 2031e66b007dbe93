"""Work in forked processes: what one does costs no other's result."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta

from simulator.processes import Lost, each_forked

SOON = timedelta(seconds=30)


def work(task: str) -> str:
    """What the task's name says."""
    if task == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "raises":
        raise ValueError("broken")
    if task == "hangs":
        time.sleep(60)
    return f"{task} {os.getpid()}"


def test_each_task_has_a_process_of_its_own() -> None:
    """If this failed, what one seed leaves behind could change the next."""
    results = dict(each_forked([str(n) for n in range(5)], work, processes=2, limit=SOON))
    assert sorted(results) == list("01234")
    assert len({str(result).split()[1] for result in results.values()} | {str(os.getpid())}) == 6


def test_who_dies_or_raises_costs_its_own_result_alone() -> None:
    """If this failed, one bad seed would end the campaign, or be missing from it."""
    results = dict(each_forked(["dies", "raises", "well"], work, processes=2, limit=SOON))
    assert results["dies"] == Lost("died with exit code -9")
    assert isinstance(raised := results["raises"], Lost)
    assert "ValueError: broken" in raised.why
    assert str(results["well"]).startswith("well")


def test_who_takes_too_long_is_ended() -> None:
    """If this failed, a seed that never ends would hold the campaign up forever."""
    limit = timedelta(seconds=1)
    results = dict(each_forked(["hangs", "well"], work, processes=1, limit=limit))
    assert results["hangs"] == Lost(f"took longer than {limit}")
    assert str(results["well"]).startswith("well")
