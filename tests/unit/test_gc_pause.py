"""The garbage collector is off while plans are made: it is turned on again, and no plan needs it."""

from __future__ import annotations

import gc

import pytest

from core.gc_pause import collector_paused
from core.scheduling import schedule
from tests.property.naive.extras import rich_cluster


def test_it_is_on_again_after_an_error() -> None:
    """Otherwise, a process whose plan failed never collects again."""
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_nested_pause_ends_with_the_outer_one() -> None:
    """Reading within a longer pause does not end it."""
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_plan_leaves_no_reference_cycles() -> None:
    """Otherwise, plan after plan without the collector fills the function's memory."""
    for seed in range(8):
        snapshot = rich_cluster(seed)
        schedule(snapshot)  # caches of catalogues last from plan to plan
        gc.freeze()  # what is there already is not looked through again
        with collector_paused():
            schedule(snapshot)
            found = gc.collect()
        assert found == 0, f"seed {seed}"
