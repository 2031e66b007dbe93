"""The collector rests while plans are made: it comes back, and nothing that a plan needs waits for it."""

from __future__ import annotations

import gc

import pytest

from core.gc_pause import collector_paused
from core.scheduling import schedule
from tests.property.naive.extras import rich_cluster


def test_comes_back_after_an_error() -> None:
    """A plan that breaks down leaves a process whose collector runs."""
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_stays_off_for_the_outer_one() -> None:
    """Reading within a longer rest does not end it."""
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_plan_leaves_nothing_for_the_collector() -> None:
    """Were there cycles in what a plan is made of, plan after plan without the collector would fill the function's memory."""
    for seed in range(20):
        snapshot = rich_cluster(seed)
        schedule(snapshot)  # what is remembered of catalogues from plan to plan is there from now on
        gc.collect()
        with collector_paused():
            schedule(snapshot)
            assert gc.collect() == 0, f"seed {seed}"
